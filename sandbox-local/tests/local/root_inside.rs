//! Executions as another user of the sandbox.

use sandbox_core::{
    ErrorKind, ExecEvent, ExecRequest, Execution, SandboxHandle, Stdin, TerminalSize,
};
use sandbox_testing::contract::{
    assert_agent_is_untouchable, assert_own_user_may_be_named, assert_users_are_refused,
    attack_request,
};

use crate::harness::{Need, Test, test};
use crate::support::{client, create, policy, sh, spec};

pub const TESTS: &[Test] = &[
    test!(async own_user_may_be_named),
    test!(async other_users_are_refused),
    test!(async root_is_refused_without_users_of_its_own, Need::OrdinaryUser),
    test!(async root_has_no_capability, Need::Root),
    test!(async root_uses_its_streams_and_terminals, Need::Root),
    test!(async root_cannot_touch_the_agent, Need::Root, Need::Program("python3")),
    test!(async root_gains_nothing_over_code, Need::Root, Need::Program("python3")),
    test!(async secrets_of_root_are_variables, Need::Root),
];

async fn own_user_may_be_named() {
    let sandbox = create(policy()).await;
    assert_own_user_may_be_named(&sandbox)
        .await
        .expect("it runs");
}

async fn other_users_are_refused() {
    let sandbox = create(policy()).await;
    // Neither is the user of any run of these tests.
    let users = ["54321", "0:54321"];
    assert_users_are_refused(&sandbox, &users)
        .await
        .expect("it works");
}

async fn root_is_refused_without_users_of_its_own() {
    let sandbox = create(policy()).await;
    assert_users_are_refused(&sandbox, &["root", "0:0"])
        .await
        .expect("it works");
}

async fn root_has_no_capability() {
    let sandbox = create(policy()).await;
    let script = "id -u; id -g; id -G; grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status";
    // The second one does not follow a process that waits for it.
    for _ in 0..2 {
        let result = sandbox
            .exec(&sh(script).user("root"))
            .await
            .expect("it runs");
        let text = result.check().expect("it succeeds").stdout_text();
        let mut lines = text.lines();
        assert_eq!([(); 3].map(|()| lines.next()), [Some("0"); 3], "{text}");
        for line in lines {
            let (name, value) = line.split_once(":\t").expect("name and value");
            let expected = match name {
                "NoNewPrivs" => "1",
                "Seccomp" => "2",
                _ => "0000000000000000",
            };
            assert_eq!(value, expected, "{line}");
        }
        assert!(text.contains("CapBnd") && text.contains("CapAmb"), "{text}");
        let code = sandbox.exec(&sh("id -u")).await.expect("it runs");
        assert_eq!(code.stdout_text(), "1000\n");
    }
}

async fn root_uses_its_streams_and_terminals() {
    let sandbox = create(policy()).await;
    let script = "echo out > /dev/stdout; echo err > /dev/stderr; cat /dev/stdin";
    let request = sh(script).user("root");
    let mut execution = sandbox
        .start(&request, Stdin::from_bytes("in"))
        .await
        .expect("it runs");
    let result = execution.wait().await.expect("it ends");
    assert_eq!(result.stdout_text(), "out\nin");
    assert_eq!(result.stderr_text(), "err\n");
    let terminal = sh("echo x > \"$(tty)\" && stat -c %u \"$(tty)\"")
        .user("root")
        .terminal(TerminalSize::new(24, 80));
    let result = sandbox.exec(&terminal).await.expect("it runs");
    assert_eq!(result.stdout_text(), "x\r\n0\r\n");
}

async fn root_cannot_touch_the_agent() {
    let sandbox = create(policy()).await;
    let request = attack_request().user("root");
    assert_agent_is_untouchable(&sandbox, request)
        .await
        .expect("it works");
}

/// Tries what user 0 may do on a host, and prints what works.
const ATTACK: &str = r#"
import ctypes, glob, os, signal, socket, subprocess
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *words):
    if getattr(libc, name)(*words) < 0:
        raise OSError(ctypes.get_errno(), name)
def write(path, content=b"1"):
    with open(path, "wb") as file:
        file.write(content)
def read(path):
    with open(path, "rb") as file:
        file.read(1)
def run(*words):
    subprocess.run(words, check=True, capture_output=True)
def mine():
    descriptor, path = __import__("tempfile").mkstemp(dir="/tmp")
    os.close(descriptor)
    return path
