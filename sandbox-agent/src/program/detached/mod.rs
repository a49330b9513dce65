//! The keeper of a detached sandbox: a process outside of it that is the parent of its agent, and lives as long as it.
//!
//! It waits for the agent's end, the end of the sandbox's time, or SIGTERM; then it kills what runs and removes what the
//! sandbox has on the host. Until the creator has said that the sandbox works, the end of the creator is a reason too.
//! The agent is told by the kernel to die with its keeper, and its owner's stream is one of the descriptors that the keeper
//! holds and does not touch, like the locks of the sandbox's name and users: all of them end with it.

mod cleanup;
mod files;
mod memory;

use alloc::vec::Vec;

use crate::runtime::{
    Errno, Fd, RawFd, Result, fs, io, poll,
    signal::{self, SIGTERM, SignalSet},
    time::boottime_microseconds,
};

use super::{
    failures::failure,
    poll_set::{MonotonicMicros, POLLIN, after, now, wait_for},
};
use crate::protocol::{
    FailStep, ProtocolError,
    keep::{Answer, Charge, Keep, next_message},
};
use cleanup::clean_up;
use files::DetachedFiles;
use memory::Sampler;

/// The stream of the creator.
const CONTROL: RawFd = 3;
/// The creator's process.
const CREATOR: RawFd = 5;
/// The agent's process.
const AGENT: RawFd = 6;

/// How long the creator may take until the sandbox works, milliseconds.
const CREATION_TIMEOUT_MS: u64 = 60_000;

/// How often the time is looked at, milliseconds: a wait does not count the time that the machine sleeps.
const MAX_WAIT_MS: u64 = 60_000;

/// The exit code after a clean end.
const EXIT_CLEAN: i32 = 0;
/// The exit code when something could not be removed; the record stays, so that it can be found.
const EXIT_LEFTOVERS: i32 = 75;
/// The exit code when the creator's first message was missing.
const EXIT_NO_PLAN: i32 = 70;

/// What the keeper waits for besides the agent and the signal.
#[derive(Debug)]
enum Phase {
    /// The creator builds the sandbox.
    Creation { deadline: MonotonicMicros },
    /// It works, and the creator may still give it up.
    Ready {
        deadline: MonotonicMicros,
        lives_until: MonotonicMicros,
    },
    /// The sandbox is ours until this moment of the clock that counts sleep.
    Detached { deadline: MonotonicMicros },
}

#[derive(Debug)]
struct DetachedSupervisor {
    plan: Charge,
    bytes: Vec<u8>,
    control_open: bool,
    phase: Phase,
    sampler: Option<Sampler>,
    terminate: Fd,
}

