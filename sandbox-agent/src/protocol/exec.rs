//! Executions: what the host asks for, how it ended, and why it could not start.

use alloc::{string::String, vec::Vec};

use super::{ProtocolError, Reader, Writer};

/// Something the agent does itself, in a process of its own with the identity and confinement of the sandboxed code.
/// Paths are absolute paths inside of the sandbox, their bytes as they are.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Builtin {
    /// Writes standard input to a file, over a temporary name beside it that is renamed at the end of input; missing
    /// parents are made. `mode` are the permission bits.
    Put {
        /// The file.
        path: Vec<u8>,
        /// Its permission bits.
        mode: u32,
    },
    /// Writes a regular file to standard output. Symbolic links in any part of the path, FIFOs, devices and sockets are
    /// refused (ELOOP, EINVAL), never waited for.
    Get {
        /// The file.
        path: Vec<u8>,
    },
    /// Writes one record for each entry to standard output: the path itself first, then, for folders, everything below
    /// in no particular order, links not followed. A record: `u8` type (`f`, `d`, `l`, `p`, `s`, `b`, `c`, `?`), `u32`
    /// mode, `u64` size, `u64` allocated bytes, `i64` modification time in nanoseconds as `u64`, then the path as length
    /// and bytes, as [`super::Writer`] writes them.
    ///
    /// A folder below which `depth` ends has the type `>`. An entry that cannot be looked at, or a folder that cannot be
    /// read, has a record of type `!` (a folder's comes after its own): the size is the error's number.
    List {
        /// Where to start.
        path: Vec<u8>,
        /// How deep to go: 0 is the entry alone.
        depth: u32,
    },
    /// Makes a folder and its missing parents; an existing folder is fine.
    MakeDir {
        /// The folder.
        path: Vec<u8>,
        /// Permission bits of folders it makes.
        mode: u32,
    },
    /// Removes a file, or a folder with all that is in it; a missing one is ENOENT.
    Remove {
        /// What to remove.
        path: Vec<u8>,
    },
}

/// What an execution runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Program {
    /// A program by its path, or by a name that is looked up in the `PATH` of the execution's environment, inside the
    /// sandbox. Argument 0 is the name as given.
    Command {
        /// Name or path, then the arguments. Never empty.
        argv: Vec<Vec<u8>>,
    },
    /// Something built into the agent.
    Builtin(Builtin),
}

/// One execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecRequest {
    /// What to run.
    pub program: Program,
    /// The whole environment as `NAME=value`; nothing is added.
    pub env: Vec<Vec<u8>>,
    /// Working folder; empty for the sandbox's default.
    pub workdir: Vec<u8>,
    /// Whether standard input stays open for [`super::Kind::Stdin`]; otherwise it is `/dev/null`.
    pub stdin: bool,
    /// Milliseconds until the tree is killed and the end reported as [`ExitKind::TimedOut`]; 0 for none.
    pub timeout_ms: u64,
    /// Whether the output goes into the sandbox's log as well.
    pub log: bool,
}

/// How an execution ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitKind {
    /// The main process exited with this code.
    Exited(u8),
    /// A signal ended the main process, and nobody asked the agent for it.
    Signaled(u8),
    /// The agent killed the tree at its time limit.
    TimedOut,
    /// The agent killed the tree because the host asked.
    Killed,
    /// The supervisor of the execution vanished: how the program ended is not known.
    Lost,
}

/// The end of an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExitReport {
    /// How the main process ended.
    pub kind: ExitKind,
    /// Bytes read from standard output.
    pub stdout_total: u64,
    /// Bytes read from standard error.
    pub stderr_total: u64,
    /// Processes that outlived the main process, or the kill, and were killed.
    pub stragglers: u32,
    /// Processes that could not be killed within the bound of 2 s. Not 0 means: destroy the sandbox.
    pub survivors: u32,
    /// A pipe was still held open by somebody when the bounded drain ended, so output may be missing.
    pub drain_cut: bool,
    /// Processor time of the main process and the children it waited for, microseconds.
    pub cpu_us: u64,
    /// Largest resident memory of one process of the tree, KiB.
    pub max_rss_kib: u64,
    /// From start to end of the main process, microseconds.
    pub wall_us: u64,
    /// How often another program was refused, where an execution may run one only.
    pub refused_programs: u32,
    /// How often another process was refused, where an execution may be one only.
    pub refused_processes: u32,
    /// How many processes of the sandbox the kernel killed for memory from the start of the execution to the end of its tree, whatever
    /// became of them, and whichever of the executions at the time they were of; `None` where that is not known.
    pub memory_kills: Option<u64>,
}

