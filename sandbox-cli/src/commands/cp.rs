//! `sandbox cp`: copies between the host and a detached sandbox.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use clap::Args;
use sandbox::{ArtifactLimits, ByteSize, Copied, SandboxSpec};
use serde::Serialize;

use super::audit::AuditOption;
use super::detached::TierOption;
use super::run::signals::Signals;
use super::run::summary::skip_reason;
use crate::command_error::{CommandError, Outcome};
use crate::exit::Exit;
use crate::options::{bytes, text};
use crate::output::{Format, FormatOption, print_json};
use crate::print_status;
use sandbox::spi::escape;

/// The maximum number of files and folders to copy out.
const ENTRIES: usize = 100_000;

const NOTES: &str = "\
Either SRC or DST must be NAME:PATH. A relative PATH starts in the sandbox's working folder. Write
a host path that contains a colon as ./a:b.

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
    audit: AuditOption,

    #[command(flatten)]
    pub format: FormatOption,
}

#[derive(Serialize)]
struct CopyDocument<'a> {
    #[serde(flatten)]
    copied: &'a Copied,
}

/// Runs the subcommand.
pub fn run(arguments: &CpArguments) -> Outcome {
    let source = CopyPath::parse(&arguments.source)?;
    let target = CopyPath::parse(&arguments.target)?;
    let copied = super::block_on(async {
        let mut signals = Signals::listen()?;
        let audit = &arguments.audit;
        let work = async {
            match (&source, &target) {
                (CopyPath::Host(source), CopyPath::Sandbox { name, path }) => {
                    super::in_sandbox(&arguments.tier, name, audit, async |sandbox, _| {
                        Ok(sandbox.copy_in(source, path).await?)
                    })
                    .await
                }
                (CopyPath::Sandbox { name, path }, CopyPath::Host(target)) => {
                    let limits = ArtifactLimits {
                        count: ENTRIES,
                        file_size: arguments.limit,
                        total_size: arguments.limit,
                    };
                    super::in_sandbox(&arguments.tier, name, audit, async |sandbox, _| {
                        Ok(sandbox.copy_out_with(path, target, limits).await?)
                    })
                    .await
                }
                (CopyPath::Host(_), CopyPath::Host(_)) => Err(CommandError::argument(
                    "SRC or DST must be NAME:PATH of a sandbox",
                )),
                (CopyPath::Sandbox { .. }, CopyPath::Sandbox { .. }) => {
                    Err(CommandError::argument(
                        "SRC and DST cannot both be in a sandbox: copy to the host first",
                    ))
                }
            }
        };
        tokio::select! {
            copied = work => copied,
            signal = signals.next() => Err(CommandError::interrupted(signal)),
        }
    })??;
    match arguments.format.format {
        Format::Json => print_json(&CopyDocument { copied: &copied })?,
        Format::Text => {
            for skipped in &copied.skipped {
                let reason = skip_reason(&skipped.reason);
                print_status(escape(&format!("not copied: {}: {reason}", skipped.source)));
            }
        }
    }
    Ok(if copied.skipped.is_empty() {
        Exit::SUCCESS
    } else {
        Exit::FAILED
    })
}

/// The source or the destination of a copy.
#[derive(Debug, PartialEq, Eq)]
enum CopyPath<'a> {
    Host(&'a Path),
    Sandbox { name: String, path: String },
}

impl<'a> CopyPath<'a> {
    /// Parses `NAME:PATH` or a host path; a path that starts with `/` or `.` is a host path.
    fn parse(argument: &'a OsStr) -> Result<Self, CommandError> {
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
        if path.is_empty() {
            let why = format!("{name}: there is no path in the sandbox after the colon");
            return Err(CommandError::argument(why)
                .with_fix(format!("write {name}:. for its working folder")));
        }
        Ok(Self::Sandbox { name, path })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_paths_and_sandbox_paths_are_distinguished() {
        let parse = |text: &'static str| CopyPath::parse(OsStr::new(text));
        for host in ["file", "./a:b", "/a:b", "../x:/y", ":x", "a/b:c"] {
            assert_eq!(
                parse(host).unwrap(),
                CopyPath::Host(Path::new(host)),
                "{host}"
            );
        }
        let expected = CopyPath::Sandbox {
            name: "lab".into(),
            path: "/a:b".into(),
        };
        assert_eq!(parse("lab:/a:b").unwrap(), expected);
        let expected = CopyPath::Sandbox {
            name: "lab".into(),
            path: "x/y".into(),
        };
        assert_eq!(parse("lab:x/y").unwrap(), expected);
        for bad in ["lab:", "Lab:/x"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
