//! The protocol between a host (a client of the agent, outside of the sandbox) and the agent
//! inside: versioned, framed, multiplexed and flow-controlled.
//!
//! # Shape
//!
//! One duplex byte stream carries frames of at most 64 KiB. Stream 0 is the connection itself.
//! Every other stream is an execution, a log or a TCP connection, opened by the host with an unused
//! number. The agent opens streams for connections of code, with numbers of its own
//! ([`AGENT_STREAMS`]). A file transfer is an execution of a builtin ([`ExecProgram::Builtin`]), with the same
//! identity, confinement, limits and flow control as code.
//!
//! ```text
//! host                                agent
//!  | (local only) Setup                 |   NeedMaps / Mapped if the host writes the ID maps
//!  | Hello {version, key, settings}     |
//!  |                 Welcome {version}  |
//!  | Exec on stream n                   |
//!  |           Started, Stdout, Stderr  |   within the window and the granted credit
//!  | Stdin, StdinEnd, Credit, Kill      |
//!  | Resize                             |   of an execution with a terminal
//!  |                    Exited | Failed |   the last frame of stream n
//!  | Dial on stream m                   |   a connection to a port inside
//!  | Stdin, StdinEnd, Credit, Kill      |
//!  |    Stdout, StdoutEnd, then Closed  |   the last frame of stream m
//!  |              Connect on stream k   |   code has connected to a name or an address
//!  | Egress                             |   EgressSet: other rules are in force
//!  | Ping, Stop                         |   Pong, Stopped
//! ```
//!
//! An agent with a control socket serves several clients at once. On later connections the first
//! message is `Attach {version, key}` instead of `Hello`. Each connection has its own stream
//! numbers.
//!
//! If the connection may break, a link carries the frames ([`BeginLink`], [`Resume`]): a reliable byte
//! layer that continues over a new stream without losing data.
//!
//! # Trust
//!
//! Neither side trusts the other's lengths. Memory is allocated only for received bytes, every list
//! and message has a maximum size, and unknown kinds, wrong versions and trailing bytes are errors.

mod attach;
mod codec;
mod connection;
mod egress;
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
mod terminal;

pub use attach::{Attach, ClientKey};
pub use codec::{MessageReader, MessageWriter};
pub use connection::{CONNECTION_WINDOW, ClosedReport, DialRequest, MAX_CONNECTIONS};
pub use egress::{
    AGENT_STREAMS, ConnectRequest, ConnectTarget, EgressHost, EgressRule, EgressTable, IpRange,
    MAX_EGRESS_RULES, NAME_SERVER,
};
pub use error::ProtocolError;
pub use exec::{Builtin, ExecProgram, ExecRequest, ExitKind, ExitReport, FailStep, Failure};
pub use frame::{
    FLAG_MORE, Frame, FrameBuffer, HEADER_LEN, Header, MAX_FRAME, MAX_PAYLOAD, encode_frame,
    encode_message,
};
pub use landlock::{LandlockPath, LandlockRules};
pub use link::{
    BeginLink, LINK_ACKNOWLEDGE, LINK_WINDOW, LinkEnd, MAX_PACKET, Outbound, PACKET_HEADER, Packet,
    PacketKind, Received, Resume, Resumed,
};
pub use logs::LogRequest;
pub use memory_kills::memory_kills;
pub use message::{Channel, FrameKind, MessageAssembler};
pub use settings::{
    AgentSettings, Confinement, EgressSettings, ExpectedObject, ResourceLimit, Welcome,
};
pub use setup::{AGENT_ID, HostObject, Mount, Setup, UserLimit};
pub use terminal::TerminalSize;

/// The version that both sides send in their first message. Other versions are refused: host and
/// agent are built together.
pub const VERSION: u16 = 9;

/// How many bytes a channel may carry before the receiver grants more with [`FrameKind::Credit`]: the
/// initial credit of every channel, on both sides.
pub const WINDOW: u32 = 256 * 1024;

/// Maximum number of open streams, for each connection and for all connections of an agent
/// together.
pub const MAX_STREAMS: usize = 1024;

/// Maximum number of clients of an agent.
pub const MAX_CLIENTS: usize = 16;

/// Maximum size of a message in bytes. On Linux, arguments and environment are at most 2 MiB
/// together.
pub const MAX_MESSAGE: usize = 4 * 1024 * 1024;

/// Maximum number of items of a list in a message.
pub const MAX_ITEMS: usize = 65_536;
