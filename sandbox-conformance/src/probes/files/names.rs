//! Names of files that are legal and seldom.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "files::names",
    version: 1,
    subject: Subject::Feature(Feature::Files),
    kind: Kind::Behavior,
    summary: "puts, reads and fetches files with unicode, a newline, a leading dash or 255 bytes in their names",
    setting: plain,
    permitting: None,
    denials: signs::AS_DOCUMENTED,
    run: |stage| Box::pin(run(stage)),
};

/// Ten bytes; as many of them as a name can have are five too few.
const PIECE: &str = "0123456789";

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let longest = PIECE.repeat(25) + "01234";
    let names = [
        "gr\u{fc}\u{df}e-\u{6587}\u{4ef6}-\u{1f980}",
        "two\nlines",
        " -rf ",
        &longest,
    ];
    let folder = stage.outside()?;
    for name in names {
        std::fs::write(folder.join(name), name)?;
    }
    let fingerprint = |name: &str| crate::program::fingerprint(name.as_bytes());
    let call = Call::new(["read"]).and(folder.join(names[1]));
    stage
        .host_control(&call.expect(fingerprint(names[1])))
        .await?;
    stage.allow_control(&Call::new(["alive"])).await;
    let inside = stage.inside("names");
    let told = stage
        .with_sandbox(async |sandbox| {
            for name in names {
                let path = format!("{inside}/{name}");
                let content = name.as_bytes().to_vec();
                let source: sandbox_core::spi::Source = Box::new(std::io::Cursor::new(content));
                if let Err(error) = sandbox.handle().put(&path, 0o644, source).await {
                    return Some(format!("put {name:?}: {error}"));
                }
                let wanted = fingerprint(name);
                match sandbox.run(&Call::new(["read", &path])).await {
                    Ok(run) if run.attempt(Some(&wanted)).is_success() => {}
                    other => return Some(format!("read {name:?} inside: {other:?}")),
                }
                match sandbox.handle().fetch(&path, 1024).await {
                    Ok(fetched) if fetched == name.as_bytes() => {}
                    other => return Some(format!("fetch {name:?}: {other:?}")),
                }
            }
            None
        })
        .await;
    stage.attack_was(behavior("put, read, fetch", told));
    stage.nothing_to_watch("files of the sandbox are no matter of the host");
    Ok(())
}
