//! TCP connections into a sandbox and out of it, over streams of the agent's connection.

mod forward;
mod state;
mod stream;

pub(crate) use forward::forward;
pub(crate) use state::{Accepted, TcpState, TcpStates};
pub(crate) use stream::TcpStream;
