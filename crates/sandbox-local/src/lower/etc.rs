//! The small files that every sandbox has of its own, so that nothing of the host's users and names is seen.

use sandbox_core::Plan;
use sandbox_host::confinement::Mode;

use crate::host::Material;
use crate::spawn::identity::SHARED_ID;

/// Paths and contents.
pub(super) fn files(plan: &Plan, mode: Mode, material: &Material) -> Vec<(&'static str, Vec<u8>)> {
    let (uid, gid) = match mode {
        Mode::Split { uid, gid } => (uid, gid),
        Mode::Shared => (SHARED_ID, SHARED_ID),
    };
    let name = &plan.name;
    let mut passwd = format!(
        "root:x:0:0:root:/nonexistent:/usr/sbin/nologin\n\
         sandbox:x:{uid}:{gid}:sandbox:/tmp:/bin/sh\n"
    );
    let mut group = format!("root:x:0:\nsandbox:x:{gid}:\n");
    if uid != SHARED_ID {
        // What belongs to users outside shows as this one.
        passwd += "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n";
    }
    if gid != SHARED_ID {
        group += "nogroup:x:65534:\n";
    }
    let own_hosts = format!("127.0.0.1 localhost {name}\n::1 localhost {name}\n");
    let (hosts, resolv) = match &material.names {
        Some((hosts, resolv)) => ([own_hosts.as_bytes(), hosts].concat(), resolv.clone()),
        None => (own_hosts.into_bytes(), Vec::new()),
    };
    vec![
        ("/etc/group", group.into_bytes()),
        ("/etc/hostname", format!("{name}\n").into_bytes()),
        ("/etc/hosts", hosts),
        ("/etc/passwd", passwd.into_bytes()),
        ("/etc/resolv.conf", resolv),
    ]
}
