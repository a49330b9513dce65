//! Latency compared with the engine's command. Times are printed. The assertions leave room for a
//! busy host.

use std::process::Command;
use std::time::{Duration, Instant};

use sandbox_core::{CapabilityPolicy, ExecRequest, OneShot};

use super::{EngineTest, TestEngine};
use crate::contract::{BUSYBOX, TestResult, run};
use crate::users::is_root;

pub const TESTS: &[EngineTest] = &[
    (
        "speed::a_warm_execution_is_much_faster_than_the_engines_command",
        warm,
    ),
    (
        "speed::a_one_shot_is_not_slower_than_the_engines_command",
        one_shot,
    ),
];

/// Measured durations.
#[derive(Default)]
struct Times(Vec<Duration>);

impl Times {
    fn add(&mut self, start: Instant) {
        self.0.push(start.elapsed());
    }

    fn median(mut self) -> Duration {
        self.0.sort();
        self.0[self.0.len() / 2]
    }

    /// Measures a command, which must succeed.
    fn command(&mut self, program: &str, arguments: &[&str]) {
        let mut command = Command::new(program);
        if program == "podman" && !is_root() {
            // Without its service it looks into the storage of its own HOME.
            command.arg("--remote");
        }
        let start = Instant::now();
        let output = command.args(arguments).output();
        self.add(start);
        let output = output.expect(program);
        assert!(
            output.status.success(),
            "{program} {arguments:?}: {output:?}"
        );
    }
}

fn warm(engine: &'static TestEngine) -> TestResult {
    run(async {
        let sandbox = engine.sandbox().await?;
        let name = format!("sandbox-{}", sandbox.name());
        let mut round_trip = Times::default();
        let (mut backend, mut plain, mut command) =
            (Times::default(), Times::default(), Times::default());
        for _ in 0..4 {
            for _ in 0..15 {
                let start = Instant::now();
                assert!(
                    sandbox
                        .exec(&ExecRequest::new("/bin/true"))
                        .await?
                        .success()
                );
                backend.add(start);
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
                command.command(engine.family.command, &["exec", &name, "/bin/true"]);
            }
            // The engine cleans up after its client has disconnected.
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        sandbox.kill().await?;
        let (backend, plain, command) = (backend.median(), plain.median(), command.median());
        let round_trip = round_trip.median();
        eprintln!(
            "warm exec {backend:?}, of it a round trip {round_trip:?}; plain spawn {plain:?}, \
             {} exec {command:?}",
            engine.family.command
        );
        assert!(
            backend * 3 < command,
            "{backend:?} is not far below {command:?}"
        );
        Ok(())
    })
}

fn one_shot(engine: &'static TestEngine) -> TestResult {
    run(async {
        let client = engine.client(CapabilityPolicy::new());
        // The first creation compares the agent's volume.
        assert!(
            client
                .run_shell("true", OneShot::default())
                .await?
                .success()
        );
        let (mut backend, mut command) = (Times::default(), Times::default());
        for _ in 0..7 {
            let start = Instant::now();
            assert!(
                client
                    .run_shell("true", OneShot::default())
                    .await?
                    .success()
            );
            backend.add(start);
            let run = [
                "run",
                "--rm",
                "--pull=never",
                "--network=none",
                BUSYBOX,
                "/bin/true",
            ];
            command.command(engine.family.command, &run);
        }
        let (backend, command) = (backend.median(), command.median());
        eprintln!(
            "one-shot {backend:?}, {} run --rm {command:?}",
            engine.family.command
        );
        assert!(
            backend < command * 2,
            "{backend:?} is far above {command:?}"
        );
        Ok(())
    })
}
