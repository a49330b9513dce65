//! The authorities that servers are verified with.

use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use pem::{EncodeConfig, LineEnding, Pem};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// The authorities of this host, read once: `SSL_CERT_FILE`, or the system's.
pub(super) fn native() -> &'static [CertificateDer<'static>] {
    static NATIVE: OnceLock<Vec<CertificateDer<'static>>> = OnceLock::new();
    NATIVE.get_or_init(|| {
        let loaded = rustls_native_certs::load_native_certs();
        for error in &loaded.errors {
            tracing::warn!(%error, "certificates of this host cannot be read");
        }
        loaded.certs
    })
}

/// Certificates in PEM format.
pub(super) fn pem(certificates: &[&[u8]]) -> String {
    let all = certificates
        .iter()
        .map(|certificate| Pem::new("CERTIFICATE", *certificate))
        .collect::<Vec<_>>();
    pem::encode_many_config(&all, EncodeConfig::new().set_line_ending(LineEnding::LF))
}

/// The settings of a TLS client that trusts this host's authorities, and those of `file`.
pub(super) fn client(file: Option<&Path>) -> io::Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    // Systems have some that are not valid.
    roots.add_parsable_certificates(native().iter().cloned());
    if let Some(file) = file {
        let broken = |error: &dyn std::fmt::Display| {
            io::Error::other(format!("{}: {error}", file.display()))
        };
        let own = CertificateDer::pem_file_iter(file).map_err(|error| broken(&error))?;
        for root in own {
            let root = root.map_err(|error| broken(&error))?;
            roots.add(root).map_err(|error| broken(&error))?;
        }
    }
    if roots.is_empty() {
        return Err(io::Error::other(
            "this host has no certificates to verify servers with; install ca-certificates",
        ));
    }
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
