//! A port of the host that leads into a sandbox.

use std::any::Any;
use std::fmt;
use std::net::SocketAddr;

/// A port of the host that leads to a port inside a sandbox, from
/// [`SandboxHandle::forward`](crate::SandboxHandle::forward).
///
/// Dropping it closes the port and resets its connections. It also closes when the sandbox ends.
#[must_use = "dropping it closes the port"]
pub struct Forward {
    address: SocketAddr,
    port: u16,
    _open: Box<dyn Any + Send + Sync>,
}

impl Forward {
    /// For backends: a listener on `address` that leads to `port`. Dropping `open` closes it.
    pub fn new(address: SocketAddr, port: u16, open: impl Any + Send + Sync) -> Self {
        Self {
            address,
            port,
            _open: Box::new(open),
        }
    }

    /// The address on the host, with the actual port.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The port inside the sandbox.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl fmt::Debug for Forward {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Forward")
            .field("address", &self.address)
            .field("port", &self.port)
            .finish_non_exhaustive()
    }
}
