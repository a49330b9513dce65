//! Error numbers that filters return.

use std::fmt;

/// A Linux error number, the same on each [`super::Arch`]. The kernel accepts 1 to 4095.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Errno(pub u16);

impl Errno {
    /// Operation not permitted.
    pub const EPERM: Self = Self(1);
    /// Invalid argument.
    pub const EINVAL: Self = Self(22);
    /// Inappropriate `ioctl` for the file.
    pub const ENOTTY: Self = Self(25);
    /// System call not implemented.
    pub const ENOSYS: Self = Self(38);
    /// Protocol not supported.
    pub const EPROTONOSUPPORT: Self = Self(93);
    /// Socket type not supported.
    pub const ESOCKTNOSUPPORT: Self = Self(94);
    /// Address family not supported.
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
