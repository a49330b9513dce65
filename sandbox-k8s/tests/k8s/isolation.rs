//! The identity and privileges of code.

use crate::cluster::{output, run, sandbox};
use crate::{ClusterTest, TestResult};

pub const TESTS: &[ClusterTest] = &[(
    "isolation::code_has_its_own_user_and_no_privileges",
    identity,
)];

fn identity() -> TestResult {
    run(async {
        let sandbox = sandbox("identity").await;
        let text = output(
            &sandbox,
            "id -u; grep -E 'Cap(Eff|Bnd)|NoNewPrivs|Seccomp:' /proc/self/status; ls -A /var/run/secrets; touch /x; touch /tmp/y && echo written",
        )
        .await;
        let user: u32 = text.lines().next().unwrap_or_default().parse()?;
        assert!(user > 100_000, "{text}");
        for expected in [
            "CapEff:\t0000000000000000",
            "CapBnd:\t0000000000000000",
            "NoNewPrivs:\t1",
            "Seccomp:\t2",
            "written",
        ] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
        assert!(text.contains("Read-only file system"), "{text}");
        sandbox.kill().await?;
        Ok(())
    })
}
