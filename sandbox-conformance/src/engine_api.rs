//! The API of a container engine, as programs use it that are no sandboxes.

use std::path::PathBuf;

use sandbox_core::spi::unique_name;
use sandbox_core::{Error, ErrorKind, Result};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};

use crate::leftovers::{LABEL, RunId};

/// Where an engine answers.
#[cfg_attr(
    not(feature = "engines"),
    expect(dead_code, reason = "no linked backend has an engine")
)]
#[derive(Debug, Clone)]
enum Address {
    Socket(PathBuf),
    Tcp(String),
}

/// Finds the addresses of a tier's engine.
type Find = fn() -> Result<Vec<Address>>;

/// The tiers with an engine.
const TIERS: &[(&str, Find)] = &[
    #[cfg(feature = "docker")]
    ("docker", addresses::<sandbox_docker::Docker>),
    #[cfg(feature = "podman")]
    ("podman", addresses::<sandbox_podman::Podman>),
];

#[cfg(feature = "engines")]
fn addresses<F: sandbox_container::EngineFamily>() -> Result<Vec<Address>> {
    use sandbox_container::Endpoint;
    let candidates = (F::FAMILY.candidates)(F::FAMILY.tier)?;
    let found = candidates.endpoints.into_iter();
    let found = found.filter_map(|endpoint| match endpoint {
        Endpoint::Unix(path) => Some(Address::Socket(path)),
        Endpoint::Tcp(address) => Some(Address::Tcp(address)),
        _ => None,
    });
    Ok(found.collect())
}

/// The API of the engine of a tier.
#[derive(Debug)]
pub(crate) struct EngineApi {
    address: Address,
}

/// An answer of an engine.
#[derive(Debug)]
struct Answer {
    status: u16,
    body: Value,
}

/// A connection to an engine.
trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Connection for T {}

impl EngineApi {
    /// The engine of a tier, as the tier finds it; `None` if the tier has none.
    ///
    /// # Errors
    ///
    /// If no engine answers.
    pub(crate) async fn of(tier: &str) -> Result<Option<Self>> {
        let Some((_, find)) = TIERS.iter().find(|(name, _)| *name == tier) else {
            return Ok(None);
        };
        for address in find()? {
            let api = Self { address };
            if api.call("GET", "/version", None).await.is_ok() {
                return Ok(Some(api));
            }
        }
        Err(failed(format!("no engine of {tier} answers")))
    }

    /// Makes a volume and returns its name. Volumes of killed runs are removed before.
    ///
    /// # Errors
    ///
    /// Errors of the engine.
    pub(crate) async fn create_volume(&self) -> Result<String> {
        for (name, run) in self.volumes(LABEL).await? {
            if RunId::decode(&run).is_some_and(|run| run.has_ended()) {
                self.remove_volume(&name).await?;
            }
        }
        let name = unique_name("conformance-volume");
        let body = json!({"Name": name, "Labels": {(LABEL): RunId::current().encode()}});
        self.done("POST", "/volumes/create", Some(&body)).await?;
        Ok(name)
    }

    /// The volumes with this label, and its value.
    ///
    /// # Errors
    ///
    /// Errors of the engine.
    pub(crate) async fn volumes(&self, label: &str) -> Result<Vec<(String, String)>> {
        let path = format!("/volumes?filters={}", labelled(label));
        let body = self.done("GET", &path, None).await?;
        let volumes = body["Volumes"].as_array().into_iter().flatten();
        let named = volumes.filter_map(|volume| {
            let value = volume["Labels"][label].as_str()?;
            Some((volume["Name"].as_str()?.to_owned(), value.to_owned()))
        });
        Ok(named.collect())
    }

    /// Whether there is such a volume.
    ///
    /// # Errors
    ///
    /// Errors of the engine.
    pub(crate) async fn has_volume(&self, name: &str) -> Result<bool> {
        self.is_there(&format!("/volumes/{name}")).await
    }

    /// Removes a volume, if it is there.
    ///
    /// # Errors
    ///
    /// Errors of the engine.
    pub(crate) async fn remove_volume(&self, name: &str) -> Result<()> {
        self.gone(&format!("/volumes/{name}?force=true")).await
    }

    /// Creates a container under this name, and does not start it.
    ///
    /// # Errors
    ///
    /// Errors of the engine.
    pub(crate) async fn create_container(&self, name: &str, body: &Value) -> Result<()> {
        let path = format!("/containers/create?name={name}");
        self.done("POST", &path, Some(body)).await.map(drop)
    }

