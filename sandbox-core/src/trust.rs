//! The certificates that code trusts under rules at level `http`.

use std::collections::BTreeMap;

use crate::policy::NetworkPolicy;
use crate::secret::{MEMORY_FOLDER, shows_hosts_memory_folder};
use crate::spi::{Instance, Source};
use crate::{Error, ErrorKind, Plan, Result};

/// The file in the sandbox with its own authority and the host's public ones.
pub(crate) const FILE: &str = "/dev/shm/.sandbox-certificates.pem";

/// The same certificates for Java, which reads no PEM.
const KEY_STORE: &str = "/dev/shm/.sandbox-certificates.jks";

/// The variable with options of every Java virtual machine, and the option that names the key store.
/// The machine prints them to its standard error when it starts.
const JAVA: (&str, &str) = (
    "JAVA_TOOL_OPTIONS",
    "-Djavax.net.ssl.trustStore=/dev/shm/.sandbox-certificates.jks",
);

/// Certificates that code trusts, in the formats that programs read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustedCertificates {
    /// In PEM format.
    pub pem: String,
    /// A Java key store of format JKS.
    pub java_key_store: Vec<u8>,
}

/// The variables by which programs find certificates: OpenSSL and Go; Python's requests, curl, git,
/// pip, Cargo, Node, npm, Deno, and the AWS tools.
const VARIABLES: [&str; 10] = [
    "SSL_CERT_FILE",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "PIP_CERT",
    "CARGO_HTTP_CAINFO",
    "NODE_EXTRA_CA_CERTS",
    "npm_config_cafile",
    "DENO_CERT",
    "AWS_CA_BUNDLE",
];

/// Sets the variables that name the certificate files, if the rules of a plan are at level `http` or
/// may be later. A variable that the specification sets stays.
pub(crate) fn prepare(plan: &mut Plan) -> Result<()> {
    if !is_needed(plan) {
        return Ok(());
    }
    if shows_hosts_memory_folder(plan) {
        let context = format!(
            "egress: level http puts a file into {MEMORY_FOLDER}, which is the host's folder here"
        );
        let error = Error::new(ErrorKind::InvalidPolicy, "resolve policy", context);
        return Err(error.with_fix("leave it out of the read and write roots"));
    }
    name_file(&mut plan.env);
    Ok(())
}

fn name_file(env: &mut BTreeMap<String, String>) {
    let files = VARIABLES.iter().map(|variable| (*variable, FILE));
    for (variable, value) in files.chain([JAVA]) {
        env.entry(variable.to_owned())
            .or_insert_with(|| value.to_owned());
    }
}

fn is_needed(plan: &Plan) -> bool {
    [&plan.network, &plan.network_ceiling]
        .into_iter()
        .any(|network| match network {
            NetworkPolicy::Allow(rules) => rules.iter().any(|rule| rule.reads_requests()),
            _ => false,
        })
}

/// Writes the certificates of [`Instance::trusted_certificates`] into a new sandbox, whose plan names
/// their files to programs. Code that changes them only loses its own connections.
///
/// Sandboxes of a client have them. A backend calls this for sandboxes that it creates itself.
///
/// # Errors
///
/// The sandbox's.
pub async fn place_certificates(plan: &Plan, instance: &dyn Instance) -> Result<()> {
    if !is_needed(plan) {
        return Ok(());
    }
    let Some(certificates) = instance.trusted_certificates().await? else {
        return Ok(());
    };
    let TrustedCertificates {
        pem,
        java_key_store,
    } = certificates;
    for (path, content) in [(FILE, pem.into_bytes()), (KEY_STORE, java_key_store)] {
        let content: Source = Box::new(std::io::Cursor::new(content));
        instance.put(path, 0o444, content).await?;
    }
    Ok(())
}
