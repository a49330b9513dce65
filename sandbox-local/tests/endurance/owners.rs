//! Owners that are killed at arbitrary times.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use sandbox_core::SandboxClient;

use crate::census::{Census, Mounts, children_of};
use crate::harness::{Test, test};
use crate::scaled;
use crate::support::{backend_in, eventually, policy, processes_with, sh, spec};
use crate::users::alone;

pub const TESTS: &[Test] = &[test!(sync owners_killed_at_any_time_leave_nothing)];

/// The state folder of an owner that is to be killed.
const OWNER: &str = "SANDBOX_TEST_OWNER";
const MARKER: &str = "SANDBOX_TEST_MARKER";

const NAME: &str = "owners::owners_killed_at_any_time_leave_nothing";

fn owners_killed_at_any_time_leave_nothing() {
    if let Some(state) = std::env::var_os(OWNER) {
        return own(Path::new(&state));
    }
    alone(NAME, || {
        let state = crate::census::state_folder();
        let marker = format!("owned-{}", std::process::id());
        let mounts = Mounts::now();
        let mut seen = 0;
        let mut agents = Vec::new();
        // A slow host runs code only at the later ones.
        let late = [100, 400, 1600].map(Duration::from_millis);
        for moment in moments(scaled(100)).chain(late) {
            let (ran, children) = kill_at(moment, state.path(), &marker);
            seen += usize::from(ran);
            agents.extend(children);
        }
        assert!(seen > 0, "no owner was killed while its code ran");
        assert!(agents.len() > seen, "{} agents", agents.len());
        eventually(Duration::from_secs(5), "no process is left", || {
            processes_with(&marker).is_empty() && !agents.iter().any(is_there)
        });
        // What is no process goes with the next client.
        let client = SandboxClient::with_backend(backend_in(state.path()), policy())
            .expect("a valid policy");
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        runtime.block_on(async {
            let sandbox = client.create(&spec()).await.expect("a sandbox");
            sandbox.kill().await.expect("it ends");
        });
        eventually(Duration::from_secs(5), "nothing else is left", || {
            let census = Census::take(state.path());
            census.groups + census.taken_ranges + census.folders == 0
        });
        mounts.assert_none_new();
    });
}

/// Moments after an owner's start, spread over what the creation of its sandboxes takes and a while
/// beyond.
fn moments(count: usize) -> impl Iterator<Item = Duration> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    (0..count).map(move |_| {
        // Xorshift: the moments only have to differ.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        Duration::from_micros(state % 40_000)
    })
}

/// Whether its code ran by then, and its children.
fn kill_at(moment: Duration, state: &Path, marker: &str) -> (bool, Vec<Process>) {
    let mut owner = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", NAME, "--nocapture"])
        .env(OWNER, state)
        .env(MARKER, marker)
        .stdout(Stdio::piped())
        .spawn()
        .expect("started");
    let output = BufReader::new(owner.stdout.take().expect("piped"));
    let begun = output
        .lines()
        .map_while(Result::ok)
        .any(|line| line.contains("owner begins"));
    assert!(begun, "the owner ended by itself");
    std::thread::sleep(moment);
    // So that no child is made between the look and the end.
    let pid = rustix::process::Pid::from_child(&owner);
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).expect("SIGSTOP");
    let children = children_of(owner.id()).into_iter().filter_map(process);
    let children = children.collect();
    let seen = !processes_with(marker).is_empty();
    owner.kill().expect("SIGKILL");
    owner.wait().expect("ended");
    (seen, children)
}

/// A process, and when it was started: numbers come back.
type Process = (u32, String);

fn process(pid: u32) -> Option<Process> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = text.rsplit_once(')')?;
    let fields = fields.split_whitespace().collect::<Vec<_>>();
    // An ended one that nobody has waited for does not run.
    let ended = matches!(*fields.first()?, "Z" | "X");
    (!ended).then(|| (pid, fields[19].to_owned()))
}

fn is_there((pid, started): &Process) -> bool {
    process(*pid).is_some_and(|(_, now)| now == *started)
}

/// Makes sandboxes, some of which only begin and some of which run code that does not want to end,
/// until it is killed.
fn own(state: &Path) {
    let marker = std::env::var(MARKER).expect("set");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let client = SandboxClient::with_backend(backend_in(state), policy()).expect("a valid policy");
    runtime.block_on(async {
        println!("owner begins");
        let sleep = format!("sh -c 'trap \"\" TERM; sleep 600; : {marker}'");
        let linger = sh(&format!("setsid {sleep} & ({sleep} &) & {sleep}"));
        let lingering = client.create(&spec()).await.expect("a sandbox");
        let running = lingering.exec(&linger);
        let others = async {
            loop {
                let sandbox = client.create(&spec()).await.expect("a sandbox");
                let result = sandbox.exec(&sh("true")).await.expect("it runs");
                assert!(result.ok(), "{result:?}");
                sandbox.kill().await.expect("it ends");
            }
        };
        tokio::select! {
            result = running => panic!("the owner should have been killed: {result:?}"),
            () = others => {}
        }
    });
}
