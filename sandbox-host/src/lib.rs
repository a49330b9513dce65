//! The host side of a sandbox, shared by all backends: the agent's client, the lowering of a plan
//! into the confinement of executions, and the export of artifacts.
//!
//! A backend creates an isolated environment, starts [`sandbox_agent::program()`] in it, and passes
//! the byte stream and its [`Isolator`] to [`AgentInstance::connect`]. If the agent listens on a
//! socket, later clients of the same sandbox use [`AgentInstance::attach`]. If streams to the agent
//! may break, [`AgentInstance::connect_by`] and [`AgentInstance::attach_by`] take a [`Connector`]
//! instead of a stream, and reconnect as often as necessary.

pub mod adopted;
mod agent_timeouts;
mod background;
mod carrier;
mod clock;
pub mod confinement;
mod connection;
mod copy;
mod counters;
pub mod disk_split;
pub mod egress;
mod engine_cell;
mod entries;
mod execution;
mod explain;
mod export;
mod failure;
mod greeting;
mod inbox;
mod instance;
mod isolator;
mod link;
mod open_stream;
mod open_streams;
mod outgoing;
mod output_folder;
mod output_path;
mod owner;
pub mod process;
pub mod safe_path;
mod sandbox;
pub mod seccomp;
pub mod state;
mod stats;
mod stderr_tail;
mod sync;
mod tcp;
mod watch;
mod window;

pub use background::{Background, PendingTask, Retries};
pub use counters::{CounterFiles, Counters, memory_kills};
pub use engine_cell::EngineCell;
pub use explain::explain;
pub use export::check_export_paths;
pub use failure::failure_error;
pub use instance::AgentInstance;
pub use isolator::Isolator;
pub use link::{ByteStream, Connector, Unreachable, closed_clients_notified};
pub use output_path::open_output_folder;
pub use owner::{Owner, OwnerStatus};
pub use sandbox::{AttachedSandbox, DEFAULT_IMAGE, HOME, PATH, Sandbox, WORK_FOLDER};
pub use sandbox_agent::protocol::ClientKey;
pub use stats::cgroup_stats;
pub use stderr_tail::StderrTail;
pub use sync::{PerProcess, WorkerThread, lock};
pub use tcp::egress_ranges;
