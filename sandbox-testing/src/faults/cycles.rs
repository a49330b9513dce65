//! Many sandboxes at once.

use std::sync::Arc;
use std::time::Duration;

use sandbox_core::ExecRequest;
use tokio::sync::Semaphore;

use super::private_engine::{PrivateEngine, run, spec};
use super::{EngineLauncher, FaultTest};
use crate::contract::TestResult;
use crate::wait::wait_until_async;

pub const TESTS: &[FaultTest] = &[("cycles::fifty_in_parallel_leave_nothing", fifty)];

/// The number of cycles, and of those at once: an engine on two processors takes seconds for more.
const CYCLES: usize = 50;
const AT_ONCE: usize = 10;

fn fifty(launcher: &'static dyn EngineLauncher) -> TestResult {
    run(async {
        let engine = PrivateEngine::start(launcher).await;
        let client = engine.client();
        // Makes the agent's volume, so that what is counted below is of the cycles.
        client.create(&spec()).await?.kill().await?;
        let descriptors = descriptors();
        let permits = Arc::new(Semaphore::new(AT_ONCE));
        let cycles = (0..CYCLES).map(|number| {
            let (client, permits) = (client.clone(), permits.clone());
            tokio::spawn(async move {
                let _permit = permits.acquire().await.expect("open");
                let sandbox = client.create(&spec()).await?;
                let code = number % 200 + 1;
                let script = format!(
                    "echo {number} > own; sleep 0.1; cat own; ls /workspace | wc -l; exit {code}"
                );
                let result = sandbox.exec(&ExecRequest::shell(script)).await?;
                assert_eq!(result.stdout_text(), format!("{number}\n1\n"), "{result:?}");
                assert_eq!(result.exit_code(), i32::try_from(code).ok(), "{result:?}");
                sandbox.kill().await
            })
        });
        for cycle in cycles.collect::<Vec<_>>() {
            cycle.await.expect("no panic")?;
        }
        assert_eq!(engine.containers(), []);
        assert_eq!(engine.volumes().len(), 1);
        // The runtime closes connections asynchronously.
        let what = format!("no more than {descriptors} descriptors are open");
        wait_until_async(&what, Duration::from_secs(20), async || {
            self::descriptors() <= descriptors
        })
        .await;
        Ok(())
    })
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("procfs").count()
}
