//! `egress`: the connections of a detached sandbox, which a process in the background makes.

use std::io::Write as _;
use std::net::TcpListener;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::common::{processes_with, wait_until};
use crate::sandbox::{DetachedSandbox, error, run};

/// How long a carrier may take to end after its sandbox.
const END_TIME_LIMIT: Duration = Duration::from_secs(10);

/// A port of this host's loopback that sends a byte on each connection, as long as the test runs.
fn port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for peer in listener.incoming() {
            // The client may be gone.
            let _ = peer.and_then(|mut peer| peer.write_all(b"x"));
        }
    });
    port
}

fn rule(port: u16) -> String {
    format!("127.0.0.1:{port} private")
}

/// Whether code gets the byte of a port, and what the command says.
fn connects(sandbox: &DetachedSandbox, port: u16) -> (bool, String) {
    let script =
        format!("exec 3<>/dev/tcp/127.0.0.1/{port} && read -rn1 byte <&3 && test $byte = x");
    let (code, _, errors) = sandbox.exec(&["bash", "-c", &script]);
    (code == Some(0), errors)
}

fn carriers(sandbox: &DetachedSandbox) -> Vec<u32> {
    let foreground = processes_with("--foreground");
    let of_sandbox = processes_with(&sandbox.name).into_iter();
    of_sandbox.filter(|pid| foreground.contains(pid)).collect()
}

/// What `sandbox egress` prints as JSON.
fn document(arguments: &[&str]) -> Value {
    let (code, output, errors) = run(&[&["egress", "-o", "json"], arguments].concat());
    assert_eq!((code, errors.as_str()), (Some(0), ""), "{arguments:?}");
    serde_json::from_str(&output).unwrap()
}

pub fn egress_changes_the_rules_of_a_running_sandbox() {
    let (one, other) = (port(), port());
    let rules = [rule(one), rule(other)];
    let options = ["--allow-host", &rules[0], "--allow-host", &rules[1]];
    let sandbox = DetachedSandbox::create("egress", &options);
    let (code, text, _) = run(&["egress", &sandbox.name]);
    assert_eq!((code, text), (Some(0), rules.join("\n") + "\n"));
    assert!(connects(&sandbox, one).0);
    assert!(connects(&sandbox, other).0);
    let changed = document(&[&sandbox.name, &rules[1]]);
    assert_eq!(changed, json!({ "carried": true, "rules": [rules[1]] }));
    assert!(!connects(&sandbox, one).0);
    assert!(connects(&sandbox, other).0);
    let refused = error(&["egress", "-o", "json", &sandbox.name, "example.org"]);
    assert_eq!(refused["kind"], "policy_exceeded", "{refused}");
    let denied = document(&[&sandbox.name, "--none"]);
    assert_eq!(denied, json!({ "carried": true, "rules": [] }));
    assert!(!connects(&sandbox, other).0);
    let (code, _, _) = run(&["rm", &sandbox.name]);
    assert_eq!(code, Some(0));
    wait_until("the carrier ends", END_TIME_LIMIT, || {
        carriers(&sandbox).is_empty()
    });
}

pub fn without_a_carrier_nothing_is_allowed_and_another_one_can_be_started() {
    let port = port();
    let sandbox = DetachedSandbox::create("carrier", &["--allow-host", &rule(port)]);
    let killed = carriers(&sandbox);
    assert_eq!(killed.len(), 1, "{killed:?}");
    let kill = Command::new("kill")
        .args(["-9", &killed[0].to_string()])
        .status();
    assert!(kill.unwrap().success());
    wait_until("the carrier ends", END_TIME_LIMIT, || {
        carriers(&sandbox).is_empty()
    });
    let (connected, errors) = connects(&sandbox, port);
    assert!(!connected);
    assert!(
        errors.contains("no process carries the connections"),
        "{errors}"
    );
    let none = document(&[&sandbox.name]);
    assert_eq!(none, json!({ "carried": false, "rules": [] }));
    let started = document(&[&sandbox.name, "--carry"]);
    assert_eq!(started, json!({ "carried": true, "rules": [rule(port)] }));
    assert_eq!(connects(&sandbox, port), (true, String::new()));
    // There is one carrier, however often it is asked for.
    document(&[&sandbox.name, "--carry"]);
    assert_eq!(carriers(&sandbox).len(), 1);
}

pub fn egress_needs_a_sandbox_with_rules() {
    let sandbox = DetachedSandbox::create("bare", &[]);
    let refused = error(&["egress", "-o", "json", &sandbox.name]);
    let message = refused["message"].as_str().unwrap();
    assert!(message.contains("has no egress rules"), "{message}");
    let refused = error(&["egress", "-o", "json", &sandbox.name, "not a rule"]);
    assert_eq!(refused["kind"], "usage", "{refused}");
}
