//! A registry of packages on this machine: pages as a test wants them, and wheels made here. The tests of engines have it too.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};

/// Makes a wheel in `folder`: a module of the package's name, of `padding` zero bytes more, and a program of the same name.
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

/// What a registry answers to a request.
#[derive(Debug, Clone)]
pub enum Answer {
    /// A page or a file.
    Found(Vec<u8>),
    /// A status without content.
    Status(&'static str),
    /// Nothing, for as long as the client waits.
    Silence,
}

/// A registry that listens on loopback until it is dropped.
#[derive(Debug)]
pub struct Registry {
    pub url: String,
    port: u16,
    asked: Arc<Mutex<Vec<String>>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Registry {
    /// Answers requests for these paths; `404` for all others.
    pub fn start(answers: impl IntoIterator<Item = (String, Answer)>) -> Self {
        let answers = Arc::new(answers.into_iter().collect::<BTreeMap<_, _>>());
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let record = Arc::clone(&asked);
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let mut line = String::new();
                let mut reader = BufReader::new(&stream);
                // Without a line the client is `drop`, or has gone.
                if reader.read_line(&mut line).is_err() || line.is_empty() {
                    return;
                }
                let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
                record
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(path.clone());
                while reader.read_line(&mut line).is_ok_and(|count| count > 2) {}
                answer(&stream, answers.get(&path));
            }
        });
        Self {
            url: format!("http://127.0.0.1:{port}/simple/"),
            port,
            asked,
            thread: Some(thread),
        }
    }

    /// What was asked for so far.
    pub fn asked(&self) -> Vec<String> {
        self.asked
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

fn answer(mut stream: &TcpStream, answer: Option<&Answer>) {
    let (status, body) = match answer {
        None => ("404 Not Found", Vec::new()),
        Some(Answer::Status(status)) => (*status, Vec::new()),
        Some(Answer::Found(body)) => ("200 OK", body.clone()),
        Some(Answer::Silence) => {
            // Until the client gives up: its end of the stream is then closed.
            let mut rest = Vec::new();
            let _ = std::io::Read::read_to_end(&mut stream, &mut rest);
            return;
        }
    };
    let head = format!(
        "HTTP/1.0 {status}\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    // A client that has gone does not hear it.
    let _ = stream
        .write_all(head.as_bytes())
        .and_then(|()| stream.write_all(&body));
}

impl Drop for Registry {
    fn drop(&mut self) {
        // Wakes the thread up.
        let woken = TcpStream::connect(("127.0.0.1", self.port));
        drop(woken);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A page that lists these files of one package.
pub fn page(files: &[&str]) -> Answer {
    let links = files
        .iter()
        .map(|file| format!("<a href=\"/files/{file}\">{file}</a>\n"));
    let page = format!(
        "<!DOCTYPE html><html><body>{}</body></html>",
        links.collect::<String>()
    );
    Answer::Found(page.into_bytes())
}
