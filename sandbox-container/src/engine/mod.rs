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
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use bollard::{API_DEFAULT_VERSION, ClientVersion, Docker};
use sandbox_core::{Error, Result};
use tokio::sync::OnceCell;
use tokio::time::timeout;

pub use endpoint::{Candidates, Endpoint, GivenClient};
pub use facts::EngineFacts;
pub use hard_limits::HardLimits;
pub(crate) use inspect::{inspect, inspect_image};
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

/// A connection to an engine that answered a ping, without its self-description.
///
/// This is all that a later client of a sandbox needs. Podman takes half a second to describe
/// itself.
#[derive(Debug, Clone)]
pub(crate) struct EngineConnection {
    /// The client of its API.
    pub client: Docker,
    /// Where it was found.
    pub endpoint: Endpoint,
    /// Its address, if known: a client that the caller created may lead anywhere.
    pub address: Option<Endpoint>,
}

/// An engine that answered and described itself.
#[derive(Debug, Clone)]
pub(crate) struct Engine {
    /// The connection to it.
    pub connection: EngineConnection,
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

impl Deref for Engine {
    type Target = EngineConnection;

    fn deref(&self) -> &EngineConnection {
        &self.connection
    }
}

impl EngineConnection {
    /// Lists the containers that have all of these labels; see [`list`].
    pub(crate) async fn list(&self, tier: Tier, labels: &[String]) -> Result<Vec<ListedContainer>> {
        list(tier, &self.client, self.address.as_ref(), labels).await
    }

    /// Whether paths of this process are valid for the engine.
    pub(crate) fn is_local(&self) -> bool {
        matches!(self.address, Some(Endpoint::Unix(_)))
    }

    /// Connects to the first engine of the family that answers. Asks it for nothing but a ping.
    ///
    /// # Errors
    ///
    /// As [`Engine::find`].
    pub(crate) async fn find(tier: Tier, config: &ContainerConfig) -> Result<Self> {
        let candidates = candidates(tier, config)?;
        let mut tried = Vec::new();
        for endpoint in candidates.endpoints {
            match Self::open_checked(tier.family, &endpoint, config).await {
                Ok(connection) => return Ok(connection),
                Err(failure) => tried.push((endpoint, failure)),
            }
        }
        Err(unavailable(tier, candidates.named_by.as_deref(), &tried))
    }

    /// As [`Self::open`]. Also checks the family of an engine whose ping does not tell it.
    async fn open_checked(
        family: &Family,
        endpoint: &Endpoint,
        config: &ContainerConfig,
    ) -> Result<Self, Unreachable> {
        let (connection, version) = Self::open(family, endpoint, config).await?;
        if version.is_none() {
            let negotiated = timeout(PING_TIMEOUT, negotiate(family, &connection.client)).await;
            negotiated.unwrap_or(Err(Unreachable::Silent))?;
        }
        Ok(connection)
    }

    /// Pings the engine at `endpoint`, and checks its family. Returns its API version too.
    async fn open(
        family: &Family,
        endpoint: &Endpoint,
        config: &ContainerConfig,
    ) -> Result<(Self, Option<ClientVersion>), Unreachable> {
        let pinged = timeout(PING_TIMEOUT, connect(endpoint)).await;
        let (client, ping) = pinged.unwrap_or(Err(Unreachable::Silent))?;
        let address = match endpoint {
            Endpoint::Given(_) => config.address().map_err(Unreachable::NativeApi)?,
            endpoint => Some(endpoint.clone()),
        };
        let version = match ping {
            Some(ping) => {
                check_family(family, &[&ping.engine])?;
                Some(ping.client_version())
            }
            None => None,
        };
        let connection = Self {
            client,
            endpoint: endpoint.clone(),
            address,
        };
        Ok((connection, version))
    }
}

/// Where to look for the engine.
fn candidates(tier: Tier, config: &ContainerConfig) -> Result<Candidates> {
    match (&config.client, &config.host) {
        (Some(given), _) => Ok(Candidates::given(given)),
        (None, Some(host)) => Candidates::named(tier.name, host, "the configuration"),
        (None, None) => (tier.family.candidates)(tier.name),
    }
}

impl Engine {
    /// Finds the engine.
    ///
    /// # Errors
    ///
    /// `SandboxUnavailable` with the reason for each endpoint that was tried: in under 2 s if no
    /// engine accepts a connection, and after 10 s if one accepts it and does not answer.
    pub(crate) async fn find(tier: Tier, config: &ContainerConfig) -> Result<Self> {
        let candidates = candidates(tier, config)?;
        let mut tried = Vec::new();
        for endpoint in candidates.endpoints {
            match Self::open(tier.family, &endpoint, config).await {
                Ok(engine) => return Ok(engine),
                Err(failure) => tried.push((endpoint, failure)),
            }
        }
        Err(unavailable(tier, candidates.named_by.as_deref(), &tried))
    }

    async fn open(
        family: &Family,
        endpoint: &Endpoint,
        config: &ContainerConfig,
    ) -> Result<Self, Unreachable> {
        let (connection, version) = EngineConnection::open(family, endpoint, config).await?;
        // The engine exists; its description may take longer.
        let described = Self::describe(family, connection, version, config);
        let described = timeout(DESCRIBE_TIMEOUT, described).await;
        described.unwrap_or(Err(Unreachable::Undescribed))
    }

    async fn describe(
        family: &Family,
        connection: EngineConnection,
        version: Option<ClientVersion>,
        config: &ContainerConfig,
    ) -> Result<Self, Unreachable> {
        let (client, address) = (&connection.client, &connection.address);
        let native_facts = async {
            match family.native {
                None => Ok(None),
                Some(native) => match address {
                    Some(address) => native.ask(address).await.map(Some),
                    None => Err("the configuration must name its address too, as `host`".into()),
                },
            }
        };
        let negotiated = async {
            match version {
                Some(version) => Ok(version),
                None => negotiate(family, client).await,
            }
        };
        let (api, info, correction) = tokio::join!(negotiated, client.info(), native_facts);
        let api = api?;
        let info = info.map_err(Unreachable::Answer)?;
        let local = connection.is_local();
        let mut facts = EngineFacts::new(&info, &api, local, config.runtime.as_deref());
        if let Some(Endpoint::Unix(socket)) = address {
            facts.hard_limits = HardLimits::of_listener(socket);
        }
        if let Some(correct) = correction.map_err(Unreachable::NativeApi)? {
            correct(&mut facts);
        }
        Ok(Self {
            connection,
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

/// Checks the family of an engine whose ping does not tell it, and negotiates the API version.
async fn negotiate(family: &Family, client: &Docker) -> Result<ClientVersion, Unreachable> {
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
