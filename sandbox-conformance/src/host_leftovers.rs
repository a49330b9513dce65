//! What a run leaves on the host: folders, files, and processes of programs in these folders.
//!
//! Each name starts with a prefix of the suite and the process id of the run.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use rustix::process::{Pid, Signal, kill_process};

/// The prefix of the fixture's folder; see [`crate::host_fixture`].
pub(crate) const FIXTURE: &str = "sandbox-conformance-";

/// The prefix of the suite's folder inside sandboxes. Without isolation it is a host folder.
pub(crate) const INSIDE: &str = "conformance-";

/// The prefix of a probe's files inside sandboxes. Its processes and messages contain it too.
pub(crate) const TOKEN: &str = "probe-";

/// The prefix of a probe's folder in the user's home.
pub(crate) const HIDDEN: &str = ".probe-";

/// Folders of a host that no tier has to show. A probe puts a file into each.
pub(crate) const HOST_FOLDERS: &[&str] = &[
    "/home",
    "/media",
    "/mnt",
    "/opt",
    "/root",
    "/run",
    "/srv",
    "/var/cache",
    "/var/lib",
    "/var/log",
    "/var/tmp",
];

/// The host folders to search, each with the prefixes used there.
fn search_folders() -> Vec<(PathBuf, &'static [&'static str])> {
    let mut search_folders: Vec<(PathBuf, &'static [&'static str])> = vec![
        ("/var/tmp".into(), &[FIXTURE]),
        ("/tmp".into(), &[INSIDE, TOKEN]),
        ("/dev/shm".into(), &[TOKEN]),
    ];
    let planted = HOST_FOLDERS
        .iter()
        .map(|folder| (PathBuf::from(folder), &[TOKEN] as _));
    search_folders.extend(planted);
    search_folders.extend(std::env::var_os("HOME").map(|home| (home.into(), &[HIDDEN] as _)));
    search_folders
}

/// The kernel takes some milliseconds to end a process, so programs are searched repeatedly.
const ROUNDS: u32 = 50;
const PAUSE: Duration = Duration::from_millis(10);

/// A name of this process with this prefix.
pub(crate) fn name_with_pid(prefix: &str, rest: &str) -> String {
    format!("{prefix}{}-{rest}", std::process::id())
}

/// Ends the programs and removes the files of the run with this process id. Returns an error text
/// for each that stays.
pub(crate) fn remove_from_run(run: i32) -> Vec<String> {
    remove(&|process| process == run)
}

/// Cleans up after all runs whose process has ended. What another user owns stays.
pub(crate) fn remove_from_dead_runs() {
    remove(&|process| !Path::new("/proc").join(process.to_string()).exists());
}

fn remove(of: &dyn Fn(i32) -> bool) -> Vec<String> {
    let mut failures = kill_programs(of);
    for path in files(of) {
        unmount_below(&path);
        // One of the two calls fits.
        let removed = std::fs::remove_dir_all(&path).or_else(|_| std::fs::remove_file(&path));
        if let Err(error) = removed
            && path.symlink_metadata().is_ok()
        {
            failures.push(format!("{}: {error}", path.display()));
        }
    }
    failures
}

/// Unmounts what a probe has mounted in a folder of the suite.
fn unmount_below(folder: &Path) {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let targets = mounts.lines().filter_map(|line| line.split(' ').nth(4));
    for target in targets.filter(|target| Path::new(target).starts_with(folder)) {
        // Otherwise the folder cannot be removed, which is told.
        let _ = rustix::mount::unmount(target, UnmountFlags::DETACH);
    }
}

/// Ends programs, and those that they start in the meantime.
fn kill_programs(of: &dyn Fn(i32) -> bool) -> Vec<String> {
    let mut failures = Vec::new();
    for _ in 0..ROUNDS {
        let found = programs(of);
        failures = found.iter().map(|program| kill(*program)).collect();
        if failures.is_empty() {
            break;
        }
        std::thread::sleep(PAUSE);
    }
    failures
}

