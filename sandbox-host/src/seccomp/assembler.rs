//! Lays instructions out from the last to the first.
//!
//! Branches of classic BPF go forward only, and at most 255 instructions far. Written backwards, every target exists before
//! the branch to it, so each distance is known at once, and a branch that would be too long gets a plain jump (whose reach
//! is not limited) right behind it.

use std::collections::BTreeMap;

use super::Action;
use super::instruction::{Instruction, JUMP, RETURN};

/// An instruction that has been laid out, as its distance from the end of the program: 1 for the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Label(usize);

/// How far back a `return` is shared before another one is laid out; the rest of the 255 is left for what comes between.
const SHARED_RETURN: usize = 128;

#[derive(Debug, Default)]
pub(super) struct Assembler {
    backwards: Vec<Instruction>,
    returns: BTreeMap<Action, Label>,
}

impl Assembler {
    /// Lays out an instruction that goes on with the one laid out before it.
    pub(super) fn push(&mut self, instruction: Instruction) -> Label {
        self.backwards.push(instruction);
        Label(self.backwards.len())
    }

    /// An end of the program with this action.
    pub(super) fn finish(&mut self, action: Action) -> Label {
        if let Some(label) = self.returns.get(&action)
            && self.distance(*label) <= SHARED_RETURN
        {
            return *label;
        }
        let label = self.push(Instruction::plain(RETURN, action.code()));
        self.returns.insert(action, label);
        label
    }

    /// A comparison of the accumulator, with where to go on in each case.
    pub(super) fn branch(
        &mut self,
        code: u16,
        operand: u32,
        if_true: Label,
        if_false: Label,
    ) -> Label {
        let (mut if_true, mut if_false) = (if_true, if_false);
        loop {
            // A jump that is laid out for one target moves the other one further away, hence the loop.
            match (
                u8::try_from(self.distance(if_true)),
                u8::try_from(self.distance(if_false)),
            ) {
                (Ok(if_true), Ok(if_false)) => {
                    return self.push(Instruction {
                        code,
                        if_true,
                        if_false,
                        operand,
                    });
                }
                (Err(_), _) => if_true = self.jump(if_true),
                (_, Err(_)) => if_false = self.jump(if_false),
            }
        }
    }

    /// Makes sure that the next instruction laid out goes on at `label`.
    pub(super) fn fall_into(&mut self, label: Label) {
        if self.distance(label) != 0 {
            self.jump(label);
        }
    }

    /// The program from its first instruction.
    pub(super) fn into_program(self) -> Vec<Instruction> {
        self.backwards.into_iter().rev().collect()
    }

    fn jump(&mut self, label: Label) -> Label {
        let distance = u32::try_from(self.distance(label)).unwrap_or(u32::MAX);
        self.push(Instruction::plain(JUMP, distance))
    }

    /// How many instructions lie between the next one laid out and `label`.
    fn distance(&self, label: Label) -> usize {
        self.backwards.len() - label.0
    }
}
