//! Packages that a policy names.

use std::path::Path;

use sandbox_core::{ErrorKind, OneShot, SandboxClient, SandboxSpec};
use sandbox_lang::{CodeRequest, RunCodeOnce as _, SessionRequest, Sessions as _};
use tokio::sync::OnceCell;

use crate::context::ProbeContext;
use crate::pool::ProbeSandbox;
use crate::probes::prelude::*;
use crate::wheel;

mod live;
mod poison;
mod registries;

use poison::WriteAccess;

/// The probes of this area.
pub static PROBES: &[Probe] = &[
    Probe::behavior(
        "packages::changed_on_host",
        PACKAGES,
        "changes an installed package on the host, which another sandbox then imports",
        |context| Box::pin(poison::changed_on_host(context)),
    )
    .setup(with_package),
    Probe::behavior(
        "packages::forged",
        PACKAGES,
        "renames the folder above the installed packages, and forges a package that another \
         sandbox imports",
        |context| Box::pin(poison::forged(context, false, WriteAccess::WriteRoot)),
    )
    .version(2)
    .setup(with_package),
    Probe::behavior(
        "packages::forged_before",
        PACKAGES,
        "forges a package before the package cache exists, which another sandbox then imports",
        |context| Box::pin(poison::forged(context, true, WriteAccess::WriteRoot)),
    )
    .version(2)
    .setup(with_package),
    Probe::behavior(
        "packages::forged_in_workspace",
        PACKAGES,
        "forges a package from a sandbox whose workspace contains the installed packages, which \
         another sandbox then imports",
        |context| Box::pin(poison::forged(context, false, WriteAccess::Workspace)),
    )
    .setup(with_package),
    Probe::behavior(
        "packages::hashes",
        PACKAGES,
        "requests a package with a hash that its file does not have",
        |context| Box::pin(registries::hashes(context)),
    )
    .setup(with_package),
    Probe::behavior(
        "packages::installed",
        PACKAGES,
        "imports a package that the policy names: in a program, in a session from its start, and in \
         code that names it as its library",
        |context| Box::pin(installed(context)),
    )
    .version(2)
    .setup(with_package),
    Probe::behavior(
        "packages::live",
        PACKAGES,
        "installs a package into a running sandbox, and imports it in a session that began before, in \
         new code and in another program",
        |context| Box::pin(live::run(context)),
    )
    .setup(live::allowing),
    Probe::behavior(
        "packages::missing",
        PACKAGES,
        "requests a package that does not exist, and expects a typed error, and the same one at \
         once if it is requested again",
        |context| Box::pin(missing(context)),
    )
    .version(2)
    .setup(with_package),
    // An installation may use the network. Code that runs afterwards may not.
    Probe::isolation(
        "packages::no_registry",
        PACKAGE_INSTALLATION,
        "connects to a listener of the host from a sandbox for which packages were installed",
        signs::UNREACHABLE,
        |context| Box::pin(no_registry(context)),
    )
    .version(2)
    .setup(requiring),
    // A build backend is code of the package, and an installation may use the network.
    Probe::behavior(
        "packages::only_source",
        PACKAGES,
        "requests a package whose installation runs code of it, and expects a typed error",
        |context| Box::pin(only_source(context)),
    )
    .version(2)
    .setup(with_package),
    Probe::behavior(
        "packages::other_registry",
        PACKAGES,
        "imports a package after the host's installer found another one of its name and version, in \
         another folder and in the same one",
        |context| Box::pin(registries::other(context)),
    )
    .setup(with_package),
    Probe::behavior(
        "packages::read_only",
        PACKAGES,
        "overwrites a module of a package that the policy names",
        |context| Box::pin(read_only(context)),
    )
    .setup(with_package),
];

/// A sandbox with the suite's own package.
fn with_package(_: &HostFixture) -> SandboxSetup {
    SandboxSetup::with(|policy| policy.packages = vec![wheel::NAME.replace('_', "-")])
}

/// The host's pip, which needs no package of the host.
fn pip(command: &str) -> tokio::process::Command {
    let mut pip = tokio::process::Command::new("/usr/bin/python3");
    pip.args(["-m", "pip", command, "--quiet", "--no-deps"]);
    pip.args(["--disable-pip-version-check", "--no-cache-dir"]);
    pip.env("PIP_CONFIG_FILE", "/dev/null");
    pip.env("PIP_FIND_LINKS", crate::host_fixture::wheels());
    pip
}

