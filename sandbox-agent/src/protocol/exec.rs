//! Executions: the request, the report of the end, and failures.

use alloc::{string::String, vec::Vec};

use super::{MessageReader, MessageWriter, ProtocolError, TerminalSize};

/// A builtin of the agent. It runs in its own process, with the identity and confinement of the
/// sandboxed code. Paths are paths inside the sandbox, as raw bytes; a relative one starts in the
/// working folder.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Builtin {
    /// Writes standard input to a temporary file beside `path`, and renames it at the end of input.
    /// Makes missing parents.
    Put {
        /// The file.
        path: Vec<u8>,
        /// Its permission bits.
        mode: u32,
    },
    /// Writes a regular file to standard output. Refuses symbolic links in any component (ELOOP),
    /// and FIFOs, devices and sockets (EINVAL), without blocking.
    Get {
        /// The file.
        path: Vec<u8>,
    },
    /// Writes one record for each entry to standard output: for the path itself first, then for
    /// everything below a folder, in any order. Links are not followed. A record: `u8` type (`f`,
    /// `d`, `l`, `p`, `s`, `b`, `c`, `?`), `u32` mode, `u64` size, `u64` allocated bytes, `i64`
    /// modification time in nanoseconds as `u64`, then the path as length and bytes, as
    /// [`super::MessageWriter`] writes them.
    ///
    /// A folder at the maximum depth has the type `>`. An entry or folder that cannot be read has a
    /// record of type `!` with the error number as its size; a folder's follows its own record.
    List {
        /// Where to start.
        path: Vec<u8>,
        /// The maximum depth; 0 lists the entry alone.
        depth: u32,
    },
    /// Makes a folder and its missing parents. An existing folder is not an error.
    MakeDir {
        /// The folder.
        path: Vec<u8>,
        /// Permission bits of new folders.
        mode: u32,
    },
    /// Removes a file, or a folder with all its content; ENOENT if it is missing.
    Remove {
        /// The file or folder.
        path: Vec<u8>,
    },
}

/// What an execution runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExecProgram {
    /// A program: its path, or a name that is looked up in the `PATH` of the execution's
    /// environment, inside the sandbox. Argument 0 is the name as given.
    Command {
        /// Name or path, then the arguments. Never empty.
        argv: Vec<Vec<u8>>,
    },
    /// A builtin of the agent.
    Builtin(Builtin),
}

/// The request for an execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecRequest {
    /// What to run.
    pub program: ExecProgram,
    /// The complete environment as `NAME=value`.
    pub env: Vec<Vec<u8>>,
    /// Working directory; empty for the sandbox's default.
    pub workdir: Vec<u8>,
    /// Whether standard input is open for [`super::FrameKind::Stdin`]; otherwise it is `/dev/null`.
    pub stdin: bool,
    /// Timeout in milliseconds, after which the tree is killed and [`ExitKind::TimedOut`] reported;
    /// 0 for none.
    pub timeout_ms: u64,
    /// Whether the output is also added to the sandbox's log.
    pub log: bool,
    /// The size of the program's terminal; `None` for pipes. A builtin has no terminal.
    ///
    /// The terminal is a new one of the sandbox's `/dev/pts`. It is the controlling terminal and
    /// all three standard streams. Its output is standard output. The end of standard input, or an
    /// input that is not open, is the terminal's end-of-file character.
    pub terminal: Option<TerminalSize>,
    /// Whether the program is user and group 0, instead of the code's user. It has no capability
    /// either way. Only where [`super::Welcome::root`] says so, and never for a builtin.
    pub root: bool,
}

/// How an execution ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitKind {
    /// The main process exited with this code.
    Exited(u8),
    /// A signal ended the main process, without a request of a client.
    Signaled(u8),
    /// The agent killed the tree after its timeout.
    TimedOut,
    /// The agent killed the tree on a client's request.
    Killed,
    /// The supervisor vanished: how the program ended is unknown.
    Lost,
}

