//! From rules to a program: a binary search over the numbers, then the conditions of the one system call.
//!
//! The kernel (5.11 and later) runs a filter once for each number when it is installed, and asks it no more about those
//! that it always allows; it understands every instruction used here. Older kernels pay for the search, about ten
//! instructions.

use std::collections::BTreeMap;
use std::fmt;

use super::assembler::{Assembler, Label};
use super::instruction::{
    AND, ARCH, ARGUMENTS, IF_AT_LEAST, IF_EQUAL, Instruction, LOAD, MAX_INSTRUCTIONS, NUMBER,
};
use super::{Action, Condition, Filter, Rule};

/// A filter's program has more instructions than the kernel takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLong(pub usize);

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the filter needs {} instructions, the kernel takes {MAX_INSTRUCTIONS}: leave out rules, or values of their \
             conditions",
            self.0
        )
    }
}

impl std::error::Error for TooLong {}

/// What happens to all numbers of a range.
#[derive(Debug, Clone, PartialEq)]
enum Outcome<'a> {
    Always(Action),
    Depends(Vec<&'a Rule>),
}

/// A range of numbers, by its first; it ends where the next begins.
type Range<'a> = (u32, Outcome<'a>);

impl Filter {
    /// The program as the kernel takes it: `struct sock_filter` records of 8 bytes.
    ///
    /// # Errors
    ///
    /// [`TooLong`] beyond 4096 instructions.
    pub fn compile(&self) -> Result<Vec<u8>, TooLong> {
        let program = self.instructions()?;
        Ok(program.into_iter().flat_map(Instruction::encode).collect())
    }

    pub(super) fn instructions(&self) -> Result<Vec<Instruction>, TooLong> {
        let mut assembler = Assembler::default();
        let search = search(&mut assembler, &self.ranges());
        assembler.fall_into(search);
        let number = assembler.push(Instruction::plain(LOAD, NUMBER));
        let kill = assembler.finish(Action::KillProcess);
        assembler.branch(IF_EQUAL, self.arch().audit(), number, kill);
        assembler.push(Instruction::plain(LOAD, ARCH));
        let program = assembler.into_program();
        if program.len() > MAX_INSTRUCTIONS {
            return Err(TooLong(program.len()));
        }
        Ok(program)
    }

    /// All numbers from 0, in ranges of equal outcome.
    fn ranges(&self) -> Vec<Range<'_>> {
        let mut calls = BTreeMap::<u32, Vec<&Rule>>::new();
        for rule in self.rules() {
            if let Some(number) = rule.syscall().number(self.arch())
                && self.beyond(number).is_none()
            {
                calls.entry(number).or_default().push(rule);
            }
        }
        let mut ranges = vec![(0, Outcome::Always(Action::Allow))];
        for (number, rules) in calls {
            begin(&mut ranges, number, outcome(rules));
            begin(&mut ranges, number + 1, Outcome::Always(Action::Allow));
        }
        if let Some(action) = self.beyond(self.limit()) {
            begin(&mut ranges, self.limit(), Outcome::Always(action));
        }
        ranges
    }
}

/// Starts a range; one that would be empty, or like the one before it, vanishes.
fn begin<'a>(ranges: &mut Vec<Range<'a>>, first: u32, outcome: Outcome<'a>) {
    ranges.pop_if(|(other, _)| *other == first);
    if ranges.last().is_none_or(|(_, last)| *last != outcome) {
        ranges.push((first, outcome));
    }
}

fn outcome(mut rules: Vec<&Rule>) -> Outcome<'_> {
    // What follows a rule without conditions is never reached.
    if let Some(last) = rules.iter().position(|rule| rule.conditions().is_empty()) {
        rules.truncate(last + 1);
    }
    match rules.as_slice() {
        [rule] if rule.conditions().is_empty() => Outcome::Always(rule.action()),
        _ => Outcome::Depends(rules),
    }
}

/// Expects the number in the accumulator.
fn search(assembler: &mut Assembler, ranges: &[Range<'_>]) -> Label {
    match ranges {
        [] => assembler.finish(Action::Allow),
        [(_, Outcome::Always(action))] => assembler.finish(*action),
        [(_, Outcome::Depends(rules))] => chain(assembler, rules),
        _ => {
            let (lower, upper) = ranges.split_at(ranges.len() / 2);
            let at_least = search(assembler, upper);
            let below = search(assembler, lower);
            assembler.branch(IF_AT_LEAST, upper[0].0, at_least, below)
        }
    }
}

fn chain(assembler: &mut Assembler, rules: &[&Rule]) -> Label {
    let mut otherwise = assembler.finish(Action::Allow);
    for rule in rules.iter().rev() {
        let mut then = assembler.finish(rule.action());
        for condition in rule.conditions().iter().rev() {
            then = question(assembler, condition, then, otherwise);
        }
        otherwise = then;
    }
    otherwise
}

fn question(
    assembler: &mut Assembler,
    condition: &Condition,
    then: Label,
    otherwise: Label,
) -> Label {
    let (found, missed) = if condition.is_member() {
        (then, otherwise)
    } else {
        (otherwise, then)
    };
    let low = ARGUMENTS + 8 * condition.argument().index() as u32;
    let high = low + 4;
    let mask = halves(condition.mask());
    // A value with bits outside of the mask can never be met.
    let values = condition
        .values()
        .iter()
        .filter(|value| **value & !condition.mask() == 0);
    let values = values.map(|value| halves(*value)).collect::<Vec<_>>();
    match mask {
        (0, 0) if values.is_empty() => missed,
        (0, 0) => found,
        (mask, 0) => set(
            assembler,
            low,
            mask,
            values.iter().map(|(low, _)| *low),
            found,
            missed,
        ),
        (0, mask) => set(
            assembler,
            high,
            mask,
            values.iter().map(|(_, high)| *high),
            found,
            missed,
        ),
        _ => values.iter().rev().fold(missed, |next, value| {
            let upper = set(assembler, high, mask.1, [value.1].into_iter(), found, next);
            set(assembler, low, mask.0, [value.0].into_iter(), upper, next)
        }),
    }
}

fn halves(word: u64) -> (u32, u32) {
    (word as u32, (word >> 32) as u32)
}

/// Whether the bits of one half of an argument are one of `values`.
fn set(
    assembler: &mut Assembler,
    offset: u32,
    mask: u32,
    values: impl DoubleEndedIterator<Item = u32>,
    found: Label,
    missed: Label,
) -> Label {
    let compared = values.rev().fold(None, |next, value| {
        Some(assembler.branch(IF_EQUAL, value, found, next.unwrap_or(missed)))
    });
    if compared.is_none() {
        return missed;
    }
    if mask != u32::MAX {
        assembler.push(Instruction::plain(AND, mask));
    }
    assembler.push(Instruction::plain(LOAD, offset))
}