/// Host control: the host's pip finds the package. It takes a second of processor time, and says
/// the same for the whole run.
async fn pip_finds_it(context: &mut ProbeContext) {
    static FAILURE: OnceCell<Option<String>> = OnceCell::const_new();
    let failure = FAILURE.get_or_init(search).await.clone();
    context.record_host_control(control("the host's pip looks for the package", failure));
}

/// Why the host's pip does not find the package.
async fn search() -> Option<String> {
    let found = pip("download")
        .args(["--dest", "/dev/null", wheel::NAME])
        .output()
        .await;
    let error = match found {
        Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
        Err(error) => return Some(error.to_string()),
    };
    if error.contains("No module named pip") {
        return Some("the host's Python has no pip".to_owned());
    }
    // Other errors are expected: pip finds the package and cannot write it to /dev/null.
    error.contains("No matching").then_some(error)
}

async fn installed(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let _cache = crate::host_fixture::with_packages().await;
    pip_finds_it(context).await;
    context.allow_control(&Call::new(["alive"])).await;
    let code = format!("import {0}; print({0}.token)", wheel::NAME);
    let wanted = format!("{}\n", crate::host_fixture::package_token());
    let deviation = context
        .with_sandbox(async |sandbox| {
            let request = sandbox_core::ExecRequest::new("python3").args(["-c", &code]);
            match sandbox.handle().exec(&request).await {
                Ok(result) if result.stdout_text() == wanted => in_session(sandbox, &code).await,
                Ok(result) => Some(format!("{}: {}", result.outcome, result.stderr_text())),
                Err(error) => Some(error.to_string()),
            }
        })
        .await;
    let deviation = match deviation {
        Ok(None) => match context.client_and_spec().await {
            Ok((client, spec)) => Ok(as_library(&client, spec, &code, &wanted).await),
            Err(declined) => Err(declined),
        },
        other => other,
    };
    context.record_attack(behavior("import the package", deviation));
    context.no_host_effect("an import does not affect the host");
    Ok(())
}

/// Imports the package in a session that has imported it before its first cell.
async fn in_session(sandbox: &ProbeSandbox, code: &str) -> Option<String> {
    let request = SessionRequest::new("python").preload([wheel::NAME]);
    let imported = async {
        let session = sandbox.handle().session(request).await?;
        let loaded = format!("import sys; print('{}' in sys.modules)", wheel::NAME);
        let cell = session.run(format!("{loaded}\n{code}")).await;
        session.close().await?;
        cell.map(|cell| cell.stdout.text())
    };
    let imported: sandbox_core::Result<String> = imported.await;
    match imported {
        Ok(text) if text == format!("True\n{}\n", crate::host_fixture::package_token()) => None,
        other => Some(format!("in a session: {other:?}")),
    }
}

/// Runs code in a sandbox of its own. The request names the package, and the specification none.
async fn as_library(
    client: &SandboxClient,
    spec: SandboxSpec,
    code: &str,
    wanted: &str,
) -> Option<String> {
    let deadline = fits_until();
    let ended = loop {
        let request = CodeRequest::new("python", code).library(wheel::NAME);
        let ended = client.run_code(request, OneShot::new(spec.clone())).await;
        if !fits_later(&ended, deadline).await {
            break ended;
        }
    };
    match ended {
        Ok(ended)
            if ended
                .code
                .ran()
                .is_some_and(|ran| ran.stdout_text() == wanted) =>
        {
            None
        }
        other => Some(format!("as a library: {other:?}")),
    }
}

async fn missing(context: &mut ProbeContext) -> Result<(), ProbeError> {
    pip_finds_it(context).await;
    let _cache = crate::host_fixture::with_packages().await;
    context.allow_control(&Call::new(["alive"])).await;
    let deviation = match context.client_and_spec().await {
        Err(declined) => Err(declined),
        Ok((client, spec)) => {
            let mut policy = client.policy().clone();
            policy.packages = vec![context.token().to_owned()];
            missing_twice(&context.client_under(policy)?, &spec).await
        }
    };
    context.record_attack(behavior("request a missing package twice", deviation));
    context.no_host_effect("nothing is created");
    Ok(())
}

