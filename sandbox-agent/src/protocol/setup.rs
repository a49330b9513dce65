//! How the agent builds a local sandbox: it starts in new namespaces with the host's files still
//! visible, and this message says how to build the root.

use alloc::vec::Vec;

use super::{IpRange, MessageReader, MessageWriter, ProtocolError, settings::write_ranges};

/// User and group of the agent in a user namespace of the sandbox's own ([`Setup::user_namespace`]).
/// No code has them, not even code of user 0.
pub const AGENT_ID: u32 = 65_534;

/// The object of the host that a path must lead to. The host holds it open until the agent has
/// answered, so its numbers are not reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostObject {
    /// The device number of its file system.
    pub device: u64,
    /// Its inode number.
    pub inode: u64,
}

impl HostObject {
    pub(super) fn write(object: Option<Self>, message: &mut MessageWriter) {
        message.bool(object.is_some());
        if let Some(Self { device, inode }) = object {
            message.u64(device).u64(inode);
        }
    }

    pub(super) fn read(reader: &mut MessageReader<'_>) -> Result<Option<Self>, ProtocolError> {
        Ok(match reader.bool()? {
            false => None,
            true => Some(Self {
                device: reader.u64()?,
                inode: reader.u64()?,
            }),
        })
    }
}

/// A step of building the root. Targets are absolute paths inside the new root; missing parents and
/// mount points are made. Steps run in order, so a later one may cover an earlier one.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mount {
    /// Mounts the host's `source`, with its submounts, at `target`: nosuid, nodev.
    Bind {
        /// A path of the host. If its last component is a link, it is not followed: the host has
        /// resolved it.
        source: Vec<u8>,
        /// The mount point.
        target: Vec<u8>,
        /// Whether it and its submounts are read-only.
        read_only: bool,
        /// Whether device files work (`/dev/null` and similar).
        devices: bool,
        /// Whether a missing source is skipped.
        optional: bool,
        /// The object that the source must be; otherwise the setup fails. `None` if only the host's
        /// root can replace it.
        object: Option<HostObject>,
    },
    /// A procfs of the sandbox's PID namespace: nosuid, nodev, noexec.
    Proc {
        /// The mount point.
        target: Vec<u8>,
    },
    /// A devpts of its own, for terminals that only this sandbox sees: nosuid, noexec. Skipped if
    /// the kernel cannot mount one; the folder is then empty.
    Terminals {
        /// The mount point.
        target: Vec<u8>,
        /// Maximum number of terminals.
        most: u32,
    },
    /// A symbolic link.
    Symlink {
        /// The link's target.
        points_to: Vec<u8>,
        /// Its path.
        target: Vec<u8>,
    },
    /// A folder of the agent that everybody may read, unless it exists.
    Dir {
        /// Its path.
        target: Vec<u8>,
    },
    /// A small read-only file with this content.
    File {
        /// Its path.
        target: Vec<u8>,
        /// Its content.
        content: Vec<u8>,
        /// Permission bits.
        mode: u32,
    },
    /// Makes the mount at `target` read-only (the tmpfs root, after every mount point exists).
    ReadOnly {
        /// The mount point.
        target: Vec<u8>,
    },
    /// Covers a file or folder with an empty one that cannot be read.
    Mask {
        /// The file or folder.
        target: Vec<u8>,
        /// The object that must be there. Without it, any object is covered, and a missing one is
        /// skipped.
        object: Option<HostObject>,
    },
    /// Makes a folder a mount point, with its submounts. The kernel refuses to rename or remove
    /// mount points, so the submounts stay in place even if code can write to the folder's parent.
    Pin {
        /// The existing folder.
        target: Vec<u8>,
    },
    /// Makes a part of a mount read-only: nosuid, nodev, noexec. A missing one is skipped.
    ReadOnlyPart {
        /// The file or folder.
        target: Vec<u8>,
    },
}

/// A limit of a new user namespace on objects that the kernel counts per user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserLimit {
    /// The name of a file in `/proc/sys/user`.
    pub name: Vec<u8>,
    /// Maximum number of these objects of all the sandbox's users.
    pub most: u64,
}

/// The first message to a local sandbox's agent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Setup {
    /// Whether the agent is in a new mount namespace and builds a root. Otherwise `mounts` is empty
    /// and the host's files stay visible; executions are confined by other means.
    pub new_root: bool,
    /// The steps.
    pub mounts: Vec<Mount>,
    /// Host name in a UTS namespace; empty leaves it.
    pub hostname: Vec<u8>,
    /// Whether to bring the loopback interface of a new network namespace up.
    pub loopback: bool,
    /// Whether to enter a new user namespace after the mounts: ask for its ID maps with
    /// [`super::FrameKind::NeedMaps`], wait for [`super::FrameKind::Mapped`], and become its user and group
    /// [`AGENT_ID`].
    pub user_namespace: bool,
    /// Whether to make the addresses of names and these ranges local to the network namespace, and
    /// to open its low ports, for [`super::EgressSettings`].
    pub egress: Option<Vec<IpRange>>,
    /// Limits of the sandbox's own user namespace.
    pub user_limits: Vec<UserLimit>,
    /// Whether the agent is PID 1 of a new PID namespace, so that its exit ends all processes.
    pub pid_one: bool,
    /// Whether the agent dies with the thread that started it (`PR_SET_PDEATHSIG`).
    pub die_with_parent: bool,
}