/// Keeps the sandbox to its end; gives the exit code.
pub(super) fn supervise() -> i32 {
    // Without either, the wait for the agent's end is still there.
    let _ = fs::change_directory(c"/");
    let supervisor = signals().and_then(DetachedSupervisor::begin);
    let Ok(mut supervisor) = supervisor else {
        // Nothing is known but the process.
        let _ = signal::send(AGENT, signal::SIGKILL);
        return EXIT_NO_PLAN;
    };
    while supervisor.wait() {}
    if clean_up(AGENT, &supervisor.plan) {
        EXIT_CLEAN
    } else {
        EXIT_LEFTOVERS
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

impl DetachedSupervisor {
    fn begin(terminate: Fd) -> Result<Self> {
        io::set_nonblocking(CONTROL, true)?;
        let (mut bytes, mut control_open) = (Vec::new(), true);
        let deadline = after(now(), CREATION_TIMEOUT_MS);
        let plan = loop {
            if let Some((message, length)) = next_message(&bytes).map_err(protocol)? {
                let plan = Charge::decode(message).map_err(protocol)?;
                bytes.drain(..length);
                break plan;
            }
            // The creator may be gone already: what it has said is there all the same.
            if !control_open || !wait_for(CONTROL, POLLIN, Some(CREATION_TIMEOUT_MS)) {
                return Err(Errno::EPIPE);
            }
            control_open = receive(&mut bytes)?;
        };
        let mut supervisor = Self {
            plan,
            bytes,
            control_open,
            phase: Phase::Creation { deadline },
            sampler: None,
            terminate,
        };
        // More may have come with it, whose arrival nobody will be told of again.
        if supervisor.handle_messages().is_err() {
            supervisor.control_open = false;
        }
        Ok(supervisor)
    }

    /// Waits once; whether the sandbox goes on.
    fn wait(&mut self) -> bool {
        let creating = !matches!(self.phase, Phase::Detached { .. });
        if creating && !self.control_open {
            return false;
        }
        let watch =
            |descriptor, wanted| poll::PollFd::new(if wanted { descriptor } else { -1 }, POLLIN);
        let mut set = [
            watch(AGENT, true),
            watch(self.terminate.as_raw(), true),
            watch(CONTROL, self.control_open),
            watch(CREATOR, creating),
        ];
        if poll::poll(&mut set, Some(self.pause())).is_err() {
            return false;
        }
        let [agent, terminate, control, creator] = set.map(|entry| entry.revents != 0);
        if agent || terminate {
            return false;
        }
        if (control || creator) && self.control_open && self.receive_messages().is_err() {
            return false;
        }
        match self.phase {
            // What it said last was heard above.
            Phase::Creation { deadline } | Phase::Ready { deadline, .. } => {
                self.control_open && !creator && now() < deadline
            }
            Phase::Detached { deadline } => {
                if let Some(sampler) = &mut self.sampler {
                    sampler.sample();
                }
                boottime_microseconds() < deadline
            }
        }
    }

    /// How long to wait at most, microseconds.
    fn pause(&self) -> u64 {
        let left = match self.phase {
            Phase::Creation { deadline } | Phase::Ready { deadline, .. } => {
                deadline.saturating_sub(now())
            }
            Phase::Detached { deadline } => deadline.saturating_sub(boottime_microseconds()),
        };
        let sample = self.sampler.as_ref().map_or(u64::MAX, Sampler::pause);
        left.min(sample).min(MAX_WAIT_MS * 1000)
    }

    /// Reads what the creator says.
    fn receive_messages(&mut self) -> Result<()> {
        self.control_open = receive(&mut self.bytes)?;
        self.handle_messages()
    }

    /// Does what the creator has said.
    fn handle_messages(&mut self) -> Result<()> {
        while let Some((message, length)) = next_message(&self.bytes).map_err(protocol)? {
            match (&self.phase, message) {
                (Phase::Creation { .. }, message) if !message.is_empty() => {
                    let keep = Keep::decode(message).map_err(protocol)?;
                    self.prepare(&keep);
                }
                (Phase::Ready { lives_until, .. }, []) => {
                    self.phase = Phase::Detached {
                        deadline: *lives_until,
                    };
                }
                _ => return Err(Errno::EPROTO),
            }
            self.bytes.drain(..length);
        }
        Ok(())
    }

    fn prepare(&mut self, keep: &Keep) {
        let answer = match self.store_record(keep) {
            Ok(()) => Answer::Ready,
            Err(errno) => {
                Answer::Refused(failure(FailStep::Setup, errno, "the sandbox's own files"))
            }
        };
        // If the creator is gone, the next look at its process says so.
        let _ = io::write_all(CONTROL, &answer.encode());
    }

    fn store_record(&mut self, keep: &Keep) -> Result<()> {
        let store = DetachedFiles::open(&self.plan.folder)?;
        let sampler = match keep.sampled_memory {
            0 => None,
            limit => Some(Sampler::new(limit, store.memory_kills()?)?),
        };
        store.write(keep.key.as_bytes(), &keep.record)?;
        self.sampler = sampler;
        self.phase = Phase::Ready {
            deadline: after(now(), CREATION_TIMEOUT_MS),
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