/// The step at which something could not be done. The numbers are part of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum FailStep {
    /// A namespace, mount, host name or link of the sandbox itself.
    Setup = 1,
    /// The id maps or the change to an unprivileged identity.
    Identity = 2,
    /// The settings of the sandbox cannot be applied on this kernel.
    Settings = 3,
    /// A process, pipe or socket for the execution.
    Spawn = 4,
    /// The working folder.
    Workdir = 5,
    /// A resource limit.
    Limits = 6,
    /// `no_new_privs`, capabilities, Landlock or seccomp.
    Confinement = 7,
    /// No such program in `PATH`, or no such file.
    NotFound = 8,
    /// The program is there and cannot be executed.
    NotExecutable = 9,
    /// The request itself: too many streams, an empty command, a NUL inside of a string.
    Request = 10,
    /// A file operation of a [`Builtin`].
    File = 11,
    /// The other side broke the protocol.
    Protocol = 12,
    /// A later client is not served: a wrong key, no key in time, too many clients.
    Attach = 13,
    /// The sandbox has come to its end.
    Ended = 14,
}

impl FailStep {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::Setup,
        Self::Identity,
        Self::Settings,
        Self::Spawn,
        Self::Workdir,
        Self::Limits,
        Self::Confinement,
        Self::NotFound,
        Self::NotExecutable,
        Self::Request,
        Self::File,
        Self::Protocol,
        Self::Attach,
        Self::Ended,
    ];

    fn from_byte(byte: u8) -> Result<Self, ProtocolError> {
        let mut all = Self::ALL.into_iter();
        all.find(|step| *step as u8 == byte)
            .ok_or(ProtocolError::BadValue("step of a failure"))
    }
}

/// How much of a failure's detail is kept, in bytes: a path as long as paths may be.
const MAX_DETAIL: usize = 4096;

/// Why an execution did not start, a file operation failed, or the sandbox could not be set up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// At which step.
    pub step: FailStep,
    /// The system's error number, 0 where there is none.
    pub errno: i32,
    /// What it was about: a path, a limit, a system call. At most 4 KiB are kept.
    pub detail: String,
}

impl Failure {
    /// The message's bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut message = Writer::new();
        let detail = self.detail.as_bytes();
        message
            .u8(self.step as u8)
            .i32(self.errno)
            .bytes(&detail[..detail.len().min(MAX_DETAIL)]);
        message.finish()
    }

    /// Reads the message; what is not UTF-8 in the detail is replaced, and what is too long is cut.
    ///
    /// # Errors
    ///
    /// When fields are missing, out of range or left over.
    pub fn decode(message: &[u8]) -> Result<Self, ProtocolError> {
        let mut reader = Reader::new(message);
        let step = FailStep::from_byte(reader.u8()?)?;
        let errno = reader.i32()?;
        let detail = reader.bytes()?;
        let detail = &detail[..detail.len().min(MAX_DETAIL)];
        let detail = String::from_utf8_lossy(detail).into_owned();
        reader.end()?;
        Ok(Self {
            step,
            errno,
            detail,
        })
    }
}

impl ExitReport {
    /// An end like this, of an execution that wrote and used nothing.
    #[must_use]
    pub const fn of(kind: ExitKind) -> Self {
        Self {
            kind,
            stdout_total: 0,
            stderr_total: 0,
            stragglers: 0,
            survivors: 0,
            drain_cut: false,
            cpu_us: 0,
            max_rss_kib: 0,
            wall_us: 0,
            refused_programs: 0,
            refused_processes: 0,
            memory_kills: None,
        }
    }

