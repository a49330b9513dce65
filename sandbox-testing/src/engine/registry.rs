//! An image registry on loopback (Debian's package `docker-registry`). Docker uses it without TLS.
//! For Podman it has a certificate, which the engine trusts for this address only.

use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::TestEngine;

const PROGRAM: &str = "docker-registry";

/// The program that makes certificates.
const OPENSSL: &str = "openssl";

/// The longest that the registry may take to listen.
const READY: Duration = Duration::from_secs(20);

/// An htpasswd file with user `u` and password `pw` (bcrypt with cost 5, which is only good for
/// tests).
const USERS: &str = "u:$2b$05$abcdefghijklmnopqrstuuHIrMEWpUCQe2YqFR3sXwQ75u4od..9q\n";

/// Why a registry cannot be started; `None` where it can.
pub fn missing(engine: &'static TestEngine) -> Option<String> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let is_there = |program: &str| {
        std::env::split_paths(&folders).any(|folder| folder.join(program).is_file())
    };
    let needed = match engine.certificates() {
        Some(_) => &[PROGRAM, OPENSSL][..],
        None => &[PROGRAM],
    };
    let program = needed.iter().find(|program| !is_there(program))?;
    Some(format!("no {program} (apt-get install {program})"))
}

/// A running registry. Dropping it ends it.
pub struct Registry {
    process: Child,
    /// `127.0.0.1:PORT`.
    pub address: String,
    _trust: Option<Trust>,
    _folder: tempfile::TempDir,
}

/// A folder in which the engine finds the certificate of one registry; removed with this value.
struct Trust(PathBuf);

impl Trust {
    /// Makes the engine trust `certificate` for the registry at `address`.
    fn new(certificates: &Path, address: &str, certificate: &Path) -> Self {
        let folder = certificates.join(address);
        std::fs::create_dir_all(&folder).expect("folder of certificates");
        let trust = Self(folder);
        std::fs::copy(certificate, trust.0.join("ca.crt")).expect("certificate");
        trust
    }
}

impl Drop for Trust {
    fn drop(&mut self) {
        // A certificate that is left is harmless: nothing listens on its port.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Makes a key and a certificate for 127.0.0.1, and returns the paths of certificate and key.
fn certificate(folder: &Path) -> (PathBuf, PathBuf) {
    let (certificate, key) = (folder.join("registry.crt"), folder.join("registry.key"));
    let made = Command::new(OPENSSL)
        .args(["req", "-x509", "-nodes", "-days", "2", "-subj", "/CN=test"])
        .args(["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"])
        .args(["-addext", "subjectAltName=IP:127.0.0.1"])
        .arg("-keyout")
        .arg(&key)
        .arg("-out")
        .arg(&certificate)
        .output()
        .expect("openssl starts");
    let stderr = String::from_utf8_lossy(&made.stderr);
    assert!(made.status.success(), "{stderr}");
    (certificate, key)
}

/// A free port of loopback. Another process could take it before the caller does.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    listener.local_addr().expect("address").port()
}

impl Registry {
    /// Starts a registry without authentication.
    pub fn open(engine: &'static TestEngine) -> Self {
        Self::start(engine, false)
    }

    /// Starts a registry that requires a user and a password.
    pub fn private(engine: &'static TestEngine) -> Self {
        Self::start(engine, true)
    }

    fn start(engine: &'static TestEngine, private: bool) -> Self {
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
        let mut tls = String::new();
        let trust = engine.certificates().map(|certificates| {
            let (certificate, key) = certificate(folder.path());
            tls = format!(
                ", tls: {{certificate: {}, key: {}}}",
                certificate.display(),
                key.display()
            );
            Trust::new(&certificates, &address, &certificate)
        });
        let config = format!(
            "version: 0.1\nlog: {{level: error, accesslog: {{disabled: true}}}}\n\
             storage: {{filesystem: {{rootdirectory: {}}}}}\nhttp: {{addr: {address}{tls}}}\n{auth}",
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
            _trust: trust,
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
        // It may have ended by itself.
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
