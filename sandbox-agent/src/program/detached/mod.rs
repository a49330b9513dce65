//! The supervisor of a detached sandbox: a process outside of it that is its agent's parent and
//! lives as long as the sandbox.
//!
//! It waits for the agent's exit, the end of the sandbox's lifetime, or SIGTERM. Then it kills all
//! processes and removes the sandbox's files and control groups. Until the creator has confirmed
//! the sandbox, the creator's exit counts too. The kernel kills the agent when its supervisor dies.
//! The supervisor also holds descriptors that close with it: the owner's stream and the locks of
//! the sandbox's name and users.

mod cleanup;
mod files;
mod memory;

use alloc::vec::Vec;

use crate::runtime::{
    Errno, Fd, RawFd, fs, io, poll,
    signal::{self, SIGTERM, SignalSet},
    time::boottime_microseconds,
};

use super::{
    failures::failure,
    poll_set::{MonotonicMicros, POLLIN, after, now, wait_for},
};
use crate::protocol::{
    FailStep, ProtocolError,
    keep::{Charge, Keep, SupervisorAnswer, next_message},
};
use cleanup::clean_up;
use files::DetachedFiles;
use memory::Sampler;

/// The creator's stream.
const CONTROL: RawFd = 3;
/// The creator's pidfd.
const CREATOR: RawFd = 5;
/// The agent's pidfd.
const AGENT: RawFd = 6;

/// Timeout for creating the sandbox, in milliseconds.
const CREATION_TIMEOUT_MS: u64 = 60_000;

/// The longest wait, in milliseconds: a wait does not include the time in which the machine sleeps.
const MAX_WAIT_MS: u64 = 60_000;

/// Exit code after a complete removal.
const EXIT_CLEAN: i32 = 0;
/// Exit code if something could not be removed. The record remains, so that it can be found.
const EXIT_LEFTOVERS: i32 = 75;
/// Exit code without the creator's first message.
const EXIT_NO_PLAN: i32 = 70;

/// What to wait for, besides the agent's exit and SIGTERM.
#[derive(Debug)]
enum Phase {
    /// The creator builds the sandbox.
    Creation { deadline: MonotonicMicros },
    /// The sandbox works, and the creator can still abort.
    Ready {
        deadline: MonotonicMicros,
        lives_until: MonotonicMicros,
    },
    /// The sandbox is detached until this time of the boot-time clock.
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

/// Supervises the sandbox until its end; returns the exit code.
pub(super) fn supervise() -> i32 {
    // On failure, the agent's exit is still waited for.
    let _ = fs::change_directory(c"/");
    let supervisor = signals().and_then(DetachedSupervisor::begin);
    let Ok(mut supervisor) = supervisor else {
        // Only the agent's process is known.
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

/// Blocks every signal and returns a signalfd for SIGTERM.
fn signals() -> Result<Fd, Errno> {
    signal::set_mask(SignalSet::ALL)?;
    signal::descriptor(SignalSet::default().with(SIGTERM))
}

fn protocol(_: ProtocolError) -> Errno {
    Errno::EPROTO
}

impl DetachedSupervisor {
    fn begin(terminate: Fd) -> Result<Self, Errno> {
        io::set_nonblocking(CONTROL, true)?;
        let (mut bytes, mut control_open) = (Vec::new(), true);
        let deadline = after(now(), CREATION_TIMEOUT_MS);
        let plan = loop {
            if let Some((message, length)) = next_message(&bytes).map_err(protocol)? {
                let plan = Charge::decode(message).map_err(protocol)?;
                bytes.drain(..length);
                break plan;
            }
            // The creator may be gone already; its messages are still readable.
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
        // More messages may have arrived together, without a further event.
        if supervisor.handle_messages().is_err() {
            supervisor.control_open = false;
        }
        Ok(supervisor)
    }

    /// Waits once; returns whether the sandbox continues to run.
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
            // Its last messages were handled above.
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

    /// The longest time to wait, in microseconds.
    fn pause(&self) -> u64 {
        let remaining = match self.phase {
            Phase::Creation { deadline } | Phase::Ready { deadline, .. } => {
                deadline.saturating_sub(now())
            }
            Phase::Detached { deadline } => deadline.saturating_sub(boottime_microseconds()),
        };
        let sample = self.sampler.as_ref().map_or(u64::MAX, Sampler::pause);
        remaining.min(sample).min(MAX_WAIT_MS * 1000)
    }

    /// Reads and handles the creator's messages.
    fn receive_messages(&mut self) -> Result<(), Errno> {
        self.control_open = receive(&mut self.bytes)?;
        self.handle_messages()
    }

    /// Handles the messages that were read.
    fn handle_messages(&mut self) -> Result<(), Errno> {
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
            Ok(()) => SupervisorAnswer::Ready,
            Err(errno) => SupervisorAnswer::Refused(failure(
                FailStep::Setup,
                errno,
                "the sandbox's own files",
            )),
        };
        // If the creator is gone, its pidfd shows it.
        let _ = io::write_all(CONTROL, &answer.encode());
    }

    fn store_record(&mut self, keep: &Keep) -> Result<(), Errno> {
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

/// Reads available bytes; returns whether the stream is open.
fn receive(bytes: &mut Vec<u8>) -> Result<bool, Errno> {
    let mut chunk = [0; 4096];
    loop {
        match io::read(CONTROL, &mut chunk) {
            Ok(0) => return Ok(false),
            Ok(count) => bytes.extend_from_slice(&chunk[..count]),
            Err(Errno::EAGAIN) => return Ok(true),
            // The creator closed it with unread bytes.
            Err(Errno::ECONNRESET) => return Ok(false),
            Err(errno) => return Err(errno),
        }
    }
}
