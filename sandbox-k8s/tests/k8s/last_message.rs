//! The termination message: a file on the node's disk that the kubelet mounts into each container.

use sandbox_core::{ByteSize, Capability, CapabilityPolicy};
use sandbox_k8s::PodProfile;

use crate::cluster::{output, run, small};
use crate::test_namespace::{TestNamespace, client};
use crate::{ClusterTest, TestResult};

pub const TESTS: &[ClusterTest] = &[
    ("last_message::code_cannot_write_it", closed),
    ("last_message::where_code_can_write_it_is_bounded", bounded),
];

const FILE: &str = "/dev/termination-log";
const GAP: &str = "the kubelet's file for the last message";

fn closed() -> TestResult {
    run(async {
        let namespace = TestNamespace::new().await;
        let client = client(namespace.config(), CapabilityPolicy::new());
        let sandbox = client.create(&small("closed")).await?;
        let script = format!("ls -l {FILE}; echo x > {FILE}; echo tried");
        let printed = output(&sandbox, &script).await;
        assert!(printed.contains("-rw-------"), "{printed}");
        assert!(printed.contains("Permission denied"), "{printed}");
        let disk = sandbox
            .enforcement()
            .get(Capability::Disk)
            .expect("an entry");
        assert!(!disk.to_string().contains(GAP), "{disk}");
        sandbox.kill().await?;
        Ok(())
    })
}

fn bounded() -> TestResult {
    run(async {
        let namespace = TestNamespace::new().await;
        let mut policy = CapabilityPolicy::new();
        policy.disk = Some(ByteSize::mib(2));
        policy.allow_unenforced = vec![Capability::NetworkAccess];
        policy.allow_partial = vec![Capability::Disk];
        let config = namespace.config().profile(PodProfile::Restricted);
        let sandbox = client(config, policy).create(&small("bounded")).await?;
        let script =
            format!("dd if=/dev/zero of={FILE} bs=65536 count=256 2>/dev/null; wc -c < {FILE}");
        let printed = output(&sandbox, &script).await;
        let size: u64 = printed
            .trim()
            .parse()
            .unwrap_or_else(|_| panic!("{printed}"));
        assert!(size <= 2 << 20, "{printed}");
        let disk = sandbox
            .enforcement()
            .get(Capability::Disk)
            .expect("an entry");
        assert!(disk.to_string().contains(GAP), "{disk}");
        sandbox.kill().await?;
        Ok(())
    })
}
