//! Another OCI runtime than the engine's default: gVisor's.

use libtest_mimic::Failed;
use sandbox_core::CapabilityPolicy;

use crate::family::Backend;
use crate::suite::Test;
use crate::suite::engine::{api, client_of, config, output, reason, run, shell, spec};

/// The runtime's name in the engine's configuration.
const RUNSC: &str = "runsc";

/// What needs an engine that has the runtime.
pub const WITH_RUNSC: &[Test] = &[(
    "runtime::a_sandbox_runs_on_the_chosen_one_and_says_so",
    chosen,
)];

/// Why the tests of the runtime cannot run; `None` where they can. The engine answers.
pub fn missing() -> Option<String> {
    reason(async {
        match api().info().await {
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
        let backend = Backend::new(config().runtime(RUNSC));
        let client = client_of(backend, CapabilityPolicy::new());
        let sandbox = client.create(&spec()).await?;
        let report = sandbox.enforcement();
        let named = report
            .iter()
            .any(|(_, enforcement)| enforcement.to_string().contains(RUNSC));
        assert!(named, "no entry names the runtime: {report:?}");
        let kernel = output(&sandbox, "cat /proc/version").await?;
        let hosts = std::fs::read_to_string("/proc/version").expect("the host's kernel");
        assert_ne!(kernel, hosts, "the code's kernel is the host's");
        let result = shell(&sandbox, "echo to stderr >&2; exit 7").await?;
        assert_eq!(result.exit_code(), Some(7), "{result:?}");
        assert_eq!(result.stderr_text(), "to stderr\n");
        sandbox.kill().await
    })
}
