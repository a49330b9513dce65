//! How the agent builds the place it will run in, where the backend is the local kernel: it starts in new namespaces
//! with the host's files still in view, and this message says what to make of them.

use alloc::vec::Vec;

use super::{ProtocolError, Reader, Writer};

/// Which object of the host a path must lead to. The host holds a descriptor of the object until the agent has answered, so no
/// other object can have the same numbers meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Object {
    /// The number of its file system.
    pub device: u64,
    /// Its number in the file system.
    pub inode: u64,
}

impl Object {
    pub(super) fn write(object: Option<Self>, message: &mut Writer) {
        message.bool(object.is_some());
        if let Some(Self { device, inode }) = object {
            message.u64(device).u64(inode);
        }
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Option<Self>, ProtocolError> {
        Ok(match reader.bool()? {
            false => None,
            true => Some(Self {
                device: reader.u64()?,
                inode: reader.u64()?,
            }),
        })
    }
}

/// One step of building the root. Targets are absolute paths inside of the new root; missing parents and mount points
/// are made. Steps run in order, so a later one may cover an earlier one.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mount {
    /// The host's `source` (with what is mounted below it) at `target`: nosuid, nodev.
    Bind {
        /// A path of the host. Its last part is not followed when it is a link: the host resolved it before.
        source: Vec<u8>,
        /// Where it appears.
        target: Vec<u8>,
        /// Whether it and everything below is read-only.
        read_only: bool,
        /// Whether device files below work (`/dev/null` and its kin).
        devices: bool,
        /// A missing source is passed over.
        optional: bool,
        /// What the source must be; anything else is not mounted, and the setup fails. `None` where nobody but the host's root can
        /// exchange it.
        object: Option<Object>,
    },
    /// A tmpfs: nosuid, nodev.
    Tmpfs {
        /// Where it appears.
        target: Vec<u8>,
        /// Its size in bytes.
        size: u64,
        /// How many files and folders it holds; 0 leaves the kernel's default.
        inodes: u64,
        /// Permission bits of its root.
        mode: u32,
        /// Whether programs on it may be executed.
        exec: bool,
        /// Whether its root belongs to the code's identity (otherwise to the agent's).
        owned: bool,
    },
    /// A new procfs of the sandbox's own process namespace: nosuid, nodev, noexec.
    Proc {
        /// Where it appears.
        target: Vec<u8>,
    },
    /// A POSIX message queue file system of the sandbox's own ipc namespace.
    Mqueue {
        /// Where it appears.
        target: Vec<u8>,
    },
    /// A symbolic link.
    Symlink {
        /// What it points to.
        points_to: Vec<u8>,
        /// Where it stands.
        target: Vec<u8>,
    },
    /// A folder, if it is not there yet.
    Dir {
        /// Where it stands.
        target: Vec<u8>,
        /// Permission bits.
        mode: u32,
        /// Whether it belongs to the code's identity.
        owned: bool,
    },
    /// A small read-only file with this content.
    File {
        /// Where it stands.
        target: Vec<u8>,
        /// Its content.
        content: Vec<u8>,
        /// Permission bits.
        mode: u32,
    },
    /// Makes what has been mounted at `target` so far read-only (the tmpfs root, after every mount point exists).
    ReadOnly {
        /// Which mount.
        target: Vec<u8>,
    },
    /// Hides a file or folder under an empty one that cannot be read.
    Mask {
        /// What to hide.
        target: Vec<u8>,
        /// What must be there; without, whatever is there is hidden, and a missing one is passed over.
        object: Option<Object>,
    },
    /// Makes a folder a mount point of its own, with what is mounted below it. The kernel refuses to rename or remove a mount
    /// point, so what is mounted below stays where it is, also where code may write to the folder's parent.
    Pin {
        /// The folder, which is there.
        target: Vec<u8>,
    },
    /// Makes a file or folder of a mount read-only, and leaves the rest of that mount as it is: nosuid, nodev, noexec. A missing one
    /// is passed over.
    ReadOnlyPart {
        /// Which file or folder.
        target: Vec<u8>,
    },
}

/// A limit of a new user namespace, on what the kernel counts for each user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserLimit {
    /// The name of a file in `/proc/sys/user`.
    pub name: Vec<u8>,
    /// How many of these objects the sandbox's users may have together.
    pub most: u64,
}

/// The first message of a local sandbox.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Setup {
    /// Whether the agent runs in a new mount namespace and builds a root at all. Without, `mounts` is empty and the
    /// host's files stay in view (the confinement of executions is then all there is).
    pub new_root: bool,
    /// The steps.
    pub mounts: Vec<Mount>,
    /// Host name, where there is a UTS namespace; empty leaves it.
    pub hostname: Vec<u8>,
    /// Whether the loopback interface of a new network namespace must be brought up.
    pub loopback: bool,
    /// After the mounts, enter a new user namespace, ask for its maps with [`super::Kind::NeedMaps`], wait for
    /// [`super::Kind::Mapped`], and become user and group 0 of it.
    pub user_namespace: bool,
    /// Limits of the sandbox's user namespace, which must be its own.
    pub user_limits: Vec<UserLimit>,
    /// Identity that `owned` means while the root is built: (user, group) as numbers of the namespace the agent is in
    /// at that time.
    pub owner: (u32, u32),
    /// Whether the agent is the first process of a new process namespace, so that its end ends everything.
    pub pid_one: bool,
    /// Die with the thread that started the agent (`PR_SET_PDEATHSIG`).
    pub die_with_parent: bool,
}

