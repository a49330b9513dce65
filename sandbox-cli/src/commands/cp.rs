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
Either SRC or DST must be NAME:PATH, with an absolute path in the sandbox. Write a host path that
contains a colon as ./a:b.

If DST is a folder or ends with a slash, SRC is copied into it; otherwise the copy is named DST.
DIR/. copies the contents of DIR. Missing parent folders are created, existing files are replaced,
and folders are merged.

Symbolic links and special files are never copied. Each skipped entry is reported, and the exit
code is then 125. Links in the paths of SRC and DST are followed as docs/policy.md (Links)
describes. DST must not be a link.";

/// The options of `cp`.
#[derive(Debug, Args)]
#[command(after_help = NOTES, override_usage = "\
sandbox cp [OPTIONS] SRC NAME:PATH\n       \
sandbox cp [OPTIONS] NAME:PATH DST")]
pub struct CpArguments {
    /// Source: a host path or NAME:PATH
    #[arg(value_name = "SRC")]
    source: OsString,

    /// Destination: a host path or NAME:PATH
    #[arg(value_name = "DST")]
    target: OsString,

    #[command(flatten)]
    tier: TierOption,

    /// Maximum number of bytes to copy out of the sandbox
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
