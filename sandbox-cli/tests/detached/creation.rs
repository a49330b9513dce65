//! `create`: names, and creators that are killed.

use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::{self, processes_with, wait_until};
use crate::sandbox::{DetachedSandbox, error, run};

pub fn bad_unknown_and_used_names_are_refused() {
    let sandbox = DetachedSandbox::create("named", &[]);
    let name = sandbox.name.as_str();
    let taken = error(&["create", "-o", "json", "--name", name]);
    assert_eq!(taken["kind"], "already_exists");
    assert!(taken["fix"].as_str().unwrap().contains(name), "{taken}");
    for bad in ["", "A-b", "../x", "a/b", ".hidden", &"x".repeat(64)] {
        let failed = error(&["create", "-o", "json", "--name", bad]);
        assert_eq!(failed["kind"], "invalid_spec", "{bad:?}");
        let failed = error(&["exec", "-o", "json", bad, "--", "true"]);
        assert_eq!(failed["kind"], "invalid_spec", "{bad:?}");
    }
    let failed = error(&["create", "-o", "json", "--ttl", "0"]);
    assert_eq!(failed["kind"], "invalid_spec");
    for arguments in [
        &["exec", "-o", "json", "no-such-sandbox", "--", "true"][..],
        &["logs", "-o", "json", "no-such-sandbox"],
        &["cp", "-o", "json", "no-such-sandbox:/tmp", "/nowhere"],
    ] {
        assert_eq!(
            error(arguments)["kind"],
            "sandbox_not_found",
            "{arguments:?}"
        );
    }
    let other_tier = error(&[
        "exec",
        "-o",
        "json",
        "-b",
        "local_unsafe",
        name,
        "--",
        "true",
    ]);
    assert_eq!(other_tier["kind"], "sandbox_not_found");
    assert!(
        other_tier["fix"].as_str().unwrap().contains("-b local"),
        "{other_tier}"
    );
    // Records of other tiers may wait for an engine that is not here.
    let (code, stdout, stderr) = run(&["rm", "-b", "local", "no-such-1"]);
    assert_eq!((code, stdout.as_str()), (Some(0), ""));
    assert!(stderr.contains("nothing to remove"), "{stderr}");
    for verb in ["stop", "kill"] {
        // One name exists, the others do not.
        let (code, stdout, stderr) = run(&[verb, "no-such-1", name, "no-such-2"]);
        assert_eq!((code, stdout), (Some(125), format!("{name}\n")), "{verb}");
        assert_eq!(stderr.lines().count(), 2, "{stderr}");
        assert!(!sandbox.folder().exists());
        let (code, _, stderr) = run(&[verb, name]);
        assert_eq!(code, Some(125));
        assert!(stderr.contains("no sandbox"), "{stderr}");
        let (code, document, _) = run(&[verb, "-o", "json", name]);
        let document: Value = serde_json::from_str(&document).unwrap();
        assert_eq!(code, Some(125));
        assert_eq!(
            document["sandboxes"][0]["error"]["kind"],
            "sandbox_not_found"
        );
        let created = run(&["create", "-q", "--ttl", "2m", "--name", name]);
        assert_eq!(
            (created.0, created.2.as_str()),
            (Some(0), ""),
            "the name is free"
        );
    }
}

pub fn create_without_name_generates_one() {
    let (code, document) = common::run_json(&["create", "--ttl", "2m"]);
    assert_eq!(code, Some(0));
    let name = document["name"].as_str().unwrap().to_owned();
    let sandbox = DetachedSandbox { name };
    assert_eq!(document["tier"], "local");
    assert!(document["enforcement"].as_array().unwrap().len() > 5);
    assert!(document["expires"].as_str().unwrap().ends_with('Z'));
    assert_eq!(sandbox.sh("echo ran"), "ran\n");
    let (code, _, stderr) = run(&[
        "create",
        "--name",
        &sandbox.name,
        "--policy",
        "/no/such/file",
    ]);
    assert_eq!(code, Some(125));
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
}

pub fn one_of_twenty_concurrent_creations_gets_the_name() {
    let sandbox = DetachedSandbox::name("wanted");
    let start = || {
        common::command(&[
            "create",
            "-o",
            "json",
            "--ttl",
            "2m",
            "--name",
            &sandbox.name,
        ])
        .spawn()
        .unwrap()
    };
    let children = (0..20).map(|_| start()).collect::<Vec<_>>();
    let mut won = 0;
    for child in children {
        let output = child.wait_with_output().unwrap();
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        match output.status.code() {
            Some(0) => won += 1,
            Some(125) => assert_eq!(document["error"]["kind"], "already_exists", "{document}"),
            code => panic!("{code:?} {document}"),
        }
    }
    assert_eq!(won, 1);
    assert_eq!(sandbox.sh("echo one"), "one\n");
    let supervisors = || processes_with(&sandbox.name).len();
    assert_eq!(supervisors(), 1);
    assert_eq!(run(&["kill", &sandbox.name]).0, Some(0));
    wait_until("no supervisor is left", Duration::from_secs(20), || {
        supervisors() == 0
    });
}

/// How long the sandbox of a killed creator may exist. Each check runs the command, which takes a
/// second on a busy machine.
const REMOVAL_LIMIT: Duration = Duration::from_secs(30);

/// A creator that is killed leaves a complete sandbox or none.
pub fn killed_creator_leaves_complete_sandbox_or_nothing() {
    let start = Instant::now();
    drop(DetachedSandbox::create("measured", &[]));
    let usual = start.elapsed();
    let moments = (0..36).map(|step| usual * step / 30);
    // One of these delays is long enough on any machine. They are for those where no other was.
    let late = (1..=6).map(|power| usual * 2_u32.pow(power));
    let mut whole = 0;
    for moment in moments.chain(late) {
        if whole > 0 && moment >= 2 * usual {
            break;
        }
        let sandbox = DetachedSandbox::name("creator");
        let mut child = common::command(&["create", "-q", "--ttl", "2m", "--name", &sandbox.name])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(moment);
        child.kill().unwrap();
        child.wait().unwrap();
        let start = Instant::now();
        loop {
            match sandbox.listed() {
                Some(listed) if listed["state"] == "running" => {
                    // The supervisor may be about to remove it, because its creator has ended.
                    let (code, stdout, stderr) = sandbox.exec(&["echo", "alive"]);
                    if code == Some(0) {
                        assert_eq!(stdout, "alive\n");
                        std::thread::sleep(Duration::from_millis(50));
                        if sandbox.listed().is_some() {
                            whole += 1;
                            break;
                        }
                    }
                    assert!(start.elapsed() < REMOVAL_LIMIT, "{code:?} {stderr}");
                }
                Some(listed) => panic!("{listed}"),
                None if !sandbox.folder().exists() && processes_with(&sandbox.name).is_empty() => {
                    break;
                }
                None => assert!(
                    start.elapsed() < REMOVAL_LIMIT,
                    "an incomplete sandbox is left"
                ),
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    assert!(whole > 0, "each creator was killed too early");
}
