//! An engine that a backend looks for when it first needs it.

use sandbox_core::{ErrorKind, Result};
use tokio::sync::Mutex;

/// An engine or cluster: found on first use, and again after it was unavailable.
///
/// `E` is a handle that is cheap to clone, such as a client.
#[derive(Debug)]
pub struct EngineCell<E>(Mutex<Option<E>>);

impl<E> Default for EngineCell<E> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<E: Clone> EngineCell<E> {
    /// The engine, from `find` if it is not known. Concurrent calls wait for the first one.
    ///
    /// # Errors
    ///
    /// Those of `find`. The next call tries again.
    pub async fn get(&self, find: impl Future<Output = Result<E>>) -> Result<E> {
        let mut known = self.0.lock().await;
        if let Some(engine) = &*known {
            return Ok(engine.clone());
        }
        Ok(known.insert(find.await?).clone())
    }

    /// The engine, if it is known and no other call is looking for it.
    #[must_use]
    pub fn known(&self) -> Option<E> {
        self.0.try_lock().ok()?.clone()
    }

    /// Calls `act` with the engine. Forgets an engine that was unavailable: the next call may find
    /// another one.
    ///
    /// # Errors
    ///
    /// Those of `find` and `act`.
    pub async fn run<T>(
        &self,
        find: impl Future<Output = Result<E>>,
        act: impl AsyncFnOnce(E) -> Result<T>,
    ) -> Result<T> {
        let result = act(self.get(find).await?).await;
        if let Err(error) = &result
            && error.kind() == ErrorKind::SandboxUnavailable
        {
            *self.0.lock().await = None;
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use sandbox_core::Error;

    use super::*;

    #[tokio::test]
    async fn engine_is_found_once_and_again_after_it_was_unavailable() {
        let cell = EngineCell::default();
        let unavailable = || Error::unavailable("local", "a test", "none");
        assert!(cell.get(async { Err(unavailable()) }).await.is_err());
        assert_eq!(cell.get(async { Ok(1) }).await.expect("found"), 1);
        for (error, next) in [
            (Error::new(ErrorKind::Io, "use engine", "a test"), 1),
            (unavailable(), 2),
        ] {
            let failed = cell.run(async { Ok(2) }, async |_| Err::<(), _>(error));
            assert!(failed.await.is_err());
            assert_eq!(cell.get(async { Ok(2) }).await.expect("found"), next);
        }
    }
}
