//! The certificate authority of one sandbox.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SerialNumber,
};
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

/// How far the clocks of programs may differ.
const CLOCK_SKEW: Duration = Duration::from_secs(24 * 3600);

/// How long a name's certificate is valid. Each connection gets a new one.
const LEAF_VALIDITY: Duration = Duration::from_secs(7 * 24 * 3600);

/// How long the authority is valid, which is longer than any sandbox lives.
const AUTHORITY_VALIDITY: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// Signs certificates for the names that a sandbox connects to. Its keys are in this process alone.
pub(super) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// The certificate in DER format.
    certificate: Vec<u8>,
    leaf_key: KeyPair,
    /// Some libraries refuse two certificates with one number.
    next_serial: AtomicU64,
}

impl Authority {
    pub(super) fn new() -> Result<Self, rcgen::Error> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params
            .distinguished_name
            .push(DnType::CommonName, "sandbox egress");
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let now = SystemTime::now();
        params.not_before = (now - CLOCK_SKEW).into();
        params.not_after = (now + AUTHORITY_VALIDITY).into();
        let certificate = params.self_signed(&key)?.der().to_vec();
        Ok(Self {
            issuer: Issuer::new(params, key),
            certificate,
            leaf_key: KeyPair::generate()?,
            next_serial: AtomicU64::new(1),
        })
    }

    /// The authority's certificate in DER format.
    pub(super) fn certificate(&self) -> &[u8] {
        &self.certificate
    }

    /// The settings of a TLS server that code takes for `name`.
    pub(super) fn server(&self, name: &str) -> Result<Arc<ServerConfig>, String> {
        let leaf = self.leaf(name).map_err(|error| error.to_string())?;
        let key = PrivatePkcs8KeyDer::from(self.leaf_key.serialize_der());
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map(|config| config.with_no_client_auth())
            .and_then(|config| config.with_single_cert(vec![leaf], PrivateKeyDer::Pkcs8(key)));
        let mut config = config.map_err(|error| error.to_string())?;
        // The only protocol that is read.
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        // Each connection has settings of its own, so none can be resumed.
        config.send_tls13_tickets = 0;
        Ok(Arc::new(config))
    }

    fn leaf(
        &self,
        name: &str,
    ) -> Result<tokio_rustls::rustls::pki_types::CertificateDer<'static>, rcgen::Error> {
        let mut params = CertificateParams::new([name.to_owned()])?;
        params.distinguished_name = rcgen::DistinguishedName::new();
        // Strict verifiers want both key identifiers, a key usage and an extended one.
        params.is_ca = IsCa::ExplicitNoCa;
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let serial = self.next_serial.fetch_add(1, Ordering::Relaxed);
        params.serial_number = Some(SerialNumber::from(serial));
        let now = SystemTime::now();
        params.not_before = (now - CLOCK_SKEW).into();
        params.not_after = (now + LEAF_VALIDITY).into();
        let leaf = params.signed_by(&self.leaf_key, &self.issuer)?;
        Ok(leaf.der().clone())
    }
}
