//! Connections at level `http`: the host ends TLS, reads each request, and sends to the server only
//! what the rules allow.
//!
//! Requests and answers are parsed and written anew, so that the server reads what was judged.

mod authority;
mod aws;
mod bodies;
mod gateway;
mod head;
mod key_store;
mod placeholders;
mod roots;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use sandbox_core::spi::{PlaceholderSecret, TrustedCertificates};
use sandbox_core::{Error, ErrorKind, Result};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::OnceCell;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::{TlsAcceptor, TlsConnector};
use tokio_util::io::{InspectReader, InspectWriter};

use super::end::HttpEnd;
use super::relay::Count;
use super::{CarryEvent, HttpConnection, hello};
use authority::Authority;
use bodies::Bodies;
use gateway::{Gateway, Upstream};
use head::RequestedServer;
use placeholders::Placeholders;

/// What ends TLS for a sandbox.
pub(super) struct Terminator {
    authority: Result<Authority, String>,
    /// See [`super::EgressOptions::certificates`].
    certificates: Option<PathBuf>,
    client: OnceCell<Arc<ClientConfig>>,
    placeholders: Placeholders,
    bodies: Bodies,
}

impl Terminator {
    pub(super) fn new(certificates: Option<PathBuf>) -> Option<Self> {
        Some(Self {
            authority: Authority::new().map_err(|error| error.to_string()),
            certificates,
            client: OnceCell::new(),
            placeholders: Placeholders::default(),
            bodies: Bodies::default(),
        })
    }

    /// The certificates that code must trust: the sandbox's own authority, and those of this host
    /// for the connections that it does not end.
    pub(super) async fn trusted(&self) -> Result<TrustedCertificates> {
        let failed = |error: String| Error::new(ErrorKind::Io, "make a certificate", error);
        let authority = self.authority.as_ref();
        let authority = authority.map_err(|error| failed(error.clone()))?;
        let native = tokio::task::spawn_blocking(roots::native).await;
        let native = native.map_err(|error| failed(error.to_string()))?;
        let all: Vec<&[u8]> = std::iter::once(authority.certificate())
            .chain(native.iter().map(AsRef::as_ref))
            .collect();
        Ok(TrustedCertificates {
            pem: roots::pem(&all),
            java_key_store: key_store::java(&all),
        })
    }

    pub(super) fn add_placeholder(&self, secret: PlaceholderSecret) -> Result<String> {
        self.placeholders.add(secret)
    }

    pub(super) fn remove_placeholder(&self, text: &str) {
        self.placeholders.remove(text);
    }

    /// Carries requests until one side ends.
    pub(super) async fn carry<S, F>(
        &self,
        connection: HttpConnection<'_>,
        stream: &mut S,
        server: &mut TcpStream,
        told: F,
    ) -> HttpEnd
    where
        S: AsyncRead + AsyncWrite + Unpin,
        F: FnMut(CarryEvent) + Send,
    {
        let HttpConnection {
            target,
            name,
            ticket,
            counts,
            first,
        } = connection;
        let is_tls = hello::is_tls(&first);
        let count = |direction: &Count<'_>, bytes: &[u8]| counts.add(direction, bytes.len());
        let server = InspectReader::new(server, |bytes| count(&counts.received, bytes));
        let server = InspectWriter::new(server, |bytes| count(&counts.sent, bytes));
        let (from_code, to_code) = tokio::io::split(stream);
        let code = tokio::io::join(io::Cursor::new(first).chain(from_code), to_code);
        let asked = RequestedServer {
            name,
            port: target.port,
            is_tls,
        };
        let gateway = Gateway::new(
            target,
            asked,
            ticket,
            &self.placeholders,
            &self.bodies,
            told,
        );
        if !is_tls {
            let upstream = Upstream::open(server).await;
            return gateway.serve(code, upstream).await;
        }
        let config = match &self.authority {
            Ok(authority) => authority.server(name),
            Err(error) => Err(error.clone()),
        };
        let config = match config {
            Ok(config) => config,
            Err(error) => return HttpEnd::NoServer(io::Error::other(error)),
        };
        // Code that does not trust the authority ends the connection, and the server is not asked.
        let Ok(code) = TlsAcceptor::from(config).accept(code).await else {
            return HttpEnd::Reset;
        };
        match self.secured(name, server).await {
            Ok(server) => {
                let upstream = Upstream::open(server).await;
                gateway.serve(code, upstream).await
            }
            Err(error) => gateway.serve_failure(code, error).await,
        }
    }

    /// A server's connection with TLS, whose certificate was verified.
    async fn secured<S>(
        &self,
        name: &str,
        server: S,
    ) -> io::Result<impl AsyncRead + AsyncWrite + Unpin>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let load = async || {
            let file = self.certificates.clone();
            let loading = tokio::task::spawn_blocking(move || roots::client(file.as_deref()));
            loading.await.map_err(io::Error::other).flatten()
        };
        let client = self.client.get_or_try_init(load).await?;
        let name = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
        let connecting = TlsConnector::from(Arc::clone(client)).connect(name, server);
        match tokio::time::timeout(super::limits::DIAL_TIME_LIMIT, connecting).await {
            Ok(connected) => connected,
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }
}

#[cfg(test)]
mod tests;
