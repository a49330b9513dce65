//! The command on a real terminal: `run -it`, `exec -it` and `shell`.

#![cfg(feature = "local")]

mod common;
#[path = "detached/sandbox.rs"]
#[allow(dead_code, reason = "a part is used")]
mod sandbox;

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use common::{exit_code, program, signal};
use sandbox::DetachedSandbox;

const LIMIT: Duration = Duration::from_secs(30);

/// The command on a terminal, as a user at the keyboard uses it.
struct TerminalSession {
    master: File,
    /// Keeps the terminal alive, and shows its modes.
    slave: File,
    command: Child,
    screen: String,
}

impl TerminalSession {
    fn start(arguments: &[&str]) -> Self {
        let master =
            openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let path = ptsname(&master, Vec::new()).unwrap();
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let slave = File::from(rustix::fs::open(path, flags, Mode::empty()).unwrap());
        resize(&slave, 31, 99);
        let end = || Stdio::from(slave.try_clone().unwrap());
        // A session of its own, whose controlling terminal this is.
        let command = Command::new("setsid")
            .args(["--ctty", "--wait"])
            .arg(program())
            .args(arguments)
            .env("TERM", "vt220")
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .spawn()
            .unwrap();
        Self {
            master: File::from(master),
            slave,
            command,
            screen: String::new(),
        }
    }

    fn press(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until the screen shows a text. Returns what it showed before, and forgets it.
    #[track_caller]
    fn expect(&mut self, text: &str) -> String {
        let start = Instant::now();
        loop {
            if let Some(at) = self.screen.find(text) {
                let rest = self.screen.split_off(at + text.len());
                return std::mem::replace(&mut self.screen, rest);
            }
            assert!(start.elapsed() < LIMIT, "no {text:?} in {:?}", self.screen);
            self.read();
        }
    }

    /// Reads what the terminal shows within 50 ms.
    fn read(&mut self) {
        let wait = Timespec {
            tv_sec: 0,
            tv_nsec: 50_000_000,
        };
        let mut ready = [PollFd::new(&self.master, PollFlags::IN)];
        if poll(&mut ready, Some(&wait)).unwrap() > 0 {
            let mut bytes = [0; 4096];
            let count = self.master.read(&mut bytes).unwrap();
            self.screen += &String::from_utf8_lossy(&bytes[..count]);
        }
    }

    /// Whether the terminal echoes and edits lines, as outside of the command.
    fn is_cooked(&self) -> bool {
        let modes = tcgetattr(&self.slave).unwrap().local_modes;
        modes.contains(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG)
    }

    #[track_caller]
    fn wait_until_raw(&self) {
        common::wait_until("the terminal is raw", LIMIT, || !self.is_cooked());
    }

    /// Waits for the end of the command. Returns its exit code, and what was not yet expected.
    #[track_caller]
    fn end(mut self) -> (Option<i32>, String) {
        let code = exit_code(&mut self.command, LIMIT);
        self.read();
        assert!(self.is_cooked(), "the terminal's mode is restored");
        (code, std::mem::take(&mut self.screen))
    }
}

impl Drop for TerminalSession {
    fn drop(&mut self) {
        // It has usually ended.
        let _ = self.command.kill();
        let _ = self.command.wait();
    }
}

fn resize(terminal: &File, rows: u16, columns: u16) {
    let size = Winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(terminal, size).unwrap();
}

const BASH: [&str; 6] = ["run", "-q", "-it", "-ePS1=ready> ", "--", "bash"];

fn bash() -> TerminalSession {
    let mut session = TerminalSession::start(&[&BASH[..], &["--norc"]].concat());
    let before = session.expect("ready> ");
    assert!(!before.contains("job control"), "{before}");
    session
}

#[test]
fn run_with_terminal_is_an_interactive_shell() {
    let mut session = bash();
    assert!(!session.is_cooked());
    session.press("stty size; tty; echo $TERM-\r");
    session.expect("\r31 99\r\n/dev/pts/0\r\nvt220-\r\n");
    session.expect("ready> ");
    session.press("exit 7\r");
    assert_eq!(session.end().0, Some(7));
}

#[test]
fn window_size_follows_the_terminal() {
    let script = "trap 'stty size; exit 3' WINCH; echo ready; while :; do sleep 0.1; done";
    let mut session = TerminalSession::start(&["run", "-q", "-it", "--", "sh", "-c", script]);
    session.expect("ready\r\n");
    resize(&session.master, 12, 345);
    session.expect("12 345\r\n");
    assert_eq!(session.end().0, Some(3));
}

#[test]
fn interrupt_key_ends_the_foreground_program_alone() {
    let mut session = bash();
    // The foreground program itself says that it runs; the typed line has no such word.
    session.press("sh -c 'echo be\"\"gin; exec sleep 60'\r");
    session.expect("begin\r\n");
    session.press("\x03");
    session.expect("^C");
    session.expect("ready> ");
    session.press("echo code $?-\r");
    session.expect("code 130-");
    // The key ends the input only once the shell reads the next line.
    session.expect("ready> ");
    session.press("\x04");
    assert_eq!(session.end().0, Some(0));
}

#[test]
fn password_is_not_shown() {
    let code = "import getpass; print(len(getpass.getpass('secret? ')), 'keys')";
    let mut session = TerminalSession::start(&["run", "-q", "-it", "-c", code]);
    session.expect("secret? ");
    session.press("hunter2\r");
    let before = session.expect("7 keys");
    assert!(!before.contains("hunter"), "{before}");
    assert_eq!(session.end().0, Some(0));
}

#[test]
fn python_has_a_prompt() {
    let mut session = TerminalSession::start(&["run", "-q", "-it", "--", "python3", "-q"]);
    session.expect(">>> ");
    session.press("6 * 7\r");
    session.expect("\n42\r\n>>> ");
    session.press("exit(3)\r");
    assert_eq!(session.end().0, Some(3));
}

#[test]
fn file_runs_on_a_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ask.py");
    std::fs::write(&file, "print('hello', input('name? '))\n").unwrap();
    let mut session = TerminalSession::start(&["run", "-q", "-it", file.to_str().unwrap()]);
    session.expect("name? ");
    session.press("you\r");
    session.expect("hello you\r\n");
    assert_eq!(session.end().0, Some(0));
}

