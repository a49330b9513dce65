//! A large file, written and read back.

use crate::probes::prelude::*;

const LENGTH: usize = 64 << 20;

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let (content, digest) = content();
    let own = context.outside()?.join("large");
    std::fs::write(&own, &content)?;
    context
        .host_control(&Call::new(["digest"]).and(&own).expect(digest.clone()))
        .await?;
    std::fs::remove_file(&own)?;
    context.allow_control(&Call::new(["alive"])).await;
    let path = context.inside("large");
    let deviation = context
        .with_sandbox(async |sandbox| {
            if let Err(error) = sandbox.handle().write(&path, content.clone()).await {
                return Some(error.to_string());
            }
            let hashed = sandbox.run(&Call::new(["digest", &path])).await;
            let fetched = sandbox
                .handle()
                .read_limited(&path, ByteSize::bytes(LENGTH as u64))
                .await;
            // The next probe of this sandbox needs the space.
            let removed = sandbox.run(&Call::new(["unshare", "file", &path])).await;
            let (hashed, removed) = match (hashed, removed) {
                (Ok(hashed), Ok(removed)) => (hashed.attempt(Some(&digest)), removed.attempt(None)),
                (Err(error), _) | (_, Err(error)) => return Some(error.to_string()),
            };
            match fetched {
                Err(error) => Some(error.to_string()),
                Ok(fetched) if fetched != content => {
                    Some(format!("fetched {} different bytes", fetched.len()))
                }
                Ok(_) if !hashed.is_success() => Some(format!("hashed inside: {hashed:?}")),
                Ok(_) => (!removed.is_success()).then(|| format!("removed inside: {removed:?}")),
            }
        })
        .await;
    context.record_attack(behavior("put, hash, fetch", deviation));
    context.no_host_effect("files of the sandbox do not affect the host");
    Ok(())
}

/// Bytes without a period, and the probe program's fingerprint of them.
fn content() -> (Vec<u8>, String) {
    let (mut bytes, mut state) = (Vec::with_capacity(LENGTH), 0x9e37_79b9_7f4a_7c15u64);
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    while bytes.len() < LENGTH {
        // The xorshift generator of Marsaglia.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
        hash = (hash ^ state).wrapping_mul(0x0000_0100_0000_01b3);
    }
    let digest = format!("{}:{hash:016x}", bytes.len());
    (bytes, digest)
}
