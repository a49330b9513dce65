//! The number of a user's processes.

use std::os::unix::fs::MetadataExt;

/// Processes and threads of the user that `/proc` shows: what `RLIMIT_NPROC` counts before a
/// sandbox starts.
pub(crate) fn user_tasks(user: u32) -> u64 {
    let Ok(processes) = std::fs::read_dir("/proc") else {
        return 0;
    };
    let mut count = 0;
    for process in processes.flatten() {
        let numeric = process
            .file_name()
            .as_encoded_bytes()
            .iter()
            .all(u8::is_ascii_digit);
        if numeric && process.metadata().is_ok_and(|found| found.uid() == user) {
            // A process that has ended in the meantime has no threads.
            count += std::fs::read_dir(process.path().join("task"))
                .map_or(0, |tasks| tasks.count() as u64);
        }
    }
    count
}

#[cfg(test)]
mod tests {
    #[test]
    fn tasks_of_this_user_are_counted() {
        assert!(super::user_tasks(rustix::process::geteuid().as_raw()) >= 2);
    }
}
