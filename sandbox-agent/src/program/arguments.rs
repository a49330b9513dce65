//! The command line.

use core::ffi::CStr;

use crate::runtime::RawFd;

use super::connection::Ends;

/// What the agent is asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Task<'a> {
    /// Serve the host at the other end of a stream.
    Serve(Service<'a>),
    /// Carry bytes to and from the agent that listens there.
    Connect {
        /// The name that it listens on.
        name: &'a CStr,
        /// Whether to wait for somebody to listen there.
        wait: bool,
    },
    /// Keep the detached sandbox that the descriptors belong to.
    Keep,
    /// Remove the folder that holds the agent's own program, from a container that is not ours.
    Remove(&'a CStr),
    /// Take connections to this port.
    Answer(u16),
    /// Try connections; the arguments say for how long and to whom.
    Dial {
        /// Whether to wait until none comes about.
        until_denied: bool,
    },
    /// Print the version.
    Version,
}

/// Whom to serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Service<'a> {
    /// The stream of the first client; without one, it comes in by the listener's name.
    pub(super) ends: Option<Ends>,
    /// Whether the host first says how to build the sandbox.
    pub(super) setup: bool,
    /// Where later clients come in.
    pub(super) listener: Option<Listener<'a>>,
    /// A file that only its owner, who is the agent, may use from now on.
    pub(super) close: Option<&'a CStr>,
    /// Whether the network is taken away before anybody is served, for good.
    pub(super) cut_network: bool,
}

/// Where later clients come in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Listener<'a> {
    /// A socket that listens already.
    Descriptor(RawFd),
    /// A name to listen on.
    Name(&'a CStr),
}

/// How to call the agent.
pub(super) const USAGE: &str = "\
usage: sandbox-agent serve (--fd N [--setup] | --stdio) [--listen-fd N | --listen NAME]
       sandbox-agent serve --listen NAME [--close FILE] [--cut-network]
       sandbox-agent connect [--wait] NAME
       sandbox-agent answer PORT
       sandbox-agent (dial | await-denial) MILLISECONDS (api | dns | ADDRESS:PORT)...
       sandbox-agent keep NAME
       sandbox-agent remove FOLDER
       sandbox-agent --version
";

/// Reads the arguments behind the program's name.
pub(super) fn parse<'a>(mut arguments: impl Iterator<Item = &'a CStr>) -> Option<Task<'a>> {
    match arguments.next()?.to_str().ok()? {
        // The sandbox's name, for whoever looks at a list of processes.
        "keep" => {
            let name = arguments.next();
            (name.is_some() && arguments.next().is_none()).then_some(Task::Keep)
        }
        "--version" => arguments.next().is_none().then_some(Task::Version),
        "answer" => {
            let port = arguments.next()?.to_str().ok()?.parse().ok()?;
            arguments.next().is_none().then_some(Task::Answer(port))
        }
        // What follows is read where it is used.
        "dial" => Some(Task::Dial {
            until_denied: false,
        }),
        "await-denial" => Some(Task::Dial { until_denied: true }),
        "connect" => {
            let first = arguments.next()?;
            let wait = first == c"--wait";
            let name = if wait { arguments.next()? } else { first };
            let connect = Task::Connect { name, wait };
            arguments.next().is_none().then_some(connect)
        }
        "remove" => {
            let folder = arguments.next()?;
            arguments.next().is_none().then_some(Task::Remove(folder))
        }
        "serve" => parse_service(arguments).map(Task::Serve),
        _ => None,
    }
}

fn parse_service<'a>(mut arguments: impl Iterator<Item = &'a CStr>) -> Option<Service<'a>> {
    let (mut ends, mut setup, mut listener, mut close) = (None, false, None, None);
    let mut cut_network = false;
    while let Some(argument) = arguments.next() {
        match argument.to_str().ok()? {
            "--fd" if ends.is_none() => {
                let raw = descriptor(arguments.next()?)?;
                ends = Some(Ends {
                    input: raw,
                    output: raw,
                });
            }
            "--stdio" if ends.is_none() => {
                ends = Some(Ends {
                    input: 0,
                    output: 1,
                });
            }
            "--listen-fd" if listener.is_none() => {
                listener = Some(Listener::Descriptor(descriptor(arguments.next()?)?));
            }
            "--listen" if listener.is_none() => {
                listener = Some(Listener::Name(arguments.next()?));
            }
            "--setup" if !setup => setup = true,
            "--close" if close.is_none() => close = Some(arguments.next()?),
            "--cut-network" if !cut_network => cut_network = true,
            _ => return None,
        }
    }
    let possible = match (listener, ends) {
        // Two owners of one descriptor would close it twice.
        (Some(Listener::Descriptor(raw)), Some(ends)) => raw > 2 && raw != ends.input,
        (_, Some(_)) => true,
        (Some(Listener::Name(_)), None) => !setup,
        (_, None) => false,
    };
    possible.then_some(Service {
        ends,
        setup,
        listener,
        close,
        cut_network,
    })
}

