//! The keeper of a detached sandbox: a process outside of it that is the parent of its agent, and lives as long as it.
//!
//! It waits for the agent's end, the end of the sandbox's time, or SIGTERM; then it kills what runs and removes what the
//! sandbox has on the host. Until the creator has said that the sandbox works, the end of the creator is a reason too.
//! The agent is told by the kernel to die with its keeper, and its owner's stream is one of the descriptors that the keeper
//! holds and does not touch, like the locks of the sandbox's name and users: all of them end with it.

mod end;
mod memory;
mod store;

use alloc::vec::Vec;

use crate::runtime::{
    Errno, Fd, RawFd, Result, fs, io, poll,
    signal::{self, SIGTERM, SignalSet},
    time::boottime_microseconds,
};

use super::{
    failing::failure,
    polling::{Moment, POLLIN, after, now, wait_for},
};
use crate::protocol::{
    FailStep, ProtocolError,
    keep::{Answer, Charge, Keep, next_message},
};
use end::end;
use memory::Sampler;
use store::Store;

/// The stream of the creator.
const CONTROL: RawFd = 3;
/// The creator's process.
const CREATOR: RawFd = 5;
/// The agent's process.
const AGENT: RawFd = 6;

/// How long the creator may take until the sandbox works, milliseconds.
const CREATION: u64 = 60_000;

/// How often the time is looked at, milliseconds: a wait does not count the time that the machine sleeps.
const LOOK: u64 = 60_000;

/// The exit code after a clean end.
const EXIT_CLEAN: i32 = 0;
/// The exit code when something could not be removed; the record stays, so that it can be found.
const EXIT_LEFT: i32 = 75;
/// The exit code when the creator's first message was missing.
const EXIT_CHARGE: i32 = 70;

/// What the keeper waits for besides the agent and the signal.
#[derive(Debug)]
enum Phase {
    /// The creator builds the sandbox.
    Creation { over: Moment },
    /// It works, and the creator may still give it up.
    Ready { over: Moment, lives_until: Moment },
    /// The sandbox is ours until this moment of the clock that counts sleep.
    Kept { over: Moment },
}

#[derive(Debug)]
struct Keeper {
    charge: Charge,
    bytes: Vec<u8>,
    listens: bool,
    phase: Phase,
    sampler: Option<Sampler>,
    terminate: Fd,
}

/// Keeps the sandbox to its end; gives the exit code.
pub(super) fn keep() -> i32 {
    // Without either, the wait for the agent's end is still there.
    let _ = fs::change_directory(c"/");
    let keeper = signals().and_then(Keeper::begin);
    let Ok(mut keeper) = keeper else {
        // Nothing is known but the process.
        let _ = signal::send(AGENT, signal::SIGKILL);
        return EXIT_CHARGE;
    };
    while keeper.wait() {}
    if end(AGENT, &keeper.charge) {
        EXIT_CLEAN
    } else {
        EXIT_LEFT
    }
}

/// Blocks every signal but takes SIGTERM from a descriptor.
fn signals() -> Result<Fd> {
    signal::set_mask(SignalSet::ALL)?;
    signal::descriptor(SignalSet::default().with(SIGTERM))
}

fn protocol(_: ProtocolError) -> Errno {
    Errno::EPROTO
}

impl Keeper {
    fn begin(terminate: Fd) -> Result<Self> {
        io::set_nonblocking(CONTROL, true)?;
        let (mut bytes, mut listens) = (Vec::new(), true);
        let over = after(now(), CREATION);
        let charge = loop {
            if let Some((message, length)) = next_message(&bytes).map_err(protocol)? {
                let charge = Charge::decode(message).map_err(protocol)?;
                bytes.drain(..length);
                break charge;
            }
            // The creator may be gone already: what it has said is there all the same.
            if !listens || !wait_for(CONTROL, POLLIN, Some(CREATION)) {
                return Err(Errno::EPIPE);
            }
            listens = receive(&mut bytes)?;
        };
        let mut keeper = Self {
            charge,
            bytes,
            listens,
            phase: Phase::Creation { over },
            sampler: None,
            terminate,
        };
        // More may have come with it, whose arrival nobody will be told of again.
        if keeper.heed().is_err() {
            keeper.listens = false;
        }
        Ok(keeper)
    }

