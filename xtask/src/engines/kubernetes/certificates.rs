//! The cluster's own authority, and a certificate and a way in for each of its components.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use super::layout::{API_PORT, Layout, NODE, NODE_ADDRESS, SERVICE_ADDRESS};
use super::output;
use crate::failure::{Context, Failure, Result};

/// How long a certificate holds, days.
const DAYS: &str = "3650";
/// Says that all of them are there.
const DONE: &str = "done";

/// Those who have a way into the API server: name, and subject of the certificate.
const USERS: [(&str, &str); 4] = [
    ("admin", "/O=system:masters/CN=admin"),
    ("kubelet", "/O=system:nodes/CN=system:node:node1"),
    (
        "kube-controller-manager",
        "/CN=system:kube-controller-manager",
    ),
    ("kube-scheduler", "/CN=system:kube-scheduler"),
];

/// Makes what is missing: all of it, unless all of it is there.
///
/// # Errors
/// When openssl fails or a file cannot be written.
pub fn make(layout: &Layout) -> Result<()> {
    if layout.certificate(DONE).exists() {
        return Ok(());
    }
    let folder = layout.certificate("");
    fs::create_dir_all(&folder).context(|| format!("cannot create {}", folder.display()))?;
    eprintln!("k8s: making certificates in {}", folder.display());
    authority(layout)?;
    let server = format!(
        "DNS:localhost,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,\
         DNS:kubernetes.default.svc.cluster.local,IP:127.0.0.1,IP:{NODE_ADDRESS},IP:{SERVICE_ADDRESS}"
    );
    sign(layout, "apiserver", "/CN=kube-apiserver", Some(&server))?;
    let client = "/O=system:masters/CN=kube-apiserver-kubelet-client";
    sign(layout, "kubelet-client", client, None)?;
    let node = format!("DNS:{NODE},IP:{NODE_ADDRESS},IP:127.0.0.1");
    for (name, subject) in USERS {
        sign(layout, name, subject, (name == "kubelet").then_some(&*node))?;
        kubeconfig(layout, name)?;
    }
    key(layout, "sa")?;
    openssl(
        layout,
        &["ec", "-in", "sa.key", "-pubout", "-out", "sa.pub"],
    )?;
    write(&layout.certificate(DONE), "")
}

fn openssl(layout: &Layout, arguments: &[&str]) -> Result<()> {
    let mut command = Command::new("openssl");
    command
        .current_dir(layout.certificate(""))
        .args(arguments)
        .stdin(Stdio::null());
    output(&mut command).map(drop)
}

fn key(layout: &Layout, name: &str) -> Result<()> {
    let file = format!("{name}.key");
    // openssl gives the file of a private key mode 0600.
    openssl(
        layout,
        &[
            "ecparam",
            "-name",
            "prime256v1",
            "-genkey",
            "-noout",
            "-out",
            &file,
        ],
    )
}

fn authority(layout: &Layout) -> Result<()> {
    key(layout, "ca")?;
    let usage = "keyUsage=critical,keyCertSign,digitalSignature";
    openssl(
        layout,
        &[
            "req",
            "-x509",
            "-new",
            "-key",
            "ca.key",
            "-subj",
            "/CN=sandbox-test-ca",
            "-days",
            DAYS,
            "-out",
            "ca.crt",
            "-addext",
            usage,
        ],
    )
}

fn sign(layout: &Layout, name: &str, subject: &str, names: Option<&str>) -> Result<()> {
    key(layout, name)?;
    let (key, request, extensions, certificate) = (
        format!("{name}.key"),
        format!("{name}.csr"),
        format!("{name}.ext"),
        format!("{name}.crt"),
    );
    openssl(
        layout,
        &[
            "req", "-new", "-key", &key, "-subj", subject, "-out", &request,
        ],
    )?;
    let mut text = String::from(
        "keyUsage=critical,digitalSignature\nextendedKeyUsage=serverAuth,clientAuth\n",
    );
    if let Some(names) = names {
        text += &format!("subjectAltName={names}\n");
    }
    write(&layout.certificate(&extensions), &text)?;
    openssl(
        layout,
        &[
            "x509",
            "-req",
            "-in",
            &request,
            "-CA",
            "ca.crt",
            "-CAkey",
            "ca.key",
            "-CAcreateserial",
            "-days",
            DAYS,
            "-extfile",
            &extensions,
            "-out",
            &certificate,
        ],
    )
}

fn kubeconfig(layout: &Layout, user: &str) -> Result<()> {
    let path = |name: String| layout.certificate(&name).display().to_string();
    // JSON is YAML.
    let text = serde_json::json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "sandbox", "cluster": {
            "server": format!("https://127.0.0.1:{API_PORT}"),
            "certificate-authority": path("ca.crt".into()),
        }}],
        "users": [{"name": user, "user": {
            "client-certificate": path(format!("{user}.crt")),
            "client-key": path(format!("{user}.key")),
        }}],
        "contexts": [{"name": "sandbox", "context": {"cluster": "sandbox", "user": user}}],
        "current-context": "sandbox",
    });
    write(&layout.kubeconfig_of(user), &format!("{text:#}\n"))
}

/// Writes a file that only its owner can read.
fn write(path: &Path, text: &str) -> Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    options
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|error| Failure::new(format!("cannot write {}: {error}", path.display())))
}
