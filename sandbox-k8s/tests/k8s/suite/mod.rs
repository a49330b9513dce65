//! The tests that engines run as well: the same files, on pods.

mod engine;
#[path = "../../../../sandbox-container/tests/engine/exec.rs"]
mod exec;
#[path = "../../../../sandbox-container/tests/engine/folders.rs"]
mod folders;
#[path = "../../../../sandbox-container/tests/engine/hostile.rs"]
mod hostile;
#[path = "../../../../sandbox-container/tests/engine/isolation.rs"]
mod isolation;
#[path = "../../../../sandbox-container/tests/engine/lifetime.rs"]
mod lifetime;
#[path = "../../../../sandbox-container/tests/engine/limits.rs"]
mod limits;
#[path = "../../../../sandbox-container/tests/engine/sandboxes.rs"]
mod sandboxes;

use crate::Test;

/// The tests.
pub const TESTS: &[&[Test]] = &[
    exec::TESTS,
    folders::TESTS,
    hostile::TESTS,
    isolation::TESTS,
    lifetime::TESTS,
    limits::TESTS,
];

/// What engines may lack.
pub mod abilities {
    /// Why nothing can be limited: a cluster limits what it runs.
    pub async fn without_limits() -> Option<String> {
        None
    }
}

/// What is kept on an engine.
pub mod volume {
    /// Removes what brought this agent.
    pub async fn remove(program: &[u8]) {
        let name = format!("sandbox-agent-{}", &blake3::hash(program).to_hex()[..32]);
        let maps = super::engine::config_maps().await;
        let removed = maps
            .delete(&name, &kube::api::DeleteParams::default())
            .await;
        removed.expect("the agent's ConfigMap");
    }
}
