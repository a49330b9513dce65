//! Error numbers that a filter makes system calls fail with.

use std::fmt;

/// An error number of Linux, equal on every architecture of [`super::Arch`]. The kernel takes 1 to 4095.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Errno(pub u16);

impl Errno {
    /// Operation not permitted.
    pub const EPERM: Self = Self(1);
    /// The call does not know this argument.
    pub const EINVAL: Self = Self(22);
    /// The file does not know this request.
    pub const ENOTTY: Self = Self(25);
    /// The kernel does not have this system call.
    pub const ENOSYS: Self = Self(38);
    /// The kernel does not have this protocol.
    pub const EPROTONOSUPPORT: Self = Self(93);
    /// The address family does not have this type of socket.
    pub const ESOCKTNOSUPPORT: Self = Self(94);
    /// The kernel does not have this address family.
    pub const EAFNOSUPPORT: Self = Self(97);
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::EPERM => f.pad("EPERM"),
            Self::ENOTTY => f.pad("ENOTTY"),
            Self::EINVAL => f.pad("EINVAL"),
            Self::ENOSYS => f.pad("ENOSYS"),
            Self::EPROTONOSUPPORT => f.pad("EPROTONOSUPPORT"),
            Self::ESOCKTNOSUPPORT => f.pad("ESOCKTNOSUPPORT"),
            Self::EAFNOSUPPORT => f.pad("EAFNOSUPPORT"),
            Self(number) => write!(f, "errno {number}"),
        }
    }
}
