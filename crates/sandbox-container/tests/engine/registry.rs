//! A registry of our own on the loopback, which engines allow to be without TLS: Debian's package `docker-registry`.

use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PROGRAM: &str = "docker-registry";

/// How long it may take to listen.
const READY: Duration = Duration::from_secs(20);

/// The user `u` with the password `pw`, as htpasswd files have it (bcrypt of cost 5, for a test alone).
const USERS: &str = "u:$2b$05$abcdefghijklmnopqrstuuHIrMEWpUCQe2YqFR3sXwQ75u4od..9q\n";

/// Why there is none; `None` where it is installed.
pub fn missing() -> Option<String> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&folders).any(|folder| folder.join(PROGRAM).is_file());
    (!found).then(|| format!("no {PROGRAM} (apt-get install {PROGRAM})"))
}

/// A registry that ends with this value.
pub struct Registry {
    process: Child,
    /// `127.0.0.1:PORT`.
    pub address: String,
    _folder: tempfile::TempDir,
}

/// A port of the loopback that nobody listens on, most probably for the next moments too.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    listener.local_addr().expect("address").port()
}

impl Registry {
    /// Starts one that asks nobody who he is.
    pub fn open() -> Self {
        Self::start(false)
    }

    /// Starts one that wants user and password.
    pub fn private() -> Self {
        Self::start(true)
    }

    fn start(private: bool) -> Self {
        let folder = tempfile::tempdir().expect("temporary folder");
        let port = free_port();
        let address = format!("127.0.0.1:{port}");
        let users = write(folder.path(), "users", USERS);
        let auth = match private {
            true => format!(
                "auth: {{htpasswd: {{realm: test, path: {}}}}}\n",
                users.display()
            ),
            false => String::new(),
        };
        let config = format!(
            "version: 0.1\nlog: {{level: error, accesslog: {{disabled: true}}}}\n\
             storage: {{filesystem: {{rootdirectory: {}}}}}\nhttp: {{addr: {address}}}\n{auth}",
            folder.path().join("data").display()
        );
        let config = write(folder.path(), "config.yml", &config);
        let process = Command::new(PROGRAM)
            .arg("serve")
            .arg(config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the registry starts");
        let registry = Self {
            process,
            address,
            _folder: folder,
        };
        let start = Instant::now();
        let there = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        while TcpStream::connect(there).is_err() {
            assert!(start.elapsed() < READY, "the registry does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        registry
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to end.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn write(folder: &Path, name: &str, content: &str) -> PathBuf {
    let path = folder.join(name);
    let mut file = std::fs::File::create(&path).expect("file");
    file.write_all(content.as_bytes()).expect("content");
    path
}
