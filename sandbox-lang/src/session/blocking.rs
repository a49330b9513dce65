//! Sessions for programs without an async runtime.

use sandbox_core::Result;
use sandbox_core::blocking::BlockingHandle;

use super::{CellEvent, CellRequest, CellResult, Session, SessionRequest, Sessions as _};

/// As [`super::Sessions`], for [`BlockingHandle`].
///
/// ```no_run
/// use sandbox_lang::BlockingSessions;
///
/// # fn example(sandbox: sandbox_core::blocking::BlockingHandle) -> sandbox_core::Result<()> {
/// let session = sandbox.session("python".into())?;
/// session.run("x = 6")?.check()?;
/// assert_eq!(session.run("print(x * 7)")?.stdout.text(), "42\n");
/// # Ok(()) }
/// ```
pub trait BlockingSessions {
    /// As [`super::Sessions::session`].
    ///
    /// # Errors
    ///
    /// As [`super::Sessions::session`].
    fn session(&self, request: SessionRequest) -> Result<BlockingSession<'_>>;
}

impl BlockingSessions for BlockingHandle {
    fn session(&self, request: SessionRequest) -> Result<BlockingSession<'_>> {
        let session = self.wait(self.as_async().session(request))?;
        Ok(BlockingSession {
            session,
            sandbox: self,
        })
    }
}

/// A [`Session`] whose methods block.
#[derive(Debug)]
pub struct BlockingSession<'a> {
    session: Session,
    sandbox: &'a BlockingHandle,
}

impl BlockingSession<'_> {
    /// The session for async code.
    #[must_use]
    pub fn as_async(&self) -> &Session {
        &self.session
    }

    /// As [`Session::run`].
    ///
    /// # Errors
    ///
    /// As [`Session::run`].
    pub fn run(&self, cell: impl Into<CellRequest>) -> Result<CellResult> {
        self.sandbox.wait(self.session.run(cell))
    }

    /// As [`Session::run_with`].
    ///
    /// # Errors
    ///
    /// As [`Session::run_with`].
    pub fn run_with(
        &self,
        cell: impl Into<CellRequest>,
        on_event: impl FnMut(&CellEvent),
    ) -> Result<CellResult> {
        self.sandbox.wait(self.session.run_with(cell, on_event))
    }

    /// As [`Session::branch`].
    ///
    /// # Errors
    ///
    /// As [`Session::branch`].
    pub fn branch(&self) -> Result<Self> {
        Ok(Self {
            session: self.sandbox.wait(self.session.branch())?,
            sandbox: self.sandbox,
        })
    }

    /// As [`Session::restart`].
    ///
    /// # Errors
    ///
    /// As [`Session::restart`].
    pub fn restart(&self) -> Result<()> {
        self.sandbox.wait(self.session.restart())
    }

    /// As [`Session::close`].
    ///
    /// # Errors
    ///
    /// As [`Session::close`].
    pub fn close(self) -> Result<()> {
        self.sandbox.wait(self.session.close())
    }
}
