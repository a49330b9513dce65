//! What the first message of a connection sets for the whole sandbox, and the agent's answer.

use alloc::vec::Vec;

use super::{Key, LandlockRules, ProtocolError, Reader, VERSION, Writer, attach::read_key};

/// A resource limit of every execution, as `setrlimit` takes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// The `RLIMIT_*` number.
    pub resource: u32,
    /// Soft and hard limit alike; where the hard limit of the agent is lower already, that one stays.
    pub value: u64,
}

/// What has to be at a place of the sandbox. Where an engine mounts folders of the host by their path, the host says which objects it
/// has opened, and holds them open until the agent has answered: no other object has their numbers meanwhile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// A path inside of the sandbox.
    pub path: Vec<u8>,
    /// The number of the object's file system.
    pub device: u64,
    /// Its number there.
    pub inode: u64,
}

/// What every execution is confined by, in the order in which the agent applies it: limits, identity and capabilities,
/// `no_new_privs` (always), Landlock, seccomp.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Confinement {
    /// User and group of the code when it is not the agent's own (split mode); `None` keeps the agent's (shared mode).
    pub identity: Option<(u32, u32)>,
    /// Resource limits.
    pub limits: Vec<Limit>,
    /// The Landlock domain, where the kernel has it.
    pub landlock: Option<LandlockRules>,
    /// A seccomp program: `struct sock_filter` records of 8 bytes, as this machine's kernel takes them; empty for none.
    pub seccomp: Vec<u8>,
    /// Install a second, notifying filter that lets the first `execve` through and refuses every later one with EPERM.
    pub exec_once: bool,
    /// The file mode creation mask.
    pub umask: u32,
}

/// The host's first message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// What a later client must show.
    pub key: Key,
    /// Milliseconds without a frame from the host after which the agent ends everything; 0 for never.
    pub lease_ms: u64,
    /// Whether the agent ends everything when the stream that it was started with ends.
    pub owned: bool,
    /// Whether the stream that the agent was started with, and the lease, count only until the first later client has shown
    /// the key. That client has taken the sandbox over then, and no stream ends it any more.
    pub handed_over: bool,
    /// Milliseconds from this message on after which the agent ends everything; 0 for never.
    pub lifetime_ms: u64,
    /// How many bytes of output the agent's log keeps.
    pub log_bytes: u32,
    /// Working folder of executions that name none.
    pub workdir: Vec<u8>,
    /// What has to be in the sandbox. Where something else is, the agent refuses the settings, and nothing runs.
    pub placed: Vec<Placed>,
    /// Folders that are there and are given to the code's identity: an engine's mounts that belong to its root. Needs `CAP_CHOWN`,
    /// which the agent then gives up with the rest. Without an identity nothing changes owners.
    pub give_dirs: Vec<Vec<u8>>,
    /// Folders the agent makes, owned by the code's identity, before it answers (missing parents too, mode 0755).
    pub make_dirs: Vec<Vec<u8>>,
    /// Files in which the sandbox's kernel counts kills for memory: the agent looks into the first of them that has such a count
    /// ([`super::memory_kills`]) before and after every execution, for [`super::ExitReport::memory_kills`].
    pub kill_counts: Vec<Vec<u8>>,
    /// What confines executions.
    pub confinement: Confinement,
}

/// The agent's answer to [`Settings`], and to a later client's [`super::Attach`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Welcome {
    /// Whether code runs under another identity than the agent's.
    pub split: bool,
    /// The Landlock ABI that the agent sees, 0 without.
    pub landlock_abi: u32,
    /// Whether the agent's capabilities were reduced to what it needs.
    pub capabilities: u64,
}

impl Settings {
    /// The message's bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut message = Writer::new();
        message
            .u16(VERSION)
            .bytes(self.key.as_bytes())
            .u64(self.lease_ms)
            .bool(self.owned)
            .bool(self.handed_over)
            .u64(self.lifetime_ms);
        message.u32(self.log_bytes).bytes(&self.workdir);
        message.list(&self.placed, |message, placed| {
            message
                .bytes(&placed.path)
                .u64(placed.device)
                .u64(placed.inode);
        });
        for paths in [&self.give_dirs, &self.make_dirs, &self.kill_counts] {
            message.list(paths, |message, path| {
                message.bytes(path);
            });
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

    /// Reads the message.
    ///
    /// # Errors
    ///
    /// [`ProtocolError::Version`] for another version; otherwise when fields are missing, out of range or left over.
    pub fn decode(message: &[u8]) -> Result<Self, ProtocolError> {
        let mut reader = Reader::new(message);
        reader.version()?;
        let key = read_key(&mut reader)?;
        let lease_ms = reader.u64()?;
        let owned = reader.bool()?;
        let handed_over = reader.bool()?;
        let lifetime_ms = reader.u64()?;
        let log_bytes = reader.u32()?;
        let workdir = reader.bytes()?.to_vec();
        let placed = reader.list(|reader| {
            Ok(Placed {
                path: reader.bytes()?.to_vec(),
                device: reader.u64()?,
                inode: reader.u64()?,
            })
        })?;
        let give_dirs = super::exec::byte_list(&mut reader)?;
        let make_dirs = super::exec::byte_list(&mut reader)?;
        let kill_counts = super::exec::byte_list(&mut reader)?;
        let identity = if reader.bool()? {
            Some((reader.u32()?, reader.u32()?))
        } else {
            None
        };
        let limits = reader.list(|reader| {
            Ok(Limit {
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
            handed_over,
            lifetime_ms,
            log_bytes,
            workdir,
            placed,
            give_dirs,
            make_dirs,
            kill_counts,
            confinement,
        })
    }
}

impl Welcome {
    /// The message's bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut message = Writer::new();
        message
            .u16(VERSION)
            .bool(self.split)
            .u32(self.landlock_abi)
            .u64(self.capabilities);
        message.finish()
    }

    /// Reads the message.
    ///
    /// # Errors
    ///
    /// [`ProtocolError::Version`] for another version; otherwise when fields are missing, out of range or left over.
    pub fn decode(message: &[u8]) -> Result<Self, ProtocolError> {
        let mut reader = Reader::new(message);
        reader.version()?;
        let welcome = Self {
            split: reader.bool()?,
            landlock_abi: reader.u32()?,
            capabilities: reader.u64()?,
        };
        reader.end()?;
        Ok(welcome)
    }
}