impl Mount {
    fn write(&self, message: &mut MessageWriter) {
        match self {
            Self::Bind {
                source,
                target,
                read_only,
                devices,
                optional,
                object,
            } => {
                message.u8(0).bytes(source).bytes(target);
                message.bool(*read_only).bool(*devices).bool(*optional);
                HostObject::write(*object, message);
            }
            Self::Proc { target } => {
                message.u8(1).bytes(target);
            }
            Self::Symlink { points_to, target } => {
                message.u8(2).bytes(points_to).bytes(target);
            }
            Self::Dir { target } => {
                message.u8(3).bytes(target);
            }
            Self::File {
                target,
                content,
                mode,
            } => {
                message.u8(4).bytes(target).bytes(content).u32(*mode);
            }
            Self::ReadOnly { target } => {
                message.u8(5).bytes(target);
            }
            Self::Mask { target, object } => {
                message.u8(6).bytes(target);
                HostObject::write(*object, message);
            }
            Self::Pin { target } => {
                message.u8(7).bytes(target);
            }
            Self::ReadOnlyPart { target } => {
                message.u8(8).bytes(target);
            }
            Self::Terminals { target, most } => {
                message.u8(9).bytes(target).u32(*most);
            }
        }
    }

    fn read(reader: &mut MessageReader<'_>) -> Result<Self, ProtocolError> {
        fn owned(reader: &mut MessageReader<'_>) -> Result<Vec<u8>, ProtocolError> {
            Ok(reader.bytes()?.to_vec())
        }
        Ok(match reader.u8()? {
            0 => Self::Bind {
                source: owned(reader)?,
                target: owned(reader)?,
                read_only: reader.bool()?,
                devices: reader.bool()?,
                optional: reader.bool()?,
                object: HostObject::read(reader)?,
            },
            1 => Self::Proc {
                target: owned(reader)?,
            },
            2 => Self::Symlink {
                points_to: owned(reader)?,
                target: owned(reader)?,
            },
            3 => Self::Dir {
                target: owned(reader)?,
            },
            4 => Self::File {
                target: owned(reader)?,
                content: owned(reader)?,
                mode: reader.u32()?,
            },
            5 => Self::ReadOnly {
                target: owned(reader)?,
            },
            6 => Self::Mask {
                target: owned(reader)?,
                object: HostObject::read(reader)?,
            },
            7 => Self::Pin {
                target: owned(reader)?,
            },
            8 => Self::ReadOnlyPart {
                target: owned(reader)?,
            },
            9 => Self::Terminals {
                target: owned(reader)?,
                most: reader.u32()?,
            },
            _ => return Err(ProtocolError::BadValue("mount")),
        })
    }
}

impl Setup {
    /// Encodes the message.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut message = MessageWriter::new();
        message
            .bool(self.new_root)
            .list(&self.mounts, |message, mount| mount.write(message));
        message
            .bytes(&self.hostname)
            .bool(self.loopback)
            .bool(self.user_namespace)
            .bool(self.egress.is_some());
        if let Some(ranges) = &self.egress {
            write_ranges(ranges, &mut message);
        }
        message.list(&self.user_limits, |message, limit| {
            message.bytes(&limit.name).u64(limit.most);
        });
        message.bool(self.pid_one).bool(self.die_with_parent);
        message.finish()
    }

    /// Decodes the message.
    ///
    /// # Errors
    ///
    /// When fields are missing, out of range or left over.
    pub fn decode(message: &[u8]) -> Result<Self, ProtocolError> {
        let mut reader = MessageReader::new(message);
        let setup = Self {
            new_root: reader.bool()?,
            mounts: reader.list(Mount::read)?,
            hostname: reader.bytes()?.to_vec(),
            loopback: reader.bool()?,
            user_namespace: reader.bool()?,
            egress: match reader.bool()? {
                false => None,
                true => Some(reader.list(IpRange::read)?),
            },
            user_limits: reader.list(|reader| {
                Ok(UserLimit {
                    name: reader.bytes()?.to_vec(),
                    most: reader.u64()?,
                })
            })?,
            pid_one: reader.bool()?,
            die_with_parent: reader.bool()?,
        };
        reader.end()?;
        Ok(setup)
    }
}
