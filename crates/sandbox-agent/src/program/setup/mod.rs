//! Setup.
use super::{connection::Connection, ending::Ending, process_files::ProcessFiles};
use crate::protocol::Setup;
pub(super) fn build(_setup: &Setup, _connection: &mut Connection) -> Result<Option<ProcessFiles>, Ending> {
    Ok(None)
}
