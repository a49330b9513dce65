//! Raw requests to an engine with Docker's API. Podman has container states that Docker's clients
//! cannot parse.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

/// The longest time in which a failed list is requested again.
const LIST_TIMEOUT: Duration = Duration::from_secs(10);

/// The names and the state of a container in a list.
///
/// # Panics
///
/// If the container has no state.
pub fn names_and_state(container: &Value) -> (String, String) {
    let names = container["Names"].as_array().into_iter().flatten();
    let names = names
        .filter_map(Value::as_str)
        .collect::<Vec<_>>()
        .join(",");
    let state = container["State"].as_str().expect("a state");
    (names, state.to_owned())
}

/// The names of the engine's volumes.
///
/// # Panics
///
/// As [`list`].
pub fn volumes(socket: &Path) -> Vec<String> {
    let listed = list(socket, "/volumes");
    let volumes = listed["Volumes"].as_array().into_iter().flatten();
    let names = volumes.map(|volume| volume["Name"].as_str().expect("a name").to_owned());
    names.collect()
}

/// The number of the engine's networks.
///
/// # Panics
///
/// As [`list`].
pub fn networks(socket: &Path) -> usize {
    list(socket, "/networks").as_array().expect("a list").len()
}

/// Removes every container that the engine can remove, and prints the others.
pub fn remove_all(socket: &Path) {
    // An engine that does not answer cannot remove anything.
    let Ok(listed) = request(socket, "GET", "/containers/json?all=true", "") else {
        return;
    };
    for container in listed.as_array().into_iter().flatten() {
        let id = container["Id"].as_str().unwrap_or_default();
        if let Err(error) = request(
            socket,
            "DELETE",
            &format!("/containers/{id}?force=true&v=true"),
            "",
        ) {
            eprintln!("container {id} cannot be removed: {error}");
        }
    }
}

/// A list of the engine. A failed request is repeated: Podman inspects each entry of a list, and
/// fails if a container (podman #11810) or an image (podman #18980) is removed meanwhile.
///
/// # Panics
///
/// If every request within 10 s fails.
pub fn list(socket: &Path, path: &str) -> Value {
    let deadline = Instant::now() + LIST_TIMEOUT;
    loop {
        match request(socket, "GET", path, "") {
            Ok(listed) => return listed,
            Err(error) if Instant::now() > deadline => panic!("{path}: {error}"),
            Err(error) => eprintln!("{path} is requested again: {error}"),
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Sends one request with a JSON body (which may be empty) over a new connection. A response
/// without a body is null.
///
/// # Errors
///
/// The error of the connection, or the whole response where its status is not a success.
pub fn request(socket: &Path, method: &str, path: &str, body: &str) -> Result<Value, String> {
    let exchange = || -> std::io::Result<Vec<u8>> {
        let mut engine = UnixStream::connect(socket)?;
        engine.set_read_timeout(Some(Duration::from_secs(30)))?;
        write!(
            engine,
            "{method} /v1.41{path} HTTP/1.0\r\nHost: engine\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )?;
        let mut response = Vec::new();
        engine.read_to_end(&mut response)?;
        Ok(response)
    };
    let response = exchange().map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&response);
    let (head, body) = text.split_once("\r\n\r\n").ok_or("no response")?;
    let status = head.split(' ').nth(1).unwrap_or_default();
    // Something else may have removed it.
    let is_success = status.starts_with('2') || method == "DELETE" && status == "404";
    if method == "DELETE" && is_success {
        return Ok(Value::Null);
    }
    if !is_success {
        return Err(text.into_owned());
    }
    match body.trim() {
        "" => Ok(Value::Null),
        body => serde_json::from_str(body).map_err(|error| format!("{error}: {body}")),
    }
}
