//! Level `http` in a build without the feature of this name.

use std::path::PathBuf;

use sandbox_core::Result;
use sandbox_core::spi::{PlaceholderSecret, TrustedCertificates};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use super::end::HttpEnd;
use super::{CarryEvent, HttpConnection};

/// What ends TLS, of which this build has none.
pub(super) enum Terminator {}

impl Terminator {
    pub(super) fn new(_: Option<PathBuf>) -> Option<Self> {
        None
    }

    pub(super) async fn trusted(&self) -> Result<TrustedCertificates> {
        match *self {}
    }

    pub(super) fn add_placeholder(&self, _: PlaceholderSecret) -> Result<String> {
        match *self {}
    }

    pub(super) fn remove_placeholder(&self, _: &str) {
        match *self {}
    }

    pub(super) async fn carry<S, F>(
        &self,
        _: HttpConnection<'_>,
        _: &mut S,
        _: &mut TcpStream,
        _: F,
    ) -> HttpEnd
    where
        S: AsyncRead + AsyncWrite + Unpin,
        F: FnMut(CarryEvent) + Send,
    {
        match *self {}
    }
}
