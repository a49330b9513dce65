//! Overwriting a file while a program reads it.

use sandbox_core::{ExecEvent, Stdin};
use std::time::Duration;

use crate::probes::prelude::*;

const LENGTH: usize = 100_000;

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let before = vec![b'a'; LENGTH];
    let after = vec![b'b'; 2 * LENGTH];
    let (first, second) = (
        crate::program::fingerprint(&before),
        crate::program::fingerprint(&after),
    );
    let own = context.outside()?.join("read");
    std::fs::write(&own, &before)?;
    let half = (LENGTH / 2).to_string();
    let in_two = Call::new(["read-in-two"]).and(&own).and(&half);
    context.host_control(&in_two.expect(first.clone())).await?;
    context.allow_control(&Call::new(["alive"])).await;
    let path = context.inside("read");
    let call = Call::new(["read-in-two", &path, &half]).timeout(Duration::from_secs(10));
    let deviation = context
        .with_sandbox(async |sandbox| {
            let put =
                async |content: &Vec<u8>| sandbox.handle().write(&path, content.clone()).await;
            put(&before).await?;
            let request = sandbox.request(&call);
            let mut execution = sandbox.handle().start(&request, Stdin::Piped).await?;
            let mut stdin = execution.take_stdin();
            let mut output = Vec::new();
            while let Some(event) = execution.next_event().await? {
                let ExecEvent::Stdout(bytes) = event else {
                    continue;
                };
                output.extend_from_slice(&bytes);
                if output == b"half\n" && stdin.is_some() {
                    put(&after).await?;
                    // The end of its input resumes the reader.
                    drop(stdin.take());
                }
            }
            let again = sandbox.run(&Call::new(["read", &path])).await?;
            let output = String::from_utf8_lossy(&output).into_owned();
            let results = output == format!("half\nresult=value:{first}\n");
            Ok::<_, sandbox_core::Error>(if !results {
                Some(format!("the reader got {output:?}, not {first}"))
            } else if !again.attempt(Some(&second)).is_success() {
                Some("the next reader did not get the new file".to_owned())
            } else {
                None
            })
        })
        .await;
    let deviation =
        deviation.map(|deviation| deviation.unwrap_or_else(|error| Some(error.to_string())));
    context.record_attack(behavior("put over a running reader", deviation));
    context.no_host_effect("files of the sandbox do not affect the host");
    Ok(())
}
