//! Runs a program as the kernel would, so that tests can compare its decisions with the rules.

use super::instruction::{
    AND, ARCH, ARGUMENTS, IF_AT_LEAST, IF_EQUAL, Instruction, JUMP, LOAD, NUMBER, RETURN,
};

/// `struct seccomp_data`, without the instruction pointer.
#[derive(Debug, Clone, Copy)]
pub struct Data {
    pub number: u32,
    pub arch: u32,
    pub arguments: [u64; 6],
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    /// The `SECCOMP_RET_*` value.
    pub code: u32,
    /// Instructions executed.
    pub steps: usize,
}

impl Data {
    fn word(&self, offset: u32) -> Result<u32, String> {
        match offset {
            NUMBER => Ok(self.number),
            ARCH => Ok(self.arch),
            ARGUMENTS..64 if offset.is_multiple_of(4) => {
                let place = (offset - ARGUMENTS) / 4;
                Ok((self.arguments[place as usize / 2] >> (32 * (place % 2))) as u32)
            }
            _ => Err(format!("load from offset {offset}")),
        }
    }
}

/// Decodes instruction records.
pub fn decode(program: &[u8]) -> Vec<Instruction> {
    let (records, rest) = program.as_chunks::<8>();
    assert!(rest.is_empty(), "a record has 8 bytes");
    records
        .iter()
        .map(
            |[code_low, code_high, if_true, if_false, a, b, c, d]| Instruction {
                code: u16::from_le_bytes([*code_low, *code_high]),
                if_true: *if_true,
                if_false: *if_false,
                operand: u32::from_le_bytes([*a, *b, *c, *d]),
            },
        )
        .collect()
}

/// Runs a program to its end. Programs that the kernel's checker would refuse are errors.
pub fn run(program: &[Instruction], data: &Data) -> Result<End, String> {
    let (mut place, mut accumulator) = (0_usize, 0_u32);
    // Jumps only go forward, so a program runs at most once through its instructions.
    for steps in 1..=program.len() {
        let instruction = program
            .get(place)
            .ok_or_else(|| format!("fell out at {place}"))?;
        let Instruction {
            code,
            if_true,
            if_false,
            operand,
        } = *instruction;
        place += 1;
        let mut skip = |holds: bool| place += usize::from(if holds { if_true } else { if_false });
        match code {
            LOAD => accumulator = data.word(operand)?,
            AND => accumulator &= operand,
            IF_EQUAL => skip(accumulator == operand),
            IF_AT_LEAST => skip(accumulator >= operand),
            JUMP => place += operand as usize,
            RETURN => {
                return Ok(End {
                    code: operand,
                    steps,
                });
            }
            _ => return Err(format!("instruction {code:#x} at {}", place - 1)),
        }
    }
    Err("no end".to_owned())
}
