//! Pools of sessions, each in a sandbox of its own.

use std::time::Duration;

use sandbox_core::{
    ErrorKind, ExecRequest, Exhausted, PoolSettings, SandboxClient, SandboxPool, SandboxSpec,
};
use sandbox_lang::{CellOutcome, PooledSession, SessionPool, SessionRequest};
use tokio::time::timeout;

use super::{LONG, completes, value};

fn pool(client: &SandboxClient, spec: &SandboxSpec, settings: PoolSettings) -> SessionPool {
    let request = SessionRequest::new("python").preload(["json"]);
    SessionPool::new(client, spec, &request, settings).expect("valid settings")
}

async fn claim(pool: &SessionPool) -> PooledSession {
    let claimed = timeout(2 * LONG, pool.claim()).await;
    claimed.expect("it is not slow").expect("one is there")
}

/// No claim sees what an earlier one left: files, variables and processes.
pub async fn claims_see_nothing_of_each_other(client: &SandboxClient, spec: &SandboxSpec) {
    let pool = pool(client, spec, PoolSettings::new(1).most(2));
    pool.filled().await.expect("one starts");
    assert_eq!(pool.status().ready, 1);
    let first = claim(&pool).await;
    let leave = "import json, os, subprocess\nmine = 1\nos.environ['MINE'] = '1'\n\
                 file = os.environ.get('TMPDIR', '/tmp') + '/mine'\nopen(file, 'w').close()\n\
                 process = subprocess.Popen(['sleep', '4242'])";
    completes(first.session(), leave).await;
    let see = "import glob, os\nfile = os.environ.get('TMPDIR', '/tmp') + '/mine'\n\
               ('mine' in globals(), 'MINE' in os.environ, os.path.exists(file), \
               any(b'4242' in open(name, 'rb').read() for name in glob.glob('/proc/[0-9]*/cmdline')))";
    // Without namespaces, /proc is hidden from code.
    let shown = value(
        first.session(),
        "bool(__import__('glob').glob('/proc/[0-9]*'))",
    )
    .await;
    let expected = format!("(True, True, True, {shown})");
    assert_eq!(value(first.session(), see).await, expected, "the control");
    let second = claim(&pool).await;
    let nothing = "(False, False, False, False)";
    assert_eq!(value(second.session(), see).await, nothing, "side by side");
    let error = pool.claim().await.expect_err("there are two");
    assert_eq!(error.kind(), ErrorKind::PoolExhausted, "{error}");
    first.end().await.expect("it is removed");
    let third = claim(&pool).await;
    assert_eq!(
        value(third.session(), see).await,
        nothing,
        "after the first"
    );
    second.end().await.expect("it is removed");
    third.end().await.expect("it is removed");
    // The next one starts already.
    pool.close().await.expect("all are removed");
    let left = client.list().await.expect("the backend works");
    let left: Vec<_> = left
        .iter()
        .filter(|info| info.name.starts_with(&spec.name))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

/// A sandbox that ended while it waited is not handed over.
pub async fn ended_sandbox_is_not_handed_over(client: &SandboxClient, spec: &SandboxSpec) {
    let pool = pool(client, spec, PoolSettings::new(1));
    pool.filled().await.expect("one starts");
    let own = client.list().await.expect("the backend works");
    let mut own = own.iter().filter(|info| info.name.starts_with(&spec.name));
    let name = &own.next().expect("the one that waits").name;
    let ready = client.get(name).await.expect("it is the client's own");
    ready.kill().await.expect("it ends");
    let claimed = claim(&pool).await;
    let cell = completes(claimed.session(), "'alive'").await;
    assert_eq!(cell.lost_before, None, "{cell:?}");
}

/// A claimed session ends at its lifetime, and a temporary one does not count.
pub async fn lifetime_ends_a_claim(client: &SandboxClient, spec: &SandboxSpec) {
    let settings = PoolSettings::new(1)
        .most(1)
        .lifetime(Duration::from_secs(3))
        .exhausted(Exhausted::Temporary);
    let pool = pool(client, spec, settings);
    let counted = claim(&pool).await;
    let temporary = claim(&pool).await;
    assert!(!counted.is_temporary() && temporary.is_temporary());
    for claimed in [&counted, &temporary] {
        let endless = claimed.session().run("import time\ntime.sleep(600)");
        let ended = timeout(LONG, endless).await.expect("it ends before");
        let completed = ended.is_ok_and(|cell| cell.outcome == CellOutcome::Completed);
        assert!(!completed, "the sandbox should have ended");
    }
}

/// A claim of a sandbox without a session: it is new, it works, and it ends with the claim.
pub async fn claimed_sandbox_is_new_and_ends_with_its_claim(
    client: &SandboxClient,
    spec: &SandboxSpec,
) {
    let pool = SandboxPool::new(client, spec, PoolSettings::new(1).most(2)).expect("valid");
    let mut names = Vec::new();
    for _ in 0..3 {
        pool.filled().await.expect("one is created");
        let claimed = timeout(LONG, pool.claim()).await.expect("it is not slow");
        let claimed = claimed.expect("one waits");
        let sandbox = claimed.sandbox();
        assert!(!names.contains(&sandbox.name().to_owned()), "{names:?}");
        names.push(sandbox.name().to_owned());
        let file = format!("{}/mine", sandbox.temporary_folder());
        assert!(!sandbox.exists(&file).await.expect("it answers"), "{file}");
        let leave = ExecRequest::shell(format!("echo left > {file}; sleep 4242 &"));
        let left = sandbox.exec(&leave).await.expect("it runs");
        left.check().expect("it succeeds");
        // The second one is dropped, the others end.
        if names.len() != 2 {
            claimed.end().await.expect("it is removed");
        }
    }
    pool.close().await.expect("all are removed");
    client.settle().await;
    let left = client.list().await.expect("the backend works");
    let left: Vec<_> = left
        .iter()
        .filter(|info| info.name.starts_with(&spec.name))
        .collect();
    assert!(left.is_empty(), "{left:?}");
    let detached = SandboxPool::new(client, &spec.clone().detached(true), PoolSettings::new(1));
    let error = detached.expect_err("it would outlive the pool");
    assert_eq!(error.kind(), ErrorKind::InvalidSpec, "{error}");
}
