//! The agent's program in a foreign container, until the agent runs.

use async_trait::async_trait;
use sandbox_core::Result;

use crate::{AgentInstance, Background};

/// The agent's program in a foreign container, as an engine reaches it.
#[async_trait]
pub trait ForeignProgram: Clone + Send + Sync + 'static {
    /// The container's name in errors: "container x".
    fn place(&self) -> String;

    /// Removes the program. A running agent continues.
    ///
    /// # Errors
    ///
    /// Errors of the engine, and what is left in the container.
    async fn remove(&self) -> Result<()>;

    /// As [`ForeignProgram::remove`], for a thread of [`Background`].
    ///
    /// # Errors
    ///
    /// As [`ForeignProgram::remove`].
    async fn remove_in_background(&self) -> Result<()> {
        self.remove().await
    }
}

/// Removes the agent's program from a foreign container, at the latest when dropped.
#[derive(Debug)]
pub struct InstalledAgent<P: ForeignProgram> {
    program: P,
    background: &'static Background,
    is_removed: bool,
}

impl<P: ForeignProgram> InstalledAgent<P> {
    /// Takes charge of a program that is installed or is about to be. `background` removes it if
    /// this value is dropped.
    pub fn new(program: P, background: &'static Background) -> Self {
        Self {
            program,
            background,
            is_removed: false,
        }
    }

    /// The program.
    pub fn program(&self) -> &P {
        &self.program
    }

    /// Notes that the container has no program.
    pub fn set_removed(&mut self) {
        self.is_removed = true;
    }

    /// Starts the agent with `start`, then removes its program.
    ///
    /// # Errors
    ///
    /// Those of `start`, and of [`ForeignProgram::remove`]. The agent has ended then.
    pub async fn start(
        mut self,
        start: impl AsyncFnOnce(&P) -> Result<AgentInstance>,
    ) -> Result<AgentInstance> {
        let started = start(&self.program).await;
        let removed = self.program.remove().await;
        // The drop only retries a removal that was canceled.
        self.is_removed = true;
        let instance = started?;
        removed.map(|()| instance)
    }
}

impl<P: ForeignProgram> Drop for InstalledAgent<P> {
    fn drop(&mut self) {
        if self.is_removed {
            return;
        }
        let program = self.program.clone();
        let started = self.background.start(async move {
            if let Err(error) = program.remove_in_background().await {
                tracing::error!(place = program.place(), %error, "cannot remove the agent's program from a container");
            }
        });
        if !started {
            let place = self.program.place();
            tracing::error!(
                place,
                "no thread to remove the agent's program from a container"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use sandbox_core::{Error, ErrorKind};

    use super::*;

    static BACKGROUND: Background = Background::new("test-installed");

    /// Counts its removals.
    #[derive(Debug, Clone, Default)]
    struct CountedProgram(Arc<AtomicUsize>);

    #[async_trait]
    impl ForeignProgram for CountedProgram {
        fn place(&self) -> String {
            "container x".to_owned()
        }

        async fn remove(&self) -> Result<()> {
            self.0.fetch_add(1, Ordering::SeqCst);
            Ok(())
        }
    }

    #[tokio::test]
    async fn program_is_removed_once() {
        let program = CountedProgram::default();
        let failed = || Error::new(ErrorKind::Io, "adopt container", "a test");
        let installed = InstalledAgent::new(program.clone(), &BACKGROUND);
        let started = installed.start(async |_| Err(failed())).await;
        assert!(started.is_err());
        BACKGROUND.settled().await;
        assert_eq!(program.0.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn dropped_program_is_removed_in_the_background() {
        let program = CountedProgram::default();
        drop(InstalledAgent::new(program.clone(), &BACKGROUND));
        BACKGROUND.settled().await;
        assert_eq!(program.0.load(Ordering::SeqCst), 1);
        let mut absent = InstalledAgent::new(program.clone(), &BACKGROUND);
        absent.set_removed();
        drop(absent);
        BACKGROUND.settled().await;
        assert_eq!(program.0.load(Ordering::SeqCst), 1);
    }
}
