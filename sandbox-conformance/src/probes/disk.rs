//! Limits of storage.

use std::path::Path;

use sandbox_core::MountSource;

use crate::probes::measured::{MeasuredLimit, WITHIN, measure};
use crate::probes::prelude::*;
use crate::probes::swap::WORKSPACE;

/// The probes of this area.
pub static PROBES: &[Probe] = &[
    Probe::isolation(
        "disk::many_files",
        DISK,
        "writes 48 files of 1 MiB in /tmp with a limit of 16 MiB",
        signs::STORAGE,
        |context| Box::pin(many_files(context)),
    )
    .version(2)
    .setup(disk_of_16_mib),
    Probe::isolation(
        "disk::measured",
        DISK,
        "fills /tmp, /dev/shm, /workspace and /output with limits of 4, 16 and 64 MiB, and measures \
         the files",
        WITHIN,
        |context| Box::pin(measure(context, &DISK_LIMIT)),
    )
    .version(2),
    // A tier that cannot bound it must say so.
    Probe::isolation(
        "disk::mount",
        DISK,
        "writes 48 files of 1 MiB into a folder of the host that is mounted at another path, with a \
         limit of 16 MiB",
        signs::STORAGE,
        |context| Box::pin(mount(context)),
    )
    .setup(|fixture| {
        let mut setup = disk_of_16_mib(fixture);
        let source = MountSource::read_write(fixture.write_root());
        setup.policy.mount_sources = Some(vec![source]);
        setup
    }),
    Probe::isolation(
        "disk::one_file",
        DISK,
        "writes 48 MiB into one file in /tmp with a limit of 16 MiB",
        signs::STORAGE,
        |context| Box::pin(one_file(context)),
    )
    .version(2)
    .setup(disk_of_16_mib),
    // /dev/shm is a separate file system.
    Probe::isolation(
        "disk::shared_memory",
        DISK,
        "writes 48 MiB into /dev/shm with a limit of 16 MiB",
        SHARED,
        |context| Box::pin(shared_memory(context)),
    )
    .version(2)
    .setup(disk_of_16_mib),
    Probe::isolation(
        "disk::unlinked",
        DISK,
        "writes 48 MiB into files in /tmp that were unlinked before, with a limit of 16 MiB",
        signs::STORAGE,
        |context| Box::pin(unlinked(context)),
    )
    .version(2)
    .setup(disk_of_16_mib),
    // A folder of the host has no size of its own. A tier that cannot bound it must say so.
    Probe::isolation(
        "disk::workspace",
        DISK,
        "writes 48 files of 1 MiB into a workspace of the host with a limit of 16 MiB",
        signs::STORAGE,
        |context| Box::pin(workspace(context)),
    )
    .setup(|fixture| disk_of_16_mib(fixture).workspace(&fixture.write_root())),
    Probe::isolation(
        "disk::write_root",
        DISK,
        "writes 48 files of 1 MiB into a write root with a limit of 16 MiB",
        signs::STORAGE,
        |context| Box::pin(write_root(context)),
    )
    .version(2)
    .setup(|fixture| {
        let mut setup = fixture.rooted();
        setup.policy.disk = disk_of_16_mib(fixture).policy.disk;
        setup
    }),
];

fn disk_of_16_mib(_: &HostFixture) -> SandboxSetup {
    SandboxSetup::with(|policy| policy.disk = Some(ByteSize::mib(16)))
}

/// In KiB. The probe program takes up to 3 MiB.
const DISK_LIMIT: MeasuredLimit = MeasuredLimit {
    values: &[4 << 10, 16 << 10, 64 << 10],
    set: |policy, value| {
        policy.disk = Some(ByteSize::kib(value));
        // Its folder has a part of the storage.
        policy.artifact_export_paths = vec!["/output/**".to_owned()];
    },
    call: |name, most| {
        let folders = ["/tmp", "/dev/shm", "/workspace", "/output"];
        let call = Call::new(["measure-disk", &most.to_string(), name]);
        folders.iter().fold(call, |call, folder| call.and(folder))
    },
    accepted: |value| (value - (3 << 10), value),
};

async fn many_files(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let path = context.inside("file");
    let fill = |count| Call::new(["fill-many", &path, count]);
    limit(context, fill("4"), fill("48")).await
}

async fn workspace(context: &mut ProbeContext) -> Result<(), ProbeError> {
    fill_granted(context, Path::new(WORKSPACE)).await
}

async fn mount(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let root = context.fixture().write_root();
    let shown = context
        .with_sandbox(async |sandbox| mounted(sandbox, &root).await)
        .await;
    // Without a sandbox, the attack says why.
    fill_granted(context, shown.as_deref().unwrap_or(&root)).await
}

/// Fills the folder of the host that is the sandbox's `target`.
async fn fill_granted(context: &mut ProbeContext, target: &Path) -> Result<(), ProbeError> {
    let name = context.token().to_owned();
    let file = context.write_folder()?.join("file");
    let fill = |file: &Path, count| Call::new(["fill-many"]).and(file).and(count);
    let inside = target.join(name);
    context.host_control(&fill(&file, "48")).await?;
    context.allow_control(&fill(&inside, "4")).await;
    context.attack(&fill(&inside, "48")).await;
    context.no_host_effect("the limit is the sandbox's own");
    Ok(())
}

async fn write_root(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let file = context.write_folder()?.join("file");
    let fill = |count| Call::new(["fill-many"]).and(&file).and(count);
    limit(context, fill("4"), fill("48")).await
}

async fn one_file(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let path = context.inside("file");
    let fill = |size| Call::new(["fill", &path, size]);
    limit(context, fill("4"), fill("48")).await
}

const SHARED: &[ExpectedDenial] = &[
    denied("ENOSPC", "size of the sandbox's file system"),
    denied("EDQUOT", "quota"),
    denied("EFBIG", "limit of the file's size"),
    denied("ENOENT", "there is no /dev/shm"),
    denied("EACCES", "Landlock, or permissions"),
    denied("EROFS", "read-only mount"),
];

async fn shared_memory(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let shared = format!("/dev/shm/{}", context.token());
    limit(
        context,
        Call::new(["fill", &context.inside("file"), "4"]),
        Call::new(["fill", &shared, "48"]),
    )
    .await
}

async fn unlinked(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let path = context.inside("unlinked");
    let fill = |size| Call::new(["fill-unlinked", &path, size]);
    limit(context, fill("4"), fill("48")).await
}
