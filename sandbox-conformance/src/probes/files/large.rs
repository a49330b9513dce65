//! A large file in and out again.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "files::large",
    version: 1,
    subject: Subject::Feature(Feature::Files),
    kind: Kind::Behavior,
    summary: "puts 64 MiB, has them hashed inside, and fetches them",
    setting: plain,
    permitting: None,
    denials: signs::AS_DOCUMENTED,
    run: |stage| Box::pin(run(stage)),
};

const LENGTH: usize = 64 << 20;

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let (content, digest) = content();
    let own = stage.outside()?.join("large");
    std::fs::write(&own, &content)?;
    stage
        .host_control(&Call::new(["digest"]).and(&own).expect(digest.clone()))
        .await?;
    std::fs::remove_file(&own)?;
    stage.allow_control(&Call::new(["alive"])).await;
    let path = stage.inside("large");
    let told = stage
        .with_sandbox(async |sandbox| {
            let source: sandbox_core::spi::Source = Box::new(std::io::Cursor::new(content.clone()));
            if let Err(error) = sandbox.handle().put(&path, 0o644, source).await {
                return Some(error.to_string());
            }
            let hashed = sandbox.run(&Call::new(["digest", &path])).await;
            let fetched = sandbox.handle().fetch(&path, LENGTH).await;
            // The next probe of this sandbox wants its room.
            let removed = sandbox.run(&Call::new(["unshare", "file", &path])).await;
            let (hashed, removed) = match (hashed, removed) {
                (Ok(hashed), Ok(removed)) => (hashed.attempt(Some(&digest)), removed.attempt(None)),
                (Err(error), _) | (_, Err(error)) => return Some(error.to_string()),
            };
            match fetched {
                Err(error) => Some(error.to_string()),
                Ok(fetched) if fetched != content => {
                    Some(format!("fetched {} other bytes", fetched.len()))
                }
                Ok(_) if !hashed.is_success() => Some(format!("hashed inside: {hashed:?}")),
                Ok(_) => (!removed.is_success()).then(|| format!("removed inside: {removed:?}")),
            }
        })
        .await;
    stage.attack_was(behavior("put, hash, fetch", told));
    stage.nothing_to_watch("files of the sandbox are no matter of the host");
    Ok(())
}

/// Bytes without a period, and what the probe program says of them.
fn content() -> (Vec<u8>, String) {
    let (mut bytes, mut state) = (Vec::with_capacity(LENGTH), 0x9e37_79b9_7f4a_7c15u64);
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    while bytes.len() < LENGTH {
        // Marsaglia's xorshift.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
        hash = (hash ^ state).wrapping_mul(0x0000_0100_0000_01b3);
    }
    let digest = format!("{}:{hash:016x}", bytes.len());
    (bytes, digest)
}
