//! Tells the workers in turn what to do, and keeps what they answer.

use std::collections::BTreeMap;
use std::env;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use crate::case::{self, Place};
use crate::failure::{Context, Failure, Result};
use crate::memory::Footprint;
use crate::operations::Programs;
use crate::protocol::{Answer, Request, Sample};

/// Rounds that are not kept, of all cases: caches fill, warm sandboxes are made.
const WARM_UP: u32 = 2;
/// Most time for one operation, many times what the slowest takes.
const PATIENCE: Duration = Duration::from_secs(180);
/// How long an idle worker may take to end what it still runs.
const END: Duration = Duration::from_secs(20);

/// Everything that was measured.
#[derive(Debug, Default)]
pub struct Measured {
    /// By the case's name.
    pub samples: BTreeMap<&'static str, Vec<Sample>>,
    /// Why a case was not measured, by its name.
    pub missing: BTreeMap<&'static str, String>,
    /// Why a case failed, by its name. It is left out from then on.
    pub failed: BTreeMap<&'static str, String>,
    /// The processes of an idle local sandbox; empty where that could not be told.
    pub memory: Vec<Footprint>,
}

impl Measured {
    /// Whether the case can still be measured.
    fn takes(&self, id: &str) -> bool {
        !self.missing.contains_key(id) && !self.failed.contains_key(id)
    }

    fn note(&mut self, id: &'static str, failure: Failure) {
        match failure {
            Failure::Missing(text) => self.missing.insert(id, text),
            Failure::Failed(text) => self.failed.insert(id, text),
        };
    }
}

/// Measures `rounds` rounds of the cases that belong to `groups`, or of all, with these programs.
///
/// What is short (it takes part in every round) is done twice in a row, and the second time counts: otherwise each would pay for
/// what the case before it has left, full caches and memory that is given back, and rivals would pay unequally.
///
/// # Errors
/// When a worker cannot be started, dies, or does not answer in time.
pub fn run(rounds: u32, groups: &[String], programs: &Programs) -> Result<Measured> {
    let mut workers = BTreeMap::new();
    for place in Place::ALL {
        workers.insert(place, Worker::start(place, programs)?);
    }
    let mut measured = Measured::default();
    for round in 0..WARM_UP + rounds {
        let counted = round.checked_sub(WARM_UP);
        for case in case::all().filter(|case| case.belongs_to(groups)) {
            let takes_part = match counted {
                Some(round) => case.takes_part(round, rounds),
                None => !case.is_rare(),
            };
            if !takes_part || !measured.takes(case.id) {
                continue;
            }
            let worker = worker(&mut workers, case.place)?;
            if case.every == 1 {
                // A failure here is one where it counts, too.
                let _ = worker.operate(Request::Do(case.operation))?;
            }
            match worker.operate(Request::Do(case.operation))? {
                Ok(Answer::Done(sample)) if counted.is_some() => {
                    measured.samples.entry(case.id).or_default().push(sample);
                }
                Ok(_) => {}
                Err(failure) => measured.note(case.id, failure),
            }
        }
        if counted.is_some_and(|round| round % 50 == 49) {
            eprintln!("{} of {rounds} rounds", round + 1 - WARM_UP);
        }
    }
    if groups.is_empty() || groups.iter().any(|group| group == "local") {
        match worker(&mut workers, Place::OneThread)?.operate(Request::Memory)? {
            Ok(Answer::Memory(memory)) => measured.memory = memory,
            Ok(other) => return Err(Failure::Failed(format!("not about memory: {other:?}"))),
            Err(failure) => measured.note("memory", failure),
        }
    }
    for (place, worker) in workers {
        worker.end(place)?;
    }
    Ok(measured)
}

fn worker(workers: &mut BTreeMap<Place, Worker>, place: Place) -> Result<&mut Worker> {
    workers
        .get_mut(&place)
        .ok_or_else(|| Failure::Failed(format!("no worker for {place:?}")))
}

struct Worker {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Worker {
    fn start(place: Place, programs: &Programs) -> Result<Self> {
        let mut command = Command::new(env::current_exe().context("find this program")?);
        command.arg("worker").args(place.arguments());
        programs.tell(&mut command);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("start a worker")?;
        let (sender, lines) = mpsc::channel();
        if let Some(stdout) = child.stdout.take() {
            thread::spawn(move || {
                for line in BufReader::new(stdout).lines().map_while(|line| line.ok()) {
                    if sender.send(line).is_err() {
                        break;
                    }
                }
            });
        }
        let stdin = child.stdin.take();
        let worker = Self {
            child,
            stdin,
            lines,
        };
        worker.answer()?;
        Ok(worker)
    }

    /// The outer error says that the worker is lost, the inner one that the operation failed.
    fn operate(&mut self, request: Request) -> Result<Result<Answer>> {
        let mut line = serde_json::to_vec(&request).context("write a request")?;
        line.push(b'\n');
        let stdin = self
            .stdin
            .as_mut()
            .ok_or_else(|| Failure::Failed("no stdin".to_owned()))?;
        stdin.write_all(&line).context("tell a worker what to do")?;
        Ok(match self.answer()? {
            Answer::Missing(text) => Err(Failure::Missing(text)),
            Answer::Failed(text) => Err(Failure::Failed(text)),
            answer => Ok(answer),
        })
    }

    fn answer(&self) -> Result<Answer> {
        let line = self
            .lines
            .recv_timeout(PATIENCE)
            .context("wait for a worker's answer")?;
        serde_json::from_str(&line).context("understand a worker's answer")
    }

    /// Closes the worker's stdin, upon which it ends what it still runs, and itself.
    fn end(mut self, place: Place) -> Result<()> {
        drop(self.stdin.take());
        let begin = Instant::now();
        while begin.elapsed() < END {
            if let Some(status) = self.child.try_wait().context("wait for a worker")? {
                return if status.success() {
                    Ok(())
                } else {
                    Err(Failure::Failed(format!(
                        "the worker {place:?} ended with {status}"
                    )))
                };
            }
            thread::sleep(Duration::from_millis(5));
        }
        Err(Failure::Failed(format!(
            "the worker {place:?} does not end"
        )))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        drop(self.stdin.take());
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            // Lost already, or a driver that gives up: the sandboxes end with their owner.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}
