//! A file in and out again.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "files::round_trip",
    version: 1,
    subject: Subject::Feature(Feature::Files),
    kind: Kind::Behavior,
    summary: "puts 300,000 bytes, has them read inside, and fetches them",
    setting: plain,
    permitting: None,
    denials: signs::AS_DOCUMENTED,
    run: |stage| Box::pin(run(stage)),
};

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let content: Vec<u8> = (0..300_000)
        .map(|index| (index % 257 % 256) as u8)
        .collect();
    let own = stage.outside()?.join("file");
    std::fs::write(&own, &content)?;
    let fingerprint = crate::program::fingerprint(&content);
    stage
        .host_control(&Call::new(["read"]).and(&own).expect(fingerprint.clone()))
        .await?;
    stage.allow_control(&Call::new(["alive"])).await;
    let path = stage.inside("folder/file");
    let read = Call::new(["read", &path]).expect(fingerprint.clone());
    let told = stage
        .with_sandbox(async |sandbox| {
            let source: sandbox_core::spi::Source = Box::new(std::io::Cursor::new(content.clone()));
            if let Err(error) = sandbox.handle().put(&path, 0o644, source).await {
                return Some(error.to_string());
            }
            match sandbox
                .run(&read)
                .await
                .map(|run| run.attempt(Some(&fingerprint)))
            {
                Ok(attempt) if attempt.is_success() => {}
                other => return Some(format!("read inside: {other:?}")),
            }
            match sandbox.handle().fetch(&path, 1 << 20).await {
                Ok(fetched) if fetched == content => None,
                Ok(fetched) => Some(format!("fetched {} other bytes", fetched.len())),
                Err(error) => Some(error.to_string()),
            }
        })
        .await;
    stage.attack_was(behavior("put, read, fetch", told));
    stage.nothing_to_watch("files of the sandbox are no matter of the host");
    Ok(())
}
