//! An agent that listens, and its later clients.

use std::{
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::{
            net::{UnixListener, UnixStream},
            process::CommandExt,
        },
    },
    path::PathBuf,
    process::{Child, Stdio},
    time::{Duration, Instant},
};

use sandbox_agent::protocol::{Failure, Kind, LogRequest, Settings};

use super::{Client, Message, PATIENCE, Wire, agent_command, command, settings};

/// Where an agent listens.
pub struct Address(pub PathBuf, tempfile::TempDir);

impl Address {
    /// A connection that has not shown the key.
    pub fn connect(&self) -> Wire {
        Wire::over(UnixStream::connect(&self.0).unwrap())
    }

    /// A later client.
    #[track_caller]
    pub fn attach(&self, settings: &Settings) -> Wire {
        let mut wire = self.connect();
        wire.attach(&settings.key).unwrap();
        wire
    }
}

/// Settings of a sandbox that outlives its first client.
pub fn detached() -> Settings {
    Settings {
        owned: false,
        ..settings()
    }
}

/// Waits for the end of the stream, and gives what came on stream 0 before.
#[track_caller]
pub fn last_word(wire: &mut Wire) -> Option<Failure> {
    let start = Instant::now();
    let mut word = None;
    loop {
        match wire.receive(Duration::from_millis(100)) {
            Some(Message {
                stream: 0,
                kind: Kind::Failed,
                bytes,
            }) => word = Some(Failure::decode(&bytes).unwrap()),
            Some(_) => {}
            None if wire.has_ended() => return word,
            None => assert!(start.elapsed() < PATIENCE, "the stream does not end"),
        }
    }
}

/// A client behind a byte pump, whose process comes with it.
pub fn through_pump(name: &str) -> (Wire, Child) {
    let (socket, theirs) = UnixStream::pair().unwrap();
    let theirs = OwnedFd::from(theirs);
    let child = agent_command(&[], None, &[])
        .args(["connect", name])
        .stdin(theirs.try_clone().unwrap())
        .stdout(theirs)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    (Wire::over(socket), child)
}

/// The client is served.
pub fn echo(wire: &mut Wire) {
    let outcome = wire.run(&command(&["echo", "alive"]));
    assert_eq!(outcome.text(), "alive\n");
}

/// Follows the log from its last `tail` lines on.
pub fn follow(wire: &mut Wire, tail: u32) -> u32 {
    let stream = wire.open_stream();
    wire.send(
        stream,
        Kind::Logs,
        &LogRequest { tail, follow: true }.encode(),
    );
    stream
}

impl Client {
    /// Starts an agent that listens on a socket, with these settings.
    #[track_caller]
    pub fn listen(settings: &Settings) -> (Client, Address) {
        let place = tempfile::tempdir().unwrap();
        let address = Address(place.path().join("socket"), place);
        let listener = UnixListener::bind(&address.0).unwrap();
        let (socket, theirs) = UnixStream::pair().unwrap();
        let mut command = agent_command(&[], Some(theirs.as_raw_fd()), &[]);
        command.args(["serve", "--fd", "42", "--listen-fd", "44"]);
        let raw = listener.as_raw_fd();
        // SAFETY: between fork and exec only a system call is made.
        unsafe {
            command.pre_exec(move || {
                if libc::dup2(raw, 44) == 44 {
                    Ok(())
                } else {
                    Err(std::io::Error::last_os_error())
                }
            });
        }
        let mut client = Client::over(socket, command.spawn().unwrap());
        client.set_owned(settings.owned);
        client.hello(settings).unwrap();
        (client, address)
    }
}
