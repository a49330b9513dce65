//! Answers the other clients of a detached sandbox.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use sandbox_core::policy::NetworkRule;

use sandbox_core::spi::PlaceholderSecret;
use sandbox_core::{Error, ErrorKind, Result, SecretValue};
use tokio::io::BufReader;
use tokio::net::{UnixListener, UnixStream};
use tokio::task::{AbortHandle, JoinSet};

use super::Carrier;
use super::claim::Claim;
use super::messages::{self, CarrierAnswer, CarrierRequest};

/// How many clients are answered at the same time. Others wait.
const MAX_CLIENTS: usize = 256;

/// How long accepting pauses after it failed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Answers until it is dropped.
#[derive(Debug)]
pub(super) struct CarrierServer {
    task: AbortHandle,
    /// Dropped after the task was told to end.
    _claim: Claim,
}

impl CarrierServer {
    pub(super) fn start(claim: Claim, carrier: Arc<Carrier>) -> Result<Self> {
        let listener = claim.listen().map_err(|cause| {
            let context = "the carrier's socket in the state folder";
            Error::new(ErrorKind::Io, "carry connections", context).with_source(cause)
        })?;
        let task = tokio::spawn(accept(listener, carrier)).abort_handle();
        Ok(Self {
            task,
            _claim: claim,
        })
    }
}

impl Drop for CarrierServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: UnixListener, carrier: Arc<Carrier>) {
    let mut clients = JoinSet::new();
    loop {
        while clients.try_join_next().is_some() {}
        if clients.len() >= MAX_CLIENTS {
            clients.join_next().await;
            continue;
        }
        match listener.accept().await {
            Ok((client, _)) => {
                let carrier = Arc::clone(&carrier);
                clients.spawn(async move {
                    if let Err(error) = serve(&carrier, client).await {
                        tracing::debug!(%error, "a client of the carrier");
                    }
                });
            }
            Err(error) => {
                tracing::warn!(%error, "the carrier cannot accept a client");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// The placeholders that a client has added. They end with it.
struct Placeholders<'a> {
    carrier: &'a Carrier,
    texts: Vec<String>,
}

impl Drop for Placeholders<'_> {
    fn drop(&mut self) {
        for text in &self.texts {
            self.carrier.egress.remove_placeholder(text);
        }
    }
}

async fn serve(carrier: &Carrier, client: UnixStream) -> io::Result<()> {
    // The folder keeps others out; this says the same for a folder whose mode was changed.
    if client.peer_cred()?.uid() != crate::state::user() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let mut client = BufReader::new(client);
    let mut placeholders = Placeholders {
        carrier,
        texts: Vec::new(),
    };
    while let Some(request) = messages::read(&mut client).await? {
        let answer = answer(carrier, request, &mut placeholders).await;
        let answer = answer.unwrap_or_else(|error| CarrierAnswer::failed(&error));
        messages::write(client.get_mut(), &answer).await?;
    }
    Ok(())
}

async fn answer(
    carrier: &Carrier,
    request: CarrierRequest,
    placeholders: &mut Placeholders<'_>,
) -> Result<CarrierAnswer> {
    Ok(match request {
        CarrierRequest::Rules => CarrierAnswer::Rules {
            rules: messages::texts(&carrier.egress.rules()),
        },
        CarrierRequest::SetRules { rules } => {
            let rules = messages::rules(&rules)?;
            carrier.set(rules.clone()).await?;
            carrier.tell_of_rules(&rules);
            CarrierAnswer::Set
        }
        CarrierRequest::Traffic => CarrierAnswer::Traffic(carrier.traffic()),
        CarrierRequest::TakeDenials => CarrierAnswer::Denials(carrier.take_denials()),
        CarrierRequest::AddPlaceholder { name, value, hosts } => {
            let hosts = hosts.iter().map(|host| host.parse::<NetworkRule>());
            let secret = PlaceholderSecret {
                name,
                value: SecretValue::new(value),
                hosts: hosts.collect::<Result<_>>()?,
            };
            let text = carrier.egress.add_placeholder(secret)?;
            placeholders.texts.push(text.clone());
            CarrierAnswer::Placeholder { text }
        }
    })
}
