//! Confinement of executions: limits, Landlock, seccomp, exec-once. Every test also checks that
//! allowed actions work.

mod common;

use std::{path::Path, process::ExitCode};

use common::{FirstClient, builtin, command, refuse, refused, script, settings};
use sandbox_agent::protocol::{
    AgentSettings, Builtin, ExitKind, FailStep, LandlockPath, LandlockRules, ResourceLimit,
};
use sandbox_testing::{named_tests, trials, users::is_root};

fn main() -> ExitCode {
    trials::main(&[
        (
            None,
            named_tests![
                seccomp_program_refuses_a_system_call,
                invalid_seccomp_program_is_reported,
                exec_once_refuses_a_second_program_and_process,
                resource_limits_are_enforced,
                unknown_resource_limit_is_reported,
                landlock_rights_unknown_to_the_kernel_are_refused,
                code_has_no_privileges,
                folders_are_made_before_the_first_execution,
            ],
        ),
        (no_landlock(), named_tests![landlock_rules_are_enforced,]),
    ])
}

/// Why Landlock rules cannot be tested; `None` if the kernel enforces them.
fn no_landlock() -> Option<&'static str> {
    const VERSION: u32 = 1;
    let (attributes, size) = (std::ptr::null::<u8>(), 0_usize);
    // SAFETY: with this flag the kernel reads no attributes.
    let abi =
        unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, attributes, size, VERSION) };
    (abi < 1).then_some("needs a kernel with Landlock")
}

#[track_caller]
fn works(client: &mut FirstClient, text: &str) -> String {
    let outcome = client.run(&script(text));
    let stderr = String::from_utf8_lossy(&outcome.stderr).into_owned();
    assert_eq!(outcome.kind(), ExitKind::Exited(0), "{text}: {stderr}");
    outcome.text()
}

fn seccomp_program_refuses_a_system_call() {
    let mut settings = settings();
    let chmod = [
        libc::SYS_fchmodat,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_chmod,
    ];
    settings.confinement.seccomp = refuse(&chmod, libc::ENOTTY);
    let temp_dir = tempfile::NamedTempFile::new().unwrap();
    let path = temp_dir.path().to_str().unwrap();
    let mut client = FirstClient::start(&settings);
    refused(
        &mut client,
        &format!("chmod 777 {path}"),
        "Inappropriate ioctl",
    );
    works(&mut client, &format!("stat {path}"));
    // Builtins are confined like programs.
    let status = works(&mut client, "grep -E '^Seccomp:' /proc/self/status");
    assert_eq!(status, "Seccomp:\t2\n");
}

fn invalid_seccomp_program_is_reported() {
    let mut settings = settings();
    settings.confinement.seccomp = vec![0xff; 16];
    let mut client = FirstClient::start(&settings);
    let outcome = client.run(&command(&["true"]));
    let failure = outcome.failure();
    assert_eq!(
        (failure.step, failure.errno),
        (FailStep::Confinement, libc::EINVAL)
    );
}

fn exec_once_refuses_a_second_program_and_process() {
    let mut settings = settings();
    settings.confinement.exec_once = true;
    let mut client = FirstClient::start(&settings);
    for _ in 0..3 {
        assert_eq!(works(&mut client, "echo builtin"), "builtin\n");
        refused(&mut client, "/bin/echo outside", "Cannot fork");
        refused(
            &mut client,
            "exec /bin/echo outside",
            "Operation not permitted",
        );
    }
    // Refusals are counted. Threads do not count as processes.
    let python = "import os, threading
thread = threading.Thread(target=print, args=('thread',))
thread.start()
thread.join()
for attempt in [os.fork] * 3 + [lambda: os.execv('/bin/true', ['true'])] * 2:
    try:
        attempt()
    except PermissionError:
        print('refused')";
    let outcome = client.run(&command(&["python3", "-c", python]));
    assert_eq!(
        outcome.text(),
        "thread\n".to_owned() + &"refused\n".repeat(5)
    );
    let report = outcome.report();
    assert_eq!((report.refused_programs, report.refused_processes), (2, 3));
    // Looking up the program, a script's interpreter, and a missing program do not count as a
    // second program.
    assert_eq!(client.run(&command(&["echo", "one"])).text(), "one\n");
    let temp_dir = tempfile::tempdir().unwrap();
    let path = temp_dir.path().join("script");
    std::fs::write(&path, "#!/bin/sh\necho script\n").unwrap();
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    assert_eq!(
        client.run(&command(&[path.to_str().unwrap()])).text(),
        "script\n"
    );
    let missing = client.run(&command(&["/no/such"]));
    assert_eq!(missing.failure().step, FailStep::NotFound);
    // A kill needs no notification.
    let stream = client.exec(&command(&["sleep", "100"]));
    client.send(stream, sandbox_agent::protocol::FrameKind::Kill, &[]);
    assert_eq!(client.finish(stream).kind(), ExitKind::Killed);
    // Together with the client's own filter.
    settings.confinement.seccomp = refuse(&[libc::SYS_sendmsg, libc::SYS_seccomp], libc::EPERM);
    let mut client = FirstClient::start(&settings);
    assert_eq!(works(&mut client, "echo builtin"), "builtin\n");
    refused(&mut client, "/bin/echo outside", "Cannot fork");
}

