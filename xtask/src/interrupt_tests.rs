use std::io::{BufRead, BufReader, Read as _};
use std::process::{Child, ChildStdout, Stdio};

use super::*;

/// Variables that turn a run of the test below into the interrupted program: its script, and its
/// time to clean up in seconds.
const SCRIPT: &str = "XTASK_INTERRUPT_SCRIPT";
const PATIENCE: &str = "XTASK_INTERRUPT_PATIENCE";

/// Cleans up for a moment when it is interrupted. Otherwise it ends after a minute, like the next
/// one.
const CLEANS: &str = "trap 'echo cleaning; sleep 0.3; echo clean; exit 130' INT TERM HUP; echo ready; \
                      i=0; while [ $i -lt 1200 ]; do i=$((i+1)); sleep 0.05; done";

/// Never finishes its cleanup.
const NEVER_ENDS: &str = "trap 'echo cleaning' INT TERM HUP; echo ready; \
                          i=0; while [ $i -lt 1200 ]; do i=$((i+1)); sleep 0.05; done";

/// Not a test by itself: a process that the other tests send signals to.
#[test]
fn interrupted_program() {
    let Ok(script) = std::env::var(SCRIPT) else {
        return;
    };
    let patience = std::env::var(PATIENCE)
        .expect("seconds")
        .parse()
        .expect("seconds");
    let mut command = Command::new("sh");
    command.args(["-c", &script]);
    let code = wait(command, Duration::from_secs(patience));
    std::process::exit(code.expect("an exit code").into());
}

struct Interrupted {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Interrupted {
    fn start(script: &str, patience: u64) -> Self {
        let this = std::env::current_exe().expect("this program");
        let mut child = Command::new(this)
            .args([
                "--exact",
                "interrupt::tests::interrupted_program",
                "--nocapture",
            ])
            .env(SCRIPT, script)
            .env(PATIENCE, patience.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("a process");
        let output = BufReader::new(child.stdout.take().expect("its output"));
        Self { child, output }
    }

    /// Reads lines until this one.
    fn until(&mut self, word: &str) {
        let mut lines = self.output.by_ref().lines();
        let found = lines.any(|line| line.expect("output") == word);
        assert!(found, "no {word:?}");
    }

    fn send(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).expect("a number"));
        kill_process(pid.expect("a number"), signal).expect("sent");
    }

    fn end(mut self) -> Option<i32> {
        self.child.wait().expect("a child").code()
    }
}

impl Drop for Interrupted {
    fn drop(&mut self) {
        // It may have ended and been reaped.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn first_interrupt_waits_for_the_clean_up() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let mut program = Interrupted::start(CLEANS, 60);
        program.until("ready");
        program.send(signal);
        program.until("clean");
        assert_eq!(program.end(), Some(130), "{signal:?}");
    }
}

#[test]
fn second_interrupt_ends_the_program_at_once() {
    let mut program = Interrupted::start(NEVER_ENDS, 60);
    program.until("ready");
    program.send(Signal::INT);
    program.until("cleaning");
    program.send(Signal::INT);
    assert_eq!(program.end(), Some(130));
}

#[test]
fn clean_up_has_a_time_limit() {
    let mut program = Interrupted::start(NEVER_ENDS, 1);
    program.until("ready");
    program.send(Signal::TERM);
    assert_eq!(program.end(), Some(130));
}

#[test]
fn uninterrupted_program_keeps_its_exit_code() {
    assert_eq!(Interrupted::start("exit 3", 60).end(), Some(3));
    assert_eq!(Interrupted::start("kill -9 $$", 60).end(), Some(1));
}
