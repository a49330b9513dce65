//! Owners that are killed at random times.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use sandbox_core::SandboxClient;
use sandbox_testing::processes;
use sandbox_testing::wait::wait_until;

use crate::census::{Census, MountTable, children_of};
use crate::harness::{Test, test};
use crate::scaled;

use crate::support::{backend_in, policy, sh, spec};
use crate::users::alone;

pub const TESTS: &[Test] = &[test!(sync owners_killed_at_any_time_leave_nothing)];

/// The state folder of the owner that the test kills.
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
        let mounts = MountTable::now();
        let mut seen = 0;
        let mut agents = Vec::new();
        // On a slow host, code only runs at the later delays.
        let late = [100, 400, 1600].map(Duration::from_millis);
        let planned = scaled(100) + late.len();
        // Between two sandboxes, an owner has the lingering one alone. At least one kill must meet
        // a second one.
        let more = (0..30).map(|round| Duration::from_millis(1600 + 7 * round));
        let all = moments(scaled(100)).chain(late).chain(more);
        for (index, moment) in all.enumerate() {
            if index >= planned && seen > 0 && agents.len() > seen {
                break;
            }
            let (ran, children) = kill_at(moment, state.path(), &marker);
            seen += usize::from(ran);
            agents.extend(children);
        }
        assert!(seen > 0, "no owner was killed while its code ran");
        assert!(agents.len() > seen, "{} agents", agents.len());
        wait_until("no process is left", Duration::from_secs(20), || {
            processes::containing(&marker).is_empty() && !agents.iter().any(is_running)
        });
        // The next client removes the other leftovers.
        let client = SandboxClient::with_backend(backend_in(state.path()), policy())
            .expect("a valid policy");
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        runtime.block_on(async {
            let sandbox = client.create(&spec()).await.expect("a sandbox");
            sandbox.kill().await.expect("it ends");
        });
        wait_until("nothing else is left", Duration::from_secs(20), || {
            let census = Census::take(state.path());
            census.groups + census.taken_ranges + census.folders == 0
        });
        mounts.assert_none_new();
    });
}

/// Delays after an owner's start, up to a while after the creation of its sandboxes.
fn moments(count: usize) -> impl Iterator<Item = Duration> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    (0..count).map(move |_| {
        // Xorshift: the delays only have to differ.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        Duration::from_micros(state % 40_000)
    })
}

/// Kills the owner. Returns whether its code ran, and its children.
fn kill_at(moment: Duration, state: &Path, marker: &str) -> (bool, Vec<PidAndStart>) {
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
    // Stops it first, so that it creates no child after they are listed.
    let pid = rustix::process::Pid::from_child(&owner);
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).expect("SIGSTOP");
    let children = children_of(owner.id()).into_iter().filter_map(process);
    let children = children.collect();
    let seen = !processes::containing(marker).is_empty();
    owner.kill().expect("SIGKILL");
    owner.wait().expect("ended");
    (seen, children)
}

/// A process ID with its start time, because process IDs are reused.
type PidAndStart = (u32, String);

fn process(pid: u32) -> Option<PidAndStart> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = text.rsplit_once(')')?;
    let fields = fields.split_whitespace().collect::<Vec<_>>();
    // A zombie does not run.
    let ended = matches!(*fields.first()?, "Z" | "X");
    (!ended).then(|| (pid, fields[19].to_owned()))
}

fn is_running((pid, started): &PidAndStart) -> bool {
    process(*pid).is_some_and(|(_, now)| now == *started)
}

/// Creates sandboxes until it is killed. Some are being created, others run code that ignores
/// signals.
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
                assert!(result.success(), "{result:?}");
                sandbox.kill().await.expect("it ends");
            }
        };
        tokio::select! {
            result = running => panic!("the owner should have been killed: {result:?}"),
            () = others => {}
        }
    });
}
