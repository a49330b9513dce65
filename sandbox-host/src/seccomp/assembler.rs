//! Assembles instructions from the last to the first.
//!
//! Branches of classic BPF only go forward, at most 255 instructions. When writing backwards, each
//! target exists before the branch to it, so each distance is known at once. A branch that is too
//! long gets an unconditional jump, whose range is unlimited, right behind it.

use std::collections::BTreeMap;

use super::Action;
use super::instruction::{Instruction, JUMP, RETURN};

/// An emitted instruction, as its distance from the program's end: 1 for the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Label(usize);

/// A `return` at most this far away is reused. The rest of the 255 is left for instructions in
/// between.
const SHARED_RETURN: usize = 128;

#[derive(Debug, Default)]
pub(super) struct Assembler {
    backwards: Vec<Instruction>,
    returns: BTreeMap<Action, Label>,
}

impl Assembler {
    /// Emits an instruction that continues with the previously emitted one.
    pub(super) fn push(&mut self, instruction: Instruction) -> Label {
        self.backwards.push(instruction);
        Label(self.backwards.len())
    }

    /// Ends the program with this action.
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

    /// Emits a comparison of the accumulator with both targets.
    pub(super) fn branch(
        &mut self,
        code: u16,
        operand: u32,
        if_true: Label,
        if_false: Label,
    ) -> Label {
        let (mut if_true, mut if_false) = (if_true, if_false);
        loop {
            // An inserted jump moves the other target further away, hence the loop.
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

    /// Makes the next emitted instruction continue at `label`.
    pub(super) fn fall_into(&mut self, label: Label) {
        if self.distance(label) != 0 {
            self.jump(label);
        }
    }

    /// The program, starting with its first instruction.
    pub(super) fn into_program(self) -> Vec<Instruction> {
        self.backwards.into_iter().rev().collect()
    }

    fn jump(&mut self, label: Label) -> Label {
        let distance = u32::try_from(self.distance(label)).unwrap_or(u32::MAX);
        self.push(Instruction::plain(JUMP, distance))
    }

    /// The number of instructions between the next emitted one and `label`.
    fn distance(&self, label: Label) -> usize {
        self.backwards.len() - label.0
    }
}
