//! What an engine has, as it says itself: read without a client that knows the words for states, of which families have their own.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

/// How often a list is asked for that is answered with an error, before the last time.
const ATTEMPTS: u32 = 5;

/// A container's names and state.
pub fn described(container: &Value) -> (String, String) {
    let names = container["Names"].as_array().into_iter().flatten();
    let names = names
        .filter_map(Value::as_str)
        .collect::<Vec<_>>()
        .join(",");
    let state = container["State"].as_str().expect("a state");
    (names, state.to_owned())
}

/// The names of the volumes.
pub fn volumes(socket: &Path) -> Vec<String> {
    let listed = list(socket, "/volumes");
    let volumes = listed["Volumes"].as_array().into_iter().flatten();
    let names = volumes.map(|volume| volume["Name"].as_str().expect("a name").to_owned());
    names.collect()
}

/// How many networks there are.
pub fn networks(socket: &Path) -> usize {
    list(socket, "/networks").as_array().expect("a list").len()
}

/// Removes every container, as far as the engine can.
pub fn remove_all(socket: &Path) {
    // An engine that does not answer has nothing that can be removed by way of it.
    let Ok(listed) = ask(socket, "GET", "/containers/json?all=true", "") else {
        return;
    };
    for container in listed.as_array().into_iter().flatten() {
        let id = container["Id"].as_str().unwrap_or_default();
        if let Err(why) = ask(
            socket,
            "DELETE",
            &format!("/containers/{id}?force=true&v=true"),
            "",
        ) {
            eprintln!("{id} stays: {why}");
        }
    }
}

/// What the engine answers, which must be able to. Podman looks at every container for each of its lists, also at one that is
/// half created or half removed, and can answer such a moment with an error: it is asked again, a few times.
pub fn list(socket: &Path, path: &str) -> Value {
    for _ in 0..ATTEMPTS {
        match ask(socket, "GET", path, "") {
            Ok(listed) => return listed,
            Err(why) => eprintln!("{path} is asked for again: {why}"),
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    ask(socket, "GET", path, "").unwrap_or_else(|why| panic!("{path}: {why}"))
}

/// One request with this body of JSON, over a connection of its own that the engine closes. An answer without a body is null.
pub fn ask(socket: &Path, method: &str, path: &str, body: &str) -> Result<Value, String> {
    let answer = || -> std::io::Result<Vec<u8>> {
        let mut engine = UnixStream::connect(socket)?;
        engine.set_read_timeout(Some(Duration::from_secs(30)))?;
        write!(
            engine,
            "{method} /v1.41{path} HTTP/1.0\r\nHost: engine\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )?;
        let mut answer = Vec::new();
        engine.read_to_end(&mut answer)?;
        Ok(answer)
    };
    let answer = answer().map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&answer);
    let (head, body) = text.split_once("\r\n\r\n").ok_or("no answer")?;
    let status = head.split(' ').nth(1).unwrap_or_default();
    // What is gone already has been removed.
    let done = status.starts_with('2') || method == "DELETE" && status == "404";
    if method == "DELETE" && done {
        return Ok(Value::Null);
    }
    if !done {
        return Err(text.into_owned());
    }
    match body.trim() {
        "" => Ok(Value::Null),
        body => serde_json::from_str(body).map_err(|error| format!("{error}: {body}")),
    }
}
