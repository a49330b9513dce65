//! The cluster stores nothing that a sandbox reads or writes.

use std::time::Duration;

use sandbox_core::{ExecRequest, Stdin};

use crate::cluster::{client_in, run, small};
use crate::test_namespace::TestNamespace;
use crate::{ClusterTest, TestResult};

pub const TESTS: &[ClusterTest] = &[("storage::nothing_from_the_stream_is_stored", canary)];

fn canary() -> TestResult {
    const SENT: &str = "canary-7c2f41d9-sent";
    run(async {
        let namespace = TestNamespace::new().await;
        let client = client_in(&namespace.name);
        // The control: the same search finds what a pod writes to its own output.
        let logged = "canary-7c2f41d9-logged";
        let script = format!("echo {logged}; sleep 100");
        let command = ["/bin/sh", "-c", &script];
        let (kept, attached) = (small("kept").detached(true), small("attached"));
        let (sandbox, attached, _) = tokio::join!(
            client.create(&kept),
            client.create(&attached),
            namespace.foreign("talker", &command),
        );
        let (sandbox, attached) = (sandbox?, attached?);
        for sandbox in [&sandbox, &attached] {
            let request = ExecRequest::shell(format!("read line; echo {SENT} $line"));
            let stdin = Stdin::from_bytes(format!("{SENT}\n"));
            let result = sandbox.start(&request, stdin).await?.wait().await?;
            assert!(result.stdout_text().contains(SENT), "{result:?}");
        }
        let (mut found, mut searched) = (false, 0);
        // The log of a new container appears asynchronously.
        for _ in 0..50 {
            let everything = namespace.everything().await;
            searched = everything.len();
            for (object, text) in &everything {
                assert!(!text.contains(SENT), "{object}");
            }
            found = everything
                .iter()
                .any(|(object, text)| object.contains("log of talker") && text.contains(logged));
            if found {
                break;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        assert!(found, "the control is in none of {searched} objects");
        sandbox.kill().await?;
        attached.kill().await?;
        Ok(())
    })
}
