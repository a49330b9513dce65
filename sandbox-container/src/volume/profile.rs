//! The seccomp profile of a container, which engines take as text or as a file name.

use std::sync::OnceLock;

use sandbox_host::confinement::container_filter;
use sandbox_host::seccomp::{Arch, EngineProfile};

/// The profile's file, next to the agent, so every engine finds it.
pub(super) const FILE: &str = "seccomp.json";

/// The profile for a program's architecture; `None` if that has no filters.
pub(super) fn of_program(program: &[u8]) -> Option<&'static str> {
    // An ELF header has the architecture after identification and type.
    let machine = program.get(18..20)?;
    let arch = match u16::from_le_bytes([machine[0], machine[1]]) {
        62 => Arch::X86_64,
        183 => Arch::Aarch64,
        _ => return None,
    };
    program.starts_with(b"\x7fELF").then(|| text(arch))
}

fn text(arch: Arch) -> &'static str {
    static X86_64: OnceLock<String> = OnceLock::new();
    static AARCH64: OnceLock<String> = OnceLock::new();
    let text = match arch {
        Arch::X86_64 => &X86_64,
        Arch::Aarch64 => &AARCH64,
    };
    text.get_or_init(|| EngineProfile::new(&container_filter(arch)).to_json())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profile_matches_the_programs_architecture() {
        let mut program = [0; 64];
        program[..4].copy_from_slice(b"\x7fELF");
        assert_eq!(of_program(&program), None);
        for (machine, name) in [(62, "SCMP_ARCH_X86_64"), (183, "SCMP_ARCH_AARCH64")] {
            program[18] = machine;
            assert!(of_program(&program).expect("a profile").contains(name));
        }
        assert_eq!(of_program(b"#!/bin/sh"), None);
        assert_eq!(of_program(b""), None);
    }

    #[test]
    fn built_in_agent_has_a_profile() {
        let program = sandbox_agent::program();
        assert!(program.is_empty() || of_program(program).is_some());
    }
}
