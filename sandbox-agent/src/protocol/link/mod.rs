//! A reliable byte layer below the frames, for streams that may break and come back.
//!
//! # Shape
//!
//! A host that wants it says so in its first frame, and everything behind that frame is packets instead of frames. The frames of the
//! connection are what the packets carry: neither side's frames know of it.
//!
//! ```text
//! host                                      agent
//!  | frame Link {version, secret}             |   then packets at once, the first of which carry Hello, or Attach
//!  |               frame Resumed {0}          |   or Failed; then packets, the first of which carry the answer
//!  | Data, Acknowledge                        |   Data, Acknowledge
//!  ~ the stream breaks; another one is opened ~
//!  | frame Resume {version, secret, received} |   waits for the answer
//!  |               frame Resumed {received}   |   or Failed; then packets
//!  | Close                                    |   Close: the last packet of either side, after which nothing comes back
//! ```
//!
//! Each side numbers the bytes that it carries, from 0 on, and keeps what the other has not acknowledged ([`LINK_WINDOW`] at most). With
//! every packet it says how many it has received. On a new stream both say so first, and each goes on behind what the other has.
//!
//! # Trust
//!
//! Whoever acknowledges what was never sent, takes an acknowledgement back, resumes behind what was let go, or sends more than the window
//! has broken the protocol. No length off the wire is allocated.

mod end;
mod message;
mod packet;

pub use end::{LinkEnd, Outbound, Received};
pub use message::{Link, Resume, Resumed};
pub use packet::{MAX_PACKET, PACKET_HEADER, Packet, PacketKind};

/// How many bytes may be on their way, or kept for the case that they did not arrive, in one direction.
pub const LINK_WINDOW: usize = 2 * 1024 * 1024;

/// After this many bytes the receiver acknowledges them even where it has nothing to send.
pub const LINK_ACKNOWLEDGE: usize = 256 * 1024;
