//! A D-Bus connection to systemd, over the private socket that its own commands use.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use super::wire::{Call, DbusWriter, Message, MessageKind, Value, take};

/// Time limit for all of systemd's answers. It answers within milliseconds unless it is overloaded.
const TIMEOUT: Duration = Duration::from_secs(5);

const DESTINATION: &str = "org.freedesktop.systemd1";

/// A connection to the service manager.
#[derive(Debug)]
pub(super) struct Manager {
    stream: UnixStream,
    received: Vec<u8>,
    deadline: Instant,
}

impl Manager {
    /// Connects to the manager at this socket. The manager must run as `user` or as root.
    ///
    /// # Errors
    ///
    /// If there is none, or if it is in another PID namespace and does not know our process ids.
    pub(super) fn connect(socket: &Path, user: u32) -> io::Result<Self> {
        let stream = UnixStream::connect(socket)?;
        let peer = rustix::net::sockopt::socket_peercred(&stream)?;
        check_peer(peer.uid.as_raw(), user)?;
        // The kernel reports 0 for a process outside of our PID namespace.
        if peer.pid.as_raw_pid() == 0 {
            return Err(io::Error::other("it is outside of this process namespace"));
        }
        let mut manager = Self {
            stream,
            received: Vec::new(),
            deadline: Instant::now() + TIMEOUT,
        };
        manager.authenticate(user)?;
        Ok(manager)
    }

    /// Authenticates. The kernel vouches for the user id too.
    fn authenticate(&mut self, user: u32) -> io::Result<()> {
        let digits = user.to_string();
        let hex: String = digits.bytes().map(|byte| format!("{byte:02x}")).collect();
        self.send(format!("\0AUTH EXTERNAL {hex}\r\nBEGIN\r\n").as_bytes())?;
        let line = loop {
            let end = self.received.windows(2).position(|two| two == b"\r\n");
            if let Some(end) = end {
                break self.received.drain(..end + 2).collect::<Vec<_>>();
            }
            if self.received.len() > 1024 {
                return Err(io::Error::other("it sent no valid authentication reply"));
            }
            self.receive()?;
        };
        if line.starts_with(b"OK ") {
            return Ok(());
        }
        let reply = String::from_utf8_lossy(&line).trim().to_owned();
        Err(io::Error::other(format!(
            "it rejected our user id: {reply}"
        )))
    }

    /// Starts a scope of this name with one process in it, and delegates its control group to the
    /// manager's user. Returns once the process is in the group.
    ///
    /// # Errors
    ///
    /// What the manager reports.
    pub(super) fn start_scope(
        &mut self,
        name: &str,
        description: &str,
        pid: u32,
    ) -> io::Result<()> {
        let number = 1;
        let mut arguments = DbusWriter::default();
        arguments.text(name);
        // Fail if the unit exists, rather than replace it.
        arguments.text("fail");
        arguments.array(8, |properties| {
            properties.property("Description", Value::Text(description));
            properties.property("PIDs", Value::Numbers(&[pid]));
            properties.property("Delegate", Value::Flag(true));
            // Each sandbox has its own limit, and there may be many sandboxes.
            properties.property("TasksMax", Value::Long(u64::MAX));
            // Unload the unit even if a process in it was killed.
            properties.property("CollectMode", Value::Text("inactive-or-failed"));
            // Agents do not end on SIGTERM. The time until SIGKILL, in microseconds.
            properties.property("TimeoutStopUSec", Value::Long(2_000_000));
        });
        // No auxiliary units.
        arguments.array(8, |_| {});
        let call = Call {
            number,
            destination: DESTINATION,
            path: "/org/freedesktop/systemd1",
            interface: "org.freedesktop.systemd1.Manager",
            member: "StartTransientUnit",
            signature: "ssa(sv)a(sa(sv))",
        };
        self.send(&call.message(&arguments))?;
        self.wait_for_job(number)
    }

