//! The limits of a sandbox's connections.

use std::time::Duration;

/// The most open connections of a sandbox. Each has two descriptors of this process at most, and
/// 8 KiB of buffers; before it is connected, its first request. At level `http`, it also has the
/// state of two TLS connections, a request's head of at most [`MAX_FIRST_FLIGHT`], its path again,
/// and an answer's head of at most 64 KiB. The bodies that are read for secrets and signatures have
/// 64 MiB in all. An agent opens 1,024 at once.
pub(super) const MAX_CONNECTIONS: usize = 12_288;

/// The most connections of a sandbox that are resolved and dialed at once; others wait.
pub(super) const MAX_DIALING: usize = 256;

/// The most lookups of a sandbox at once, each of which takes a thread of this process.
pub(super) const MAX_LOOKUPS: usize = 32;

/// How long resolving and dialing may take, and how long a client may take for its first request.
pub(super) const DIAL_TIME_LIMIT: Duration = Duration::from_secs(10);

/// How long an attempt to connect is alone before the next address is tried.
pub(super) const NEXT_ADDRESS_AFTER: Duration = Duration::from_millis(250);

/// The most addresses of a name that are dialed.
pub(super) const MAX_ADDRESSES: usize = 8;

/// The most bytes of a first request. A hello with a post-quantum key has 2 KiB, and servers accept
/// 8 KiB of headers.
pub(super) const MAX_FIRST_FLIGHT: usize = 16 * 1024;

/// The most reads of a first request, after each of which it is parsed from its begin.
pub(super) const MAX_PIECES: usize = 256;

/// How long a connection may carry nothing in either direction. Databases and shells are quiet for
/// minutes; a connection that was forgotten must not stay for the sandbox's life.
pub(super) const IDLE_TIME_LIMIT: Duration = Duration::from_secs(30 * 60);

/// The buffer of a direction at first.
pub(super) const SMALL_BUFFER: usize = 4 * 1024;

/// The buffer of a direction that once filled the small one.
pub(super) const LARGE_BUFFER: usize = 64 * 1024;

/// The most large buffers of a sandbox, 64 MiB in all. Beyond them, connections keep their small
/// ones and are slower.
pub(super) const MAX_LARGE_BUFFERS: usize = 1024;

/// The most names below wildcards that a sandbox looks up in its life. Each is a message to the
/// owner of the suffix.
pub(super) const MAX_WILDCARD_NAMES: usize = 4096;

/// How many new names below wildcards may be looked up at once. A page loads from some dozens.
pub(super) const WILDCARD_BURST: u32 = 64;

/// How often another new name may be looked up after that.
pub(super) const WILDCARD_INTERVAL: Duration = Duration::from_secs(1);
