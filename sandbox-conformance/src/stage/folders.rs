//! The folders and files of a probe, on the host and inside.

use std::path::PathBuf;

use super::Stage;
use crate::canary::Canary;
use crate::grounds::{give_away, make_folder};
use crate::probe::Trouble;

impl Stage {
    /// A folder of this probe that no setting grants.
    ///
    /// # Errors
    ///
    /// When the host's disk refuses.
    pub fn outside(&self) -> Result<PathBuf, Trouble> {
        self.own_folder(self.grounds.outside())
    }

    /// A folder of this probe below the read root.
    ///
    /// # Errors
    ///
    /// When the host's disk refuses.
    pub fn read_folder(&self) -> Result<PathBuf, Trouble> {
        self.own_folder(self.grounds.read_root())
    }

    /// A folder of this probe below the write root.
    ///
    /// # Errors
    ///
    /// When the host's disk refuses.
    pub fn write_folder(&self) -> Result<PathBuf, Trouble> {
        let folder = self.own_folder(self.grounds.write_root())?;
        give_away(&folder)?;
        Ok(folder)
    }

    /// Where the sandbox that is attacked can read a file of the read root: there, or, without such a root, a copy of its own.
    ///
    /// # Errors
    ///
    /// When there is no sandbox, or it does not take the copy.
    pub async fn granted(&mut self, canary: &Canary) -> Result<PathBuf, Trouble> {
        let copy = self.inside("granted");
        let content = canary.content().to_vec();
        let path = canary.path().to_owned();
        let placed = self
            .with_sandbox(async |sandbox| {
                if sandbox.has_roots() {
                    return Ok(path);
                }
                let source = Box::new(std::io::Cursor::new(content));
                let put = sandbox.handle().put(&copy, 0o644, source).await;
                put.map(|()| PathBuf::from(&copy))
            })
            .await;
        match placed {
            Ok(placed) => Ok(placed?),
            // The attack will say why there is none.
            Err(_) => Ok(canary.path().to_owned()),
        }
    }

    /// A path that the sandbox that is attacked can write: in the write root, or, without such a root, in a folder of its own.
    pub async fn writable(&mut self, name: &str) -> PathBuf {
        let own = PathBuf::from(self.inside(name));
        let root = self
            .grounds
            .write_root()
            .join(format!("{}-{name}", self.token));
        match self.with_sandbox(async |sandbox| sandbox.has_roots()).await {
            Ok(false) => own,
            // Without a sandbox the attack will say why there is none.
            Ok(true) | Err(_) => root,
        }
    }

    /// A new folder of the host into which artifacts may come.
    ///
    /// # Errors
    ///
    /// When the host's disk refuses.
    pub fn output_folder(&self) -> Result<PathBuf, Trouble> {
        let folder = self.outside()?.join(format!("output-{}", self.token));
        make_folder(&folder)?;
        Ok(folder)
    }

    /// A path inside of the sandbox that only this probe uses, in a folder that every sandbox lets its code write.
    #[must_use]
    pub fn inside(&self, name: &str) -> String {
        format!("/tmp/{}-{name}", self.token)
    }

    fn own_folder(&self, parent: PathBuf) -> Result<PathBuf, Trouble> {
        let folder = parent.join(&self.slug);
        make_folder(&folder)?;
        Ok(folder)
    }

    /// A canary that no setting grants.
    ///
    /// # Errors
    ///
    /// When the host's disk refuses.
    pub fn canary(&self, mode: u32) -> Result<Canary, Trouble> {
        Canary::plant(&self.outside()?.join("canary"), mode)
    }
}
