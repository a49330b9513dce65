//! What runtimes read below `/sys` to size themselves.

use std::time::Duration;

use sandbox_core::{ByteSize, Capability, ExecRequest, SandboxHandle};

use crate::harness::{Need, Test, test};
use crate::support::{client, create, policy, sh, spec};

pub const TESTS: &[Test] = &[
    test!(async runtimes_read_the_limits_of_their_sandbox, Need::Namespaces, Need::Enforced(Capability::Memory)),
    test!(async code_cannot_change_its_control_groups, Need::Namespaces, Need::Enforced(Capability::Memory)),
    test!(async processors_are_those_of_the_host, Need::Namespaces),
    test!(async heap_of_node_is_below_the_memory_limit, Need::Namespaces, Need::Enforced(Capability::Memory), Need::Program("node")),
    test!(async heap_of_java_is_below_the_memory_limit, Need::Namespaces, Need::Enforced(Capability::Memory), Need::Program("java")),
    test!(async root_below_sys_is_shown_instead, Need::Namespaces),
];

async fn output(sandbox: &SandboxHandle, script: &str) -> String {
    let result = sandbox.exec(&sh(script)).await.expect("it runs");
    assert_eq!(result.stderr_text(), "", "{script}");
    result.stdout_text()
}

async fn runtimes_read_the_limits_of_their_sandbox() {
    let mut policy = policy();
    policy.memory = Some(ByteSize::mib(100));
    let client = client(policy);
    for detached in [false, true] {
        let spec = spec().detached(detached).lifetime(Duration::from_secs(60));
        let sandbox = client.create(&spec).await.expect("a sandbox");
        let script = "cd /sys/fs/cgroup; cat memory.max 2>/dev/null || \
                      cat memory/memory.limit_in_bytes";
        assert_eq!(output(&sandbox, script).await, "104857600\n");
        // Only the sandbox's own processes are in its groups.
        let script = "cat $(find /sys/fs/cgroup -name cgroup.procs) | sort -un | head -n 1";
        assert_eq!(output(&sandbox, script).await, "1\n");
        sandbox.kill().await.expect("it ends");
    }
}

async fn code_cannot_change_its_control_groups() {
    let _neighbor = create(policy()).await;
    let sandbox = create(policy()).await;
    let script = "find /sys -name cgroup.procs | head -n 1
        for path in $(find /sys); do
            if [ -d $path ]; then mkdir $path/new; rmdir $path; else echo 1 > $path; fi \
                2>/dev/null && echo changed $path
        done
        find /sys -name 'sandbox-*'";
    let result = sandbox.exec(&sh(script)).await.expect("it runs");
    let text = result.stdout_text();
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.ends_with("/cgroup.procs\n"), "{text}");
}

async fn processors_are_those_of_the_host() {
    let sandbox = create(policy()).await;
    for file in ["online", "possible", "present"] {
        let path = format!("/sys/devices/system/cpu/{file}");
        let on_host = std::fs::read_to_string(&path).expect("the kernel's file");
        assert_eq!(output(&sandbox, &format!("cat {path}")).await, on_host);
    }
    // Nothing else tells code of the machine.
    let script = "ls /sys /sys/devices/system /sys/devices/system/cpu";
    let listed = output(&sandbox, script).await;
    let expected = "/sys:\ndevices\nfs\n\n/sys/devices/system:\ncpu\n\n\
                    /sys/devices/system/cpu:\nonline\npossible\npresent\n";
    assert_eq!(listed, expected);
}

async fn heap_of_node_is_below_the_memory_limit() {
    let mut policy = policy();
    policy.memory = Some(ByteSize::mib(512));
    let sandbox = create(policy).await;
    let script = "console.log(require('v8').getHeapStatistics().heap_size_limit)";
    let node = ExecRequest::new("node").args(["-e", script]);
    let result = sandbox.exec(&node).await.expect("it runs");
    let limit = result.stdout_text().trim().parse::<u64>();
    let limit = limit.unwrap_or_else(|_| panic!("{}", result.stderr_text()));
    assert!(limit < 512 << 20, "{limit}");
}

async fn heap_of_java_is_below_the_memory_limit() {
    let mut policy = policy();
    policy.memory = Some(ByteSize::mib(512));
    let sandbox = create(policy).await;
    let java = ExecRequest::new("java").args(["-XX:+PrintFlagsFinal", "-version"]);
    let result = sandbox.exec(&java).await.expect("it runs");
    let text = result.stdout_text();
    let line = text.lines().find(|line| line.contains(" MaxHeapSize "));
    let heap = line.and_then(|line| line.split_whitespace().nth(3)?.parse::<u64>().ok());
    let heap = heap.unwrap_or_else(|| panic!("{}", result.stderr_text()));
    assert!(heap < 512 << 20, "{heap}");
}

async fn root_below_sys_is_shown_instead() {
    let mut policy = policy();
    let host = std::path::PathBuf::from("/sys/devices/system/cpu");
    policy.filesystem_read_roots = Some(vec![host]);
    let sandbox = create(policy).await;
    let listed = output(&sandbox, "ls /sys/devices/system/cpu; ls -d /sys/fs/cgroup").await;
    assert!(listed.contains("vulnerabilities\n"), "{listed}");
    assert!(listed.ends_with("/sys/fs/cgroup\n"), "{listed}");
}
