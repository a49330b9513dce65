//! The creation of detached sandboxes: complete or not at all, and one for each name.

use super::*;
use crate::harness::{Test, test};

pub const TESTS: &[Test] = &[
    test!(async concurrent_creations_of_one_name_yield_one_sandbox),
    test!(async cancelled_detached_creation_leaves_nothing),
    test!(sync detached_sandbox_survives_its_killed_creator),
];

async fn concurrent_creations_of_one_name_yield_one_sandbox() {
    let state = state();
    let name = unique("wanted");
    let creations = (0..20).map(|_| {
        let (client, spec) = (client(state.path(), policy()), spec(&name));
        tokio::spawn(async move { client.create(&spec).await })
    });
    let mut won = Vec::new();
    for creation in creations.collect::<Vec<_>>() {
        match creation.await.expect("no panic") {
            Ok(sandbox) => won.push(sandbox),
            Err(error) => assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}"),
        }
    }
    assert_eq!(won.len(), 1);
    assert_eq!(left(state.path()), [name.as_str()]);
    assert!(won[0].exec(&sh("true")).await.expect("it runs").success());
    let parts = parts(state.path(), &name);
    won[0].kill().await.expect("ended");
    wait_until("nothing is left", Duration::from_secs(20), || {
        is_removed(state.path(), &name, &parts)
    });
}

async fn cancelled_detached_creation_leaves_nothing() {
    let state = state();
    let client = client(state.path(), policy());
    let prefix = unique("given-up");
    let mut kept = 0;
    for delay in [
        0, 200, 500, 1000, 2000, 3000, 4000, 5000, 7000, 10_000, 20_000, 40_000, 10_000_000,
    ] {
        // A canceled creation may still claim its name for a moment.
        let name = format!("{prefix}-{delay}");
        let spec = spec(&name);
        let creation = client.create(&spec);
        let created = tokio::time::timeout(Duration::from_micros(delay), creation).await;
        if let Ok(created) = created {
            created.expect("created").kill().await.expect("ended");
            kept += 1;
        }
        // A creation that is canceled after its record is written leaves a complete sandbox.
        for info in client.list().await.expect("a list") {
            // It may be removed at this moment.
            let _ = client.remove(&info.name).await;
        }
    }
    wait_until("nothing is left", Duration::from_secs(20), || {
        left(state.path()).is_empty()
            && processes::containing(&format!("keep\0{prefix}")).is_empty()
            && users_are_free(state.path())
    });
    assert!(kept > 0, "none was waited for long enough");
}

const OWNER: &str = "SANDBOX_TEST_DETACHED_OWNER";

/// A sandbox outlives its killed creator.
fn detached_sandbox_survives_its_killed_creator() {
    let test = "detached::creation::detached_sandbox_survives_its_killed_creator";
    if let Some(state) = std::env::var_os(OWNER) {
        return own(Path::new(&state));
    }
    let state = state();
    let mut owner = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", test, "--nocapture"])
        .env(OWNER, state.path())
        .stdout(Stdio::piped())
        .spawn()
        .expect("started");
    let output = BufReader::new(owner.stdout.take().expect("piped"));
    let ready = |line: String| line.contains("owner is ready");
    assert!(output.lines().map_while(Result::ok).any(ready));
    let parts = parts(state.path(), "owned");
    wait_until("its code runs", Duration::from_secs(10), || {
        !processes::containing("owned-marker").is_empty()
    });
    owner.kill().expect("SIGKILL");
    owner.wait().expect("ended");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let client = client(state.path(), policy());
        let sandbox = client.get("owned").await.expect("it still runs");
        let result = sandbox.exec(&sh("cat /tmp/kept || cat $TMPDIR/kept")).await;
        assert_eq!(result.expect("it runs").stdout_text(), "kept\n");
        // The execution ends with its client.
        wait_until("its execution has ended", Duration::from_secs(20), || {
            processes::containing("owned-marker").is_empty()
        });
        sandbox.kill().await.expect("ended");
    });
    wait_until("nothing is left", Duration::from_secs(20), || {
        is_removed(state.path(), "owned", &parts)
    });
}

fn own(state: &Path) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let sandbox = client(state, policy()).create(&spec("owned")).await;
        let sandbox = sandbox.expect("created");
        let script = format!("echo kept > {}/kept", sandbox.temporary_folder());
        assert!(sandbox.exec(&sh(&script)).await.expect("it runs").success());
        println!("owner is ready");
        lingering(&sandbox, "owned-marker").await;
    });
}
