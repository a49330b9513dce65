//! Facts about this process.

/// Whether this process may install packages, start daemons and run programs as other users.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
