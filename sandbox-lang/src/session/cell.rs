//! Runs one cell in an interpreter.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use sandbox_core::{Outcome, Result};
use tokio::io::AsyncWriteExt as _;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::interpreter::{Heard, Interpreter};
use super::ladder::{Ladder, LadderStep};
use super::message::{self, DisplayKind, Done, Message};
use super::result::Display;
use super::shell::Item;
use super::worker::Note;
use super::{CellEvent, CellRequest};

/// How many times the limit of one display is the limit of all displays of a cell.
pub(super) const DISPLAYS_FACTOR: usize = 4;

/// The most displays of a cell.
const MAX_DISPLAYS: usize = 1000;

/// The limits of a cell.
#[derive(Debug, Clone, Copy)]
pub(super) struct CellLimits {
    pub(super) time: Duration,
    pub(super) output: [u64; 2],
    pub(super) displays: usize,
}

/// How a cell ended, and whether its interpreter did.
#[derive(Debug)]
pub(super) enum End {
    /// It ended, after an interrupt or without one.
    Done { done: Box<Done>, was_late: bool },
    /// It did not end. The interpreter must be killed.
    Endless,
    /// It did not begin: the interpreter cannot be copied, because it has these threads.
    Refused(Vec<String>),
    /// The interpreter must be killed.
    Broken(String),
    /// The interpreter has ended.
    Died {
        outcome: Outcome,
        details: String,
        was_late: bool,
    },
}

/// A cell that runs.
struct Cell {
    number: u64,
    limits: CellLimits,
    /// How much of each stream, and of displays, has come.
    output: [u64; 2],
    displays: usize,
    displays_size: usize,
}

/// Runs a cell. Its output goes to `notes`; if their receiver is dropped, the cell is interrupted.
pub(super) async fn run(
    interpreter: &mut Interpreter,
    number: u64,
    request: &CellRequest,
    limits: CellLimits,
    notes: &mpsc::Sender<Note>,
) -> Result<End> {
    let Interpreter {
        execution,
        stdin,
        output,
    } = interpreter;
    let mut cell = Cell {
        number,
        limits,
        output: [0; 2],
        displays: 0,
        displays_size: 0,
    };
    let mut input = output.channel.begin(number, request, limits.output);
    let mut written = 0;
    let mut ladder = Ladder::new(Instant::now() + limits.time);
    let mut is_abandoned = false;
    let mut waiting = VecDeque::new();
    let end = loop {
        tokio::select! {
            biased;
            () = tokio::time::sleep_until(ladder.due()) => match ladder.climb() {
                LadderStep::Interrupt => input.extend(output.channel.interrupt()),
                LadderStep::KillChildren => input.extend(output.channel.kill_children()),
                LadderStep::Kill => break End::Endless,
            },
            () = notes.closed(), if !is_abandoned => {
                is_abandoned = true;
                waiting.clear();
                ladder.begin();
            }
            permit = notes.reserve(), if !is_abandoned && !waiting.is_empty() => {
                if let (Ok(permit), Some(event)) = (permit, waiting.pop_front()) {
                    permit.send(Note::Event(event));
                }
            }
            count = stdin.write(&input[written..]), if written < input.len() => match count {
                Ok(count) => written += count,
                // The end of the execution follows.
                Err(_) => written = input.len(),
            },
            heard = output.hear(execution), if waiting.is_empty() => match heard? {
                Heard::Item(item) => match cell.take(item) {
                    Ok(Taken::Event(event)) if !is_abandoned => waiting.push_back(event),
                    Ok(Taken::Event(_)) => {}
                    Ok(Taken::Done(done)) => {
                        let was_late = ladder.has_begun();
                        break End::Done { done, was_late };
                    }
                    Ok(Taken::Refused(threads)) => break End::Refused(threads),
                    Err(wrong) => break End::Broken(wrong),
                },
                Heard::Wrong(wrong) => break End::Broken(wrong),
                Heard::Ended(outcome) => {
                    let details = output.details(&outcome);
                    let was_late = ladder.has_begun();
                    break End::Died {
                        outcome,
                        details,
                        was_late,
                    };
                }
            },
        }
    };
    for event in waiting {
        // The caller may not wait for the cell any more.
        let _ = notes.send(Note::Event(event)).await;
    }
    Ok(end)
}

/// What an item was.
enum Taken {
    Event(CellEvent),
    Done(Box<Done>),
    Refused(Vec<String>),
}

impl Cell {
    /// Checks what came; an error says how it is wrong.
    fn take(&mut self, item: Item) -> Result<Taken, String> {
        let message = match item {
            Item::Stdout(bytes) => {
                return Ok(Taken::Event(CellEvent::Stdout(self.output(0, bytes)?)));
            }
            Item::Stderr(bytes) => {
                return Ok(Taken::Event(CellEvent::Stderr(self.output(1, bytes)?)));
            }
            Item::Message(message) => message,
        };
        match message {
            Message::Ready { .. } => Err("that it is ready, again".to_owned()),
            Message::Branched { .. } | Message::NotBranched { .. } => {
                Err("of a branch, which nobody asked for".to_owned())
            }
            Message::Display {
                cell,
                kind,
                data,
                omitted,
                plot,
            } => {
                self.check(cell)?;
                let (display, size) = message::display(data, omitted, plot)?;
                self.count(&display, size)?;
                Ok(Taken::Event(match kind {
                    DisplayKind::Result => CellEvent::Result(display),
                    DisplayKind::Display => CellEvent::Display(display),
                }))
            }
            Message::Refused { cell, threads } => {
                self.check(cell)?;
                Ok(Taken::Refused(threads))
            }
            Message::Done(done) => {
                self.check(done.cell)?;
                if done.stdout < self.output[0] || done.stderr < self.output[1] {
                    return Err("that it wrote less than it sent".to_owned());
                }
                Ok(Taken::Done(done))
            }
        }
    }

    fn check(&self, cell: u64) -> Result<(), String> {
        match cell == self.number {
            true => Ok(()),
            false => Err(format!("a message about cell {cell}")),
        }
    }

    fn output(&mut self, stream: usize, bytes: Bytes) -> Result<Bytes, String> {
        self.output[stream] += bytes.len() as u64;
        match self.output[stream] > self.limits.output[stream] {
            true => Err("more output than it was asked for".to_owned()),
            false => Ok(bytes),
        }
    }

    fn count(&mut self, display: &Display, size: usize) -> Result<(), String> {
        self.displays += 1;
        self.displays_size += size;
        // Each representation also has a name, and each display may have a size in text.
        let is_wide = display.data.len() + display.omitted.len() > MAX_DISPLAYS;
        if self.displays > MAX_DISPLAYS || self.displays_size > self.limits.displays || is_wide {
            return Err("more displays than a cell may have".to_owned());
        }
        Ok(())
    }
}