impl Mount {
    fn write(&self, message: &mut Writer) {
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
                Object::write(*object, message);
            }
            Self::Tmpfs {
                target,
                size,
                inodes,
                mode,
                exec,
                owned,
            } => {
                message
                    .u8(1)
                    .bytes(target)
                    .u64(*size)
                    .u64(*inodes)
                    .u32(*mode);
                message.bool(*exec).bool(*owned);
            }
            Self::Proc { target } => {
                message.u8(2).bytes(target);
            }
            Self::Mqueue { target } => {
                message.u8(3).bytes(target);
            }
            Self::Symlink { points_to, target } => {
                message.u8(4).bytes(points_to).bytes(target);
            }
            Self::Dir {
                target,
                mode,
                owned,
            } => {
                message.u8(5).bytes(target).u32(*mode).bool(*owned);
            }
            Self::File {
                target,
                content,
                mode,
            } => {
                message.u8(6).bytes(target).bytes(content).u32(*mode);
            }
            Self::ReadOnly { target } => {
                message.u8(7).bytes(target);
            }
            Self::Mask { target, object } => {
                message.u8(8).bytes(target);
                Object::write(*object, message);
            }
            Self::Pin { target } => {
                message.u8(9).bytes(target);
            }
            Self::ReadOnlyPart { target } => {
                message.u8(10).bytes(target);
            }
        }
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, ProtocolError> {
        fn owned(reader: &mut Reader<'_>) -> Result<Vec<u8>, ProtocolError> {
            Ok(reader.bytes()?.to_vec())
        }
        Ok(match reader.u8()? {
            0 => Self::Bind {
                source: owned(reader)?,
                target: owned(reader)?,
                read_only: reader.bool()?,
                devices: reader.bool()?,
                optional: reader.bool()?,
                object: Object::read(reader)?,
            },
            1 => Self::Tmpfs {
                target: owned(reader)?,
                size: reader.u64()?,
                inodes: reader.u64()?,
                mode: reader.u32()?,
                exec: reader.bool()?,
                owned: reader.bool()?,
            },
            2 => Self::Proc {
                target: owned(reader)?,
            },
            3 => Self::Mqueue {
                target: owned(reader)?,
            },
            4 => Self::Symlink {
                points_to: owned(reader)?,
                target: owned(reader)?,
            },
            5 => Self::Dir {
                target: owned(reader)?,
                mode: reader.u32()?,
                owned: reader.bool()?,
            },
            6 => Self::File {
                target: owned(reader)?,
                content: owned(reader)?,
                mode: reader.u32()?,
            },
            7 => Self::ReadOnly {
                target: owned(reader)?,
            },
            8 => Self::Mask {
                target: owned(reader)?,
                object: Object::read(reader)?,
            },
            9 => Self::Pin {
                target: owned(reader)?,
            },
            10 => Self::ReadOnlyPart {
                target: owned(reader)?,
            },
            _ => return Err(ProtocolError::BadValue("mount")),
        })
    }
}

impl Setup {
    /// The message's bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut message = Writer::new();
        message
            .bool(self.new_root)
            .list(&self.mounts, |message, mount| mount.write(message));
        message
            .bytes(&self.hostname)
            .bool(self.loopback)
            .bool(self.user_namespace)
            .list(&self.user_limits, |message, limit| {
                message.bytes(&limit.name).u64(limit.most);
            });
        message
            .u32(self.owner.0)
            .u32(self.owner.1)
            .bool(self.pid_one)
            .bool(self.die_with_parent);
        message.finish()
    }

    /// Reads the message.
    ///
    /// # Errors
    ///
    /// When fields are missing, out of range or left over.
    pub fn decode(message: &[u8]) -> Result<Self, ProtocolError> {
        let mut reader = Reader::new(message);
        let setup = Self {
            new_root: reader.bool()?,
            mounts: reader.list(Mount::read)?,
            hostname: reader.bytes()?.to_vec(),
            loopback: reader.bool()?,
            user_namespace: reader.bool()?,
            user_limits: reader.list(|reader| {
                Ok(UserLimit {
                    name: reader.bytes()?.to_vec(),
                    most: reader.u64()?,
                })
            })?,
            owner: (reader.u32()?, reader.u32()?),
            pid_one: reader.bool()?,
            die_with_parent: reader.bool()?,
        };
        reader.end()?;
        Ok(setup)
    }
}
