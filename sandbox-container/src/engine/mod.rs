//! Finds an engine and queries its version and features.

mod endpoint;
mod facts;
mod hard_limits;
mod inspect;
mod listing;
mod ping;
mod runtime;
mod version;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bollard::{API_DEFAULT_VERSION, ClientVersion, Docker};
use sandbox_core::{Error, Result};
use tokio::sync::OnceCell;
use tokio::time::timeout;

pub use endpoint::{Candidates, Endpoint, GivenClient};
pub use facts::EngineFacts;
pub use hard_limits::HardLimits;
pub(crate) use inspect::inspect;
pub use listing::ListedContainer;
pub(crate) use listing::list;
use ping::{Ping, ping};
pub use runtime::KernelIsolation;

use crate::config::ContainerConfig;
use crate::lowering::DefaultPaths;
use crate::quota::LayerQuota;
use crate::{Family, Tier};

/// Time limit for a ping, once the engine has accepted the connection. An engine answers in a
/// millisecond, and in seconds on a busy machine.
const PING_TIMEOUT: Duration = Duration::from_secs(10);

/// Time limit for an engine's self-description. Podman first runs several programs for their
/// versions, which takes seconds on a busy machine.
const DESCRIBE_TIMEOUT: Duration = Duration::from_secs(30);

/// Time limit in seconds for the start of any response: a loaded engine takes seconds, never
/// minutes.
const RESPONSE_TIMEOUT_SECONDS: u64 = 60;

/// An engine that answered.
#[derive(Debug, Clone)]
pub(crate) struct Engine {
    /// The client of its API.
    pub client: Docker,
    /// Where it was found.
    pub endpoint: Endpoint,
    /// Its address, if known: a client that the caller created may lead anywhere.
    pub address: Option<Endpoint>,
    /// Its self-description.
    pub facts: EngineFacts,
    /// Whether its storage limits a container's writable layer. Tested once.
    pub quota: Arc<OnceCell<LayerQuota>>,
    /// The paths that its containers hide by default. Queried once.
    pub default_paths: Arc<OnceCell<DefaultPaths>>,
}

impl Endpoint {
    /// The endpoint itself, if it is an address.
    pub(crate) fn address(&self) -> Option<&Self> {
        match self {
            Self::Given(_) => None,
            address => Some(address),
        }
    }
}

impl Engine {
    /// Lists the containers that have all of these labels; see [`list`].
    pub(crate) async fn list(&self, tier: Tier, labels: &[String]) -> Result<Vec<ListedContainer>> {
        list(tier, &self.client, self.address.as_ref(), labels).await
    }

    /// Finds the engine.
    ///
    /// # Errors
    ///
    /// `SandboxUnavailable` with the reason for each endpoint that was tried: in under 2 s if no
    /// engine accepts a connection, and after 10 s if one accepts it and does not answer.
    pub(crate) async fn find(tier: Tier, config: &ContainerConfig) -> Result<Self> {
        let Candidates {
            endpoints,
            named_by,
        } = match (&config.client, &config.host) {
            (Some(given), _) => Candidates::given(given),
            (None, Some(host)) => Candidates::named(tier.name, host, "the configuration")?,
            (None, None) => (tier.family.candidates)(tier.name)?,
        };
        let mut tried = Vec::new();
        for endpoint in endpoints {
            let pinged = timeout(PING_TIMEOUT, connect(&endpoint)).await;
            let found = match pinged.unwrap_or(Err(Unreachable::Silent)) {
                Ok((client, ping)) => {
                    // The engine exists; its description may take longer.
                    let described = Self::describe(tier.family, &endpoint, client, ping, config);
                    let described = timeout(DESCRIBE_TIMEOUT, described).await;
                    described.unwrap_or(Err(Unreachable::Undescribed))
                }
                Err(failure) => Err(failure),
            };
            match found {
                Ok(engine) => return Ok(engine),
                Err(failure) => tried.push((endpoint, failure)),
            }
        }
        Err(unavailable(tier, named_by.as_deref(), &tried))
    }

    async fn describe(
        family: &Family,
        endpoint: &Endpoint,
        client: Docker,
        ping: Option<Ping>,
        config: &ContainerConfig,
    ) -> Result<Self, Unreachable> {
        let address = match endpoint {
            Endpoint::Given(_) => config.address().map_err(Unreachable::NativeApi)?,
            endpoint => Some(endpoint.clone()),
        };
        let native_facts = async {
            match family.native {
                None => Ok(None),
                Some(native) => match &address {
                    Some(address) => native.ask(address).await.map(Some),
                    None => Err("the configuration must name its address too, as `host`".into()),
                },
            }
        };
        let (api, info, correction) = tokio::join!(
            negotiate(family, &client, ping),
            client.info(),
            native_facts
        );
        let api = api?;
        let info = info.map_err(Unreachable::Answer)?;
        let local = matches!(address, Some(Endpoint::Unix(_)));
        let mut facts = EngineFacts::new(&info, &api, local, config.runtime.as_deref());
        if let Some(Endpoint::Unix(socket)) = &address {
            facts.hard_limits = HardLimits::of_listener(socket);
        }
        if let Some(correct) = correction.map_err(Unreachable::NativeApi)? {
            correct(&mut facts);
        }
        Ok(Self {
            client,
            endpoint: endpoint.clone(),
            address,
            facts,
            quota: Arc::default(),
            default_paths: Arc::default(),
        })
    }
}

