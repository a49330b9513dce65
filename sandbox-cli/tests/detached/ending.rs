//! The end of a detached sandbox: its lifetime, its supervisor, `rm` and `prune`.

use std::path::Path;
use std::time::Duration;

use sandbox_testing::processes::{self, Signal};
use serde_json::Value;

use crate::common::wait_until;
use crate::sandbox::{DetachedSandbox, error, run};

pub fn sandbox_ends_after_its_lifetime() {
    let sandbox = DetachedSandbox::name("timed");
    let (code, _, stderr) = run(&["create", "--name", &sandbox.name, "--ttl", "3s"]);
    assert_eq!(code, Some(0));
    assert!(stderr.starts_with("sandbox: local: enforced "), "{stderr}");
    let record = sandbox.record();
    let (supervisor, agent) = (
        sandbox.supervisor(),
        record["parts"]["agent"]["pid"].as_u64().unwrap(),
    );
    let (code, _, stderr) = sandbox.exec(&["sleep", "60"]);
    assert_eq!(code, Some(125));
    assert!(stderr.contains("lifetime of 3s is over"), "{stderr}");
    wait_until("nothing is left", Duration::from_secs(20), || {
        let groups = record["parts"]["groups"].as_array().unwrap().iter();
        !sandbox.folder().exists()
            && !Path::new(&format!("/proc/{supervisor}")).exists()
            && !Path::new(&format!("/proc/{agent}")).exists()
            && groups
                .map(|group| group.as_str().unwrap())
                .all(|group| !Path::new(group).exists())
    });
}

pub fn sandbox_ends_when_its_supervisor_is_killed() {
    for verb in ["rm", "prune"] {
        let sandbox = DetachedSandbox::create("killed", &[]);
        let living = DetachedSandbox::create("living", &[]);
        processes::send(sandbox.supervisor(), Signal::Kill);
        wait_until("it has ended", Duration::from_secs(20), || {
            sandbox
                .listed()
                .is_some_and(|listed| listed["state"] == "ended")
        });
        for arguments in [
            &["exec", "-o", "json", &sandbox.name, "--", "true"][..],
            &["logs", "-o", "json", &sandbox.name],
        ] {
            let failed = error(arguments);
            assert_eq!(failed["kind"], "sandbox_ended");
            assert!(
                failed["fix"].as_str().unwrap().contains("sandbox rm"),
                "{failed}"
            );
        }
        let (code, _, stderr) = run(&["stop", &sandbox.name]);
        assert_eq!(code, Some(125), "{stderr}");
        let (code, stdout, stderr) = match verb {
            "rm" => run(&["rm", &sandbox.name]),
            _ => run(&["prune", "-b", "local"]),
        };
        assert_eq!((code, stderr.as_str()), (Some(0), ""));
        assert!(stdout.lines().any(|line| line == sandbox.name), "{stdout}");
        assert!(!sandbox.folder().exists());
        assert_eq!(living.sh("echo alive"), "alive\n");
    }
    let (code, stdout, _) = run(&["prune", "-o", "json"]);
    assert_eq!(code, Some(0));
    let document: Value = serde_json::from_str(&stdout).unwrap();
    assert!(document["sandboxes"].is_array());
}