target = int(open("/tmp/pid").read())
ways = {
    "control": lambda: os.chmod(mine(), 0o600),
    "trace": lambda: call("ptrace", 0x4206, target, 0, 0),
    "environment": lambda: read(f"/proc/{target}/environ"),
    "descriptor": lambda: write(f"/proc/{target}/fd/1"),
    "private file": lambda: read("/tmp/private"),
    "change of a file": lambda: write("/tmp/public"),
    "owner of another's file": lambda: os.chown("/tmp/public", 0, 0),
    "owner of its file": lambda: os.chown(mine(), 1000, 1000),
    "mode": lambda: os.chmod("/tmp/public", 0o777),
    "set-user-id": lambda: os.chmod(mine(), 0o4755),
    "another user": lambda: os.setuid(1000),
    "another group": lambda: os.setgid(1000),
    "groups": lambda: os.setgroups([1000]),
    "user's program": lambda: run("su", "-s", "/bin/sh", "sandbox", "-c", "true"),
    "root": lambda: write("/new"),
    "password file": lambda: write("/etc/passwd", b""),
    "program": lambda: write("/usr/bin/new"),
    "device": lambda: os.mknod("/tmp/device", 0o20600, os.makedev(1, 3)),
    "file in /dev": lambda: write("/dev/new"),
    "mount": lambda: call("mount", b"none", b"/tmp", b"tmpfs", 0, None),
    "unmount": lambda: call("umount2", b"/tmp", 2),
    "namespace": lambda: call("unshare", 0x10000000),
    "mount namespace": lambda: call("unshare", 0x20000),
    "chroot": lambda: os.chroot("/tmp"),
    "host name": lambda: socket.sethostname("x"),
    "raw socket": lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1),
    "clock": lambda: call("settimeofday", ctypes.create_string_buffer(16), None),
    "priority": lambda: os.nice(-1),
    "removal": lambda: os.remove("/tmp/public"),
    "signal": lambda: os.kill(target, signal.SIGTERM),
}
for path in glob.glob("/proc/sys/**", recursive=True):
    if os.path.isfile(path):
        ways[path] = lambda path=path: os.close(os.open(path, os.O_WRONLY))
for path in ["/proc/sysrq-trigger", "/proc/1/oom_score_adj", "/proc/1/clear_refs", "/proc/1/coredump_filter"]:
    ways[path] = lambda path=path: os.close(os.open(path, os.O_WRONLY))
for entry in os.listdir("/proc"):
    if entry.isdigit() and int(entry) != os.getpid():
        ways[f"adjustment of {entry}"] = lambda entry=entry: write(f"/proc/{entry}/oom_score_adj", b"1000")
for name, way in ways.items():
    try:
        way()
        print(name)
    except (OSError, subprocess.CalledProcessError):
        pass
"#;

/// A process of the sandbox's own user, with its number in a file, and two files of that user.
async fn start_target(sandbox: &SandboxHandle) -> Execution {
    let setup = "echo $$ > /tmp/pid; touch /tmp/public /tmp/private; chmod 600 /tmp/private; echo ready; exec sleep 60";
    let mut target = sandbox
        .start(&sh(setup), Stdin::Null)
        .await
        .expect("it runs");
    while let Some(event) = target.next_event().await.expect("an event") {
        if let ExecEvent::Stdout(_) = event {
            break;
        }
    }
    target
}

async fn root_gains_nothing_over_code() {
    let sandbox = create(policy()).await;
    let target = start_target(&sandbox).await;
    let request = ExecRequest::new("python3").args(["-c", ATTACK]);
    // The control: the sandbox's own user may do some of it.
    let own = sandbox.exec(&request).await.expect("it runs");
    let own = own.check().expect("it succeeds").stdout_text();
    for way in [
        "control",
        "private file",
        "change of a file",
        "mode",
        "removal",
    ] {
        assert!(own.lines().any(|line| line == way), "{way}: {own}");
    }
    target.kill().await;
    let target = start_target(&sandbox).await;
    let root = sandbox.exec(&request.user("root")).await.expect("it runs");
    let root = root.check().expect("it succeeds").stdout_text();
    assert_eq!(root, "control\n");
    target.kill().await;
}

async fn secrets_of_root_are_variables() {
    let client = client(policy().secret("KEY"));
    let sandbox = client
        .create(&spec().secret("KEY"))
        .await
        .expect("a sandbox");
    let request = || sh("echo $KEY").user("root");
    let result = sandbox.exec(&request().secret("KEY", "value")).await;
    assert_eq!(result.expect("it runs").stdout_text(), "value\n");
    let refused = sandbox.exec(&request().secret_file("KEY", "value")).await;
    let error = refused.expect_err("root could not read it");
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(
        error.fix().is_some_and(|fix| fix.contains("variable")),
        "{error}"
    );
}
