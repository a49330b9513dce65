//! Claims: the containers that this process uses.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard};

use sandbox_host::lock;

/// A container that this process uses or is about to create, identified by a token in a label.
/// While the claim exists, this process's sweep skips the container.
#[derive(Debug)]
pub(crate) struct ContainerClaim(String);

impl ContainerClaim {
    /// A claim with a unique token.
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let token = sandbox_core::spi::unique_name(&format!("claim-{count}"));
        claims().insert(token.clone());
        Self(token)
    }

    /// The token.
    pub(crate) fn token(&self) -> &str {
        &self.0
    }

    /// Whether this process claims the container with this token.
    pub(crate) fn is_held(token: &str) -> bool {
        claims().contains(token)
    }
}

impl Drop for ContainerClaim {
    fn drop(&mut self) {
        claims().remove(&self.0);
    }
}

fn claims() -> MutexGuard<'static, HashSet<String>> {
    static CLAIMS: LazyLock<Mutex<HashSet<String>>> = LazyLock::new(Mutex::default);
    lock(&CLAIMS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claim_lasts_until_dropped() {
        let claim = ContainerClaim::new();
        let token = claim.token().to_owned();
        assert!(ContainerClaim::is_held(&token) && !ContainerClaim::is_held("another"));
        assert_ne!(ContainerClaim::new().token(), token);
        drop(claim);
        assert!(!ContainerClaim::is_held(&token));
    }
}
