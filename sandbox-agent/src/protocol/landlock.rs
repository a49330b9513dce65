//! Landlock rules of executions, and what each ABI supports.

use alloc::vec::Vec;

use super::{HostObject, MessageReader, MessageWriter, ProtocolError};

const REFER: u64 = 1 << 13;
const TRUNCATE: u64 = 1 << 14;
const IOCTL_DEV: u64 = 1 << 15;
/// Every right of ABI 1.
const FIRST_ABI: u64 = (1 << 13) - 1;

const BIND_TCP: u64 = 1 << 0;
const CONNECT_TCP: u64 = 1 << 1;

const SCOPE_ABSTRACT_UNIX_SOCKET: u64 = 1 << 0;
const SCOPE_SIGNAL: u64 = 1 << 1;

/// The `LANDLOCK_ACCESS_FS_*` bits that an ABI supports: none for ABI 0. Bits of ABIs above 7 are
/// not used.
#[must_use]
pub fn handled_fs(abi: u32) -> u64 {
    let since = |first: u32, rights: u64| if abi >= first { rights } else { 0 };
    since(1, FIRST_ABI) | since(2, REFER) | since(3, TRUNCATE) | since(5, IOCTL_DEV)
}

/// The `LANDLOCK_ACCESS_NET_*` bits that an ABI supports.
#[must_use]
pub fn handled_net(abi: u32) -> u64 {
    if abi >= 4 { BIND_TCP | CONNECT_TCP } else { 0 }
}

/// The `LANDLOCK_SCOPE_*` bits that an ABI supports.
#[must_use]
pub fn scopes(abi: u32) -> u64 {
    if abi >= 6 {
        SCOPE_ABSTRACT_UNIX_SOCKET | SCOPE_SIGNAL
    } else {
        0
    }
}

/// A Landlock rule for a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LandlockPath {
    /// A path inside the sandbox. A missing path gets no rule.
    pub path: Vec<u8>,
    /// The `LANDLOCK_ACCESS_FS_*` bits to grant below it.
    pub access: u64,
    /// The object that the path must lead to; otherwise the settings fail. `None` accepts any.
    pub object: Option<HostObject>,
}

/// A Landlock ruleset, lowered by the client for the sandbox's kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LandlockRules {
    /// Whether the agent drops what its kernel does not support, for clients that do not know the
    /// kernel. Otherwise an unsupported right is a failure.
    pub adapts: bool,
    /// `handled_access_fs`.
    pub handled_fs: u64,
    /// `handled_access_net`.
    pub handled_net: u64,
    /// `scoped`.
    pub scoped: u64,
    /// The rules.
    pub paths: Vec<LandlockPath>,
}

impl LandlockRules {
    /// The lowest ABI that rules are adapted to: before it, files could not be moved between
    /// folders.
    pub const LEAST_ABI: u32 = 2;

    /// The rules for a kernel with this ABI; `None` if the rules adapt, and the ABI is below
    /// [`Self::LEAST_ABI`].
    #[must_use]
    pub fn for_abi(&self, abi: u32) -> Option<Self> {
        if !self.adapts {
            return Some(self.clone());
        }
        if abi < Self::LEAST_ABI {
            return None;
        }
        let handled_fs = self.handled_fs & handled_fs(abi);
        let paths = self.paths.iter().map(|rule| LandlockPath {
            path: rule.path.clone(),
            access: rule.access & handled_fs,
            object: rule.object,
        });
        Some(Self {
            adapts: true,
            handled_fs,
            handled_net: self.handled_net & handled_net(abi),
            scoped: self.scoped & scopes(abi),
            paths: paths.collect(),
        })
    }

    pub(super) fn write(&self, message: &mut MessageWriter) {
        message
            .bool(self.adapts)
            .u64(self.handled_fs)
            .u64(self.handled_net)
            .u64(self.scoped);
        message.list(&self.paths, |message, rule| {
            message.bytes(&rule.path).u64(rule.access);
            HostObject::write(rule.object, message);
        });
    }

    pub(super) fn read(reader: &mut MessageReader<'_>) -> Result<Self, ProtocolError> {
        Ok(Self {
            adapts: reader.bool()?,
            handled_fs: reader.u64()?,
            handled_net: reader.u64()?,
            scoped: reader.u64()?,
            paths: reader.list(|reader| {
                Ok(LandlockPath {
                    path: reader.bytes()?.to_vec(),
                    access: reader.u64()?,
                    object: HostObject::read(reader)?,
                })
            })?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adapted_rules_only_use_what_the_abi_supports() {
        let mut rules = LandlockRules {
            adapts: true,
            handled_fs: handled_fs(7),
            handled_net: handled_net(7),
            scoped: scopes(7),
            paths: [LandlockPath {
                path: b"/tmp".to_vec(),
                access: handled_fs(7),
                object: None,
            }]
            .into(),
        };
        assert_eq!(rules.for_abi(0), None);
        assert_eq!(rules.for_abi(1), None);
        let old = rules.for_abi(2).unwrap();
        assert_eq!(
            (old.handled_fs, old.handled_net, old.scoped),
            (handled_fs(2), 0, 0)
        );
        assert_eq!(old.paths[0].access, handled_fs(2));
        assert_eq!(rules.for_abi(7).as_ref(), Some(&rules));
        rules.adapts = false;
        assert_eq!(rules.for_abi(0).as_ref(), Some(&rules));
    }
}
