//! The classic BPF instructions that filters use.

/// One `struct sock_filter`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Instruction {
    /// Operation, addressing mode and source.
    pub code: u16,
    /// Instructions to skip if the comparison holds.
    pub if_true: u8,
    /// Instructions to skip if it does not.
    pub if_false: u8,
    /// The operand.
    pub operand: u32,
}

/// `BPF_LD | BPF_W | BPF_ABS`: loads the 32-bit word at offset `operand` of `struct seccomp_data` into the accumulator.
pub(super) const LOAD: u16 = 0x20;
/// `BPF_ALU
///  BPF_AND
///  BPF_K`: masks the accumulator with `operand`.
pub(super) const AND: u16 = 0x54;
/// `BPF_JMP | BPF_JA`: skips `operand` instructions.
pub(super) const JUMP: u16 = 0x05;
/// `BPF_JMP
///  BPF_JEQ
///  BPF_K`: compares the accumulator with `operand` for equality.
pub(super) const IF_EQUAL: u16 = 0x15;
/// `BPF_JMP
///  BPF_JGE
///  BPF_K`: compares whether the accumulator is at least `operand`, unsigned.
pub(super) const IF_AT_LEAST: u16 = 0x35;
/// `BPF_RET | BPF_K`: ends the program with `operand`.
pub(super) const RETURN: u16 = 0x06;

/// `BPF_MAXINSNS`: the longest program that the kernel accepts.
pub(super) const MAX_INSTRUCTIONS: usize = 4096;

/// Offset of the system call's number in `struct seccomp_data`.
pub(super) const NUMBER: u32 = 0;
/// Offset of the `AUDIT_ARCH_*` value.
pub(super) const ARCH: u32 = 4;
/// Offset of the first argument; each has 8 bytes, the low half first.
pub(super) const ARGUMENTS: u32 = 16;

impl Instruction {
    pub(super) fn plain(code: u16, operand: u32) -> Self {
        Self {
            code,
            if_true: 0,
            if_false: 0,
            operand,
        }
    }

    /// The record in the byte order of the target, which is little-endian on every [`super::Arch`].
    pub(super) fn encode(self) -> [u8; 8] {
        let [code_low, code_high] = self.code.to_le_bytes();
        let [a, b, c, d] = self.operand.to_le_bytes();
        [code_low, code_high, self.if_true, self.if_false, a, b, c, d]
    }
}