    /// Waits for the reply, which names a job, and for the job's end, which may be reported before
    /// the reply.
    fn wait_for_job(&mut self, number: u32) -> io::Result<()> {
        let mut job = None;
        let mut ended = Vec::new();
        loop {
            let message = self.next()?;
            match message.kind {
                MessageKind::Error if message.reply_to == Some(number) => {
                    return Err(error_of(&message));
                }
                MessageKind::Return if message.reply_to == Some(number) => {
                    job = message.arguments().text();
                    if message.signature != "o" || job.is_none() {
                        return Err(io::Error::other("it sent an unexpected reply"));
                    }
                }
                MessageKind::Signal if message.member.as_deref() == Some("JobRemoved") => {
                    ended.extend(job_and_result(&message));
                }
                _ => {}
            }
            let Some(job) = &job else { continue };
            match ended.iter().find(|(path, _)| path == job) {
                Some((_, result)) if result == "done" => return Ok(()),
                Some((_, result)) => {
                    return Err(io::Error::other(format!(
                        "the start of the scope: {result}"
                    )));
                }
                None => ended.clear(),
            }
        }
    }

    fn next(&mut self) -> io::Result<Message> {
        loop {
            if let Some(message) = take(&mut self.received)? {
                return Ok(message);
            }
            self.receive()?;
        }
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.set_write_timeout(Some(self.time_left()?))?;
        self.stream.write_all(bytes).map_err(timeout_error)
    }

    fn receive(&mut self) -> io::Result<()> {
        self.stream.set_read_timeout(Some(self.time_left()?))?;
        let mut bytes = [0; 4096];
        match self.stream.read(&mut bytes) {
            Ok(0) => Err(io::Error::other("it has closed the connection")),
            Ok(count) => {
                self.received.extend(&bytes[..count]);
                Ok(())
            }
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(cause) => Err(timeout_error(cause)),
        }
    }

    fn time_left(&self) -> io::Result<Duration> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(timeout_error(io::ErrorKind::TimedOut.into()));
        }
        Ok(left)
    }
}

/// Accepts only a manager of `user` or of root.
fn check_peer(peer: u32, user: u32) -> io::Result<()> {
    if peer != user && peer != 0 {
        return Err(io::Error::other(format!("it is run by user {peer}")));
    }
    Ok(())
}

/// A socket reports a timeout as "try again".
fn timeout_error(cause: io::Error) -> io::Error {
    match cause.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => io::Error::new(
            io::ErrorKind::TimedOut,
            format!("no answer within {TIMEOUT:?}"),
        ),
        _ => cause,
    }
}

fn error_of(message: &Message) -> io::Error {
    let name = message.error.as_deref().unwrap_or("an error without name");
    let text = match message.signature.starts_with('s') {
        true => message.arguments().text(),
        false => None,
    };
    io::Error::other(text.unwrap_or_else(|| name.to_owned()))
}

