//! The user of an execution.

use sandbox_core::{CapabilityPolicy, ErrorKind, ExecRequest, SandboxHandle};

use super::{ContractTest, TestBackend, TestResult, output, run};

pub const TESTS: &[ContractTest] = &[("user::only_the_own_user_may_be_named", own_only)];

/// The user and the group of the sandbox's code.
async fn own_user(sandbox: &SandboxHandle) -> sandbox_core::Result<(String, String)> {
    let printed = output(sandbox, "id -u; id -g").await?;
    let mut lines = printed.lines().map(str::to_owned);
    let mut next = || lines.next().expect("two lines");
    Ok((next(), next()))
}

/// Asserts that executions may name the sandbox's own user.
pub async fn assert_own_user_may_be_named(sandbox: &SandboxHandle) -> sandbox_core::Result<()> {
    let (user, group) = own_user(sandbox).await?;
    for named in [user.clone(), format!("{user}:{group}")] {
        let request = ExecRequest::shell("id -u; id -g").user(&named);
        let result = sandbox.exec(&request).await?;
        let expected = format!("{user}\n{group}\n");
        assert_eq!(result.check()?.stdout_text(), expected, "{named}");
    }
    Ok(())
}

/// Asserts that executions as these users are refused, and that nothing runs.
pub async fn assert_users_are_refused(
    sandbox: &SandboxHandle,
    users: &[&str],
) -> sandbox_core::Result<()> {
    for user in users {
        let request = ExecRequest::shell("echo ran; touch ran").user(*user);
        let error = sandbox.exec(&request).await.expect_err(user);
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.context().starts_with("user "), "{error}");
        assert!(error.fix().is_some(), "{error}");
    }
    let named = ExecRequest::new("true").user("nobody");
    let error = sandbox.exec(&named).await.expect_err("a name");
    assert_eq!(error.kind(), ErrorKind::InvalidRequest, "{error}");
    assert!(!sandbox.exists("ran").await?, "a refused program ran");
    Ok(())
}

/// Not root: the agent of a container or pod is its user 0, or has no other user to give.
fn own_only(backend: &'static dyn TestBackend) -> TestResult {
    run(async {
        let client = backend.client(CapabilityPolicy::new());
        let sandbox = client.create(&backend.spec()).await?;
        assert_own_user_may_be_named(&sandbox).await?;
        let (user, group) = own_user(&sandbox).await?;
        assert_ne!(user, "0");
        let other_group = format!("{user}:{}", group.parse::<u32>().expect("a number") + 1);
        let users = ["root", "0", "0:0", "12345", other_group.as_str()];
        assert_users_are_refused(&sandbox, &users).await?;
        sandbox.kill().await
    })
}
