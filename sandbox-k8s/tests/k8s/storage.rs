//! What of a sandbox's bytes the cluster keeps: nothing.

use std::time::Duration;

use sandbox_core::{ExecRequest, Stdin};

use crate::cluster::{client_in, run, small};
use crate::own_namespace::OwnNamespace;
use crate::{Done, Test};

pub const TESTS: &[Test] = &[("storage::a_canary_is_nowhere_in_the_cluster", canary)];

fn canary() -> Done {
    const SENT: &str = "canary-7c2f41d9-sent";
    run(async {
        let place = OwnNamespace::new().await;
        let client = client_in(&place.name);
        let sandbox = client.create(&small("kept").detached(true)).await?;
        let attached = client.create(&small("attached")).await?;
        for sandbox in [&sandbox, &attached] {
            let request = ExecRequest::shell(format!("read line; echo {SENT} $line"));
            let stdin = Stdin::from_bytes(format!("{SENT}\n"));
            let result = sandbox.start(&request, stdin).await?.wait().await?;
            assert!(result.stdout_text().contains(SENT), "{result:?}");
        }
        // The control: what a pod writes to its own output is found like this.
        let said = "canary-7c2f41d9-said";
        let script = format!("echo {said}; sleep 100");
        place.foreign("talker", &["/bin/sh", "-c", &script]).await;
        let (mut found, mut searched) = (false, 0);
        // Of a container that begins, the log comes a moment later.
        for _ in 0..50 {
            let everything = place.everything().await;
            searched = everything.len();
            for (what, text) in &everything {
                assert!(!text.contains(SENT), "{what}");
            }
            found = everything
                .iter()
                .any(|(what, text)| what.contains("log of talker") && text.contains(said));
            if found {
                break;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        assert!(found, "the control was not found in {searched} places");
        sandbox.kill().await?;
        attached.kill().await?;
        Ok(())
    })
}
