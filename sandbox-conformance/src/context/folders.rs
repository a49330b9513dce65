//! The folders and files of a probe, on the host and in the sandbox.

use std::path::PathBuf;

use super::ProbeContext;
use crate::canary::Canary;
use crate::host_fixture::{chown_to_ordinary_user, make_folder};
use crate::probe::ProbeError;

impl ProbeContext {
    /// A folder of this probe that no setup grants.
    ///
    /// # Errors
    ///
    /// If the folder cannot be created.
    pub fn outside(&self) -> Result<PathBuf, ProbeError> {
        self.own_folder(self.fixture.outside())
    }

    /// A folder of this probe below the read root.
    ///
    /// # Errors
    ///
    /// If the folder cannot be created.
    pub fn read_folder(&self) -> Result<PathBuf, ProbeError> {
        self.own_folder(self.fixture.read_root())
    }

    /// A folder of this probe below the write root.
    ///
    /// # Errors
    ///
    /// If the folder cannot be created.
    pub fn write_folder(&self) -> Result<PathBuf, ProbeError> {
        let folder = self.own_folder(self.fixture.write_root())?;
        chown_to_ordinary_user(&folder)?;
        Ok(folder)
    }

    /// Where the attacked sandbox can read a file of the read root. Without a read root, the file
    /// is copied into the sandbox.
    ///
    /// # Errors
    ///
    /// If the copy fails.
    pub async fn granted(&mut self, canary: &Canary) -> Result<PathBuf, ProbeError> {
        let copy = self.inside("granted");
        let content = canary.content().to_vec();
        let path = canary.path().to_owned();
        let placed = self
            .with_sandbox(async |sandbox| {
                if sandbox.has_roots() {
                    return Ok(path);
                }
                let written = sandbox.handle().write(&copy, content).await;
                written.map(|()| PathBuf::from(&copy))
            })
            .await;
        match placed {
            Ok(placed) => Ok(placed?),
            // The attack records why there is no sandbox.
            Err(_) => Ok(canary.path().to_owned()),
        }
    }

    /// A path that the attacked sandbox can write: in the write root, or in its /tmp if it has
    /// none.
    pub async fn writable(&mut self, name: &str) -> PathBuf {
        let own = PathBuf::from(self.inside(name));
        let root = self
            .fixture
            .write_root()
            .join(format!("{}-{name}", self.token));
        match self.with_sandbox(async |sandbox| sandbox.has_roots()).await {
            Ok(false) => own,
            // Without a sandbox, the attack records the reason.
            Ok(true) | Err(_) => root,
        }
    }

    /// Creates a host folder for exported artifacts.
    ///
    /// # Errors
    ///
    /// If the folder cannot be created.
    pub fn output_folder(&self) -> Result<PathBuf, ProbeError> {
        let folder = self.outside()?.join(format!("output-{}", self.token));
        make_folder(&folder)?;
        Ok(folder)
    }

    /// A path in the sandbox's /tmp that only this probe uses.
    #[must_use]
    pub fn inside(&self, name: &str) -> String {
        format!("/tmp/{}-{name}", self.token)
    }

    fn own_folder(&self, parent: PathBuf) -> Result<PathBuf, ProbeError> {
        let folder = parent.join(&self.slug);
        make_folder(&folder)?;
        Ok(folder)
    }

    /// A canary that no setup grants.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn canary(&self, mode: u32) -> Result<Canary, ProbeError> {
        Canary::plant(&self.outside()?.join("canary"), mode)
    }
}
