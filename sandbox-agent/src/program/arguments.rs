//! The command line.

use core::ffi::CStr;

use crate::runtime::RawFd;

use super::{connection::StreamFds, cut_network::CutNetwork};

/// The mode and its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AgentCommand<'a> {
    /// Serve clients.
    Serve(ServeOptions<'a>),
    /// Relay standard input and output to a listening agent.
    Connect {
        /// The agent's socket name.
        name: &'a CStr,
        /// Whether to wait until an agent listens there.
        wait: bool,
    },
    /// Supervise the detached sandbox that the inherited descriptors belong to.
    Detached,
    /// Remove the folder with the agent's own program from a foreign container.
    Remove(&'a CStr),
    /// Accept and close connections to this port.
    Answer(u16),
    /// Try to connect to the targets that the remaining arguments list.
    Dial {
        /// Whether to wait until every connection fails.
        until_denied: bool,
    },
    /// Print the version.
    Version,
}

/// Options of the mode `serve`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ServeOptions<'a> {
    /// The first client's stream. Without it, the first client connects to `listener`.
    pub(super) stream: Option<StreamFds>,
    /// Whether the client first sends how to build the sandbox.
    pub(super) setup: bool,
    /// The socket that later clients connect to.
    pub(super) listener: Option<ListenEndpoint<'a>>,
    /// A file whose mode the agent, its owner, sets to 0600.
    pub(super) close: Option<&'a CStr>,
    /// Whether to take the network down before serving any client.
    pub(super) cut_network: Option<CutNetwork>,
}

/// The socket that later clients connect to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ListenEndpoint<'a> {
    /// A socket that listens already.
    Descriptor(RawFd),
    /// A name to listen on.
    Name(&'a CStr),
}

/// The usage message.
pub(super) const USAGE: &str = "\
usage: sandbox-agent serve (--fd N [--setup] | --stdio) [--listen-fd N | --listen NAME]
       sandbox-agent serve --listen NAME [--close FILE] [--cut-network | --cut-network-until-rules]
       sandbox-agent connect [--wait] NAME
       sandbox-agent answer PORT
       sandbox-agent (dial | await-denial) MILLISECONDS (api | dns | ADDRESS:PORT)...
       sandbox-agent keep NAME
       sandbox-agent remove FOLDER
       sandbox-agent --version
";

/// Parses the arguments after the program's name; `None` for a usage error.
pub(super) fn parse<'a>(mut arguments: impl Iterator<Item = &'a CStr>) -> Option<AgentCommand<'a>> {
    match arguments.next()?.to_str().ok()? {
        // The name is visible in process lists, and not used.
        "keep" => {
            let name = arguments.next();
            (name.is_some() && arguments.next().is_none()).then_some(AgentCommand::Detached)
        }
        "--version" => arguments.next().is_none().then_some(AgentCommand::Version),
        "answer" => {
            let port = arguments.next()?.to_str().ok()?.parse().ok()?;
            arguments
                .next()
                .is_none()
                .then_some(AgentCommand::Answer(port))
        }
        // `dial` parses the rest.
        "dial" => Some(AgentCommand::Dial {
            until_denied: false,
        }),
        "await-denial" => Some(AgentCommand::Dial { until_denied: true }),
        "connect" => {
            let first = arguments.next()?;
            let wait = first == c"--wait";
            let name = if wait { arguments.next()? } else { first };
            let connect = AgentCommand::Connect { name, wait };
            arguments.next().is_none().then_some(connect)
        }
        "remove" => {
            let folder = arguments.next()?;
            arguments
                .next()
                .is_none()
                .then_some(AgentCommand::Remove(folder))
        }
        "serve" => parse_serve(arguments).map(AgentCommand::Serve),
        _ => None,
    }
}

