//! TCP connections into a sandbox and out of it, over streams of the agent's connection.

pub(crate) mod code;
mod forward;
mod state;
mod stream;

pub use code::ranges as egress_ranges;
pub(crate) use forward::forward;
pub(crate) use state::{Accepted, TcpState, TcpStates};
pub(crate) use stream::TcpStream;