fn descriptor(argument: &CStr) -> Option<RawFd> {
    argument.to_str().ok()?.parse().ok().filter(|raw| *raw >= 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_known() {
        let parsed = |arguments: &[&'static CStr]| parse(arguments.iter().copied());
        let ends = |input, output| Some(Ends { input, output });
        let (socket, standard) = (ends(7, 7), ends(0, 1));
        let service = Service {
            ends: None,
            setup: false,
            listener: None,
            close: None,
            cut_network: false,
        };
        let serving = |service| Some(Task::Serve(service));
        let named = Some(Listener::Name(c"@name"));
        assert_eq!(parsed(&[c"--version"]), Some(Task::Version));
        assert_eq!(parsed(&[c"keep", c"name"]), Some(Task::Keep));
        assert_eq!(
            parsed(&[c"serve", c"--fd", c"7", c"--setup"]),
            serving(Service {
                ends: socket,
                setup: true,
                ..service
            })
        );
        assert_eq!(
            parsed(&[c"serve", c"--listen-fd", c"5", c"--fd", c"7"]),
            serving(Service {
                ends: socket,
                listener: Some(Listener::Descriptor(5)),
                ..service
            })
        );
        assert_eq!(
            parsed(&[c"serve", c"--stdio"]),
            serving(Service {
                ends: standard,
                ..service
            })
        );
        assert_eq!(
            parsed(&[c"serve", c"--fd", c"7", c"--listen", c"@name"]),
            serving(Service {
                ends: socket,
                listener: named,
                ..service
            })
        );
        let service = Service {
            listener: named,
            ..service
        };
        assert_eq!(parsed(&[c"serve", c"--listen", c"@name"]), serving(service));
        assert_eq!(
            parsed(&[c"serve", c"--listen", c"@name", c"--close", c"/file"]),
            serving(Service {
                close: Some(c"/file"),
                ..service
            })
        );
        assert_eq!(
            parsed(&[c"serve", c"--cut-network", c"--listen", c"@name"]),
            serving(Service {
                cut_network: true,
                ..service
            })
        );
        assert_eq!(parsed(&[c"answer", c"80"]), Some(Task::Answer(80)));
        for (word, until_denied) in [(c"dial", false), (c"await-denial", true)] {
            assert_eq!(
                parsed(&[word, c"1000", c"api"]),
                Some(Task::Dial { until_denied })
            );
        }
        assert_eq!(
            parsed(&[c"connect", c"/path"]),
            Some(Task::Connect {
                name: c"/path",
                wait: false
            })
        );
        assert_eq!(
            parsed(&[c"connect", c"--wait", c"@name"]),
            Some(Task::Connect {
                name: c"@name",
                wait: true
            })
        );
        assert_eq!(parsed(&[c"remove", c"/path"]), Some(Task::Remove(c"/path")));
        for wrong in [
            &[][..],
            &[c"remove"],
            &[c"remove", c"/path", c"more"],
            &[c"connect"],
            &[c"connect", c"--wait"],
            &[c"connect", c"/path", c"more"],
            &[c"serve"],
            &[
                c"serve",
                c"--stdio",
                c"--listen",
                c"@x",
                c"--listen-fd",
                c"5",
            ],
            &[c"serve", c"--fd"],
            &[c"serve", c"--fd", c"-1"],
            &[c"serve", c"--fd", c"x"],
            &[c"serve", c"--fd", c"7", c"--stdio"],
            &[c"serve", c"--listen-fd", c"5"],
            &[c"serve", c"--listen", c"@x", c"--setup"],
            &[c"cut-network"],
            &[
                c"serve",
                c"--listen",
                c"@x",
                c"--cut-network",
                c"--cut-network",
            ],
            &[c"answer"],
            &[c"answer", c"65536"],
            &[c"answer", c"80", c"81"],
            &[c"serve", c"--listen", c"@x", c"--close"],
            &[c"serve", c"--stdio", c"--listen-fd", c"1"],
            &[c"serve", c"--fd", c"7", c"--listen-fd", c"7"],
            &[c"serve", c"--fd", c"7", c"--listen-fd"],
            &[c"serve", c"--stdio", c"--other"],
            &[c"--version", c"x"],
            &[c"keep"],
            &[c"keep", c"name", c"x"],
        ] {
            assert_eq!(parsed(wrong), None);
        }
    }
}
