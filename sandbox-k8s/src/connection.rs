//! The connection to the API server.

use std::time::Duration;

use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::client::{Body, ConfigExt as _};
use kube::{Client, Config};
use tower::{BoxError, ServiceBuilder};

/// Time limit for a TCP connection: a missing cluster is reported within 2 s.
const TCP_TIMEOUT: Duration = Duration::from_millis(1800);

/// A client of the configured server, as [`Client::try_from`] makes it, except that it sends small
/// messages at once and gives up early on a server that cannot be reached.
///
/// `kube` leaves Nagle's algorithm on. The second of two small messages then waits until the server
/// acknowledges the first, which servers delay by 40 ms. That happens in each handshake of TLS and
/// of an execution's stream.
///
/// # Errors
///
/// The configuration's certificates or credentials cannot be read, or `kube` does not support its
/// proxy.
pub(crate) fn connect(config: &Config) -> Result<Client, kube::Error> {
    if config.proxy_url.is_some() {
        return Client::try_from(config.clone());
    }
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(TCP_TIMEOUT));
    let connector = config.rustls_https_connector_with_connector(connector)?;
    let mut connector = TimeoutConnector::new(connector);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_write_timeout(config.write_timeout);
    let http: HttpClient<_, Body> = HttpClient::builder(TokioExecutor::new()).build(connector);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(http);
    Ok(Client::new(service, config.default_namespace.clone()))
}
