//! Packages that are installed while a sandbox runs.

use sandbox_core::{Error, ErrorKind, ExecRequest, SandboxClient, SandboxSpec};
use sandbox_lang::{
    CodeRequest, LiveSandbox, RunCode as _, Session, SessionRequest, Sessions as _,
};

use crate::host_fixture;
use crate::probes::prelude::*;
use crate::probes::sessions::value;
use crate::wheel;

/// A setup in which a sandbox may install any package.
pub(super) fn allowing(_: &HostFixture) -> SandboxSetup {
    SandboxSetup::with(|policy| policy.package_installation = Some(true))
}

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let _cache = host_fixture::with_packages().await;
    let is_cluster = context.is_cluster();
    let mut none = sandbox_core::CapabilityPolicy::new();
    none.package_installation = Some(false);
    let none = context.client_under(none)?;
    let action = "install packages into a running sandbox";
    client_feature(context, action, async |client, spec| {
        let kind = |error: &Error| error.kind();
        let refused = LiveSandbox::create(&none, &spec).await.err();
        match live(&client, &spec).await {
            // Packages of pods are named when the pod is created.
            Err(error) if is_cluster && error.kind() == ErrorKind::Unsupported => Ok(None),
            Ok(None) if refused.as_ref().map(kind) != Some(ErrorKind::PolicyExceeded) => {
                Ok(Some(format!("without packages: {refused:?}")))
            }
            found => found,
        }
    })
    .await
}

async fn live(client: &SandboxClient, spec: &SandboxSpec) -> Deviation {
    let deadline = fits_until();
    let sandbox = loop {
        let created = LiveSandbox::create(client, spec).await;
        if !fits_later(&created, deadline).await {
            break created?;
        }
    };
    let session = sandbox.session(SessionRequest::new("python")).await?;
    let found = installed(&sandbox, &session).await;
    session.close().await?;
    sandbox.kill().await?;
    found
}

/// The running session, new code and other programs find the package, and cannot write to it.
async fn installed(sandbox: &LiveSandbox, session: &Session) -> Deviation {
    let name = wheel::NAME;
    let before = session.run(format!("kept = 1\nimport {name}")).await?;
    let variables = sandbox.install_in(session, [name]).await?;
    let code = format!("import {name}\n({name}.token, kept)");
    let found = value(session, &code).await?;
    let code = format!("import {name}\nprint({name}.token, end='')");
    let ran = sandbox
        .run_code(CodeRequest::new("python", code.as_str()))
        .await?;
    let mut request = ExecRequest::new("python3").args(["-c", &code]);
    request.env.extend(variables);
    let other = sandbox.exec(&request).await?;
    let written = session.run(format!("open({name}.__file__, 'a')")).await?;
    let mut kinds = Vec::new();
    for package in ["../x", "apt:x", &format!("{name}==2.0")] {
        kinds.push(
            sandbox
                .install([package])
                .await
                .err()
                .map(|error| error.kind()),
        );
    }
    let later = value(session, &format!("({name}.token, kept)")).await?;
    let token = host_fixture::package_token();
    let wanted = format!("('{token}', 1)");
    let invalid = Some(ErrorKind::InvalidRequest);
    let is_right = before
        .error()
        .is_some_and(|error| error.name == "ModuleNotFoundError")
        && [&found, &later] == [&wanted; 2]
        && ran.ran().is_some_and(|ran| ran.stdout_text() == token)
        && other.stdout_text() == token
        && written.error().is_some_and(|error| {
            // A read-only mount, or Landlock.
            ["OSError", "PermissionError"].contains(&error.name.as_str())
        })
        && kinds == [invalid, Some(ErrorKind::LibrariesNotSupported), invalid];
    Ok((!is_right).then(|| {
        format!(
            "before: {before:?}, found: {found}, {later}, {ran:?}, {other:?}, written: {written:?}, \
             refused: {kinds:?}"
        )
    }))
}
