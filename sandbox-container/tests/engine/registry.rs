//! A registry of our own on the loopback: Debian's package `docker-registry`. Docker takes one there without TLS; for Podman it has a
//! certificate of its own, which the engine trusts for this address alone.

use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::family;

const PROGRAM: &str = "docker-registry";

/// What makes certificates.
const OPENSSL: &str = "openssl";

/// How long it may take to listen.
const READY: Duration = Duration::from_secs(20);

/// The user `u` with the password `pw`, as htpasswd files have it (bcrypt of cost 5, for a test alone).
const USERS: &str = "u:$2b$05$abcdefghijklmnopqrstuuHIrMEWpUCQe2YqFR3sXwQ75u4od..9q\n";

/// Why there is none; `None` where it is installed.
pub fn missing() -> Option<String> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let is_there = |program: &str| {
        std::env::split_paths(&folders).any(|folder| folder.join(program).is_file())
    };
    let needed = match family::certificates() {
        Some(_) => &[PROGRAM, OPENSSL][..],
        None => &[PROGRAM],
    };
    let program = needed.iter().find(|program| !is_there(program))?;
    Some(format!("no {program} (apt-get install {program})"))
}

/// A registry that ends with this value.
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
    /// Has the engine trust `certificate` for the registry at `address`.
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
        // For a port that nobody listens on any more, it is trusted for nothing.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Makes a key and a certificate for 127.0.0.1; gives the paths of certificate and key.
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
    let said = String::from_utf8_lossy(&made.stderr);
    assert!(made.status.success(), "{said}");
    (certificate, key)
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
        let mut tls = String::new();
        let trust = family::certificates().map(|certificates| {
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
