//! What to write instead of a command line that cannot be meant.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use sandbox::{Error, ErrorKind};

use crate::command_error::CommandError;

/// The error for a FILE that does not exist: a command line in one word, a command without `--`, or
/// a missing file.
pub fn missing_file(file: &Path, arguments: &[OsString]) -> CommandError {
    let name = file.to_string_lossy();
    if is_shell_line(file.as_os_str()) {
        return CommandError::argument(format!("no such file: {name}")).with_fix(shell_fix(&name));
    }
    if !name.contains(['/', '.']) {
        let rest = arguments.iter().map(|argument| argument.to_string_lossy());
        let line = std::iter::once(name.clone()).chain(rest);
        let line = line.collect::<Vec<_>>().join(" ");
        return CommandError::argument(format!("no such file: {name}"))
            .with_fix(format!("a command goes after --: sandbox run -- {line}"));
    }
    let why = format!("{name}: No such file or directory");
    Error::new(ErrorKind::ProgramNotFound, "read program", why).into()
}

/// Whether a word is more than the name of a program: a line for a shell.
pub fn is_shell_line(word: &OsStr) -> bool {
    let word = word.to_string_lossy();
    word.contains(char::is_whitespace) || word.contains(['&', '|', ';', '>', '<', '$', '`'])
}

/// How to run a line with a shell.
pub fn shell_fix(line: &str) -> String {
    let quoted = line.replace('\'', "'\\''");
    format!("a shell reads such a line: sandbox run -l shell -c '{quoted}'")
}

/// The fix for a wrong command line of `run` that begins with a command instead of options.
pub fn bare_command(arguments: &[OsString]) -> Option<String> {
    let rest = arguments.get(2..)?;
    let first = rest.first()?.to_str()?;
    let is_command = !first.starts_with('-') && !Path::new(first).exists();
    if !is_command || rest.iter().any(|argument| argument == "--") {
        return None;
    }
    let line = rest.iter().map(|argument| argument.to_string_lossy());
    let line = line.collect::<Vec<_>>().join(" ");
    Some(format!("a command goes after --: sandbox run -- {line}"))
}

/// How to bring in a program that the sandbox does not have.
pub fn missing_program(program: &Path, is_local: bool) -> String {
    in_folders(
        program,
        &std::env::var_os("PATH").unwrap_or_default(),
        is_local,
    )
}

fn in_folders(program: &Path, folders: &OsStr, is_local: bool) -> String {
    let is_name = program.components().count() == 1;
    let mut files: Vec<_> = std::env::split_paths(folders)
        .map(|folder| folder.join(program))
        .collect();
    if !is_name {
        files = vec![program.to_owned()];
    }
    let found = files
        .iter()
        .find(|file| file.is_absolute() && file.is_file());
    let Some((found, folder)) = found.and_then(|file| Some((file, file.parent()?))) else {
        return match is_local {
            true => "this host has no such program either: check its name, or install it".into(),
            false => "check its name, or use an --image that has it".into(),
        };
    };
    if is_local && !is_name {
        let mounts = needed(found, folder).into_iter().map(|folder| {
            let folder = folder.display();
            format!("-v {folder}:{folder}:ro")
        });
        let mounts = mounts.collect::<Vec<_>>().join(" ");
        return format!("this host has it; bring it in with {mounts}");
    }
    let (folder, found) = (folder.display(), found.display());
    match is_local {
        true => format!(
            "this host has {found}: --preset coding brings in this user's toolchains, and \
             -v {folder}:{folder}:ro with -e PATH={folder}:/usr/bin:/bin any folder"
        ),
        false => format!("this host has {found}: use an --image that has it too"),
    }
}

/// The folders that a program needs: its own, and that of the file that it links to, as Python in a
/// virtual environment does. System folders are visible anyway.
fn needed(program: &Path, folder: &Path) -> Vec<PathBuf> {
    const SYSTEM: [&str; 4] = ["/usr", "/bin", "/lib", "/sbin"];
    let real = program.canonicalize().ok();
    let real = real.as_deref().and_then(Path::parent);
    let mut folders = vec![installation(folder)];
    let is_hidden = |folder: &Path| !SYSTEM.iter().any(|system| folder.starts_with(system));
    if let Some(real) = real.map(installation)
        && is_hidden(&real)
        && !real.starts_with(&folders[0])
    {
        folders.push(real);
    }
    folders
}

/// The folder of an installation whose programs are in this one: its `bin` beside a `lib`, but no
/// user's home.
fn installation(folder: &Path) -> PathBuf {
    let above = folder.parent().filter(|above| {
        let is_home = std::env::home_dir().is_some_and(|home| home.starts_with(above));
        folder.ends_with("bin") && above.join("lib").is_dir() && !is_home
    });
    above.unwrap_or(folder).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &[&str]) -> Vec<OsString> {
        line.iter().map(OsString::from).collect()
    }

    #[test]
    fn command_without_dashes_gets_the_line_that_was_meant() {
        let fix = |line: &[&str]| bare_command(&words(line));
        assert_eq!(
            fix(&["sandbox", "run", "ls", "-la"]).as_deref(),
            Some("a command goes after --: sandbox run -- ls -la")
        );
        assert_eq!(fix(&["sandbox", "run", "--bad", "ls"]), None);
        assert_eq!(fix(&["sandbox", "run", "ls", "--", "x"]), None);
        assert_eq!(fix(&["sandbox", "run"]), None);
        let error = missing_file(Path::new("make"), &words(&["test"])).to_string();
        assert!(error.contains("sandbox run -- make test"), "{error}");
    }

    #[test]
    fn shell_line_gets_a_shell() {
        for line in ["a && b", "ls -la", "x|y"] {
            let error = missing_file(Path::new(line), &[]).to_string();
            let expected = format!("-l shell -c '{line}'");
            assert!(error.contains(&expected), "{error}");
        }
        assert_eq!(shell_fix("echo 'a'").matches("'\\''").count(), 2);
        assert!(!is_shell_line(OsStr::new("/bin/ls")));
    }

    #[test]
    fn missing_program_says_how_to_bring_it_in() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("cargo"), "").unwrap();
        let path = folder.path().as_os_str();
        let hint = |program: &str, is_local| in_folders(Path::new(program), path, is_local);
        let local = hint("cargo", true);
        let program = folder.path().join("cargo").display().to_string();
        assert!(
            local.contains(&program) && local.contains("--preset coding"),
            "{local}"
        );
        assert!(hint("cargo", false).contains("this host has"));
        let path = hint(&program, true);
        assert!(path.contains("-v ") && !path.contains("PATH"), "{path}");
        let environment = folder.path().join("venv");
        let python = folder.path().join("python");
        for folder in [
            environment.join("lib"),
            python.join("lib"),
            python.join("bin"),
        ] {
            std::fs::create_dir_all(folder).unwrap();
        }
        std::fs::write(python.join("bin/python3"), "").unwrap();
        std::fs::create_dir(environment.join("bin")).unwrap();
        let link = environment.join("bin/python");
        std::os::unix::fs::symlink(python.join("bin/python3"), &link).unwrap();
        let both = in_folders(&link, OsStr::new(""), true);
        for folder in [&environment, &python] {
            let mount = format!("-v {0}:{0}:ro", folder.display());
            assert!(both.contains(&mount), "{both}");
        }
        for program in ["rustc", "/none/rustc", "sub/cargo", ""] {
            assert!(hint(program, true).contains("no such program"), "{program}");
            assert!(hint(program, false).contains("--image"), "{program}");
        }
    }
}
