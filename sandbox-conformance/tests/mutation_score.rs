//! Judges one mutant for `cargo xtask conformance --mutation-score`: the suite on the local tier, and
//! nothing else. `cargo test` runs it only by its name.

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

/// Namespaces of the whole run. A mutant that creates a sandbox without its own then changes the
/// mounts, routes and processes of this run instead of the host's.
const NAMESPACES: &str = "--mount --net --pid --fork --kill-child --mount-proc --uts --ipc";
/// Empty folders hide the files and sandboxes of other runs, which seem to have ended here and
/// would be removed. One area of probes runs first, because a mutant with which no sandbox works
/// fails every probe of the suite four times.
const PREPARE: &str = "ip link set lo up; mkdir -p /run/sandbox; \
    for folder in /tmp /var/tmp /dev/shm /run/sandbox; do mount -t tmpfs none $folder; done; \
    chmod 700 /run/sandbox; \"$@\" --filter open_files::; exec \"$@\"";
/// A changed verdict is noticed even if it is claimed. The self-checks test the suite, not mutants.
const SUITE: &str = "--tier local --require local --check --proven-elsewhere";

fn main() -> ExitCode {
    let error = Command::new("unshare")
        .args(NAMESPACES.split(' '))
        .args(["sh", "-ec", PREPARE, "sh"])
        .arg(env!("CARGO_BIN_EXE_sandbox-conformance"))
        .args(SUITE.split(' '))
        .args(["--matrix", "../sandbox-{backend}/matrix", "--reports"])
        .arg(concat!(env!("CARGO_TARGET_TMPDIR"), "/mutation-score"))
        .env_remove("TMPDIR")
        .exec();
    eprintln!("error: cannot run unshare: {error}");
    ExitCode::FAILURE
}
