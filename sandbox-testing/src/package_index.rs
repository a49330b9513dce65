//! A Python package index on loopback, with the responses that a test wants, and wheels for it.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};

/// Makes a wheel in `folder`, with a module and a program of the package's name and a file of
/// `padding` zero bytes.
///
/// # Panics
///
/// If `/usr/bin/python3` is missing or fails.
pub fn wheel(folder: &Path, name: &str, version: &str, padding: usize) -> PathBuf {
    const MAKE: &str = r#"
import sys, zipfile
folder, name, version, padding = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
path = f"{folder}/{name}-{version}-py3-none-any.whl"
info = f"{name}-{version}.dist-info"
with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
    wheel.writestr(f"{name}.py", f"version = '{version}'\ndef main(): print('ran', version)\n")
    wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    wheel.writestr(f"{info}/entry_points.txt", f"[console_scripts]\n{name} = {name}:main\n")
    wheel.writestr(f"{name}.bin", bytes(padding))
    wheel.writestr(f"{info}/RECORD", f"{name}.py,,\n{name}.bin,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/entry_points.txt,,\n{info}/RECORD,,\n")
print(path)
"#;
    let output = Command::new("/usr/bin/python3")
        .args(["-c", MAKE, &folder.to_string_lossy(), name, version])
        .arg(padding.to_string())
        .output()
        .expect("the host has a Python");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).trim().into()
}

/// The name of the index in [`SplitIndex`].
pub const INDEX: &str = "index.test";

/// The name of the files' host in [`SplitIndex`].
pub const FILES: &str = "files.test";

/// An index with `demo` 1.0 whose files are on another host.
#[derive(Debug)]
pub struct SplitIndex {
    /// The index. Its page leads to the files.
    pub index: PackageIndex,
    /// The host of the files.
    pub files: PackageIndex,
}

impl SplitIndex {
    /// Starts both.
    ///
    /// # Panics
    ///
    /// If they cannot listen.
    pub fn start() -> Self {
        let wheels = tempfile::tempdir().expect("a folder");
        let file = wheel(wheels.path(), "demo", "1.0", 0);
        let content = std::fs::read(&file).expect("a wheel");
        let name = file
            .file_name()
            .expect("a file")
            .to_string_lossy()
            .into_owned();
        let files = PackageIndex::start([(format!("/{name}"), IndexResponse::Content(content))]);
        let link = format!(
            "<a href=\"http://{FILES}:{}/{name}\">{name}</a>",
            files.port
        );
        let page = IndexResponse::Content(link.into_bytes());
        let index = PackageIndex::start([("/simple/demo/".into(), page)]);
        Self { index, files }
    }

    /// The index's URL, by its name.
    pub fn url(&self) -> String {
        self.index.url.replace("127.0.0.1", INDEX)
    }

    /// The rule for the host of the files.
    pub fn files_rule(&self) -> String {
        format!("{FILES}:{} name private", self.files.port)
    }
}

/// The response to a request.
#[derive(Debug, Clone)]
pub enum IndexResponse {
    /// A page or a file.
    Content(Vec<u8>),
    /// A status line without content, such as `403 Forbidden`.
    Status(&'static str),
    /// No response for as long as the client waits.
    Silence,
}

/// A package index that listens on loopback until it is dropped.
#[derive(Debug)]
pub struct PackageIndex {
    /// The URL for pip's `--index-url`.
    pub url: String,
    port: u16,
    requests: Arc<Mutex<Vec<String>>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl PackageIndex {
    /// Answers requests for these paths, and all others with 404.
    ///
    /// # Panics
    ///
    /// If it cannot listen.
    pub fn start(responses: impl IntoIterator<Item = (String, IndexResponse)>) -> Self {
        Self::start_with(|_| responses)
    }

    /// As [`PackageIndex::start`], with responses that contain its address without a path.
    ///
    /// # Panics
    ///
    /// If it cannot listen.
    pub fn start_with<R>(responses: impl FnOnce(&str) -> R) -> Self
    where
        R: IntoIterator<Item = (String, IndexResponse)>,
    {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let responses = responses(&format!("http://127.0.0.1:{port}")).into_iter();
        let responses = Arc::new(responses.collect::<BTreeMap<_, _>>());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let record = Arc::clone(&requests);
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let mut line = String::new();
                let mut reader = BufReader::new(&stream);
                // A connection without a request is made by `drop`, or by a client that has ended.
                if reader.read_line(&mut line).is_err() || line.is_empty() {
                    return;
                }
                let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
                record
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(path.clone());
                while reader.read_line(&mut line).is_ok_and(|count| count > 2) {}
                respond(&stream, responses.get(&path));
            }
        });
        Self {
            url: format!("http://127.0.0.1:{port}/simple/"),
            port,
            requests,
            thread: Some(thread),
        }
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The address without a path, for other registries than Python's.
    pub fn root(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The requested paths, in order.
    pub fn requests(&self) -> Vec<String> {
        self.requests
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

fn respond(mut stream: &TcpStream, response: Option<&IndexResponse>) {
    let (status, body) = match response {
        None => ("404 Not Found", Vec::new()),
        Some(IndexResponse::Status(status)) => (*status, Vec::new()),
        Some(IndexResponse::Content(body)) => ("200 OK", body.clone()),
        Some(IndexResponse::Silence) => {
            // Ends when the client closes the connection.
            let mut rest = Vec::new();
            let _ = std::io::Read::read_to_end(&mut stream, &mut rest);
            return;
        }
    };
    let head = format!(
        "HTTP/1.0 {status}\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    // The client may have closed the connection.
    let _ = stream
        .write_all(head.as_bytes())
        .and_then(|()| stream.write_all(&body));
}

impl Drop for PackageIndex {
    fn drop(&mut self) {
        // Wakes the thread up.
        let woken = TcpStream::connect(("127.0.0.1", self.port));
        drop(woken);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The page of a package with these files.
pub fn page(files: &[&str]) -> IndexResponse {
    let links = files
        .iter()
        .map(|file| format!("<a href=\"/files/{file}\">{file}</a>\n"));
    let page = format!(
        "<!DOCTYPE html><html><body>{}</body></html>",
        links.collect::<String>()
    );
    IndexResponse::Content(page.into_bytes())
}
