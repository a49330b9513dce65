//! A reliable byte layer below the frames, for streams that may break and be replaced.
//!
//! # Shape
//!
//! A host asks for a link in its first frame; packets follow instead of frames. The packets carry
//! the frames, which are the same as without a link.
//!
//! ```text
//! host                                      agent
//!  | frame Link {version, secret}             |   packets follow at once, with Hello or Attach
//!  |               frame Resumed {0}          |   or Failed; packets follow, with the answer
//!  | Data, Acknowledge                        |   Data, Acknowledge
//!  ~ the stream breaks; another one is opened ~
//!  | frame Resume {version, secret, received} |   the host waits for the answer
//!  |               frame Resumed {received}   |   or Failed; packets follow
//!  | Close                                    |   Close: either side's last packet
//! ```
//!
//! Each side numbers its bytes from 0 and keeps those that the peer has not acknowledged, at most
//! [`LINK_WINDOW`]. Every packet acknowledges received bytes. On a new stream both sides first send
//! their number of received bytes, and then continue after the peer's.
//!
//! # Trust
//!
//! These are protocol violations: acknowledging unsent bytes, decreasing an acknowledgement,
//! resuming before released bytes, and exceeding the window. Memory is never allocated from a
//! received length.

mod end;
mod message;
mod packet;

pub use end::{LinkEnd, Outbound, Received};
pub use message::{BeginLink, Resume, Resumed};
pub use packet::{MAX_PACKET, PACKET_HEADER, Packet, PacketKind};

/// Maximum number of unacknowledged bytes in one direction.
pub const LINK_WINDOW: usize = 2 * 1024 * 1024;

/// After this many bytes the receiver sends an acknowledgement, even without data.
pub const LINK_ACKNOWLEDGE: usize = 256 * 1024;