    /// The message's bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let (kind, code) = match self.kind {
            ExitKind::Exited(code) => (0, code),
            ExitKind::Signaled(signal) => (1, signal),
            ExitKind::TimedOut => (2, 0),
            ExitKind::Killed => (3, 0),
            ExitKind::Lost => (4, 0),
        };
        let mut message = Writer::new();
        message
            .u8(kind)
            .u8(code)
            .u64(self.stdout_total)
            .u64(self.stderr_total);
        message
            .u32(self.stragglers)
            .u32(self.survivors)
            .bool(self.drain_cut);
        message
            .u64(self.cpu_us)
            .u64(self.max_rss_kib)
            .u64(self.wall_us)
            .u32(self.refused_programs)
            .u32(self.refused_processes)
            .optional_u64(self.memory_kills);
        message.finish()
    }

    /// Reads the message.
    ///
    /// # Errors
    ///
    /// When fields are missing, out of range or left over.
    pub fn decode(message: &[u8]) -> Result<Self, ProtocolError> {
        let mut reader = Reader::new(message);
        let kind = match (reader.u8()?, reader.u8()?) {
            (0, code) => ExitKind::Exited(code),
            (1, signal @ 1..=64) => ExitKind::Signaled(signal),
            (2, 0) => ExitKind::TimedOut,
            (3, 0) => ExitKind::Killed,
            (4, 0) => ExitKind::Lost,
            _ => return Err(ProtocolError::BadValue("kind of an end")),
        };
        let report = Self {
            kind,
            stdout_total: reader.u64()?,
            stderr_total: reader.u64()?,
            stragglers: reader.u32()?,
            survivors: reader.u32()?,
            drain_cut: reader.bool()?,
            cpu_us: reader.u64()?,
            max_rss_kib: reader.u64()?,
            wall_us: reader.u64()?,
            refused_programs: reader.u32()?,
            refused_processes: reader.u32()?,
            memory_kills: reader.optional_u64()?,
        };
        reader.end()?;
        Ok(report)
    }
}

impl ExecRequest {
    /// The message's bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut message = Writer::new();
        match &self.program {
            Program::Command { argv } => {
                message.u8(0).list(argv, |message, argument| {
                    message.bytes(argument);
                });
            }
            Program::Builtin(Builtin::Put { path, mode }) => {
                message.u8(1).bytes(path).u32(*mode);
            }
            Program::Builtin(Builtin::Get { path }) => {
                message.u8(2).bytes(path);
            }
            Program::Builtin(Builtin::List { path, depth }) => {
                message.u8(3).bytes(path).u32(*depth);
            }
            Program::Builtin(Builtin::MakeDir { path, mode }) => {
                message.u8(4).bytes(path).u32(*mode);
            }
            Program::Builtin(Builtin::Remove { path }) => {
                message.u8(5).bytes(path);
            }
        }
        message.list(&self.env, |message, entry| {
            message.bytes(entry);
        });
        message
            .bytes(&self.workdir)
            .bool(self.stdin)
            .u64(self.timeout_ms)
            .bool(self.log);
        message.finish()
    }

    /// Reads the message.
    ///
    /// # Errors
    ///
    /// When fields are missing, out of range or left over, or the command is empty.
    pub fn decode(message: &[u8]) -> Result<Self, ProtocolError> {
        let mut reader = Reader::new(message);
        let program = match reader.u8()? {
            0 => Program::Command {
                argv: byte_list(&mut reader)?,
            },
            1 => Program::Builtin(Builtin::Put {
                path: reader.bytes()?.to_vec(),
                mode: reader.u32()?,
            }),
            2 => Program::Builtin(Builtin::Get {
                path: reader.bytes()?.to_vec(),
            }),
            3 => Program::Builtin(Builtin::List {
                path: reader.bytes()?.to_vec(),
                depth: reader.u32()?,
            }),
            4 => Program::Builtin(Builtin::MakeDir {
                path: reader.bytes()?.to_vec(),
                mode: reader.u32()?,
            }),
            5 => Program::Builtin(Builtin::Remove {
                path: reader.bytes()?.to_vec(),
            }),
            _ => return Err(ProtocolError::BadValue("program")),
        };
        if matches!(&program, Program::Command { argv } if argv.is_empty()) {
            return Err(ProtocolError::BadValue("command"));
        }
        let request = Self {
            program,
            env: byte_list(&mut reader)?,
            workdir: reader.bytes()?.to_vec(),
            stdin: reader.bool()?,
            timeout_ms: reader.u64()?,
            log: reader.bool()?,
        };
        reader.end()?;
        Ok(request)
    }
}

pub(super) fn byte_list(reader: &mut Reader<'_>) -> Result<Vec<Vec<u8>>, ProtocolError> {
    reader.list(|reader| Ok(reader.bytes()?.to_vec()))
}