/// Requests a package that does not exist. The second failure is told to be the first one.
async fn missing_twice(
    client: &SandboxClient,
    spec: &SandboxSpec,
) -> Result<Option<String>, Attempt> {
    for is_remembered in [false, true] {
        let deadline = fits_until();
        let created = loop {
            if !is_remembered {
                client.clear_failed_packages();
            }
            let created = client.create(spec).await;
            if !fits_later(&created, deadline).await {
                break created;
            }
        };
        match created {
            Err(error)
                if error.kind() == ErrorKind::PackageNotFound
                    && error.to_string().contains("not tried again") == is_remembered => {}
            Err(error) => return Ok(Some(error.to_string())),
            Ok(sandbox) => {
                let killed = sandbox.kill().await;
                killed.map_err(|error| Attempt::unclear(error.to_string()))?;
                return Ok(Some("a sandbox with it".to_owned()));
            }
        }
    }
    Ok(None)
}

async fn only_source(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let output = pip("wheel")
        .arg("--wheel-dir")
        .args([&*context.outside()?, Path::new(wheel::SOURCE)])
        .output()
        .await;
    let failure = match output {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(String::from_utf8_lossy(&output.stderr).into_owned()),
        Err(error) => Some(error.to_string()),
    };
    context.record_host_control(control("the host's pip builds the package", failure));
    let package = wheel::SOURCE.replace('_', "-");
    refused(context, package.clone(), ErrorKind::PackageNeedsBuild).await?;
    if context.attack_is_blocked() {
        // With a hash, pip is called in another way.
        let source = crate::host_fixture::package_source();
        let sum = tokio::process::Command::new("sha256sum")
            .arg(source)
            .output()
            .await?;
        let sum = String::from_utf8_lossy(&sum.stdout).into_owned();
        let hash = sum.split_whitespace().next().unwrap_or_default();
        let package = format!("{package}==1.0#sha256:{hash}");
        refused(context, package, ErrorKind::PackageNeedsBuild).await?;
    }
    Ok(())
}

/// Creates a sandbox with this package, and expects an error of this kind.
async fn refused(
    context: &mut ProbeContext,
    package: String,
    kind: ErrorKind,
) -> Result<(), ProbeError> {
    let _cache = crate::host_fixture::with_packages().await;
    context.allow_control(&Call::new(["alive"])).await;
    let action = format!("request {package}");
    let deviation = match context.with_sandbox(async |_| ()).await {
        Err(declined) => Err(declined),
        Ok(()) => match context
            .create(|policy| policy.packages = vec![package])
            .await
        {
            Err(error) if error.kind() == kind => Ok(None),
            Err(error) => Ok(Some(error.to_string())),
            Ok(()) => Ok(Some("a sandbox with the package".to_owned())),
        },
    };
    context.record_attack(behavior(&action, deviation));
    context.no_host_effect("nothing is created");
    Ok(())
}

/// No policy names the isolation of an installation, so only `require_all` demands it.
fn requiring(fixture: &HostFixture) -> SandboxSetup {
    let mut setup = with_package(fixture);
    setup.policy.require_all = true;
    setup
}

async fn no_registry(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let _cache = crate::host_fixture::with_packages().await;
    let listener = Listener::tcp4().await?;
    let call = listener.call("tcp", context.token());
    let permitted = Call::new(["tcp-loopback"]);
    reach_address(context, &listener, call, permitted).await
}

async fn read_only(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let _cache = crate::host_fixture::with_packages().await;
    pip_finds_it(context).await;
    let own = context.inside("own");
    context.allow_control(&Call::new(["create", &own])).await;
    let code = format!("import {0}; print({0}.__file__, end='')", wheel::NAME);
    let deviation = context
        .with_sandbox(async |sandbox| {
            let request = sandbox_core::ExecRequest::new("python3").args(["-c", &code]);
            let path = match sandbox.handle().exec(&request).await {
                Ok(result) if result.success() => result.stdout_text(),
                Ok(result) => return Some(format!("{}: {}", result.outcome, result.stderr_text())),
                Err(error) => return Some(error.to_string()),
            };
            let write = Call::new(["write", &path, "token = 'changed'"]);
            match sandbox.run(&write).await.map(|run| run.attempt(None)) {
                Ok(Attempt::Blocked { .. }) => None,
                other => Some(format!("{path}: {other:?}")),
            }
        })
        .await;
    context.record_attack(behavior("overwrite a module", deviation));
    context.no_host_effect("the attack itself reads the module again");
    Ok(())
}
