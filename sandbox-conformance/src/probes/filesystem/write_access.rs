//! Probes that change host files outside the write roots, or change what they must not.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::canary::Canary;
use crate::pool::MOUNTED;
use crate::probes::prelude::*;

pub(super) const ATTRIBUTES: &[ExpectedDenial] = &[
    denied("EROFS", "read-only mount"),
    denied("EPERM", "file of another user"),
    denied("EACCES", "permissions"),
    denied("ENOENT", "the sandbox's file system does not contain it"),
    denied("EINVAL", "user that the namespace does not map"),
    denied("EOPNOTSUPP", "file system without such attributes"),
];

pub(super) async fn attributes(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let folder = context.read_folder()?;
    let target = Canary::plant(&folder.join("target"), 0o666)?;
    let canary = Canary::plant(&folder.join("canary"), 0o666)?;
    let own = context.inside("file");
    context
        .host_control(&Call::new(["attributes"]).and(target.path()))
        .await?;
    context
        .allow_control(&Call::new(["own-attributes", &own]))
        .await;
    context
        .attack(&Call::new(["attributes"]).and(canary.path()))
        .await;
    context.host_check(canary.host_check());
    Ok(())
}

pub(super) async fn create_in_read_root(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let folder = context.read_folder()?;
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o777))?;
    let planted = folder.join("planted");
    context
        .host_control(&Call::new(["create"]).and(folder.join("control")))
        .await?;
    context
        .allow_control(
            &Call::new(["create"]).and(context.fixture().write_root().join(context.token())),
        )
        .await;
    context.attack(&Call::new(["create"]).and(&planted)).await;
    context.check_host("the new file's name in the folder", !planted.exists());
    Ok(())
}

pub(super) async fn mounted_read_only(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let folder = context.read_folder()?;
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o777))?;
    let visible = Canary::plant(&folder.join("visible"), 0o644)?;
    let planted = folder.join("planted");
    context
        .host_control(&Call::new(["create"]).and(folder.join("control")))
        .await?;
    let root = context.fixture().read_root();
    let inside = Path::new(MOUNTED).join(folder.strip_prefix(&root)?);
    let read = Call::new(["read"])
        .and(inside.join("visible"))
        .expect(visible.fingerprint());
    let create = Call::new(["create"]).and(inside.join("planted"));
    feature(context, "read, and create a file", async |sandbox| {
        let read = sandbox.run(&read).await?.attempt(read.expected.as_deref());
        let created = sandbox.run(&create).await?.attempt(None);
        let accepted = |sign: &String| signs::UNWRITABLE.iter().any(|it| it.sign == sign);
        Ok(match (&read, &created) {
            (Attempt::Succeeded { .. }, Attempt::Blocked { signature })
                if signature.iter().all(accepted) =>
            {
                None
            }
            _ => Some(format!("reading: {read:?}, creating: {created:?}")),
        })
    })
    .await;
    context.check_host("the new file's name in the folder", !planted.exists());
    Ok(())
}

pub(super) const UNFLAGGED: &[ExpectedDenial] = &[
    denied("ENOTTY", "seccomp, or a file system without flags"),
    denied("EPERM", "seccomp"),
    denied("ENOSYS", "seccomp"),
];

pub(super) async fn file_flags(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let folder = context.write_folder()?;
    let [control, own, file] =
        ["control", "own", "file"].map(|name| folder.join(format!("{}-{name}", context.token())));
    let set = |path: &std::path::Path| Call::new(["set-flag"]).and(path);
    context.host_control(&set(&control)).await?;
    context
        .allow_control(&Call::new(["make"]).and(&own).and("0").and("10"))
        .await;
    context.attack(&set(&file)).await;
    let program = context.fixture().program();
    let seen = host::run(&program, &Call::new(["has-flag"]).and(&file)).await?;
    context.check_host(
        "the file's flags on the host",
        !seen.attempt(None).is_success(),
    );
    Ok(())
}

pub(super) async fn reach_by_rename(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let folder = context.read_folder()?;
    let (read, write) = (
        context.fixture().read_root(),
        context.fixture().write_root(),
    );
    for folder in [&folder, &read] {
        std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o777))?;
    }
    let target = Canary::plant(&folder.join("target"), 0o666)?;
    let canary = Canary::plant(&folder.join("canary"), 0o666)?;
    let own = write.join(format!("{}-own", context.token()));
    let call = |from: &std::path::Path| {
        Call::new(["rename"])
            .and(from)
            .and(write.join(file_name(from)))
    };
    context.host_control(&call(target.path())).await?;
    context
        .allow_control(
            &Call::new(["create-and-rename"])
                .and(&own)
                .and(own.with_extension("moved")),
        )
        .await;
    context.attack(&call(canary.path())).await;
    context.host_check(canary.host_check());
    Ok(())
}

fn file_name(from: &std::path::Path) -> std::ffi::OsString {
    from.file_name().unwrap_or_default().to_owned()
}

pub(super) const REMOUNTS: &[ExpectedDenial] = &[
    denied("EPERM", "no capability, or seccomp"),
    denied("EACCES", "no capability, or seccomp"),
    denied("ENOSYS", "seccomp"),
    denied("ENOENT", "the sandbox's file system does not contain it"),
];

