//! Files written into and read from a sandbox.

use crate::probes::prelude::*;

mod confined;
mod copies;
mod copy_errors;
mod copy_limits;
mod entries;
mod large;
mod modes;
mod moved;
mod names;
mod put_over_reader;

/// The probes of this area.
pub static PROBES: &[Probe] = &[
    Probe::isolation(
        "files::confined",
        FILES,
        "reads, lists, writes and removes a file of the host through links and /proc, and reads what \
         code cannot",
        NOT_FOLLOWED,
        |context| Box::pin(confined::run(context)),
    ),
    Probe::behavior(
        "files::copies",
        FILES,
        "copies a file, a folder and its content in and out, to a new name, into a folder and over \
         files",
        |context| Box::pin(copies::run(context)),
    ),
    Probe::behavior(
        "files::copy_errors",
        FILES,
        "copies links, a FIFO and missing files in and out, and copies over links and files of the \
         host",
        |context| Box::pin(copy_errors::run(context)),
    ),
    Probe::behavior(
        "files::copy_limits",
        FILES,
        "copies out with limits that the files reach exactly, and that are one less and one more",
        |context| Box::pin(copy_limits::run(context)),
    ),
    Probe::behavior(
        "files::entries",
        FILES,
        "lists, reads, makes and removes files, folders, links and a FIFO",
        |context| Box::pin(entries::run(context)),
    )
    .version(2),
    Probe::isolation(
        "files::fetch_through_link",
        FILES,
        "fetches a symbolic link to a file of the host",
        NOT_FOLLOWED,
        |context| Box::pin(fetch_through_link(context)),
    ),
    Probe::behavior(
        "files::large",
        FILES,
        "puts a file of 64 MiB, hashes it inside, and fetches it",
        |context| Box::pin(large::run(context)),
    ),
    Probe::behavior(
        "files::modes",
        FILES,
        "uploads and copies files with many modes, and compares the modes inside and outside",
        |context| Box::pin(modes::run(context)),
    )
    .version(3),
    Probe::behavior(
        "files::moved",
        FILES,
        "removes a folder while a program moves a part of it elsewhere, and looks for what the \
         removal took along there",
        |context| Box::pin(moved::run(context)),
    ),
    Probe::behavior(
        "files::names",
        FILES,
        "puts, reads and fetches files whose names have Unicode letters, a newline, a leading dash \
         or 255 bytes",
        |context| Box::pin(names::run(context)),
    ),
    Probe::behavior(
        "files::put_over_reader",
        FILES,
        "replaces a file that a program has half read; the program must get the rest of the old \
         file",
        |context| Box::pin(put_over_reader::run(context)),
    ),
    Probe::isolation(
        "files::put_through_link",
        FILES,
        "puts a file over a symbolic link to a file of the host",
        NOT_FOLLOWED,
        |context| Box::pin(put_through_link(context)),
    ),
    Probe::behavior(
        "files::round_trip",
        FILES,
        "puts 300,000 bytes, reads them inside, and fetches them",
        |context| Box::pin(round_trip(context)),
    ),
];

/// How following a link out of the sandbox may be denied.
const NOT_FOLLOWED: &[ExpectedDenial] = &[
    denied("error:path", "the sandbox checks the path itself"),
    denied(
        "unreached",
        "the link's target does not exist in the sandbox",
    ),
];

async fn fetch_through_link(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let canary = context.canary(0o644)?;
    let link = context.inside("link");
    let own = context.outside()?.join("link");
    std::os::unix::fs::symlink(canary.path(), &own)?;
    context
        .host_control(&Call::new(["read"]).and(&own).expect(canary.fingerprint()))
        .await?;
    context
        .allow_control(&Call::new(["make", &link, "1"]).and(canary.path()))
        .await;
    let attempt = context
        .with_sandbox(async |sandbox| match sandbox.handle().read(&link).await {
            Ok(content) => Attempt::leak_if(content == canary.content(), "unreached"),
            Err(error) => Attempt::blocked([format!("error:{}", error.kind().as_str())]),
        })
        .await;
    context.record_attack(Step::new(
        "fetch the link",
        attempt.unwrap_or_else(|declined| declined),
    ));
    context.host_check(canary.host_check());
    Ok(())
}

async fn put_through_link(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let canary = context.canary(0o666)?;
    let target = crate::canary::Canary::plant(&context.outside()?.join("target"), 0o666)?;
    let link = context.inside("link");
    let own = context.outside()?.join("link");
    std::os::unix::fs::symlink(target.path(), &own)?;
    context
        .host_control(&Call::new(["write"]).and(&own).and("overwritten"))
        .await?;
    context
        .allow_control(&Call::new(["make", &link, "1"]).and(canary.path()))
        .await;
    let attempt = context
        .with_sandbox(async |sandbox| {
            match sandbox.handle().write(&link, "overwritten").await {
                // The host check shows where the file is.
                Ok(()) => Attempt::blocked(["unreached"]),
                Err(error) => Attempt::blocked([format!("error:{}", error.kind().as_str())]),
            }
        })
        .await;
    context.record_attack(Step::new(
        "put over the link",
        attempt.unwrap_or_else(|declined| declined),
    ));
    context.host_check(canary.host_check());
    Ok(())
}

async fn round_trip(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let content: Vec<u8> = (0..300_000)
        .map(|index| (index % 257 % 256) as u8)
        .collect();
    let own = context.outside()?.join("file");
    std::fs::write(&own, &content)?;
    let fingerprint = crate::program::fingerprint(&content);
    context
        .host_control(&Call::new(["read"]).and(&own).expect(fingerprint.clone()))
        .await?;
    context.allow_control(&Call::new(["alive"])).await;
    let path = context.inside("folder/file");
    let read = Call::new(["read", &path]).expect(fingerprint.clone());
    let deviation = context
        .with_sandbox(async |sandbox| {
            if let Err(error) = sandbox.handle().write(&path, content.clone()).await {
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
            match sandbox.handle().read(&path).await {
                Ok(fetched) if fetched == content => None,
                Ok(fetched) => Some(format!("fetched {} different bytes", fetched.len())),
                Err(error) => Some(error.to_string()),
            }
        })
        .await;
    context.record_attack(behavior("put, read, fetch", deviation));
    context.no_host_effect("files of the sandbox do not affect the host");
    Ok(())
}
