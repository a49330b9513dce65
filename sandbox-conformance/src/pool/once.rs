//! Sandboxes that no place holds.

use sandbox_core::{Error, ErrorKind};

use super::{BUILD_LIMIT, Declined, Pool, Sandbox, declined};
use crate::probe::Setting;

impl Pool {
    /// Creates a sandbox that no place holds: ending it is for the caller.
    ///
    /// # Errors
    ///
    /// What creating it finds; [`ErrorKind::SetupFailed`] where it takes longer than a minute.
    pub async fn once(&self, setting: &Setting) -> Result<Sandbox, Error> {
        let created = self.create_where_there_is_room(setting);
        match tokio::time::timeout(BUILD_LIMIT, created).await {
            Ok(created) => created,
            Err(_) => Err(Error::new(
                ErrorKind::SetupFailed,
                "create sandbox",
                format!("it is not there after {BUILD_LIMIT:?}"),
            )),
        }
    }
}

impl From<Error> for Declined {
    fn from(error: Error) -> Self {
        declined(error)
    }
}
