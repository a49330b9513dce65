//! The protocol between a host and the agent in a sandbox: versioned, framed, multiplexed, flow-controlled.
//!
//! # Shape
//!
//! One duplex byte stream carries frames of at most 64 KiB. Stream 0 is the connection itself; every other stream is one
//! execution, opened by the host with a number it has not used before. A file transfer is an execution too: of a program
//! built into the agent ([`Program::Builtin`]), so that it runs under the same identity, confinement, limits and flow
//! control as the code in the sandbox.
//!
//! ```text
//! host                                agent
//!  | (local only) Setup                 |   mounts, host name; NeedMaps / Mapped where the host writes the id maps
//!  | Hello {version, key, settings}     |
//!  |                 Welcome {version}  |
//!  | Exec on stream n                   |
//!  |           Started, Stdout, Stderr  |   at most the window beyond what Credit has granted
//!  | Stdin, StdinEnd, Credit, Kill      |
//!  |                    Exited | Failed |   the last frame of stream n
//!  | Ping, Stop                         |   Pong, Stopped
//! ```
//!
//! An agent that listens serves several such streams at once. On all but the first, the first message is
//! `Attach {version, key}` in the place of `Hello`; stream numbers are each connection's own.
//!
//! Where the way to the agent may break, the frames are carried by a link ([`Link`], [`Resume`]): a reliable byte layer that goes on
//! over a new stream where the last one broke, so that nothing of the connection is lost.
//!
//! # Trust
//!
//! Neither side trusts the other's lengths: nothing is allocated from a length before the bytes are there, every list
//! and message has a bound, and an unknown kind, a wrong version or trailing bytes are errors.

mod attach;
mod codec;
mod error;
mod exec;
mod frame;
pub mod keep;
pub mod landlock;
mod link;
mod logs;
mod memory_kills;
mod message;
mod settings;
mod setup;

pub use attach::{Attach, Key};
pub use codec::{Reader, Writer};
pub use error::ProtocolError;
pub use exec::{Builtin, ExecRequest, ExitKind, ExitReport, FailStep, Failure, Program};
pub use frame::{
    FLAG_MORE, Frame, FrameBuffer, HEADER_LEN, Header, MAX_FRAME, MAX_PAYLOAD, encode_frame,
    encode_message,
};
pub use landlock::{LandlockPath, LandlockRules};
pub use link::{
    LINK_ACKNOWLEDGE, LINK_WINDOW, Link, LinkEnd, MAX_PACKET, Outbound, PACKET_HEADER, Packet,
    PacketKind, Received, Resume, Resumed,
};
pub use logs::LogRequest;
pub use memory_kills::memory_kills;
pub use message::{Channel, Kind, MessageAssembler};
pub use settings::{Confinement, Limit, Placed, Settings, Welcome};
pub use setup::{Mount, Object, Setup, UserLimit};

/// The version both sides must name in their first message. A different one is refused: host and agent ship together.
pub const VERSION: u16 = 6;

/// How many bytes of one channel may be on their way before the receiver has granted more with
/// [`Kind::Credit`]. Both sides start every channel of every stream with this much.
pub const WINDOW: u32 = 256 * 1024;

/// How many executions may be open at once on one connection, and on all connections of an agent together.
pub const MAX_STREAMS: usize = 1024;

/// How many clients an agent serves at once.
pub const MAX_CLIENTS: usize = 16;

/// How large one message may become out of its frames, in bytes: an argument list is at most 2 MiB on Linux, and its
/// environment counts into that.
pub const MAX_MESSAGE: usize = 4 * 1024 * 1024;

/// How many items a list inside of a message may have.
pub const MAX_ITEMS: usize = 65_536;
