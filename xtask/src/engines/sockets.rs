//! Places where an engine may serve its socket, and which of them answers.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::failure::{Failure, Result};
use crate::http::Client;

/// Most time for one answer to a ping; a daemon that works needs a few milliseconds.
const PING_TIMEOUT: Duration = Duration::from_secs(2);

/// One place to look at, and who named it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The socket's path.
    pub socket: PathBuf,
    /// Who named it: a variable, a context, or nobody.
    pub origin: String,
}

/// The places where an engine is found that nobody named, each once: where `/var/run` is a link,
/// two names are one socket.
pub fn by_default(sockets: impl IntoIterator<Item = PathBuf>) -> Vec<Candidate> {
    let mut found: Vec<Candidate> = Vec::new();
    for socket in sockets {
        if !found.iter().any(|other| same_place(&other.socket, &socket)) {
            found.push(Candidate {
                socket,
                origin: "default".to_owned(),
            });
        }
    }
    found
}

/// A client of the first candidate that answers a ping.
///
/// # Errors
/// For candidates that do not answer, with the reason for each.
pub fn find(candidates: &[Candidate]) -> Result<Client> {
    let mut reasons = Vec::new();
    for Candidate { socket, origin } in candidates {
        match ping(socket) {
            Ok(client) => return Ok(client),
            Err(reason) => reasons.push(format!("{} ({origin}): {reason}", socket.display())),
        }
    }
    Err(Failure::new(format!(
        "no socket answers: {}",
        reasons.join(", ")
    )))
}

/// A client of `socket` if an engine answers `GET /_ping` there within 2 s.
///
/// # Errors
/// With the reason, as text.
pub fn ping(socket: &Path) -> std::result::Result<Client, String> {
    let client = Client::new(socket, PING_TIMEOUT);
    match client.get("/_ping") {
        Ok(answer) if answer.is_success() => Ok(client),
        Ok(answer) => Err(answer.error_message()),
        Err(error) => Err(match error.kind() {
            io::ErrorKind::NotFound => "does not exist".to_owned(),
            io::ErrorKind::ConnectionRefused => "nobody listens".to_owned(),
            io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
            _ => error.to_string(),
        }),
    }
}

/// The candidate that `origin` names with `host`.
///
/// # Errors
/// When that is no Unix socket.
pub fn named(host: &str, origin: &str) -> Result<Candidate> {
    match host.strip_prefix("unix://") {
        Some(path) if path.starts_with('/') => Ok(Candidate {
            socket: path.into(),
            origin: origin.to_owned(),
        }),
        _ => Err(Failure::new(format!(
            "{origin} names '{host}', which is not a Unix socket"
        ))
        .with_fix("use unix:///path/to/its.sock")),
    }
}

/// True where one of the candidates is this socket.
pub fn include(candidates: &[Candidate], socket: &Path) -> bool {
    candidates
        .iter()
        .any(|candidate| same_place(&candidate.socket, socket))
}

/// True where both paths name one socket, which need not exist.
pub fn same_place(one: &Path, other: &Path) -> bool {
    place(one) == place(other)
}

/// The path with every link in its folder followed; the socket itself need not exist.
fn place(socket: &Path) -> PathBuf {
    let folder = socket
        .parent()
        .and_then(|folder| fs::canonicalize(folder).ok());
    match (folder, socket.file_name()) {
        (Some(folder), Some(name)) => folder.join(name),
        _ => socket.to_path_buf(),
    }
}

/// A variable of the environment that is set and not empty.
pub fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixListener;
    use std::thread;

    fn serve(path: &Path, answer: &'static str) {
        let listener = UnixListener::bind(path).expect("bind");
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("accept");
            // The whole request, which may come in pieces: a client that still writes would be told of a broken pipe.
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                let mut byte = [0; 1];
                stream.read_exact(&mut byte).expect("request");
                request.extend(byte);
            }
            stream.write_all(answer.as_bytes()).expect("answer");
        });
    }

    #[test]
    fn the_first_socket_that_answers_wins() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let at = |name: &str| folder.path().join(name);
        drop(UnixListener::bind(at("stale")).expect("bind"));
        serve(
            &at("broken"),
            "HTTP/1.1 500 Oops\r\nContent-Length: 4\r\n\r\noops",
        );
        serve(
            &at("good"),
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK",
        );
        let candidate = |name: &str| Candidate {
            socket: at(name),
            origin: "test".to_owned(),
        };
        let all = ["missing", "stale", "broken", "good"].map(candidate);
        let text = find(&all[..3]).expect_err("none answers").to_string();
        for part in ["missing (test): does not exist", "nobody listens"] {
            assert!(text.contains(part), "{text}");
        }
        // The broken one has served its single answer and counts as silent or refusing now.
        let found = find(&[candidate("missing"), candidate("good")]).expect("one answers");
        assert_eq!(found.socket(), at("good"));
    }

    #[test]
    fn an_error_status_is_no_answer() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let path = folder.path().join("socket");
        serve(&path, "HTTP/1.1 500 Oops\r\nContent-Length: 4\r\n\r\noops");
        assert_eq!(ping(&path).err().as_deref(), Some("oops (status 500)"));
    }

    #[test]
    fn only_unix_sockets_are_taken() {
        let taken = named("unix:///run/x.sock", "DOCKER_HOST").expect("a socket");
        assert_eq!(taken.socket, Path::new("/run/x.sock"));
        for host in [
            "tcp://127.0.0.1:2375",
            "ssh://host",
            "unix://",
            "/run/x.sock",
        ] {
            let failure = named(host, "DOCKER_HOST").expect_err(host);
            assert!(failure.to_string().contains(host), "{failure}");
        }
    }

    #[test]
    fn two_names_of_one_socket_are_one_place() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let (real, link) = (folder.path().join("real"), folder.path().join("link"));
        fs::create_dir(&real).expect("folder");
        std::os::unix::fs::symlink(&real, &link).expect("link");
        assert!(same_place(&real.join("s"), &link.join("s")));
        assert!(!same_place(&real.join("s"), &link.join("t")));
    }
}
