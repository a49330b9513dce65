//! A file that is put while a program reads the one before.

use std::time::Duration;

use sandbox_core::spi::Source;
use sandbox_core::{ExecEvent, Stdin};

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "files::put_over_reader",
    version: 1,
    subject: Subject::Feature(Feature::Files),
    kind: Kind::Behavior,
    summary: "puts a file while a program has read half of the one before, which must stay whole for it",
    setting: plain,
    permitting: None,
    denials: signs::AS_DOCUMENTED,
    run: |stage| Box::pin(run(stage)),
};

const LENGTH: usize = 100_000;

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let before = vec![b'a'; LENGTH];
    let after = vec![b'b'; 2 * LENGTH];
    let (first, second) = (
        crate::program::fingerprint(&before),
        crate::program::fingerprint(&after),
    );
    let own = stage.outside()?.join("read");
    std::fs::write(&own, &before)?;
    let half = (LENGTH / 2).to_string();
    let in_two = Call::new(["read-in-two"]).and(&own).and(&half);
    stage.host_control(&in_two.expect(first.clone())).await?;
    stage.allow_control(&Call::new(["alive"])).await;
    let path = stage.inside("read");
    let call = Call::new(["read-in-two", &path, &half]).timeout(Duration::from_secs(10));
    let told = stage
        .with_sandbox(async |sandbox| {
            let put = async |content: &Vec<u8>| {
                let source: Source = Box::new(std::io::Cursor::new(content.clone()));
                sandbox.handle().put(&path, 0o644, source).await
            };
            put(&before).await?;
            let request = sandbox.request(&call);
            let mut execution = sandbox.handle().start(&request, Stdin::Piped).await?;
            let mut stdin = execution.take_stdin();
            let mut said = Vec::new();
            while let Some(event) = execution.next().await? {
                let ExecEvent::Stdout(bytes) = event else {
                    continue;
                };
                said.extend_from_slice(&bytes);
                if said == b"half\n" && stdin.is_some() {
                    put(&after).await?;
                    // The reader goes on at the end of its input.
                    drop(stdin.take());
                }
            }
            let again = sandbox.run(&Call::new(["read", &path])).await?;
            let said = String::from_utf8_lossy(&said).into_owned();
            let whole = said == format!("half\nresult=value:{first}\n");
            Ok::<_, sandbox_core::Error>(if !whole {
                Some(format!("the reader got {said:?}, not {first}"))
            } else if !again.attempt(Some(&second)).is_success() {
                Some("the next reader did not get the new file".to_owned())
            } else {
                None
            })
        })
        .await;
    let told = told.map(|told| told.unwrap_or_else(|error| Some(error.to_string())));
    stage.attack_was(behavior("put over a running reader", told));
    stage.nothing_to_watch("files of the sandbox are no matter of the host");
    Ok(())
}