fn job_and_result(message: &Message) -> Option<(String, String)> {
    if message.signature != "uoss" {
        return None;
    }
    let mut arguments = message.arguments();
    arguments.number()?;
    let path = arguments.text()?;
    arguments.text()?;
    Some((path, arguments.text()?))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::thread::{JoinHandle, spawn};

    use super::super::wire::tests::answer;
    use super::*;

    const RETURN: u8 = 2;
    const ERROR: u8 = 3;
    const SIGNAL: u8 = 4;

    /// A mock manager: sends `greeting`, reads one call and sends `answers`.
    fn manager(folder: &Path, greeting: &str, answers: Vec<Vec<u8>>) -> JoinHandle<Vec<u8>> {
        let listener = UnixListener::bind(folder.join("private")).expect("a socket");
        let greeting = greeting.to_owned();
        spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            let mut received = vec![0; 4096];
            let count = stream.read(&mut received).expect("a greeting");
            received.truncate(count);
            stream.write_all(greeting.as_bytes()).expect("sent");
            let mut call = [0; 4096];
            // A client that was refused sends nothing more.
            let count = stream.read(&mut call).unwrap_or(0);
            received.extend(&call[..count]);
            for answer in answers.iter().filter(|_| count > 0) {
                stream.write_all(answer).expect("sent");
            }
            received
        })
    }

    fn own_user() -> u32 {
        rustix::process::geteuid().as_raw()
    }

    fn job(path: &str) -> Vec<u8> {
        let mut body = DbusWriter::default();
        body.text(path);
        answer(RETURN, &[(8, "g", "o")], Some(1), &body)
    }

    fn removed(path: &str, result: &str) -> Vec<u8> {
        let mut body = DbusWriter::default();
        body.number(5);
        body.text(path);
        body.text("x.scope");
        body.text(result);
        let fields = [
            (1, "o", "/org/freedesktop/systemd1"),
            (3, "s", "JobRemoved"),
            (8, "g", "uoss"),
        ];
        answer(SIGNAL, &fields, None, &body)
    }

    fn start(greeting: &str, answers: Vec<Vec<u8>>) -> (io::Result<()>, Vec<u8>) {
        let folder = tempfile::tempdir().expect("a folder");
        let served = manager(folder.path(), greeting, answers);
        let mut manager = Manager::connect(&folder.path().join("private"), own_user());
        let started = match &mut manager {
            Ok(manager) => manager.start_scope("x.scope", "x", 7),
            Err(cause) => Err(io::Error::other(cause.to_string())),
        };
        drop(manager);
        (started, served.join().expect("no panic"))
    }

    #[test]
    fn scope_start_waits_for_its_job() {
        let others = removed("/job/8", "failed");
        let (started, received) = start(
            "OK 1\r\n",
            vec![others, job("/job/9"), removed("/job/9", "done")],
        );
        started.expect("started");
        let received = String::from_utf8_lossy(&received);
        assert!(received.starts_with("\0AUTH EXTERNAL 3"), "{received}");
        for part in ["StartTransientUnit", "x.scope", "PIDs", "Delegate"] {
            assert!(received.contains(part), "{part} in {received}");
        }
        // The same messages in the other order.
        let (started, _) = start("OK 1\r\n", vec![removed("/job/9", "done"), job("/job/9")]);
        started.expect("started");
    }

    #[test]
    fn errors_of_the_manager_are_reported() {
        let failed = |greeting: &str, answers| {
            let (started, _) = start(greeting, answers);
            started.expect_err("refused").to_string()
        };
        let message = failed("OK 1\r\n", vec![job("/job/9"), removed("/job/9", "failed")]);
        assert!(message.contains("failed"), "{message}");
        let mut body = DbusWriter::default();
        body.text("Unit x.scope already exists.");
        let fields = [(4, "s", "org.example.Exists"), (8, "g", "s")];
        let message = failed("OK 1\r\n", vec![answer(ERROR, &fields, Some(1), &body)]);
        assert_eq!(message, "Unit x.scope already exists.");
        let fields = [(4, "s", "org.example.Exists")];
        let nothing = DbusWriter::default();
        let message = failed("OK 1\r\n", vec![answer(ERROR, &fields, Some(1), &nothing)]);
        assert_eq!(message, "org.example.Exists");
        let message = failed("REJECTED EXTERNAL\r\n", Vec::new());
        assert!(message.contains("REJECTED"), "{message}");
        let message = failed("OK 1\r\n", Vec::new());
        assert!(message.contains("closed"), "{message}");
        let message = failed("OK 1\r\n", vec![b"what?what?what?what?".to_vec()]);
        assert!(message.contains("byte order"), "{message}");
    }

    #[test]
    fn manager_of_another_user_is_refused() {
        let error = check_peer(1001, 1000).expect_err("another user");
        assert!(error.to_string().contains("run by user 1001"), "{error}");
        for (peer, user) in [(1000, 1000), (0, 1000), (0, 0)] {
            check_peer(peer, user).expect("the own manager or root's");
        }
    }
}
