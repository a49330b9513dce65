//! Access to host files.

use crate::canary::Canary;
use crate::probes::prelude::*;

mod links;
mod owners;
mod read_access;
mod submount;
mod write_access;

/// The probes of this area.
pub static PROBES: &[Probe] = &[
    // Changing these needs no open for writing.
    Probe::isolation(
        "filesystem::attributes",
        FILESYSTEM_WRITE_ROOTS,
        "changes mode, times, owner and extended attributes of a file in a read root",
        write_access::ATTRIBUTES,
        |context| Box::pin(write_access::attributes(context)),
    )
    .setup(rooted),
    // The service account token that a cluster mounts into pods.
    Probe::isolation(
        "filesystem::cluster_token",
        FILESYSTEM_READ_ROOTS,
        "reads a file of the host, or a pod's service account token",
        signs::UNREADABLE,
        |context| Box::pin(read_access::cluster_token(context)),
    ),
    Probe::isolation(
        "filesystem::create_in_read_root",
        FILESYSTEM_WRITE_ROOTS,
        "creates a file in a folder with mode 0777 of a read root",
        signs::UNWRITABLE,
        |context| Box::pin(write_access::create_in_read_root(context)),
    )
    .setup(rooted),
    Probe::isolation(
        "filesystem::device_node",
        FILESYSTEM_READ_ROOTS,
        "creates a device node for the kernel's log, and opens it",
        signs::FORBIDDEN,
        |context| Box::pin(read_access::device_node(context)),
    ),
    Probe::isolation(
        "filesystem::host_folders",
        FILESYSTEM_READ_ROOTS,
        "looks near the root for a file that lies in /var/log, /root and other folders of the \
         host",
        signs::ABSENT,
        |context| Box::pin(read_access::host_folders(context)),
    ),
    // The host would inherit the flag.
    Probe::isolation(
        "filesystem::file_flags",
        FILESYSTEM_WRITE_ROOTS,
        "sets a flag of a file in a write root",
        write_access::UNFLAGGED,
        |context| Box::pin(write_access::file_flags(context)),
    )
    .setup(rooted),
    // The file and the write root are on the same file system.
    Probe::isolation(
        "filesystem::hard_link",
        FILESYSTEM_READ_ROOTS,
        "reads a file of the host through a hard link in the write root",
        read_access::LINKS,
        |context| Box::pin(read_access::hard_link(context)),
    )
    .version(2)
    .setup(rooted_if_supported),
    // The folder has mode 0777, so only the mount protects it.
    Probe::behavior(
        "filesystem::mounted_read_only",
        FILESYSTEM_WRITE_ROOTS,
        "reads and creates a file in a folder of the host that is mounted read-only at another path",
        |context| Box::pin(write_access::mounted_read_only(context)),
    )
    .setup(mounting),
    Probe::isolation(
        "filesystem::proc_roots",
        FILESYSTEM_READ_ROOTS,
        "reads a file of the host below /proc/PID/root and /proc/PID/cwd of every visible \
         process",
        signs::UNREADABLE,
        |context| Box::pin(read_access::proc_roots(context)),
    ),
    Probe::isolation(
        "filesystem::reach_by_rename",
        FILESYSTEM_WRITE_ROOTS,
        "renames a file of a read root into the write root",
        signs::UNWRITABLE,
        |context| Box::pin(write_access::reach_by_rename(context)),
    )
    .setup(rooted),
    Probe::isolation(
        "filesystem::read_home",
        FILESYSTEM_READ_ROOTS,
        "reads a file in the user's home",
        signs::UNREADABLE,
        |context| Box::pin(read_access::read_home(context)),
    ),
    Probe::isolation(
        "filesystem::read_outside",
        FILESYSTEM_READ_ROOTS,
        "reads a file of the host with mode 0644 outside of the read roots",
        signs::UNREADABLE,
        |context| Box::pin(read_access::read_outside(context)),
    )
    .version(2)
    .setup(rooted_if_supported),
    Probe::isolation(
        "filesystem::read_private",
        FILESYSTEM_READ_ROOTS,
        "reads a file of the host with mode 0600",
        signs::UNREADABLE,
        |context| Box::pin(read_access::read_private(context)),
    ),
    Probe::isolation(
        "filesystem::read_shadow",
        FILESYSTEM_READ_ROOTS,
        "reads the host's /etc/shadow",
        signs::UNREADABLE,
        |context| Box::pin(read_access::read_shadow(context)),
    ),
    Probe::isolation(
        "filesystem::remount",
        FILESYSTEM_WRITE_ROOTS,
        "makes the mount of a read root writable again",
        write_access::REMOUNTS,
        |context| Box::pin(write_access::remount(context)),
    )
    .setup(rooted),
    // The host could execute such a program as the owner or group of the folder.
    Probe::isolation(
        "filesystem::set_group_id",
        FILESYSTEM_WRITE_ROOTS,
        "leaves set-group-id and set-user-id programs in a write root",
        write_access::UNMARKED,
        |context| Box::pin(write_access::set_group_id(context)),
    )
    .version(2)
    .setup(rooted),
    Probe::isolation(
        "filesystem::submount",
        FILESYSTEM_READ_ROOTS,
        "opens a device in a file system that is mounted below a read root",
        submount::NO_DEVICE,
        |context| Box::pin(submount::open_device(context)),
    )
    .version(2),
    Probe::isolation(
        "filesystem::symlink",
        FILESYSTEM_READ_ROOTS,
        "reads a file of the host through a symbolic link in the write root",
        signs::UNREADABLE,
        |context| Box::pin(read_access::symlink(context)),
    )
    .version(2)
    .setup(rooted_if_supported),
    // A mount of the sandbox may hide a host folder.
    Probe::behavior(
        "filesystem::temporary_folders",
        FILES,
        "reads the modes of /tmp and /dev/shm: every user may write there, and removes only its own \
         files",
        |context| Box::pin(temporary_folders(context)),
    ),
    Probe::isolation(
        "filesystem::unmount",
        FILESYSTEM_READ_ROOTS,
        "unmounts /tmp",
        signs::FORBIDDEN,
        |context| kernel_call(context, Call::new(["unmount", "/tmp"])),
    ),
    // A whiteout is a device node, which a host could misread.
    Probe::isolation(
        "filesystem::whiteout",
        FILESYSTEM_WRITE_ROOTS,
        "renames a file in a write root so that a whiteout device replaces it",
        signs::FORBIDDEN,
        |context| Box::pin(write_access::whiteout(context)),
    )
    .setup(rooted),
    Probe::isolation(
        "filesystem::write_outside",
        FILESYSTEM_WRITE_ROOTS,
        "overwrites a file of the host with mode 0666 outside of the write roots",
        signs::UNWRITABLE,
        |context| Box::pin(write_access::write_outside(context)),
    )
    .version(2)
    .setup(rooted_if_supported),
    Probe::isolation(
        "filesystem::write_read_root",
        FILESYSTEM_WRITE_ROOTS,
        "overwrites a file with mode 0666 in a read root",
        signs::UNWRITABLE,
        |context| Box::pin(write_access::write_read_root(context)),
    )
    .setup(rooted),
    Probe::behavior(
        "filesystem::root_links",
        FILESYSTEM_READ_ROOTS,
        "creates sandboxes whose read root is a link that stays in its folder or leaves it, with and \
         without follow_links",
        |context| Box::pin(links::run(context)),
    ),
    Probe::behavior(
        "filesystem::write_root_has_one_owner",
        FILESYSTEM_WRITE_ROOTS,
        "makes files in a write root, a workspace and a mount of another user and group that everybody \
         may write to, and compares the owners",
        |context| Box::pin(owners::run(context)),
    )
    .version(2),
    Probe::behavior(
        "filesystem::write_root_is_the_hosts",
        FILESYSTEM_WRITE_ROOTS,
        "writes a file in a write root, and compares it on the host",
        |context| Box::pin(write_access::write_root_is_the_hosts(context)),
    )
    .setup(rooted),
    Probe::isolation(
        "filesystem::write_system",
        FILESYSTEM_WRITE_ROOTS,
        "creates a file in /usr, /etc, /bin or /",
        signs::UNWRITABLE,
        |context| Box::pin(write_access::write_system(context)),
    ),
];

/// Reads a canary that no setup grants. The probe program itself can be read.
async fn read(context: &mut ProbeContext, canary: &Canary) -> Result<(), ProbeError> {
    let read = Call::new(["read"])
        .and(canary.path())
        .expect(canary.fingerprint());
    context.host_control(&read).await?;
    context.allow_control(&Call::new(["read", ITSELF])).await;
    context.attack(&read).await;
    context.host_check(canary.host_check());
    Ok(())
}

async fn temporary_folders(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let calls = ["/tmp", "/dev/shm"].map(|folder| Call::new(["mode", folder]).expect("1777"));
    context.host_control(&Call::new(["mode", "/tmp"])).await?;
    feature(context, "read modes", async |sandbox| {
        for call in &calls {
            let attempt = sandbox.run(call).await?.attempt(call.expected.as_deref());
            if !attempt.is_success() {
                return Ok(Some(format!("{}: {attempt:?}", call.text())));
            }
        }
        Ok(None)
    })
    .await;
    context.no_host_effect("modes are only read");
    Ok(())
}