fn resource_limits_are_enforced() {
    let mut settings = settings();
    settings.confinement.limits = vec![
        ResourceLimit {
            resource: libc::RLIMIT_FSIZE,
            value: 4096,
        },
        ResourceLimit {
            resource: libc::RLIMIT_NOFILE,
            value: 64,
        },
        ResourceLimit {
            resource: libc::RLIMIT_CORE,
            value: u64::MAX,
        },
        ResourceLimit {
            resource: libc::RLIMIT_AS,
            value: 300 << 20,
        },
    ];
    settings.confinement.umask = 0o027;
    let mut client = FirstClient::start(&settings);
    assert_eq!(
        works(&mut client, "ulimit -n; ulimit -Hn; umask"),
        "64\n64\n0027\n"
    );
    let temp_dir = tempfile::tempdir().unwrap();
    let path = temp_dir.path().join("file");
    let path = path.to_str().unwrap();
    works(&mut client, &format!("head -c 4096 /dev/zero > {path}"));
    let outcome = client.run(&script(&format!("exec head -c 4097 /dev/zero > {path}")));
    assert_eq!(outcome.kind(), ExitKind::Signaled(25));
    refused(
        &mut client,
        "head -c 400000000 /dev/zero | tail -c 400000000",
        "memory exhausted",
    );
    // Without limits, executions have those that the agent was started with.
    let limit = |words: &str| {
        let output = std::process::Command::new("sh")
            .args(["-c", words])
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let mut client = FirstClient::start(&common::settings());
    let words = "ulimit -n; ulimit -Hn; ulimit -c; umask";
    assert_eq!(
        works(&mut client, words),
        limit(&format!("umask 022; {words}"))
    );
}

fn unknown_resource_limit_is_reported() {
    let mut settings = settings();
    settings.confinement.limits = vec![ResourceLimit {
        resource: 99,
        value: 1,
    }];
    let mut client = FirstClient::start(&settings);
    let outcome = client.run(&command(&["true"]));
    let failure = outcome.failure();
    assert_eq!(
        (failure.step, failure.errno),
        (FailStep::Limits, libc::EINVAL)
    );
}

const EXECUTE: u64 = 1;
const WRITE_FILE: u64 = 2;
const READ_FILE: u64 = 4;
const READ_DIR: u64 = 8;
const ALL_OF_ABI_1: u64 = (1 << 13) - 1;

fn landlock(settings: &mut AgentSettings, paths: &[(&Path, u64)]) {
    settings.confinement.landlock = Some(LandlockRules {
        adapts: false,
        handled_fs: ALL_OF_ABI_1,
        handled_net: 0,
        scoped: 0,
        paths: paths
            .iter()
            .map(|(path, access)| LandlockPath {
                path: path.to_str().unwrap().into(),
                access: *access,
                object: None,
            })
            .collect(),
    });
}

fn landlock_rules_are_enforced() {
    let temp_dir = tempfile::tempdir().unwrap();
    let temp_dir = temp_dir.path();
    std::fs::write(temp_dir.join("secret"), "secret").unwrap();
    std::fs::create_dir(temp_dir.join("open")).unwrap();
    let mut settings = settings();
    let usr = READ_FILE | READ_DIR | EXECUTE;
    landlock(
        &mut settings,
        &[
            (Path::new("/usr"), usr),
            (Path::new("/bin"), usr),
            (Path::new("/lib"), usr),
            (Path::new("/lib64"), usr),
            (Path::new("/not/there"), usr),
            // A file, with rights that only folders have.
            (Path::new("/dev/null"), READ_FILE | READ_DIR | WRITE_FILE),
            (&temp_dir.join("open"), ALL_OF_ABI_1),
        ],
    );
    let mut client = FirstClient::launch(&[], &[]);
    let welcome = client.hello(&settings).unwrap();
    assert!(welcome.landlock_abi >= 1);
    let (open, secret) = (temp_dir.join("open/file"), temp_dir.join("secret"));
    let (open, secret) = (open.to_str().unwrap(), secret.to_str().unwrap());
    assert_eq!(
        works(
            &mut client,
            &format!("echo x > {open}; cat {open} 2>/dev/null")
        ),
        "x\n"
    );
    refused(&mut client, &format!("cat {secret}"), "Permission denied");
    refused(
        &mut client,
        &format!("echo x > {secret}"),
        "Permission denied",
    );
    // A program without the execute right is still found.
    std::fs::copy("/bin/true", temp_dir.join("true")).unwrap();
    let outcome = client.run(&command(&[temp_dir.join("true").to_str().unwrap()]));
    let failure = outcome.failure();
    assert_eq!(
        (failure.step, failure.errno),
        (FailStep::NotExecutable, libc::EACCES)
    );
    // Builtins too.
    let get = |path: &str| builtin(Builtin::Get { path: path.into() });
    assert_eq!(client.run(&get(open)).text(), "x\n");
    assert_eq!(client.run(&get(secret)).failure().errno, libc::EACCES);
}

fn landlock_rights_unknown_to_the_kernel_are_refused() {
    let mut settings = settings();
    landlock(&mut settings, &[]);
    settings.confinement.landlock.as_mut().unwrap().handled_fs = 1 << 63;
    let mut client = FirstClient::launch(&[], &[]);
    let failure = client.hello(&settings).unwrap_err();
    assert_eq!(
        (failure.step, failure.detail.as_str()),
        (FailStep::Settings, "landlock_create_ruleset")
    );
    assert_eq!(client.agent_end().code(), Some(71));
}

fn code_has_no_privileges() {
    let mut client = FirstClient::launch(&[], &[]);
    let welcome = client.hello(&settings()).unwrap();
    assert!(!welcome.split);
    assert_eq!(welcome.capabilities, 0);
    let status = works(&mut client, "grep -E 'Cap|NoNewPrivs' /proc/self/status");
    for line in status.lines() {
        // A bounding set without effect can be dropped only with privileges.
        if line.starts_with("CapBnd") && !is_root() {
            continue;
        }
        let value = line.split_whitespace().nth(1).unwrap();
        let expected = if line.starts_with("NoNew") {
            "1"
        } else {
            "0000000000000000"
        };
        assert_eq!(value, expected, "{line}");
    }
    // The agent has none either, and its memory is not readable.
    let agent = client.agent.id();
    let status = std::fs::read_to_string(format!("/proc/{agent}/status")).unwrap();
    assert!(status.contains("CapEff:\t0000000000000000"));
    // In shared mode, the out-of-memory killer prefers code to the agent.
    let score = |pid: &str| {
        std::fs::read_to_string(format!("/proc/{pid}/oom_score_adj"))
            .unwrap()
            .trim()
            .to_string()
    };
    assert_eq!(works(&mut client, "cat /proc/self/oom_score_adj"), "1000\n");
    // The agent raises its own score while it forks.
    let lowered = (0..1000).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(1));
        score(&agent.to_string()) == score("self")
    });
    assert!(lowered, "the agent's score stays raised");
}

fn folders_are_made_before_the_first_execution() {
    let temp_dir = tempfile::tempdir().unwrap();
    let folder = temp_dir.path().join("a/b");
    let mut settings = settings();
    settings.make_dirs = vec![folder.to_str().unwrap().into()];
    settings.workdir = settings.make_dirs[0].clone();
    let mut client = FirstClient::start(&settings);
    assert_eq!(
        works(&mut client, "pwd -P").trim(),
        folder.canonicalize().unwrap().to_str().unwrap()
    );
    settings.make_dirs = vec![b"/proc/no/such".to_vec()];
    let mut client = FirstClient::launch(&[], &[]);
    let failure = client.hello(&settings).unwrap_err();
    assert_eq!(
        (failure.step, failure.detail.as_str()),
        (FailStep::Settings, "/proc/no/such")
    );
}
