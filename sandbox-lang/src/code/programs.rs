//! The compiled programs of a sandbox.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sandbox_core::SandboxHandle;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

use super::folder;

/// How many programs a sandbox keeps. Those that run are kept in any case.
const MAX_PROGRAMS: usize = 32;

/// What a program was made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ProgramKey(blake3::Hash);

impl ProgramKey {
    /// Hashes these parts.
    pub(super) fn of<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut hasher = blake3::Hasher::new();
        for part in parts {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        Self(hasher.finalize())
    }
}

/// The folder of a program; `None` if it has not been compiled.
type Folder = Arc<AsyncMutex<Option<String>>>;

/// A program that is in use.
#[derive(Debug, Clone)]
pub(super) struct ProgramUse {
    key: ProgramKey,
    folder: Folder,
}

/// The programs of a sandbox. The one that was used last is the last.
#[derive(Debug, Default)]
pub(super) struct Programs(Mutex<Vec<ProgramUse>>);

impl ProgramUse {
    /// Waits until nobody else compiles it.
    pub(super) async fn lock(&self) -> OwnedMutexGuard<Option<String>> {
        Arc::clone(&self.folder).lock_owned().await
    }
}

impl Programs {
    fn all(&self) -> MutexGuard<'_, Vec<ProgramUse>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Uses the program with this key. It may have to be compiled.
    pub(super) fn take(&self, key: ProgramKey) -> ProgramUse {
        let mut all = self.all();
        let found = all.iter().position(|program| program.key == key);
        let program = match found {
            Some(at) => all.remove(at),
            None => ProgramUse {
                key,
                folder: Folder::default(),
            },
        };
        all.push(program.clone());
        program
    }

    /// Forgets a program that is no longer in the sandbox.
    pub(super) fn forget(&self, used: &ProgramUse) {
        self.all().retain(|program| program.key != used.key);
    }

    /// Removes the programs that were not used for longest, unless they are in use.
    pub(super) async fn shrink(&self, sandbox: &SandboxHandle) {
        for dropped in self.excess() {
            // Nobody else holds it.
            if let Some(left) = dropped.lock().await.take() {
                folder::remove(sandbox, &left).await;
            }
        }
    }

    fn excess(&self) -> Vec<ProgramUse> {
        let mut all = self.all();
        let mut more = all.len().saturating_sub(MAX_PROGRAMS);
        let mut dropped = Vec::new();
        all.retain(|program| {
            let drop = more > 0 && Arc::strong_count(&program.folder) == 1;
            if drop {
                more -= 1;
                dropped.push(program.clone());
            }
            !drop
        });
        dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: usize) -> ProgramKey {
        ProgramKey::of([number.to_string().as_bytes()])
    }

    #[test]
    fn parts_of_a_key_do_not_run_together() {
        assert_ne!(
            ProgramKey::of([&b"ab"[..], b"c"]),
            ProgramKey::of([&b"a"[..], b"bc"])
        );
        assert_eq!(ProgramKey::of([&b"ab"[..]]), ProgramKey::of([&b"ab"[..]]));
    }

    #[test]
    fn programs_in_use_stay_and_the_oldest_others_go() {
        let programs = Programs::default();
        let used = programs.take(key(0));
        for number in 1..=MAX_PROGRAMS + 1 {
            drop(programs.take(key(number)));
        }
        drop(programs.take(key(1)));
        let gone = programs
            .excess()
            .iter()
            .map(|one| one.key)
            .collect::<Vec<_>>();
        assert_eq!(gone, [key(2), key(3)]);
        programs.forget(&used);
        assert_eq!(programs.all().len(), MAX_PROGRAMS - 1);
    }
}
