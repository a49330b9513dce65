//! Several clients of one real agent.

mod common;

use std::time::Duration;

use common::{Kept, Listening, run, shell, wait_until};
use sandbox_core::spi::Instance;
use sandbox_core::{ErrorKind, Outcome};
use sandbox_host::Key;

#[tokio::test]
async fn a_later_client_goes_on_where_the_first_has_left() {
    let (sandbox, first) = Listening::detached().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file").to_str().unwrap().to_owned();
    let (end, _) = run(&first, &shell(&format!("echo kept >{file}")), None).await;
    assert!(end.outcome.ok(), "{end:?}");
    drop(first);
    let second = sandbox.attach().await;
    let (end, kept) = run(&second, &shell(&format!("cat {file}; exit 4")), None).await;
    assert_eq!(end.outcome, Outcome::Exited { code: 4 });
    assert_eq!(kept.stdout, b"kept\n");
    assert_eq!(sandbox.process.destroyed(), 0);
    second.kill().await.unwrap();
    wait_until("the agent ends", || sandbox.process.ended().is_some()).await;
}

#[tokio::test]
async fn a_wrong_key_is_refused_and_harms_nobody() {
    let (sandbox, first) = Listening::detached().await;
    let error = sandbox
        .attach_with(&Key::new([1; 32]))
        .await
        .map(drop)
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidRequest, "{error}");
    assert!(error.to_string().contains("wrong key"), "{error}");
    let (end, _) = run(&first, &shell("true"), None).await;
    assert!(end.outcome.ok());
    assert_eq!(sandbox.process.destroyed(), 0);
}

#[tokio::test]
async fn stop_ends_the_sandbox_for_all_clients() {
    let (sandbox, first) = Listening::detached().await;
    let second = sandbox.attach().await;
    let third = sandbox.stream().await;
    let request = shell("trap 'echo bye; exit 3' TERM; echo ready; while :; do sleep 0.05; done");
    let mut kept = Kept::default();
    let program = first.exec(&request, None.into(), &mut kept);
    let stop = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        second.stop(Duration::from_secs(2)).await
    };
    let (end, stopped) = tokio::join!(program, stop);
    stopped.unwrap();
    assert_eq!(end.unwrap().outcome, Outcome::Exited { code: 3 });
    assert_eq!(String::from_utf8_lossy(&kept.stdout), "ready\nbye\n");
    for instance in [&first, &second] {
        let error = instance
            .exec(&shell("true"), None.into(), &mut Kept::default())
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::SandboxEnded);
        instance.stop(Duration::from_secs(1)).await.unwrap();
    }
    let late = sandbox.attach_over(third, &sandbox.key).await.map(drop);
    assert_eq!(late.unwrap_err().kind(), ErrorKind::SandboxEnded);
}
