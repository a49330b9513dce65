//! The file on the node's disk that a kubelet gives every container for its last message.

use sandbox_core::{ByteSize, Capability, CapabilityPolicy};
use sandbox_k8s::PodProfile;

use crate::cluster::{output, run, small};
use crate::ground::{Ground, client};
use crate::{Done, Test};

pub const TESTS: &[Test] = &[
    ("last_message::it_is_closed_to_code", closed),
    ("last_message::where_it_is_not_it_is_bounded", bounded),
];

const FILE: &str = "/dev/termination-log";
const GAP: &str = "the kubelet's file for the last message";

fn closed() -> Done {
    run(async {
        let ground = Ground::new().await;
        let client = client(ground.config(), CapabilityPolicy::new());
        let sandbox = client.create(&small("closed")).await?;
        let script = format!("ls -l {FILE}; echo x > {FILE}; echo tried");
        let said = output(&sandbox, &script).await;
        assert!(said.contains("-rw-------"), "{said}");
        assert!(said.contains("Permission denied"), "{said}");
        let disk = sandbox
            .enforcement()
            .get(Capability::Disk)
            .expect("an entry");
        assert!(!disk.to_string().contains(GAP), "{disk}");
        sandbox.kill().await?;
        Ok(())
    })
}

fn bounded() -> Done {
    run(async {
        let ground = Ground::new().await;
        let mut policy = CapabilityPolicy::new();
        policy.disk = Some(ByteSize::mib(2));
        policy.allow_unenforced = vec![Capability::NetworkAccess];
        policy.allow_partial = vec![Capability::Disk];
        let config = ground.config().profile(PodProfile::Restricted);
        let sandbox = client(config, policy).create(&small("bounded")).await?;
        let script =
            format!("dd if=/dev/zero of={FILE} bs=65536 count=256 2>/dev/null; wc -c < {FILE}");
        let said = output(&sandbox, &script).await;
        let size: u64 = said.trim().parse().unwrap_or_else(|_| panic!("{said}"));
        assert!(size <= 2 << 20, "{said}");
        let disk = sandbox
            .enforcement()
            .get(Capability::Disk)
            .expect("an entry");
        assert!(disk.to_string().contains(GAP), "{disk}");
        sandbox.kill().await?;
        Ok(())
    })
}
