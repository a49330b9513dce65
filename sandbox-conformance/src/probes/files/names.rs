//! Unusual but valid file names.

use crate::probes::prelude::*;

/// Ten bytes. The longest name has room for 25 of them and five bytes.
const PIECE: &str = "0123456789";

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let longest = PIECE.repeat(25) + "01234";
    let names = [
        "gr\u{fc}\u{df}e-\u{6587}\u{4ef6}-\u{1f980}",
        "two\nlines",
        " -rf ",
        &longest,
    ];
    let folder = context.outside()?;
    for name in names {
        std::fs::write(folder.join(name), name)?;
    }
    let fingerprint = |name: &str| crate::program::fingerprint(name.as_bytes());
    let call = Call::new(["read"]).and(folder.join(names[1]));
    context
        .host_control(&call.expect(fingerprint(names[1])))
        .await?;
    context.allow_control(&Call::new(["alive"])).await;
    let inside = context.inside("names");
    let deviation = context
        .with_sandbox(async |sandbox| {
            for name in names {
                let path = format!("{inside}/{name}");
                if let Err(error) = sandbox.handle().write(&path, name).await {
                    return Some(format!("put {name:?}: {error}"));
                }
                let wanted = fingerprint(name);
                match sandbox.run(&Call::new(["read", &path])).await {
                    Ok(run) if run.attempt(Some(&wanted)).is_success() => {}
                    other => return Some(format!("read {name:?} inside: {other:?}")),
                }
                match sandbox.handle().read(&path).await {
                    Ok(fetched) if fetched == name.as_bytes() => {}
                    other => return Some(format!("fetch {name:?}: {other:?}")),
                }
            }
            None
        })
        .await;
    context.record_attack(behavior("put, read, fetch", deviation));
    context.no_host_effect("files of the sandbox do not affect the host");
    Ok(())
}