/// The report of an execution's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExitReport {
    /// How the main process ended.
    pub kind: ExitKind,
    /// Bytes read from standard output, all of which were sent before this report.
    pub stdout_total: u64,
    /// As `stdout_total`, for standard error.
    pub stderr_total: u64,
    /// Processes that outlived the main process, or the kill, and were killed.
    pub stragglers: u32,
    /// Processes that were not killed within 2 s. If not 0, destroy the sandbox.
    pub survivors: u32,
    /// A process outside of the tree held a pipe open until the drain timeout, so output may be
    /// missing.
    pub drain_cut: bool,
    /// Processor time of the main process and its reaped children, in microseconds.
    pub cpu_us: u64,
    /// Largest resident memory of one process of the tree, in KiB.
    pub max_rss_kib: u64,
    /// Bytes that the main process and its reaped children read from block devices, and wrote to
    /// them.
    pub disk: [u64; 2],
    /// Time from start to end of the main process, in microseconds.
    pub wall_us: u64,
    /// How often another program was refused, with `exec_once`.
    pub refused_programs: u32,
    /// How often another process was refused, with `exec_once`.
    pub refused_processes: u32,
    /// How many processes of the sandbox the kernel killed for memory between the start of the
    /// execution and the end of its tree. Includes processes of concurrent executions. `None` if
    /// unknown.
    pub memory_kills: Option<u64>,
}

/// The step that failed. The numbers are part of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum FailStep {
    /// A namespace, mount, host name or link of the sandbox.
    Setup = 1,
    /// The ID maps, or the change to an unprivileged identity.
    Identity = 2,
    /// The settings cannot be applied on this kernel.
    Settings = 3,
    /// A process, pipe or socket for the execution.
    Spawn = 4,
    /// The working directory.
    Workdir = 5,
    /// A resource limit.
    Limits = 6,
    /// `no_new_privs`, capabilities, Landlock or seccomp.
    Confinement = 7,
    /// No such program in `PATH`, or no such file.
    NotFound = 8,
    /// The program exists and cannot be executed.
    NotExecutable = 9,
    /// The request itself: too many streams, an empty command, a NUL byte in a string.
    Request = 10,
    /// A file operation of a [`Builtin`].
    File = 11,
    /// The peer violated the protocol.
    Protocol = 12,
    /// A later client is refused: wrong key, no key in time, too many clients.
    Attach = 13,
    /// The sandbox has ended.
    Ended = 14,
    /// The sandbox has no terminals.
    Terminal = 16,
}

impl FailStep {
    /// All steps.
    pub const ALL: [Self; 15] = [
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
        Self::Terminal,
    ];

    fn from_byte(byte: u8) -> Result<Self, ProtocolError> {
        let mut all = Self::ALL.into_iter();
        all.find(|step| *step as u8 == byte)
            .ok_or(ProtocolError::BadValue("step of a failure"))
    }
}

/// The maximum length of a failure's detail in bytes: that of the longest path.
const MAX_DETAIL: usize = 4096;

/// Why an execution did not start, a file operation failed, or the sandbox could not be set up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The step that failed.
    pub step: FailStep,
    /// The error number, or 0.
    pub errno: i32,
    /// A path, a limit, or a system call. At most 4 KiB are kept.
    pub detail: String,
}

