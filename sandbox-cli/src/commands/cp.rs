//! `sandbox cp`: files and folders into a detached sandbox and out of it.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use clap::Args;
use sandbox::{ArtifactLimits, ByteSize, Copied, SandboxSpec};
use serde::Serialize;

use super::kept::TierOption;
use super::run::signals::Signals;
use super::run::summary::skip_reason;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::options::{bytes, text};
use crate::output::{Format, FormatOption, print_json};
use crate::say;
use sandbox::escape;

/// How many files and folders are copied out at most.
const ENTRIES: usize = 100_000;

const NOTES: &str = "\
One of SRC and DST is NAME:PATH, with an absolute path inside of the sandbox. Write a path of the host
that has a colon as ./a:b. A file or folder goes into DST if that is a folder or ends with a slash;
otherwise it becomes DST. DIR/. copies the contents of DIR. Missing parents are created, files are
replaced, folders are merged.
Symbolic links and special files are neither copied nor followed. The command lists what it did not copy,
and then exits with 125. A link in the path of SRC or DST is followed if it stays in its folder
(docs/policy.md, Links). DST must not be a link, nor be reached by one in or below the working folder.";

/// The options of `cp`.
#[derive(Debug, Args)]
#[command(after_help = NOTES, override_usage = "\
sandbox cp [OPTIONS] SRC NAME:PATH\n       \
sandbox cp [OPTIONS] NAME:PATH DST")]
pub struct CpArguments {
    /// What to copy
    #[arg(value_name = "SRC")]
    source: OsString,

    /// Where to
    #[arg(value_name = "DST")]
    target: OsString,

    #[command(flatten)]
    tier: TierOption,

    /// Maximum size of what is copied out of the sandbox
    #[arg(long, value_name = "SIZE", value_parser = bytes, default_value = "1GiB")]
    limit: ByteSize,

    #[command(flatten)]
    pub format: FormatOption,
}

#[derive(Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    copied: &'a Copied,
}

/// Runs the subcommand.
pub fn run(arguments: &CpArguments) -> Outcome {
    let source = Place::parse(&arguments.source)?;
    let target = Place::parse(&arguments.target)?;
    let copied = super::block_on(async {
        let mut signals = Signals::listen()?;
        let work = async {
            match (&source, &target) {
                (Place::Host(source), Place::Sandbox { name, path }) => {
                    let client = arguments.tier.find(name).await?.client;
                    super::in_sandbox(&client, name, async |sandbox| {
                        Ok(sandbox.copy_in(source, path).await?)
                    })
                    .await
                }
                (Place::Sandbox { name, path }, Place::Host(target)) => {
                    let client = arguments.tier.find(name).await?.client;
                    let limits = ArtifactLimits {
                        count: ENTRIES,
                        file_size: arguments.limit,
                        total_size: arguments.limit,
                    };
                    super::in_sandbox(&client, name, async |sandbox| {
                        Ok(sandbox.copy_out(path, target, limits).await?)
                    })
                    .await
                }
                (Place::Host(_), Place::Host(_)) => Err(Failure::argument(
                    "neither SRC nor DST is NAME:PATH of a sandbox",
                )),
                (Place::Sandbox { .. }, Place::Sandbox { .. }) => Err(Failure::argument(
                    "SRC and DST are both in a sandbox: copy to the host first",
                )),
            }
        };
        tokio::select! {
            copied = work => copied,
            signal = signals.next() => Err(Failure::interrupted(signal)),
        }
    })??;
    match arguments.format.format {
        Format::Json => print_json(&Document { copied: &copied })?,
        Format::Text => {
            for skipped in &copied.skipped {
                let reason = skip_reason(&skipped.reason);
                say(escape(&format!("not copied: {}: {reason}", skipped.source)));
            }
        }
    }
    Ok(if copied.skipped.is_empty() {
        Exit::SUCCESS
    } else {
        Exit::FAILED
    })
}

/// One side of a copy.
#[derive(Debug, PartialEq, Eq)]
enum Place<'a> {
    Host(&'a Path),
    Sandbox { name: String, path: String },
}

impl<'a> Place<'a> {
    /// `NAME:PATH` is in a sandbox where `NAME` could be one's name; what begins with `/` or `.` never is.
    fn parse(argument: &'a OsStr) -> Result<Self, Failure> {
        let bytes = argument.as_bytes();
        let colon = bytes.iter().position(|byte| *byte == b':');
        let Some((name, path)) = colon.map(|colon| (&bytes[..colon], &bytes[colon + 1..])) else {
            return Ok(Self::Host(Path::new(argument)));
        };
        if name.is_empty() || name.contains(&b'/') || name.starts_with(b".") {
            return Ok(Self::Host(Path::new(argument)));
        }
        let name = text("name of a sandbox", OsStr::from_bytes(name))?;
        let path = text("path in the sandbox", OsStr::from_bytes(path))?;
        SandboxSpec::new(&name).validate()?;
        if !path.starts_with('/') {
            let why = format!("{name}:{path}: the path in the sandbox is not absolute");
            return Err(Failure::argument(why).with_fix(format!("write {name}:/workspace/{path}")));
        }
        Ok(Self::Sandbox { name, path })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_told_apart() {
        let parse = |text: &'static str| Place::parse(OsStr::new(text));
        for host in ["file", "./a:b", "/a:b", "../x:/y", ":x", "a/b:c"] {
            assert_eq!(parse(host).unwrap(), Place::Host(Path::new(host)), "{host}");
        }
        let place = Place::Sandbox {
            name: "lab".into(),
            path: "/a:b".into(),
        };
        assert_eq!(parse("lab:/a:b").unwrap(), place);
        for bad in ["lab:", "lab:x", "Lab:/x", "l:/x"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
