//! TCP connections that streams carry.

mod dial;
mod stream;

pub(super) use dial::dial;
pub(super) use stream::TcpStream;
