//! What runs leave on the host itself: folders and files, and programs that run out of them.
//!
//! All of it has a name that begins with a word of the suite and the number of the run's process.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};

/// What the grounds of a run are called, in [`crate::grounds`]' own place.
pub(crate) const GROUNDS: &str = "sandbox-conformance-";

/// What the suite's folder is called inside of sandboxes. It is one of the host where there is no isolation.
pub(crate) const INSIDE: &str = "conformance-";

/// What files of a probe are called inside of sandboxes, and what its processes and messages have in them.
pub(crate) const TOKEN: &str = "probe-";

/// What a folder in somebody's home is called.
pub(crate) const HIDDEN: &str = ".probe-";

/// The folders of the host in which such names are, and the words that they begin with there.
fn places() -> Vec<(PathBuf, &'static [&'static str])> {
    let mut places: Vec<(PathBuf, &'static [&'static str])> = vec![
        ("/var/tmp".into(), &[GROUNDS]),
        ("/tmp".into(), &[INSIDE, TOKEN]),
        ("/dev/shm".into(), &[TOKEN]),
    ];
    places.extend(std::env::var_os("HOME").map(|home| (home.into(), &[HIDDEN] as _)));
    places
}

/// How often programs are looked for, and the pause in between: the kernel takes some milliseconds to end one.
const LOOKS: u32 = 50;
const PAUSE: Duration = Duration::from_millis(10);

/// A name of this process that begins with this word.
pub(crate) fn own_name(word: &str, rest: &str) -> String {
    format!("{word}{}-{rest}", std::process::id())
}

/// Ends the programs and removes the files of the run that this process was. What stays is given back as text.
pub(crate) fn remove_of(run: i32) -> Vec<String> {
    remove(&|process| process == run)
}

/// The same for all runs whose process is gone. What stays is another user's, and for that user to remove.
pub(crate) fn remove_of_killed() {
    remove(&|process| !Path::new("/proc").join(process.to_string()).exists());
}

fn remove(of: &dyn Fn(i32) -> bool) -> Vec<String> {
    let mut stays = end_programs(of);
    for path in files(of) {
        // It is one of the two.
        let removed = std::fs::remove_dir_all(&path).or_else(|_| std::fs::remove_file(&path));
        if let Err(error) = removed
            && path.symlink_metadata().is_ok()
        {
            stays.push(format!("{}: {error}", path.display()));
        }
    }
    stays
}

/// Ends programs, and what they have started while they were looked for.
fn end_programs(of: &dyn Fn(i32) -> bool) -> Vec<String> {
    let mut stays = Vec::new();
    for _ in 0..LOOKS {
        let found = programs(of);
        stays = found.iter().map(|program| end(*program)).collect();
        if stays.is_empty() {
            break;
        }
        std::thread::sleep(PAUSE);
    }
    stays
}

/// Kills a program, and says why it may stay.
fn end(program: Pid) -> String {
    let number = program.as_raw_nonzero();
    match kill_process(program, Signal::KILL) {
        Ok(()) | Err(Errno::SRCH) => format!("process {number} was killed and does not end"),
        Err(error) => format!("process {number}: {error}"),
    }
}

fn files(of: &dyn Fn(i32) -> bool) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for (place, words) in places() {
        // A place that is not there, or cannot be read, has nothing of ours.
        for entry in std::fs::read_dir(place).into_iter().flatten().flatten() {
            if run_of(&entry.file_name(), words).is_some_and(of) {
                found.push(entry.path());
            }
        }
    }
    found
}

/// The programs that run out of such folders. Those of others than this user are not seen.
fn programs(of: &dyn Fn(i32) -> bool) -> Vec<Pid> {
    let places = places();
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.parse().ok());
        let Some(pid) = pid.and_then(Pid::from_raw) else {
            continue;
        };
        let program = std::fs::read_link(entry.path().join("exe"));
        let is_ours = |program: &Path| {
            places.iter().any(|(place, words)| {
                let below = program.strip_prefix(place).ok();
                let first = below.and_then(|below| below.iter().next());
                first.and_then(|name| run_of(name, words)).is_some_and(of)
            })
        };
        if program.is_ok_and(|program| is_ours(&program)) {
            found.push(pid);
        }
    }
    found
}

/// The process whose run has made something of this name: a word, its number, and more.
fn run_of(name: &OsStr, words: &[&str]) -> Option<i32> {
    let name = std::str::from_utf8(name.as_bytes()).ok()?;
    let rest = words.iter().find_map(|word| name.strip_prefix(word))?;
    let (process, more) = rest.split_once('-')?;
    let is_number = process.bytes().all(|byte| byte.is_ascii_digit());
    let made_up = more.split('-').next()?;
    // Other programs name their files after a process too.
    let is_ours = made_up == "packages"
        || made_up.len() == 16 && made_up.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_number && is_ours).then(|| process.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grounds::random_name;

    #[test]
    fn only_names_of_the_suite_tell_a_run() {
        let of = |name: &str| run_of(OsStr::new(name), &[TOKEN, INSIDE]);
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
    fn what_a_run_left_goes_and_what_another_has_stays() {
        let of =
            |process: i32| Path::new("/tmp").join(format!("{TOKEN}{process}-{}", random_name()));
        // A run that lives: what a dead one left may go at any moment, by the sweep of another test.
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
        assert_eq!(remove_of(number), Vec::<String>::new());
        assert!(!running.wait().expect("a child").success());
        assert!(!gone.exists() && own.exists());
        remove_of_killed();
        assert!(own.exists());
        run.kill().expect("ended");
        run.wait().expect("a child");
        std::fs::remove_file(own).expect("removed");
    }
}
