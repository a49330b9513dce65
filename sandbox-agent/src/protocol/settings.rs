//! The settings of a sandbox, and the agent's answer.

use alloc::vec::Vec;

use super::{
    ClientKey, EgressTable, IpRange, LandlockRules, MessageReader, MessageWriter, ProtocolError,
    VERSION, attach::read_key,
};

/// A resource limit of every execution, as `setrlimit` takes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResourceLimit {
    /// The `RLIMIT_*` number.
    pub resource: u32,
    /// The soft and hard limit. A lower hard limit of the agent takes precedence.
    pub value: u64,
}

/// The object that a path of the sandbox must lead to. An engine mounts host folders by path; the
/// host names the objects that it has opened. It holds them open until the agent has answered, so
/// their numbers are not reused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpectedObject {
    /// A path inside the sandbox.
    pub path: Vec<u8>,
    /// The device number of its file system.
    pub device: u64,
    /// Its inode number.
    pub inode: u64,
}

/// The confinement of executions, in the order in which the agent applies it: limits, identity and
/// capabilities, `no_new_privs` (always), Landlock, seccomp.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Confinement {
    /// User and group of the code (split mode); `None` keeps the agent's (shared mode).
    pub identity: Option<(u32, u32)>,
    /// Resource limits.
    pub limits: Vec<ResourceLimit>,
    /// The Landlock rules.
    pub landlock: Option<LandlockRules>,
    /// A seccomp program: `struct sock_filter` records of 8 bytes in native byte order; empty for
    /// none.
    pub seccomp: Vec<u8>,
    /// Whether to install a second, notifying filter that allows the first `execve` and refuses
    /// every later one with EPERM.
    pub exec_once: bool,
    /// The file mode creation mask.
    pub umask: u32,
}

/// The first client's settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentSettings {
    /// The key that later clients authenticate with.
    pub key: ClientKey,
    /// The lease: milliseconds without a frame from any client after which the agent ends the
    /// sandbox; 0 for none.
    pub lease_ms: u64,
    /// Whether the agent ends the sandbox when its first stream ends.
    pub owned: bool,
    /// Whether `owned` and `lease_ms` apply only until a later client has authenticated. That
    /// client takes over the sandbox, and no stream ends it any more.
    pub detached_after_attach: bool,
    /// Lifetime in milliseconds from this message on, after which the agent ends the sandbox; 0 for
    /// none.
    pub lifetime_ms: u64,
    /// Size of the agent's log in bytes.
    pub log_bytes: u32,
    /// Default working directory of executions.
    pub workdir: Vec<u8>,
    /// Words before those of each command: a program that runs the command.
    pub launcher: Vec<Vec<u8>>,
    /// Objects that must be in the sandbox; otherwise the agent refuses the settings, and nothing
    /// runs.
    pub expected_objects: Vec<ExpectedObject>,
    /// Existing folders whose owner becomes the code's identity: an engine's mounts that belong to
    /// its root. Needs `CAP_CHOWN`, which the agent drops with the rest. Without an identity,
    /// owners do not change.
    pub chown_dirs: Vec<Vec<u8>>,
    /// Folders to make before the agent answers, owned by the code's identity, with missing
    /// parents, mode 0755.
    pub make_dirs: Vec<Vec<u8>>,
    /// Files with the kernel's count of out-of-memory kills. The agent reads the first one with a
    /// count ([`super::memory_kills`]) before and after every execution, for
    /// [`super::ExitReport::memory_kills`].
    pub kill_count_files: Vec<Vec<u8>>,
    /// How code reaches the hosts that rules allow; `None` if it reaches none.
    pub egress: Option<EgressSettings>,
    /// The confinement of executions.
    pub confinement: Confinement,
}

/// How code connects to hosts outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EgressSettings {
    /// The first rules.
    pub table: EgressTable,
    /// Ranges of addresses that any rules of this sandbox may allow. The agent adds routes for them,
    /// which takes `CAP_NET_ADMIN`, and drops it. Unused if [`super::Setup::egress`] was set.
    pub ranges: Vec<IpRange>,
}

/// The agent's answer to [`AgentSettings`], and to [`super::Attach`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Welcome {
    /// Whether code has another identity than the agent.
    pub split: bool,
    /// The kernel's Landlock ABI, 0 without Landlock.
    pub landlock_abi: u32,
    /// The agent's remaining capabilities, as a bit set.
    pub capabilities: u64,
    /// User and group of the code.
    pub code: (u32, u32),
    /// Whether an execution may be user 0 instead: [`super::ExecRequest::root`].
    pub root: bool,
}

