//! An engine that gives its containers users of their own (`userns-remap`).

use libtest_mimic::Failed;
use sandbox_core::{Capability, ExecRequest};

use super::Test;
use super::engine::{Engine, Setup, is_root, run, spec};
use crate::family;

pub const TESTS: &[Test] = &[("users::code_has_the_engines_subordinate_ones", subordinate)];

/// Why there is no such engine here; `None` where there is.
pub fn missing() -> Option<String> {
    if !is_root() {
        return Some("only root gives containers users of their own".into());
    }
    family::REMAP
        .is_empty()
        .then(|| "this engine has no such option".into())
}

/// The first of the users.
const FIRST: u32 = 300_000;

/// Users that this machine need not have: in the engine's own mounts alone.
const USERS: &str = "for file in passwd group subuid subgid; do cp /etc/$file \"$1/$file\" 2>/dev/null || : > \"$1/$file\"; \
                     touch /etc/$file; done \
                     && echo 'sandboxremap:x:29999:29999::/:/bin/false' >> \"$1/passwd\" \
                     && echo 'sandboxremap:x:29999:' >> \"$1/group\" \
                     && echo 'sandboxremap:300000:65536' >> \"$1/subuid\" \
                     && echo 'sandboxremap:300000:65536' >> \"$1/subgid\" \
                     && for file in passwd group subuid subgid; do mount --bind \"$1/$file\" /etc/$file || exit; done";

fn subordinate() -> Result<(), Failed> {
    run(async {
        let setup = Setup {
            arguments: family::REMAP,
            script: USERS.to_owned(),
        };
        let engine = Engine::start_with(setup).await;
        let sandbox = engine.client().create(&spec()).await?;
        let privileges = sandbox.enforcement().get(Capability::Privileges);
        let privileges = privileges.expect("an entry").to_string();
        assert!(privileges.contains("user namespace"), "{privileges}");
        // Who it is inside, and who that is on the host.
        let run = |script: &str| ExecRequest::shell(script);
        let said = sandbox.exec(&run("id -u; cat /proc/self/uid_map")).await?;
        let words = said.stdout_text();
        let words = words.split_whitespace().collect::<Vec<_>>();
        assert_eq!(words[..2], ["1000", "0"], "{words:?}");
        assert_eq!(words[2], FIRST.to_string(), "{words:?}");
        // Files go in and come out as they do elsewhere.
        let written = run("echo fine > /workspace/own && stat -c %u /workspace/own");
        let written = sandbox.exec(&written).await?;
        assert_eq!(written.stdout_text(), "1000\n", "{written:?}");
        sandbox.kill().await?;
        assert_eq!(engine.containers(), []);
        Ok(())
    })
}
