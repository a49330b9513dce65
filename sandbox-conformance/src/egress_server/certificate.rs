//! The certificate of the server's port with TLS. The host trusts it in this process alone.

use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use rcgen::{CertificateParams, KeyPair};
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

use crate::host_fixture::package_folder;
use crate::name_server::OPEN;

/// The variable with the file of the authorities that this process trusts.
const VARIABLE: &str = "SSL_CERT_FILE";

/// The variable that makes this process trust the certificate. Requests of the suite go to no other
/// server with TLS.
#[must_use]
pub(crate) fn variable() -> (&'static str, PathBuf) {
    (VARIABLE, file())
}

fn file() -> PathBuf {
    package_folder().join("certificate.pem")
}

/// Writes the file.
///
/// # Errors
///
/// If it cannot be written.
pub(crate) fn write() -> std::io::Result<()> {
    std::fs::write(file(), &CERTIFICATE.pem)
}

pub(super) fn server() -> Arc<ServerConfig> {
    Arc::clone(&CERTIFICATE.server)
}

struct Certificate {
    pem: String,
    server: Arc<ServerConfig>,
}

static CERTIFICATE: LazyLock<Certificate> = LazyLock::new(|| {
    let key = KeyPair::generate().expect("the system's random numbers");
    let params = CertificateParams::new([format!("*.{OPEN}")]).expect("names of hosts");
    let certificate = params.self_signed(&key).expect("a key");
    let server = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions of TLS")
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate.der().clone()],
            PrivateKeyDer::Pkcs8(key.serialize_der().into()),
        );
    Certificate {
        pem: certificate.pem(),
        server: Arc::new(server.expect("a certificate with its key")),
    }
});