impl AgentSettings {
    /// Encodes the message.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut message = MessageWriter::new();
        message
            .u16(VERSION)
            .bytes(self.key.as_bytes())
            .u64(self.lease_ms)
            .bool(self.owned)
            .bool(self.detached_after_attach)
            .u64(self.lifetime_ms);
        message.u32(self.log_bytes).bytes(&self.workdir);
        message.list(&self.expected_objects, |message, object| {
            message
                .bytes(&object.path)
                .u64(object.device)
                .u64(object.inode);
        });
        let lists = [
            &self.launcher,
            &self.chown_dirs,
            &self.make_dirs,
            &self.kill_count_files,
        ];
        for list in lists {
            message.list(list, |message, bytes| {
                message.bytes(bytes);
            });
        }
        message.bool(self.egress.is_some());
        if let Some(egress) = &self.egress {
            egress.table.write(&mut message);
            write_ranges(&egress.ranges, &mut message);
        }
        let confinement = &self.confinement;
        match confinement.identity {
            None => message.bool(false),
            Some((user, group)) => message.bool(true).u32(user).u32(group),
        };
        message.list(&confinement.limits, |message, limit| {
            message.u32(limit.resource).u64(limit.value);
        });
        match &confinement.landlock {
            None => {
                message.bool(false);
            }
            Some(rules) => {
                message.bool(true);
                rules.write(&mut message);
            }
        }
        message
            .bytes(&confinement.seccomp)
            .bool(confinement.exec_once)
            .u32(confinement.umask);
        message.finish()
    }

    /// Decodes the message.
    ///
    /// # Errors
    ///
    /// [`ProtocolError::Version`] for another version; otherwise when fields are missing, out of
    /// range or left over.
    pub fn decode(message: &[u8]) -> Result<Self, ProtocolError> {
        let mut reader = MessageReader::new(message);
        reader.version()?;
        let key = read_key(&mut reader)?;
        let lease_ms = reader.u64()?;
        let owned = reader.bool()?;
        let detached_after_attach = reader.bool()?;
        let lifetime_ms = reader.u64()?;
        let log_bytes = reader.u32()?;
        let workdir = reader.bytes()?.to_vec();
        let expected_objects = reader.list(|reader| {
            Ok(ExpectedObject {
                path: reader.bytes()?.to_vec(),
                device: reader.u64()?,
                inode: reader.u64()?,
            })
        })?;
        let launcher = super::exec::byte_list(&mut reader)?;
        let chown_dirs = super::exec::byte_list(&mut reader)?;
        let make_dirs = super::exec::byte_list(&mut reader)?;
        let kill_count_files = super::exec::byte_list(&mut reader)?;
        let egress = match reader.bool()? {
            false => None,
            true => Some(EgressSettings {
                table: EgressTable::read(&mut reader)?,
                ranges: reader.list(IpRange::read)?,
            }),
        };
        let identity = if reader.bool()? {
            Some((reader.u32()?, reader.u32()?))
        } else {
            None
        };
        let limits = reader.list(|reader| {
            Ok(ResourceLimit {
                resource: reader.u32()?,
                value: reader.u64()?,
            })
        })?;
        let landlock = if reader.bool()? {
            Some(LandlockRules::read(&mut reader)?)
        } else {
            None
        };
        let seccomp = reader.bytes()?.to_vec();
        if seccomp.len() % 8 != 0 {
            return Err(ProtocolError::BadValue("seccomp program"));
        }
        let exec_once = reader.bool()?;
        let umask = reader.u32()?;
        reader.end()?;
        let confinement = Confinement {
            identity,
            limits,
            landlock,
            seccomp,
            exec_once,
            umask,
        };
        Ok(Self {
            key,
            lease_ms,
            owned,
            detached_after_attach,
            lifetime_ms,
            log_bytes,
            workdir,
            launcher,
            expected_objects,
            chown_dirs,
            make_dirs,
            kill_count_files,
            egress,
            confinement,
        })
    }
}

pub(super) fn write_ranges(ranges: &[IpRange], message: &mut MessageWriter) {
    message.list(ranges, |message, range| range.write(message));
}

impl Welcome {
    /// Encodes the message.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut message = MessageWriter::new();
        message
            .u16(VERSION)
            .bool(self.split)
            .u32(self.landlock_abi)
            .u64(self.capabilities)
            .u32(self.code.0)
            .u32(self.code.1)
            .bool(self.root);
        message.finish()
    }

    /// Decodes the message.
    ///
    /// # Errors
    ///
    /// [`ProtocolError::Version`] for another version; otherwise when fields are missing, out of
    /// range or left over.
    pub fn decode(message: &[u8]) -> Result<Self, ProtocolError> {
        let mut reader = MessageReader::new(message);
        reader.version()?;
        let welcome = Self {
            split: reader.bool()?,
            landlock_abi: reader.u32()?,
            capabilities: reader.u64()?,
            code: (reader.u32()?, reader.u32()?),
            root: reader.bool()?,
        };
        reader.end()?;
        Ok(welcome)
    }
}