/// Connects to the engine at `endpoint`.
async fn connect(endpoint: &Endpoint) -> Result<(Docker, Option<Ping>), Unreachable> {
    // bollard hides the cause of a failed connection deep in its errors.
    let pong = ping(endpoint).await.map_err(Unreachable::Connect)?;
    let client = client(endpoint).map_err(Unreachable::Answer)?;
    if pong.is_none() {
        client.ping().await.map_err(Unreachable::Answer)?;
    }
    Ok((client, pong))
}

/// Checks the engine's family and negotiates the API version.
async fn negotiate(
    family: &Family,
    client: &Docker,
    ping: Option<Ping>,
) -> Result<ClientVersion, Unreachable> {
    if let Some(ping) = ping {
        check_family(family, &[&ping.engine])?;
        return Ok(ping.client_version());
    }
    let version = client.version().await.map_err(Unreachable::Answer)?;
    let components = version.components.as_deref().unwrap_or_default();
    let names = components.iter().map(|component| component.name.as_str());
    check_family(family, &names.collect::<Vec<_>>())?;
    version::negotiated(&version).ok_or(Unreachable::Version)
}

/// Creates a client for `endpoint`. It opens a new connection per request, so it is bound to no
/// runtime.
pub(crate) fn client(endpoint: &Endpoint) -> Result<Docker, bollard::errors::Error> {
    match endpoint {
        Endpoint::Unix(path) => Docker::connect_with_unix(
            &path.to_string_lossy(),
            RESPONSE_TIMEOUT_SECONDS,
            API_DEFAULT_VERSION,
        ),
        Endpoint::Tcp(address) => {
            Docker::connect_with_http(address, RESPONSE_TIMEOUT_SECONDS, API_DEFAULT_VERSION)
        }
        Endpoint::Given(given) => Ok(given.client.clone()),
    }
}

fn check_family(family: &Family, names: &[&str]) -> Result<(), Unreachable> {
    if (family.is_member)(names) {
        return Ok(());
    }
    let name = names.first().copied().unwrap_or("an unknown engine");
    Err(Unreachable::OtherFamily(name.escape_debug().to_string()))
}

/// Why an endpoint cannot be used.
#[derive(Debug)]
enum Unreachable {
    Connect(io::Error),
    Answer(bollard::errors::Error),
    /// An engine of another family, with its name.
    OtherFamily(String),
    /// The engine does not report its API version.
    Version,
    /// The query over the engine's own API failed.
    NativeApi(String),
    /// The engine accepted the connection and did not answer the ping.
    Silent,
    /// The engine answered the ping and did not describe itself.
    Undescribed,
}

impl std::fmt::Display for Unreachable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Connect(error) => match error.kind() {
                io::ErrorKind::NotFound => f.write_str("no such socket"),
                io::ErrorKind::ConnectionRefused => f.write_str("no process listens there"),
                io::ErrorKind::PermissionDenied => f.write_str("permission denied"),
                io::ErrorKind::TimedOut => f.write_str("no connection in time"),
                _ => error.fmt(f),
            },
            Self::Answer(error) => write!(f, "{}", crate::error::ErrorChain(error)),
            Self::OtherFamily(name) => write!(f, "it is {name}"),
            Self::Version => f.write_str("it reports no API version"),
            Self::NativeApi(why) => f.write_str(why),
            Self::Silent => write!(f, "no answer in {} s", PING_TIMEOUT.as_secs()),
            Self::Undescribed => {
                write!(f, "no self-description in {} s", DESCRIBE_TIMEOUT.as_secs())
            }
        }
    }
}

fn unavailable(tier: Tier, named_by: Option<&str>, tried: &[(Endpoint, Unreachable)]) -> Error {
    let attempts = tried
        .iter()
        .map(|(endpoint, why)| format!("{endpoint}: {why}"))
        .collect::<Vec<_>>()
        .join("; ");
    let by = named_by.map_or_else(String::new, |by| format!(" (named by {by})"));
    let denied = tried.iter().any(|(_, why)| {
        matches!(why, Unreachable::Connect(error) if error.kind() == io::ErrorKind::PermissionDenied)
    });
    let fix = if denied {
        tier.family.denied
    } else {
        tier.family.start
    };
    let engine = tier.family.engine;
    Error::unavailable(
        tier,
        format!("no {engine} engine answers{by}: {attempts}"),
        fix,
    )
}
