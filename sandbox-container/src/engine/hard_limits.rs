//! Hard resource limits of the engine's process. No container can exceed them.

use std::os::unix::net::UnixStream;
use std::path::Path;

/// Hard resource limits of the engine's process; `None` if unlimited or unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HardLimits {
    /// Bytes of a core file.
    pub core_file: Option<u64>,
    /// Open descriptors of a process.
    pub open_files: Option<u64>,
    /// Processes of a user.
    pub processes: Option<u64>,
}

impl HardLimits {
    /// The limits of the process that listens on a local socket. Under socket activation that is
    /// systemd, whose limits are no lower.
    pub(crate) fn of_listener(socket: &Path) -> Self {
        let stream = UnixStream::connect(socket).ok();
        let peer = stream.and_then(|stream| rustix::net::sockopt::socket_peercred(stream).ok());
        let limits = peer.and_then(|peer| {
            let path = format!("/proc/{}/limits", peer.pid.as_raw_nonzero());
            std::fs::read_to_string(path).ok()
        });
        limits
            .map(|limits| Self::parse(&limits))
            .unwrap_or_default()
    }

    /// Parses the kernel's table: name, soft limit, hard limit, unit.
    fn parse(table: &str) -> Self {
        let hard = |name: &str| {
            let row = table.lines().find_map(|line| line.strip_prefix(name))?;
            row.split_whitespace().nth(1)?.parse().ok()
        };
        Self {
            open_files: hard("Max open files"),
            processes: hard("Max processes"),
            core_file: hard("Max core file size"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_table_is_parsed() {
        let table = "\
Limit                     Soft Limit           Hard Limit           Units     
Max processes             96365                unlimited            processes 
Max open files            1024                 20000                files     
";
        let limits = HardLimits::parse(table);
        assert_eq!(limits.open_files, Some(20_000));
        assert_eq!(limits.processes, None);
        assert_eq!(HardLimits::parse(""), HardLimits::default());
    }

    #[test]
    fn limits_are_those_of_the_listening_process() {
        let folder = tempfile::tempdir().expect("folder");
        let socket = folder.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).expect("listener");
        let own = std::fs::read_to_string("/proc/self/limits").expect("own limits");
        assert_eq!(HardLimits::of_listener(&socket), HardLimits::parse(&own));
        assert_eq!(
            HardLimits::of_listener(Path::new("/nowhere")),
            HardLimits::default()
        );
    }
}
