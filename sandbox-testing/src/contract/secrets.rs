//! Secrets of executions.

use sandbox_core::{
    Capability, CapabilityPolicy, Enforcement, ErrorKind, ExecRequest, SandboxClient, SandboxSpec,
    spi::unique_name,
};

use super::{ContractTest, TestBackend, TestResult, output, run};

pub const TESTS: &[ContractTest] = &[(
    "secrets::a_secret_reaches_one_execution_alone",
    one_execution,
)];

fn one_execution(backend: &'static dyn TestBackend) -> TestResult {
    run(async {
        let policy = CapabilityPolicy::new().secret("TOKEN").secret("KEY");
        let client = backend.client(policy);
        assert_one_execution_gets_a_secret(&client, backend.spec()).await
    })
}

/// Asserts that an execution gets its secrets as a variable and as a file, and that neither another
/// execution nor anything that the library says of the sandbox has them.
///
/// The client's policy allows the secrets `TOKEN` and `KEY`.
pub async fn assert_one_execution_gets_a_secret(
    client: &SandboxClient,
    spec: SandboxSpec,
) -> sandbox_core::Result<()> {
    let canaries = [unique_name("canary-variable"), unique_name("canary-file")];
    let sandbox = client.create(&spec.secret("TOKEN").secret("KEY")).await?;
    let report = sandbox.enforcement().get(Capability::Secrets);
    assert!(report.is_some_and(Enforcement::is_enforced), "{report:?}");
    let script = "echo \"$TOKEN\"; cat \"$KEY_FILE\"; stat -c ' %a %F' \"$KEY_FILE\"; df -PT \"$KEY_FILE\" | tail -n 1 >&2; echo \"$KEY_FILE\"";
    let request = ExecRequest::shell(script)
        .secret("TOKEN", canaries[0].as_str())
        .secret_file("KEY", canaries[1].as_str())
        .log(false);
    let result = sandbox.exec(&request).await?;
    let text = result.check()?.stdout_text();
    let lines = text.lines().collect::<Vec<_>>();
    assert_eq!(lines[0], canaries[0]);
    assert_eq!(lines[1], format!("{} 400 regular file", canaries[1]));
    assert!(
        result.stderr_text().contains("tmpfs"),
        "{}",
        result.stderr_text()
    );
    let gone = format!("env; cat /proc/*/environ; ls {} && echo left", lines[2]);
    let others = output(&sandbox, &format!("({gone}) 2>&1; true")).await?;
    assert!(
        !others.contains("canary") && !others.contains("left"),
        "{others}"
    );
    let said = format!(
        "{sandbox:?} {:?} {:?} {request:?}",
        sandbox.plan(),
        sandbox.enforcement()
    );
    assert!(!said.contains("canary"), "{said}");
    let unnamed = ExecRequest::new("true").secret("OTHER", "canary");
    let error = sandbox
        .exec(&unnamed)
        .await
        .expect_err("it has no such secret");
    assert_eq!(error.kind(), ErrorKind::InvalidRequest, "{error}");
    assert!(!format!("{error} {error:?}").contains("canary"), "{error}");
    sandbox.kill().await
}