/// Kills a program. Returns the error text to report if it stays.
fn kill(program: Pid) -> String {
    let number = program.as_raw_nonzero();
    match kill_process(program, Signal::KILL) {
        Ok(()) | Err(Errno::SRCH) => format!("process {number} was killed and does not end"),
        Err(error) => format!("process {number}: {error}"),
    }
}

fn files(of: &dyn Fn(i32) -> bool) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for (folder, prefixes) in search_folders() {
        // A missing or unreadable folder has no files of this user.
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            if parse_run(&entry.file_name(), prefixes).is_some_and(of) {
                found.push(entry.path());
            }
        }
    }
    found
}

/// The processes whose executable is in such a folder. Processes of other users are not visible.
fn programs(of: &dyn Fn(i32) -> bool) -> Vec<Pid> {
    let search_folders = search_folders();
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.parse().ok());
        let Some(pid) = pid.and_then(Pid::from_raw) else {
            continue;
        };
        let program = std::fs::read_link(entry.path().join("exe"));
        let is_ours = |program: &Path| {
            search_folders.iter().any(|(folder, prefixes)| {
                let below = program.strip_prefix(folder).ok();
                let first = below.and_then(|below| below.iter().next());
                first
                    .and_then(|name| parse_run(name, prefixes))
                    .is_some_and(of)
            })
        };
        if program.is_ok_and(|program| is_ours(&program)) {
            found.push(pid);
        }
    }
    found
}

/// The process id in a name of the suite: prefix, process id, and a random part.
fn parse_run(name: &OsStr, prefixes: &[&str]) -> Option<i32> {
    let name = std::str::from_utf8(name.as_bytes()).ok()?;
    let rest = prefixes
        .iter()
        .find_map(|prefix| name.strip_prefix(prefix))?;
    let (process, more) = rest.split_once('-')?;
    let is_number = process.bytes().all(|byte| byte.is_ascii_digit());
    let random = more.split('-').next()?;
    // Other programs also put a process id into file names.
    let is_ours = random == "packages"
        || random.len() == 16 && random.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_number && is_ours).then(|| process.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host_fixture::random_name;

    #[test]
    fn only_names_of_the_suite_belong_to_a_run() {
        let of = |name: &str| parse_run(OsStr::new(name), &[TOKEN, INSIDE]);
        assert_eq!(of("probe-12-0123456789abcdef"), Some(12));
        assert_eq!(of("probe-12-0123456789abcdef-attack"), Some(12));
        assert_eq!(of("conformance-7-0123456789abcdef-export"), Some(7));
        for other in [
            "probe-12",
            "probe-12-",
            "probe-12-short",
            "probe-x-0123456789abcdef",
            "probe--0123456789abcdef",
            "probe-+1-0123456789abcdef",
            "my-probe-12-0123456789abcdef",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
    }

    #[test]
    fn cleanup_removes_one_run_and_keeps_live_runs() {
        let of =
            |process: i32| Path::new("/tmp").join(format!("{TOKEN}{process}-{}", random_name()));
        // A live run: the cleanup in another test may remove files of a dead run at any time.
        let mut run = std::process::Command::new("/bin/sleep")
            .arg("60")
            .spawn()
            .expect("a run");
        let number = run.id().cast_signed();
        let (gone, own) = (of(number), of(std::process::id().cast_signed()));
        std::fs::create_dir_all(gone.join("inner")).expect("a folder");
        std::fs::write(&own, "content").expect("a file");
        let program = gone.join("program");
        std::fs::copy("/bin/sleep", &program).expect("a program");
        let mut running = std::process::Command::new(&program)
            .arg("60")
            .spawn()
            .expect("it runs");
        assert_eq!(remove_from_run(number), Vec::<String>::new());
        assert!(!running.wait().expect("a child").success());
        assert!(!gone.exists() && own.exists());
        remove_from_dead_runs();
        assert!(own.exists());
        run.kill().expect("ended");
        run.wait().expect("a child");
        std::fs::remove_file(own).expect("removed");
    }
}
