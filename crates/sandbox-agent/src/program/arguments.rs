//! The command line.

use core::ffi::CStr;

use super::connection::Ends;

/// What the agent is asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Task {
    /// Serve the host at the other end of a stream.
    Serve {
        /// The stream.
        ends: Ends,
        /// Whether the host first says how to build the sandbox.
        setup: bool,
    },
    /// Keep the detached sandbox that the descriptors belong to.
    Keep,
    /// Print the version.
    Version,
}

/// How to call the agent.
pub(super) const USAGE: &str = "usage: sandbox-agent serve (--fd N [--setup] | --stdio)\n       sandbox-agent keep NAME\n       sandbox-agent --version\n";

/// Reads the arguments behind the program's name.
pub(super) fn parse<'a>(mut arguments: impl Iterator<Item = &'a CStr>) -> Option<Task> {
    match arguments.next()?.to_str().ok()? {
        // The sandbox's name, for whoever looks at a list of processes.
        "keep" => {
            let name = arguments.next();
            return (name.is_some() && arguments.next().is_none()).then_some(Task::Keep);
        }
        "--version" => return arguments.next().is_none().then_some(Task::Version),
        "serve" => {}
        _ => return None,
    }
    let (mut ends, mut setup) = (None, false);
    while let Some(argument) = arguments.next() {
        match argument.to_str().ok()? {
            "--fd" if ends.is_none() => {
                let raw = arguments
                    .next()?
                    .to_str()
                    .ok()?
                    .parse()
                    .ok()
                    .filter(|raw| *raw >= 0)?;
                ends = Some(Ends {
                    input: raw,
                    output: raw,
                });
            }
            "--stdio" if ends.is_none() => {
                ends = Some(Ends {
                    input: 0,
                    output: 1,
                })
            }
            "--setup" if !setup => setup = true,
            _ => return None,
        }
    }
    Some(Task::Serve { ends: ends?, setup })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_known() {
        let parsed = |arguments: &[&'static CStr]| parse(arguments.iter().copied());
        let socket = Ends {
            input: 7,
            output: 7,
        };
        assert_eq!(parsed(&[c"--version"]), Some(Task::Version));
        assert_eq!(parsed(&[c"keep", c"name"]), Some(Task::Keep));
        assert_eq!(
            parsed(&[c"serve", c"--fd", c"7", c"--setup"]),
            Some(Task::Serve {
                ends: socket,
                setup: true
            })
        );
        assert_eq!(
            parsed(&[c"serve", c"--stdio"]),
            Some(Task::Serve {
                ends: Ends {
                    input: 0,
                    output: 1
                },
                setup: false
            })
        );
        for wrong in [
            &[][..],
            &[c"serve"],
            &[c"serve", c"--fd"],
            &[c"serve", c"--fd", c"-1"],
            &[c"serve", c"--fd", c"x"],
            &[c"serve", c"--fd", c"7", c"--stdio"],
            &[c"serve", c"--stdio", c"--other"],
            &[c"--version", c"x"],
            &[c"keep"],
            &[c"keep", c"name", c"x"],
        ] {
            assert_eq!(parsed(wrong), None);
        }
    }
}