#[test]
fn terminal_mode_is_restored_after_signals() {
    for (name, code) in [("-TERM", 143), ("-INT", 130), ("-HUP", 129), ("-QUIT", 131)] {
        let session = TerminalSession::start(&["run", "-q", "-it", "--", "sleep", "90"]);
        session.wait_until_raw();
        signal(&session.command, name);
        assert_eq!(session.end().0, Some(code), "{name}");
    }
}

#[test]
fn terminal_mode_is_restored_after_failures() {
    let missing = TerminalSession::start(&["run", "-q", "-it", "--", "/no/such/program"]);
    let (code, text) = missing.end();
    assert_eq!(code, Some(127), "{text}");
    let late = [
        "run",
        "-q",
        "-it",
        "--timeout",
        "500ms",
        "--",
        "sleep",
        "90",
    ];
    let (code, text) = TerminalSession::start(&late).end();
    assert_eq!(code, Some(124), "{text}");
}

#[test]
fn terminal_needs_a_terminal_as_input() {
    let (code, stdout, stderr) = common::run_text(["run", "-it", "--", "true"]);
    assert_eq!((code, stdout.as_str()), (Some(125), ""));
    assert!(stderr.contains("the input device is not a TTY"), "{stderr}");
    assert!(stderr.contains("(fix: use -i without -t"), "{stderr}");
    // Without input, none is needed.
    let (code, stdout, stderr) = common::run_text(["run", "-q", "-t", "--", "stty", "size"]);
    assert_eq!(
        (code, stdout.as_str(), stderr.as_str()),
        (Some(0), "24 80\r\n", "")
    );
    let (code, _, stderr) = common::run_text(["run", "-t", "-o", "json", "--", "true"]);
    assert_eq!(code, Some(125), "{stderr}");
}

#[test]
fn interactive_program_without_terminal_gets_a_hint() {
    let mut session = TerminalSession::start(&["run", "--", "bash"]);
    session.expect("sandbox: bash gets no terminal and no input (fix: sandbox run -it -- bash)");
    assert_eq!(session.end().0, Some(0));
    let mut session = TerminalSession::start(&["run", "-t", "--", "/bin/sh"]);
    session.expect("sandbox: sh gets no input (fix: sandbox run -it -- /bin/sh)");
    assert_eq!(session.end().0, Some(0));
    let (_, text) = TerminalSession::start(&["run", "--", "bash", "-c", "true"]).end();
    assert!(!text.contains("terminal"), "{text}");
}

#[test]
fn detached_sandbox_has_shells() {
    let detached = DetachedSandbox::create("terminal", &[]);
    let name = detached.name.as_str();
    let prompt = ["-e", "PS1=ready> "];
    let exec = [
        &["exec", "-it"],
        &prompt[..],
        &[name, "--", "bash", "--norc"],
    ]
    .concat();
    let shell = [&["shell"], &prompt[..], &[name]].concat();
    let mut first = TerminalSession::start(&exec);
    first.expect("ready> ");
    let mut second = TerminalSession::start(&shell);
    second.expect("ready> ");
    second.press("tty; echo hello >/tmp/said\r");
    second.expect("\r/dev/pts/1\r\n");
    second.expect("ready> ");
    first.press("cat /tmp/said\r");
    first.expect("\rhello\r\n");
    second.press("exit 5\r");
    assert_eq!(second.end().0, Some(5));
    // A closed window ends its shell, and nothing else.
    signal(&first.command, "-HUP");
    assert_eq!(first.end().0, Some(129));
    assert_eq!(detached.sh("cat /tmp/said"), "hello\n");
    let program = [&["shell"], &[name][..], &["--", "stty", "size"]].concat();
    let mut program = TerminalSession::start(&program);
    program.expect("31 99\r\n");
    assert_eq!(program.end().0, Some(0));
}
