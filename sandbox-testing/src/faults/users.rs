//! An engine that maps its containers' users to subordinate ones (`userns-remap`).

use sandbox_core::{Capability, ExecRequest};

use super::private_engine::{EngineSetup, PrivateEngine, run, spec};
use super::{EngineLauncher, FaultTest};
use crate::contract::TestResult;
use crate::users::is_root;

pub const TESTS: &[FaultTest] = &[("users::code_runs_as_a_subordinate_user", subordinate)];

/// Why there is no such engine; `None` where there is.
pub fn missing(launcher: &dyn EngineLauncher) -> Option<String> {
    if !is_root() {
        return Some("only root gives containers users of their own".into());
    }
    launcher
        .user_remap_arguments()
        .is_empty()
        .then(|| "this engine has no such option".into())
}

/// The first subordinate user.
const FIRST_USER: u32 = 300_000;

/// Adds the users in the engine's mount namespace, so that the host does not need them.
const USERS: &str = "for file in passwd group subuid subgid; do cp /etc/$file \"$1/$file\" 2>/dev/null || : > \"$1/$file\"; \
                     touch /etc/$file; done \
                     && echo 'sandboxremap:x:29999:29999::/:/bin/false' >> \"$1/passwd\" \
                     && echo 'sandboxremap:x:29999:' >> \"$1/group\" \
                     && echo 'sandboxremap:300000:65536' >> \"$1/subuid\" \
                     && echo 'sandboxremap:300000:65536' >> \"$1/subgid\" \
                     && for file in passwd group subuid subgid; do mount --bind \"$1/$file\" /etc/$file || exit; done";

fn subordinate(launcher: &'static dyn EngineLauncher) -> TestResult {
    run(async {
        let setup = EngineSetup {
            arguments: launcher.user_remap_arguments(),
            script: USERS.to_owned(),
        };
        let engine = PrivateEngine::start_with(launcher, setup).await;
        let sandbox = engine.client().create(&spec()).await?;
        let privileges = sandbox.enforcement().get(Capability::Privileges);
        let privileges = privileges.expect("an entry");
        let namespace = sandbox_core::Mechanism::UserNamespace;
        assert!(privileges.mechanisms().contains(&namespace), "{privileges}");
        // The user in the sandbox, and on the host.
        let run = |script: &str| ExecRequest::shell(script);
        let result = sandbox.exec(&run("id -u; cat /proc/self/uid_map")).await?;
        let words = result.stdout_text();
        let words = words.split_whitespace().collect::<Vec<_>>();
        assert_eq!(words[..2], ["1000", "0"], "{words:?}");
        assert_eq!(words[2], FIRST_USER.to_string(), "{words:?}");
        // Files belong to the code's user, as in other sandboxes.
        let written = run("echo fine > /workspace/own && stat -c %u /workspace/own");
        let written = sandbox.exec(&written).await?;
        assert_eq!(written.stdout_text(), "1000\n", "{written:?}");
        sandbox.kill().await?;
        assert_eq!(engine.containers(), []);
        Ok(())
    })
}
