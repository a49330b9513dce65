//! Another OCI runtime than the engine's default: gVisor's.

use libtest_mimic::Failed;
use sandbox_core::{CapabilityPolicy, ErrorKind};
use sandbox_docker::DockerBackend;

use crate::Test;
use crate::engine::{client_of, config, docker, output, run, shell, spec};

/// The runtime's name in the engine's configuration.
const RUNSC: &str = "runsc";

/// What needs an engine that has the runtime.
pub const WITH_RUNSC: &[Test] = &[(
    "runtime::a_sandbox_runs_on_the_chosen_one_and_says_so",
    chosen,
)];

/// What needs an engine.
pub const TESTS: &[Test] = &[(
    "runtime::one_that_the_engine_lacks_is_refused_with_the_fix",
    unknown,
)];

/// Why the tests of the runtime cannot run; `None` where they can. The engine answers.
pub fn missing() -> Option<String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return Some(error.to_string()),
    };
    runtime.block_on(async {
        match docker().info().await {
            Ok(info) => {
                let known = info.runtimes.unwrap_or_default().contains_key(RUNSC);
                let fix = "cargo xtask engines up docker --with-runsc";
                (!known).then(|| format!("the engine has no runtime {RUNSC}; fix: {fix}"))
            }
            Err(error) => Some(error.to_string()),
        }
    })
}

fn chosen() -> Result<(), Failed> {
    run(async {
        let backend = DockerBackend::new(config().runtime(RUNSC));
        let client = client_of(backend, CapabilityPolicy::new());
        let sandbox = client.create(&spec()).await?;
        let report = sandbox.enforcement();
        let named = report
            .iter()
            .any(|(_, enforcement)| enforcement.to_string().contains(RUNSC));
        assert!(named, "no entry names the runtime: {report:?}");
        // Its kernel's log is its own, whoever the host is.
        let log = output(&sandbox, "dmesg").await?;
        assert!(log.contains("gVisor"), "{log}");
        let result = shell(&sandbox, "echo to stderr >&2; exit 7").await?;
        assert_eq!(result.exit_code(), Some(7), "{result:?}");
        assert_eq!(result.stderr_text(), "to stderr\n");
        sandbox.kill().await
    })
}

fn unknown() -> Result<(), Failed> {
    run(async {
        let backend = DockerBackend::new(config().runtime("no-such-runtime"));
        let client = client_of(backend, CapabilityPolicy::new());
        let error = client.create(&spec()).await.expect_err("no such runtime");
        assert_eq!(error.kind(), ErrorKind::SandboxUnavailable, "{error}");
        let text = error.to_string();
        assert!(text.contains("no-such-runtime"), "{text}");
        Ok(())
    })
}
