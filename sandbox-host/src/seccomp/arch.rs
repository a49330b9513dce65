//! The architectures that filters are written for.

use std::fmt;

/// A CPU architecture. All are little-endian with 64-bit arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Arch {
    /// 64-bit x86.
    X86_64,
    /// 64-bit Arm.
    Aarch64,
}

impl Arch {
    /// Every architecture.
    pub const ALL: [Self; 2] = [Self::X86_64, Self::Aarch64];

    /// The architecture with this name, as `uname -m` (`x86_64`, `aarch64`) or container engines
    /// (`amd64`, `arm64`) print it. `None` for others.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "x86_64" | "amd64" => Some(Self::X86_64),
            "aarch64" | "arm64" => Some(Self::Aarch64),
            _ => None,
        }
    }

    /// The architecture of this build; `None` if filters do not support it.
    #[must_use]
    pub fn native() -> Option<Self> {
        Self::from_name(std::env::consts::ARCH)
    }

    /// The name as `uname -m` prints it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Aarch64 => "aarch64",
        }
    }

    /// The kernel's `AUDIT_ARCH_*` value in `seccomp_data.arch`: the ELF machine number with the
    /// flags for 64-bit and little-endian.
    pub(super) fn audit(self) -> u32 {
        const LITTLE_ENDIAN_64_BIT: u32 = 0xc000_0000;
        let machine = match self {
            Self::X86_64 => 62,
            Self::Aarch64 => 183,
        };
        LITTLE_ENDIAN_64_BIT | machine
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
