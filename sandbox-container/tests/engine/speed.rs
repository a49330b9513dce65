//! How long things take, beside the engine's own client. Printed; what is asserted has room for a busy machine.

use std::process::Command;
use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use sandbox_core::{CapabilityPolicy, ExecRequest, OneShot};

use crate::suite::engine::{BUSYBOX, client, run, sandbox};
use crate::suite::{COMMAND, Test};

pub const TESTS: &[Test] = &[
    (
        "speed::a_warm_execution_is_far_faster_than_the_engines",
        warm,
    ),
    (
        "speed::a_one_shot_takes_no_longer_than_the_engines",
        one_shot,
    ),
];

/// The median of what these took, or `None` where there is nothing to run them with.
#[derive(Default)]
struct Times(Vec<Duration>);

impl Times {
    fn add(&mut self, start: Instant) {
        self.0.push(start.elapsed());
    }

    fn median(mut self) -> Option<Duration> {
        self.0.sort();
        self.0.get(self.0.len() / 2).copied()
    }

    /// Runs a command that may be missing or fail: it counts only when it succeeds.
    fn command(&mut self, program: &str, arguments: &[&str]) {
        let start = Instant::now();
        if Command::new(program)
            .args(arguments)
            .output()
            .is_ok_and(|done| done.status.success())
        {
            self.add(start);
        }
    }
}

fn warm() -> Result<(), Failed> {
    run(async {
        let sandbox = sandbox().await?;
        let name = format!("sandbox-{}", sandbox.name());
        let mut round_trip = Times::default();
        let (mut ours, mut plain, mut engine) =
            (Times::default(), Times::default(), Times::default());
        for _ in 0..4 {
            for _ in 0..15 {
                let start = Instant::now();
                assert!(sandbox.exec(&ExecRequest::new("/bin/true")).await?.ok());
                ours.add(start);
            }
            for _ in 0..15 {
                let start = Instant::now();
                sandbox.logs(Some(0)).await?;
                round_trip.add(start);
            }
            for _ in 0..15 {
                plain.command("/bin/true", &[]);
            }
            for _ in 0..4 {
                engine.command(COMMAND, &["exec", &name, "/bin/true"]);
            }
            // The engine tidies up after its client has gone.
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        sandbox.kill().await?;
        let (ours, plain, engine) = (ours.median(), plain.median(), engine.median());
        let round_trip = round_trip.median();
        eprintln!(
            "warm exec {ours:?}, of it a round trip {round_trip:?}; plain spawn {plain:?}, \
             {COMMAND} exec {engine:?}"
        );
        if let (Some(ours), Some(engine)) = (ours, engine) {
            assert!(ours * 3 < engine, "{ours:?} is not far below {engine:?}");
        }
        Ok(())
    })
}

fn one_shot() -> Result<(), Failed> {
    run(async {
        let client = client(CapabilityPolicy::new());
        // The first one compares the agent's volume.
        assert!(client.run_shell("true", OneShot::default()).await?.ok());
        let (mut ours, mut engine) = (Times::default(), Times::default());
        for _ in 0..7 {
            let start = Instant::now();
            assert!(client.run_shell("true", OneShot::default()).await?.ok());
            ours.add(start);
            let run = [
                "run",
                "--rm",
                "--pull=never",
                "--network=none",
                BUSYBOX,
                "/bin/true",
            ];
            engine.command(COMMAND, &run);
        }
        let (ours, engine) = (ours.median(), engine.median());
        eprintln!("one-shot {ours:?}, {COMMAND} run --rm {engine:?}");
        if let (Some(ours), Some(engine)) = (ours, engine) {
            assert!(ours < engine * 2, "{ours:?} is far above {engine:?}");
        }
        Ok(())
    })
}
