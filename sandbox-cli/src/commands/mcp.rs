//! `sandbox mcp`: a server of the Model Context Protocol.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use sandbox::{ByteSize, SandboxClient, registry};

use super::run::output_folder::DEFAULT_EXPORT;
use super::run::signals::Signals;
use crate::command_error::{CommandError, Outcome};
use crate::exit::Exit;
use crate::mcp::{AccessToken, HttpListener, McpServer};
use crate::options::PolicyOptions;
use crate::print_status;

/// The environment variable with the access token.
const TOKEN_VARIABLE: &str = "SANDBOX_MCP_TOKEN";

/// The longest file with an access token, in bytes.
const MAX_TOKEN_FILE: u64 = 4096;

/// How much of each stream of an execution is kept, unless the policy says.
const OUTPUT: ByteSize = ByteSize::mib(8);

const NOTES: &str = "\
Examples:
  sandbox mcp                                 # as a client starts it
  sandbox mcp --policy policy.toml -b docker
  sandbox mcp --workspace . --allow-host pypi.org --timeout 5m
  sandbox mcp --http 127.0.0.1:8765           # prints the URL and the access token

A call of a client can ask for less than these options and the policy file allow, never for more.
Sandboxes end with their client. Without --artifact, files in /output are exported.

Exit codes: 0 the client closed the connection; 125 the server could not start; 128 + N ended by
signal N.";

/// The options of `mcp`.
#[derive(Debug, Args)]
#[command(after_help = NOTES)]
pub struct McpArguments {
    /// Serve HTTP clients at this address, instead of one client on standard input and output
    #[arg(long, value_name = "ADDRESS:PORT", help_heading = "HTTP")]
    http: Option<SocketAddr>,

    /// File with the access token of HTTP clients [default: SANDBOX_MCP_TOKEN, else a new token,
    /// which is printed]
    #[arg(long, value_name = "FILE", requires = "http", help_heading = "HTTP")]
    token_file: Option<PathBuf>,

    /// Let clients on other machines call the server by this name (repeatable); --http may then be
    /// an address that is not loopback. The connection is not encrypted
    #[arg(
        long,
        value_name = "HOST[:PORT]",
        requires = "http",
        help_heading = "HTTP"
    )]
    remote_host: Vec<String>,

    #[command(flatten)]
    policy: PolicyOptions,
}

/// Runs the subcommand.
pub fn run(arguments: &McpArguments) -> Outcome {
    let tier = registry::tier(&arguments.policy.backend)?;
    let request = arguments.policy.resolve()?;
    let mut policy = request.policy;
    if request.exports_are_open {
        policy = policy.artifact_export_path(DEFAULT_EXPORT);
    }
    // A result is one message of the protocol, and the server keeps those of several calls.
    policy.stdout_max_bytes.get_or_insert(OUTPUT);
    policy.stderr_max_bytes.get_or_insert(OUTPUT);
    let client = SandboxClient::open_with(tier.tier, policy, &request.settings)?;
    if !tier.applies_policy {
        print_status(format_args!(
            "warning: {} applies no policy: nothing is enforced",
            tier.tier
        ));
    }
    let server = McpServer::new(client, request.spec)?;
    super::block_on(async {
        let mut signals = Signals::listen()?;
        let outcome = tokio::select! {
            served = arguments.serve(&server) => served.map(|()| Exit::SUCCESS),
            signal = signals.next() => Err(CommandError::interrupted(signal)),
        };
        server.close().await;
        outcome
    })?
}

impl McpArguments {
    async fn serve(&self, server: &McpServer) -> Result<(), CommandError> {
        let Some(address) = self.http else {
            return Ok(server.serve_stdio().await?);
        };
        let (token, is_new) = self.token()?;
        let listener = HttpListener::bind(server, address, token, &self.remote_host).await?;
        print_status(format_args!("serving {}", listener.url()));
        if is_new {
            let token = listener.token().text();
            print_status(format_args!("header: Authorization: Bearer {token}"));
        }
        listener.serve().await;
        Ok(())
    }

    /// The access token, and whether it is new.
    fn token(&self) -> Result<(AccessToken, bool), CommandError> {
        if let Some(path) = &self.token_file {
            let read = || {
                let file = std::fs::File::open(path)?;
                let mut text = String::new();
                let mut start = std::io::Read::take(file, MAX_TOKEN_FILE);
                std::io::Read::read_to_string(&mut start, &mut text)?;
                Ok(text)
            };
            let text = read().map_err(|error: std::io::Error| {
                CommandError::io(format!("token file {}", path.display()), &error)
            })?;
            return Ok((AccessToken::new(&text)?, false));
        }
        match std::env::var(TOKEN_VARIABLE) {
            Ok(text) => Ok((AccessToken::new(&text)?, false)),
            Err(std::env::VarError::NotPresent) => Ok((AccessToken::generate()?, true)),
            Err(error) => Err(CommandError::argument(format!("{TOKEN_VARIABLE}: {error}"))),
        }
    }
}