    /// Starts a container.
    ///
    /// # Errors
    ///
    /// Errors of the engine.
    pub(crate) async fn start_container(&self, name: &str) -> Result<()> {
        let path = format!("/containers/{name}/start");
        self.done("POST", &path, None).await.map(drop)
    }

    /// Whether there is such a container.
    ///
    /// # Errors
    ///
    /// Errors of the engine.
    pub(crate) async fn has_container(&self, name: &str) -> Result<bool> {
        self.is_there(&format!("/containers/{name}/json")).await
    }

    /// Removes a container, if it is there.
    ///
    /// # Errors
    ///
    /// Errors of the engine.
    pub(crate) async fn remove_container(&self, name: &str) -> Result<()> {
        let path = format!("/containers/{name}?force=true&v=true");
        self.gone(&path).await
    }

    /// The ids of all images with this label (`name=value`), also of those without a name.
    ///
    /// # Errors
    ///
    /// Errors of the engine.
    pub(crate) async fn images(&self, label: &str) -> Result<Vec<String>> {
        let path = format!("/images/json?all=true&filters={}", labelled(label));
        let images = self.done("GET", &path, None).await?;
        let ids = images.as_array().into_iter().flatten();
        let ids = ids.filter_map(|image| Some(image["Id"].as_str()?.to_owned()));
        Ok(ids.collect())
    }

    /// Whether the engine runs as an ordinary user.
    ///
    /// # Errors
    ///
    /// Errors of the engine.
    pub(crate) async fn is_rootless(&self) -> Result<bool> {
        let info = self.done("GET", "/info", None).await?;
        // Docker names it among the options, and Podman beside them.
        let options = info["SecurityOptions"].as_array();
        let mut options = options.into_iter().flatten().filter_map(|it| it.as_str());
        Ok(info["Rootless"] == true || options.any(|option| option.contains("rootless")))
    }

    async fn is_there(&self, path: &str) -> Result<bool> {
        match self.call("GET", path, None).await? {
            Answer { status: 404, .. } => Ok(false),
            answer => answer.checked(path).map(|_| true),
        }
    }

    async fn gone(&self, path: &str) -> Result<()> {
        match self.call("DELETE", path, None).await? {
            // The engine may be removing it already.
            Answer {
                status: 404 | 409, ..
            } => Ok(()),
            answer => answer.checked(path).map(drop),
        }
    }

    async fn done(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value> {
        self.call(method, path, body).await?.checked(path)
    }

    /// One request on a connection of its own. In this version of HTTP the engine closes the
    /// connection after its answer, and does not send the answer in chunks.
    async fn call(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Answer> {
        let body = body.map(Value::to_string).unwrap_or_default();
        let request = format!(
            "{method} {path} HTTP/1.0\r\nHost: engine\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let failure = |error: std::io::Error| failed(format!("{:?}: {error}", self.address));
        let mut answer = Vec::new();
        let exchanged = async {
            let mut connection: Box<dyn Connection> = match &self.address {
                Address::Socket(path) => Box::new(UnixStream::connect(path).await?),
                Address::Tcp(address) => Box::new(TcpStream::connect(address).await?),
            };
            connection.write_all(request.as_bytes()).await?;
            connection.read_to_end(&mut answer).await
        };
        exchanged.await.map_err(failure)?;
        let text = String::from_utf8_lossy(&answer);
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
        let status = status.ok_or_else(|| failed(format!("{path}: {head:?}")))?;
        // An empty answer is no JSON.
        let body = serde_json::from_str(body).unwrap_or(Value::Null);
        Ok(Answer { status, body })
    }
}

impl Answer {
    fn checked(self, path: &str) -> Result<Value> {
        match self.status {
            // 304: it is so already.
            200..300 | 304 => Ok(self.body),
            status => Err(failed(format!("{path}: {status} {}", self.body))),
        }
    }
}

fn failed(context: String) -> Error {
    Error::new(ErrorKind::Io, "ask engine", context)
}

/// A filter of a list by a label, for an address.
fn labelled(label: &str) -> String {
    let filter = json!({"label": [label]}).to_string();
    let plain = |byte: u8| byte.is_ascii_alphanumeric();
    let letter = |byte: u8| match plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    filter.bytes().map(letter).collect()
}