    /// Waits once; whether the sandbox goes on.
    fn wait(&mut self) -> bool {
        let creating = !matches!(self.phase, Phase::Kept { .. });
        if creating && !self.listens {
            return false;
        }
        let watch =
            |descriptor, wanted| poll::PollFd::new(if wanted { descriptor } else { -1 }, POLLIN);
        let mut set = [
            watch(AGENT, true),
            watch(self.terminate.as_raw(), true),
            watch(CONTROL, self.listens),
            watch(CREATOR, creating),
        ];
        if poll::poll(&mut set, Some(self.pause())).is_err() {
            return false;
        }
        let [agent, terminate, control, creator] = set.map(|one| one.revents != 0);
        if agent || terminate {
            return false;
        }
        if (control || creator) && self.listens && self.hear().is_err() {
            return false;
        }
        match self.phase {
            // What it said last was heard above.
            Phase::Creation { over } | Phase::Ready { over, .. } => {
                self.listens && !creator && now() < over
            }
            Phase::Kept { over } => {
                if let Some(sampler) = &mut self.sampler {
                    sampler.look();
                }
                boottime_microseconds() < over
            }
        }
    }

    /// How long to wait at most, microseconds.
    fn pause(&self) -> u64 {
        let left = match self.phase {
            Phase::Creation { over } | Phase::Ready { over, .. } => over.saturating_sub(now()),
            Phase::Kept { over } => over.saturating_sub(boottime_microseconds()),
        };
        let sample = self.sampler.as_ref().map_or(u64::MAX, Sampler::pause);
        left.min(sample).min(LOOK * 1000)
    }

    /// Reads what the creator says.
    fn hear(&mut self) -> Result<()> {
        self.listens = receive(&mut self.bytes)?;
        self.heed()
    }

    /// Does what the creator has said.
    fn heed(&mut self) -> Result<()> {
        while let Some((message, length)) = next_message(&self.bytes).map_err(protocol)? {
            match (&self.phase, message) {
                (Phase::Creation { .. }, message) if !message.is_empty() => {
                    let keep = Keep::decode(message).map_err(protocol)?;
                    self.prepare(&keep);
                }
                (Phase::Ready { lives_until, .. }, []) => {
                    self.phase = Phase::Kept { over: *lives_until };
                }
                _ => return Err(Errno::EPROTO),
            }
            self.bytes.drain(..length);
        }
        Ok(())
    }

    fn prepare(&mut self, keep: &Keep) {
        let answer = match self.write_down(keep) {
            Ok(()) => Answer::Ready,
            Err(errno) => {
                Answer::Refused(failure(FailStep::Setup, errno, "the sandbox's own files"))
            }
        };
        // If the creator is gone, the next look at its process says so.
        let _ = io::write_all(CONTROL, &answer.encode());
    }

    fn write_down(&mut self, keep: &Keep) -> Result<()> {
        let store = Store::open(&self.charge.folder)?;
        let sampler = match keep.sampled_memory {
            0 => None,
            limit => Some(Sampler::new(limit, store.memory_kills()?)?),
        };
        store.write(keep.key.as_bytes(), &keep.record)?;
        self.sampler = sampler;
        self.phase = Phase::Ready {
            over: after(now(), CREATION),
            lives_until: after(boottime_microseconds(), keep.lifetime_ms),
        };
        Ok(())
    }
}

/// Reads what is there; whether the other side is.
fn receive(bytes: &mut Vec<u8>) -> Result<bool> {
    let mut chunk = [0; 4096];
    loop {
        match io::read(CONTROL, &mut chunk) {
            Ok(0) => return Ok(false),
            Ok(count) => bytes.extend_from_slice(&chunk[..count]),
            Err(Errno::EAGAIN) => return Ok(true),
            // It was closed with something unread.
            Err(Errno::ECONNRESET) => return Ok(false),
            Err(errno) => return Err(errno),
        }
    }
}