impl Failure {
    /// Encodes the message.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut message = MessageWriter::new();
        let detail = self.detail.as_bytes();
        message
            .u8(self.step as u8)
            .i32(self.errno)
            .bytes(&detail[..detail.len().min(MAX_DETAIL)]);
        message.finish()
    }

    /// Decodes the message. Replaces invalid UTF-8 in the detail, and truncates it.
    ///
    /// # Errors
    ///
    /// When fields are missing, out of range or left over.
    pub fn decode(message: &[u8]) -> Result<Self, ProtocolError> {
        let mut reader = MessageReader::new(message);
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
    /// A report with this end, and zero for everything else.
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
            disk: [0; 2],
            wall_us: 0,
            refused_programs: 0,
            refused_processes: 0,
            memory_kills: None,
        }
    }

    /// Encodes the message.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let (kind, code) = match self.kind {
            ExitKind::Exited(code) => (0, code),
            ExitKind::Signaled(signal) => (1, signal),
            ExitKind::TimedOut => (2, 0),
            ExitKind::Killed => (3, 0),
            ExitKind::Lost => (4, 0),
        };
        let mut message = MessageWriter::new();
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
            .u64(self.disk[0])
            .u64(self.disk[1])
            .u64(self.wall_us)
            .u32(self.refused_programs)
            .u32(self.refused_processes)
            .optional_u64(self.memory_kills);
        message.finish()
    }

    /// Decodes the message.
    ///
    /// # Errors
    ///
    /// When fields are missing, out of range or left over.
    pub fn decode(message: &[u8]) -> Result<Self, ProtocolError> {
        let mut reader = MessageReader::new(message);
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
            disk: [reader.u64()?, reader.u64()?],
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
    /// Encodes the message.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut message = MessageWriter::new();
        match &self.program {
            ExecProgram::Command { argv } => {
                message.u8(0).list(argv, |message, argument| {
                    message.bytes(argument);
                });
            }
            ExecProgram::Builtin(Builtin::Put { path, mode }) => {
                message.u8(1).bytes(path).u32(*mode);
            }
            ExecProgram::Builtin(Builtin::Get { path }) => {
                message.u8(2).bytes(path);
            }
            ExecProgram::Builtin(Builtin::List { path, depth }) => {
                message.u8(3).bytes(path).u32(*depth);
            }
            ExecProgram::Builtin(Builtin::MakeDir { path, mode }) => {
                message.u8(4).bytes(path).u32(*mode);
            }
            ExecProgram::Builtin(Builtin::Remove { path }) => {
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
            .bool(self.log)
            .bool(self.terminal.is_some());
        if let Some(size) = self.terminal {
            size.write(&mut message);
        }
        message.bool(self.root);
        message.finish()
    }

    /// Decodes the message.
    ///
    /// # Errors
    ///
    /// When fields are missing, out of range or left over, or the command is empty.
    pub fn decode(message: &[u8]) -> Result<Self, ProtocolError> {
        let mut reader = MessageReader::new(message);
        let program = match reader.u8()? {
            0 => ExecProgram::Command {
                argv: byte_list(&mut reader)?,
            },
            1 => ExecProgram::Builtin(Builtin::Put {
                path: reader.bytes()?.to_vec(),
                mode: reader.u32()?,
            }),
            2 => ExecProgram::Builtin(Builtin::Get {
                path: reader.bytes()?.to_vec(),
            }),
            3 => ExecProgram::Builtin(Builtin::List {
                path: reader.bytes()?.to_vec(),
                depth: reader.u32()?,
            }),
            4 => ExecProgram::Builtin(Builtin::MakeDir {
                path: reader.bytes()?.to_vec(),
                mode: reader.u32()?,
            }),
            5 => ExecProgram::Builtin(Builtin::Remove {
                path: reader.bytes()?.to_vec(),
            }),
            _ => return Err(ProtocolError::BadValue("program")),
        };
        if matches!(&program, ExecProgram::Command { argv } if argv.is_empty()) {
            return Err(ProtocolError::BadValue("command"));
        }
        let request = Self {
            program,
            env: byte_list(&mut reader)?,
            workdir: reader.bytes()?.to_vec(),
            stdin: reader.bool()?,
            timeout_ms: reader.u64()?,
            log: reader.bool()?,
            terminal: reader
                .bool()?
                .then(|| TerminalSize::read(&mut reader))
                .transpose()?,
            root: reader.bool()?,
        };
        reader.end()?;
        if (request.terminal.is_some() || request.root)
            && matches!(request.program, ExecProgram::Builtin(_))
        {
            return Err(ProtocolError::BadValue("terminal or user of a builtin"));
        }
        Ok(request)
    }
}

pub(super) fn byte_list(reader: &mut MessageReader<'_>) -> Result<Vec<Vec<u8>>, ProtocolError> {
    reader.list(|reader| Ok(reader.bytes()?.to_vec()))
}
