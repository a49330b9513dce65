//! Measurements, printed without pass or fail. `cargo test --release -p sandbox-agent --test
//! measure -- --ignored --nocapture`.

mod common;

use std::{
    fs,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use common::{FirstClient, TIMEOUT, command, script, settings};
use sandbox_agent::protocol::{AgentSettings, Channel, ExecRequest, ExitKind, FrameKind};

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn resident(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))
        .or_else(|_| fs::read_to_string(format!("/proc/{pid}/status")))
        .unwrap()
        .lines()
        .filter(|line| line.starts_with("Rss:") || line.starts_with("VmRSS:"))
        .collect()
}

#[test]
#[ignore = "a measurement"]
fn measure() {
    println!(
        "size of the program: {} bytes",
        sandbox_agent::program().len()
    );
    let times = (0..200)
        .map(|_| {
            let start = Instant::now();
            let client = FirstClient::start(&settings());
            let time = start.elapsed();
            drop(client);
            time
        })
        .collect();
    println!("start to welcome: {:?}", median(times));

    let mut client = FirstClient::start(&settings());
    println!("idle agent: {}", resident(client.agent.id()));
    println!(
        "ping: {:?}",
        median((0..2000).map(|_| client.ping()).collect())
    );

    let plain = |count: usize| {
        median(
            (0..count)
                .map(|_| {
                    let start = Instant::now();
                    let output = Command::new("/bin/true")
                        .stdin(Stdio::null())
                        .output()
                        .unwrap();
                    assert!(output.status.success());
                    start.elapsed()
                })
                .collect(),
        )
    };
    let warm = |client: &mut FirstClient| {
        let start = Instant::now();
        assert_eq!(
            client.run(&command(&["/bin/true"])).kind(),
            ExitKind::Exited(0)
        );
        start.elapsed()
    };
    // The counter files of the root cgroup, or of this process's cgroup, in both versions.
    let mut counting = FirstClient::start(&AgentSettings {
        kill_count_files: vec![
            b"/sys/fs/cgroup/memory/memory.oom_control".to_vec(),
            b"/sys/fs/cgroup/memory.events".to_vec(),
        ],
        ..settings()
    });
    let counted = counting.run(&command(&["/bin/true"])).report().memory_kills;
    println!("kills for memory are counted: {}", counted.is_some());
    for _ in 0..6 {
        let plain = plain(500);
        // Alternating, so that other load affects both alike. This includes the pre-fork after each
        // execution.
        let (warm, counted): (Vec<_>, Vec<_>) = (0..500)
            .map(|round| {
                if round % 2 == 0 {
                    (warm(&mut client), warm(&mut counting))
                } else {
                    let counted = warm(&mut counting);
                    (warm(&mut client), counted)
                }
            })
            .unzip();
        let (warm, counted) = (median(warm), median(counted));
        println!(
            "/bin/true: plain {plain:?}, warm {warm:?}, ratio {:.2}; with counts of kills {counted:?}",
            warm.as_secs_f64() / plain.as_secs_f64()
        );
    }
    let mut client = FirstClient::start(&settings());
    for mib in [64u64, 1024] {
        let request = script(&format!("head -c {} /dev/zero", mib << 20));
        let start = Instant::now();
        let total = drain(&mut client, &request);
        let time = start.elapsed();
        assert_eq!(total, mib << 20);
        println!(
            "{mib} MiB of stdout: {time:?}, {:.0} MB/s, agent {}",
            total as f64 / 1e6 / time.as_secs_f64(),
            resident(client.agent.id())
        );
    }
    let start = Instant::now();
    let mut child = Command::new("head")
        .args(["-c", &(1u64 << 30).to_string(), "/dev/zero"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pipe = child.stdout.take().unwrap();
    let mut chunk = vec![0; 65_536];
    while std::io::Read::read(&mut pipe, &mut chunk).unwrap() > 0 {}
    child.wait().unwrap();
    println!("1024 MiB through a plain pipe: {:?}", start.elapsed());

    for number in [0, 100, 500] {
        let text = format!(
            "i=0; while [ $i -lt {number} ]; do (setsid sleep 100 &) ; i=$((i+1)); done; echo up; sleep 100"
        );
        let stream = client.exec(&script(&text));
        let mut killed = None;
        let outcome = client.follow(stream, |client, message| {
            if message.kind == FrameKind::Stdout {
                std::thread::sleep(Duration::from_millis(500));
                client.send(stream, FrameKind::Kill, &[]);
                killed = Some(Instant::now());
            }
        });
        println!(
            "kill of a tree with {} stragglers: {:?}",
            outcome.report().stragglers,
            killed.unwrap().elapsed()
        );
    }
}

/// Follows a stream without keeping its bytes; grants credit in large units.
fn drain(client: &mut FirstClient, request: &ExecRequest) -> u64 {
    let stream = client.exec(request);
    let (mut total, mut ungranted) = (0u64, 0usize);
    loop {
        let message = client.receive(TIMEOUT).unwrap();
        match message.kind {
            FrameKind::Stdout => {
                total += message.bytes.len() as u64;
                ungranted += message.bytes.len();
                if ungranted >= 128 * 1024 {
                    client.grant(stream, Channel::Stdout, ungranted);
                    ungranted = 0;
                }
            }
            FrameKind::Exited => return total,
            _ => {}
        }
    }
}