fn parse_serve<'a>(mut arguments: impl Iterator<Item = &'a CStr>) -> Option<ServeOptions<'a>> {
    let (mut stream, mut setup, mut listener, mut close) = (None, false, None, None);
    let mut cut_network = None;
    while let Some(argument) = arguments.next() {
        match argument.to_str().ok()? {
            "--fd" if stream.is_none() => {
                let raw = descriptor(arguments.next()?)?;
                stream = Some(StreamFds {
                    input: raw,
                    output: raw,
                });
            }
            "--stdio" if stream.is_none() => {
                stream = Some(StreamFds {
                    input: 0,
                    output: 1,
                });
            }
            "--listen-fd" if listener.is_none() => {
                listener = Some(ListenEndpoint::Descriptor(descriptor(arguments.next()?)?));
            }
            "--listen" if listener.is_none() => {
                listener = Some(ListenEndpoint::Name(arguments.next()?));
            }
            "--setup" if !setup => setup = true,
            "--close" if close.is_none() => close = Some(arguments.next()?),
            "--cut-network" if cut_network.is_none() => cut_network = Some(CutNetwork::Forever),
            "--cut-network-until-rules" if cut_network.is_none() => {
                cut_network = Some(CutNetwork::UntilRules);
            }
            _ => return None,
        }
    }
    let valid = match (listener, stream) {
        // Two owners of one descriptor would close it twice.
        (Some(ListenEndpoint::Descriptor(raw)), Some(stream)) => raw > 2 && raw != stream.input,
        (_, Some(_)) => true,
        (Some(ListenEndpoint::Name(_)), None) => !setup,
        (_, None) => false,
    };
    valid.then_some(ServeOptions {
        stream,
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
    fn parses_known_commands_and_refuses_everything_else() {
        let parsed = |arguments: &[&'static CStr]| parse(arguments.iter().copied());
        let stream = |input, output| Some(StreamFds { input, output });
        let (socket, standard) = (stream(7, 7), stream(0, 1));
        let options = ServeOptions {
            stream: None,
            setup: false,
            listener: None,
            close: None,
            cut_network: None,
        };
        let serve = |options| Some(AgentCommand::Serve(options));
        let named = Some(ListenEndpoint::Name(c"@name"));
        assert_eq!(parsed(&[c"--version"]), Some(AgentCommand::Version));
        assert_eq!(parsed(&[c"keep", c"name"]), Some(AgentCommand::Detached));
        assert_eq!(
            parsed(&[c"serve", c"--fd", c"7", c"--setup"]),
            serve(ServeOptions {
                stream: socket,
                setup: true,
                ..options
            })
        );
        assert_eq!(
            parsed(&[c"serve", c"--listen-fd", c"5", c"--fd", c"7"]),
            serve(ServeOptions {
                stream: socket,
                listener: Some(ListenEndpoint::Descriptor(5)),
                ..options
            })
        );
        assert_eq!(
            parsed(&[c"serve", c"--stdio"]),
            serve(ServeOptions {
                stream: standard,
                ..options
            })
        );
        assert_eq!(
            parsed(&[c"serve", c"--fd", c"7", c"--listen", c"@name"]),
            serve(ServeOptions {
                stream: socket,
                listener: named,
                ..options
            })
        );
        let options = ServeOptions {
            listener: named,
            ..options
        };
        assert_eq!(parsed(&[c"serve", c"--listen", c"@name"]), serve(options));
        assert_eq!(
            parsed(&[c"serve", c"--listen", c"@name", c"--close", c"/file"]),
            serve(ServeOptions {
                close: Some(c"/file"),
                ..options
            })
        );
        for (word, cut_network) in [
            (c"--cut-network", CutNetwork::Forever),
            (c"--cut-network-until-rules", CutNetwork::UntilRules),
        ] {
            assert_eq!(
                parsed(&[c"serve", word, c"--listen", c"@name"]),
                serve(ServeOptions {
                    cut_network: Some(cut_network),
                    ..options
                })
            );
        }
        assert_eq!(parsed(&[c"answer", c"80"]), Some(AgentCommand::Answer(80)));
        for (word, until_denied) in [(c"dial", false), (c"await-denial", true)] {
            assert_eq!(
                parsed(&[word, c"1000", c"api"]),
                Some(AgentCommand::Dial { until_denied })
            );
        }
        assert_eq!(
            parsed(&[c"connect", c"/path"]),
            Some(AgentCommand::Connect {
                name: c"/path",
                wait: false
            })
        );
        assert_eq!(
            parsed(&[c"connect", c"--wait", c"@name"]),
            Some(AgentCommand::Connect {
                name: c"@name",
                wait: true
            })
        );
        assert_eq!(
            parsed(&[c"remove", c"/path"]),
            Some(AgentCommand::Remove(c"/path"))
        );
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
            &[
                c"serve",
                c"--listen",
                c"@x",
                c"--cut-network-until-rules",
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
