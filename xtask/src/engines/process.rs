//! Telling one process from a later one that got the same number.
//!
//! A process number alone says nothing: after a reboot, or after enough new processes, it belongs
//! to a stranger. Number, start time and boot together are unique; the program's name guards
//! against a record that was written by hand or copied from another machine.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// Position of the start time among the fields after the program's name in `/proc/PID/stat`:
/// field 22 of proc(5), of which the first two end with that name.
const START_TIME_FIELD: usize = 22 - 3;

/// What makes one process unique.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The process number.
    pub pid: i32,
    /// When it started, in the kernel's clock ticks since boot.
    pub start_ticks: u64,
    /// The kernel's random identifier of the boot in which it started.
    pub boot_id: String,
    /// File name of the program it runs.
    pub program: String,
}

impl Identity {
    /// Describes the process `pid`, which is about to run or runs `program`.
    ///
    /// # Errors
    /// When it is gone or `/proc` cannot be read.
    pub fn of(pid: i32, program: &str) -> io::Result<Self> {
        Ok(Self {
            pid,
            start_ticks: start_ticks(&fs::read_to_string(format!("/proc/{pid}/stat"))?)?,
            boot_id: boot_id()?,
            program: program.to_owned(),
        })
    }

    /// Opens the process if it is still the same one and runs the same program, else `None`.
    ///
    /// The handle is opened before the check, so that what was checked is what a signal reaches.
    ///
    /// # Errors
    /// When the kernel has no pidfds (before 5.3) or refuses one.
    pub fn open(&self) -> io::Result<Option<Handle>> {
        // Not a number that a process can have; `Pid::from_raw` panics on a negative one.
        let Some(pid) = (self.pid > 0).then(|| Pid::from_raw(self.pid)).flatten() else {
            return Ok(None);
        };
        let descriptor = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(descriptor) => descriptor,
            Err(rustix::io::Errno::SRCH) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let same = Self::of(self.pid, &self.program).is_ok_and(|now| now == *self);
        let runs_program = runs(self.pid, &self.program);
        Ok((same && runs_program).then_some(Handle { descriptor }))
    }
}

/// One process, whatever later becomes of its number.
#[derive(Debug)]
pub struct Handle {
    descriptor: OwnedFd,
}

impl Handle {
    /// Asks the process to end.
    ///
    /// # Errors
    /// When the kernel refuses the signal.
    pub fn terminate(&self) -> io::Result<()> {
        self.signal(Signal::TERM)
    }

    /// Asks the process to read its configuration again, as daemons understand it.
    ///
    /// # Errors
    /// When the kernel refuses the signal.
    pub fn reload(&self) -> io::Result<()> {
        self.signal(Signal::HUP)
    }

    /// Ends the process at once.
    ///
    /// # Errors
    /// When the kernel refuses the signal.
    pub fn kill(&self) -> io::Result<()> {
        self.signal(Signal::KILL)
    }

    /// Waits at most `patience` for the process to end, and says whether it did.
    ///
    /// # Errors
    /// When the wait itself fails.
    pub fn wait(&self, patience: Duration) -> io::Result<bool> {
        let timeout = Timespec {
            tv_sec: patience.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: patience.subsec_nanos().into(),
        };
        let mut watched = [PollFd::new(&self.descriptor, PollFlags::IN)];
        Ok(poll(&mut watched, Some(&timeout))? > 0)
    }

    fn signal(&self, signal: Signal) -> io::Result<()> {
        match pidfd_send_signal(&self.descriptor, signal) {
            // Already gone is what was wanted.
            Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// True where `pid` lives and the file name of its program is `program`. A process that ended and
/// was not waited for has no command line, and so runs nothing.
pub fn runs(pid: i32, program: &str) -> bool {
    fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| names(&line, program))
}

fn names(command_line: &[u8], program: &str) -> bool {
    let first = command_line
        .split(|byte| *byte == 0)
        .next()
        .unwrap_or_default();
    std::str::from_utf8(first).is_ok_and(|path| {
        Path::new(path)
            .file_name()
            .is_some_and(|name| name == program)
    })
}

fn start_ticks(stat: &str) -> io::Result<u64> {
    // The program's name may hold spaces and parentheses; the last parenthesis ends it.
    stat.rsplit_once(')')
        .and_then(|(_, rest)| rest.split_ascii_whitespace().nth(START_TIME_FIELD))
        .and_then(|field| field.parse().ok())
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "unreadable /proc/PID/stat"))
}

fn boot_id() -> io::Result<String> {
    Ok(fs::read_to_string(BOOT_ID)?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command, Stdio};
    use std::time::Instant;

    struct Sleeper(Child);

    impl Sleeper {
        fn start() -> (Self, Identity) {
            let child = Command::new("sleep")
                .arg("30")
                .stdout(Stdio::null())
                .spawn()
                .expect("sleep");
            let pid = i32::try_from(child.id()).expect("pid");
            // For an instant after the start, the command line is empty.
            let begin = Instant::now();
            while !runs(pid, "sleep") && begin.elapsed() < Duration::from_secs(10) {
                std::thread::yield_now();
            }
            (Self(child), Identity::of(pid, "sleep").expect("identity"))
        }
    }

    impl Drop for Sleeper {
        fn drop(&mut self) {
            // Both fail only when the test has ended the child itself.
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    fn the_same_process_is_opened_and_ended() {
        let (mut sleeper, identity) = Sleeper::start();
        let handle = identity.open().expect("pidfd").expect("the same process");
        assert!(!handle.wait(Duration::ZERO).expect("wait"));
        handle.terminate().expect("signal");
        assert!(handle.wait(Duration::from_secs(10)).expect("wait"));
        // Ended but not yet waited for: its number is taken, and still it must not match.
        assert!(identity.open().expect("pidfd").is_none());
        sleeper.0.wait().expect("reap");
        assert!(identity.open().expect("pidfd").is_none());
        handle.kill().expect("a signal to what is gone is no error");
    }

    #[test]
    fn a_recycled_number_is_never_opened() {
        let (_sleeper, identity) = Sleeper::start();
        let others = [
            Identity {
                start_ticks: identity.start_ticks + 1,
                ..identity.clone()
            },
            Identity {
                boot_id: "another boot".into(),
                ..identity.clone()
            },
            Identity {
                program: "dockerd".into(),
                ..identity.clone()
            },
            Identity {
                pid: 0,
                ..identity.clone()
            },
            Identity {
                pid: -1,
                ..identity.clone()
            },
        ];
        for other in others {
            assert!(other.open().expect("pidfd").is_none(), "{other:?}");
        }
        assert!(identity.open().expect("pidfd").is_some());
    }

    #[test]
    fn a_name_with_spaces_and_parentheses_does_not_shift_fields() {
        let fields: Vec<String> = (3..=52).map(|field| field.to_string()).collect();
        let stat = format!("7 (a) b (c) {}", fields.join(" "));
        assert_eq!(start_ticks(&stat).expect("start time"), 22);
        assert!(start_ticks("7 (cut) S 1 2").is_err());
        assert!(start_ticks("").is_err());
    }

    #[test]
    fn only_the_file_name_of_the_first_word_counts() {
        assert!(names(b"/usr/sbin/dockerd\0-D\0", "dockerd"));
        assert!(names(b"dockerd\0", "dockerd"));
        assert!(!names(b"/bin/sh\0-c\0dockerd\0", "dockerd"));
        assert!(!names(b"/opt/dockerd-old\0", "dockerd"));
        assert!(!names(b"", "dockerd"));
    }
}