pub(super) async fn remount(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let root = context.fixture().read_root();
    same_call(
        context,
        Call::new(["alive"]),
        Call::new(["remount"]).and(root),
    )
    .await
}

pub(super) const UNMARKED: &[ExpectedDenial] = &[
    denied("EPERM", "seccomp"),
    denied("ENOSYS", "seccomp"),
    denied("EACCES", "Landlock"),
    denied(
        "ENOENT",
        "the sandbox's file system does not contain the folder",
    ),
    denied("cleared", "the kernel has cleared the bits"),
];

pub(super) async fn set_group_id(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let (control, attacked) = (context.outside()?, context.write_folder()?);
    let mark = |folder: &std::path::Path| Call::new(["mark"]).and(folder);
    context.host_control(&mark(&control)).await?;
    let own = attacked.join(format!("{}-own", context.token()));
    context
        .allow_control(&Call::new(["make"]).and(&own).and("0").and("10"))
        .await;
    context.attack(&mark(&attacked)).await;
    let marked = std::fs::read_dir(&attacked)?
        .map(|entry| Ok(is_marked(&entry?.metadata()?)))
        .collect::<Result<Vec<_>, std::io::Error>>()?;
    context.check_host(
        "modes of files in the write root, on the host",
        !marked.contains(&true),
    );
    Ok(())
}

fn is_marked(file: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt;
    file.is_file() && file.len() > 0 && file.permissions().mode() & 0o6000 != 0
}

pub(super) async fn whiteout(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let (control, attacked) = (context.outside()?, context.write_folder()?);
    let place = |folder: &std::path::Path, name| folder.join(format!("{}-{name}", context.token()));
    let [from, to] = ["file", "moved"].map(|name| place(&attacked, name));
    let control = ["file", "moved"].map(|name| place(&control, name));
    let own = ["own", "renamed"].map(|name| place(&attacked, name));
    let call =
        |name, from: &std::path::Path, to: &std::path::Path| Call::new([name]).and(from).and(to);
    context
        .host_control(&call("whiteout", &control[0], &control[1]))
        .await?;
    context
        .allow_control(&call("create-and-rename", &own[0], &own[1]))
        .await;
    context.attack(&call("whiteout", &from, &to)).await;
    let is_device = std::fs::symlink_metadata(&from).is_ok_and(|file| !file.is_file());
    context.check_host("the type of the file on the host", !is_device);
    Ok(())
}

pub(super) async fn write_outside(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let folder = context.outside()?;
    let target = Canary::plant(&folder.join("target"), 0o666)?;
    let canary = context.canary(0o666)?;
    let write = |path: &std::path::Path| Call::new(["write"]).and(path).and("overwritten");
    context.host_control(&write(target.path())).await?;
    let own = context.writable("file").await;
    context.allow_control(&Call::new(["create"]).and(own)).await;
    context.attack(&write(canary.path())).await;
    context.host_check(canary.host_check());
    Ok(())
}

pub(super) async fn write_read_root(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let folder = context.read_folder()?;
    let target = Canary::plant(&folder.join("target"), 0o666)?;
    let canary = Canary::plant(&folder.join("canary"), 0o666)?;
    let write = |path: &std::path::Path| Call::new(["write"]).and(path).and("overwritten");
    context.host_control(&write(target.path())).await?;
    context
        .allow_control(
            &Call::new(["create"]).and(context.fixture().write_root().join(context.token())),
        )
        .await;
    context.attack(&write(canary.path())).await;
    context.host_check(canary.host_check());
    Ok(())
}

pub(super) async fn write_root_is_the_hosts(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let root = context.fixture().write_root();
    let [control_file, file] =
        ["control", "file"].map(|name| root.join(format!("{}-{name}", context.token())));
    let make = |path: &std::path::Path| Call::new(["make"]).and(path).and("0").and("1000");
    context.host_control(&make(&control_file)).await?;
    if !context.allow_control(&make(&file)).await.is_success() {
        // A failed write has nothing to compare.
        return Ok(());
    }
    let read = Call::new(["read"]).and(&file);
    let written = context.execute(&read).await.map(|_| {
        let same = std::fs::read(&file).ok() == std::fs::read(&control_file).ok();
        (!same).then(|| "the host's file is not what was written".to_owned())
    });
    context.record_attack(behavior(
        "write in the write root, read on the host",
        written,
    ));
    context.no_host_effect("the attack itself compares the content");
    Ok(())
}

pub(super) async fn write_system(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let name = context.token().to_owned();
    let places = ["/usr", "/etc", "/bin", ""].map(|folder| format!("{folder}/{name}"));
    let call = places
        .iter()
        .fold(Call::new(["create-any"]), |call, path| call.and(path));
    context.host_control(&call).await?;
    context
        .allow_control(&Call::new(["create-any", &context.inside("file")]))
        .await;
    context.attack(&call).await;
    let left = places
        .iter()
        .any(|path| std::path::Path::new(path).exists());
    context.check_host("/usr, /etc, /bin and / of the host", !left);
    Ok(())
}
