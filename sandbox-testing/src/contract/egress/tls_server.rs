//! A web server with a certificate of its own.

use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;

use rcgen::{CertificateParams, KeyPair};
use tempfile::NamedTempFile;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

/// The server, which runs until the test program ends.
pub(crate) struct TlsServer {
    pub(crate) port: u16,
    /// Its certificate in PEM format.
    certificate: NamedTempFile,
}

impl TlsServer {
    /// A server with the certificate of `name`, which answers each request with the request's head.
    pub(super) fn start(name: &str) -> Self {
        Self::with(name, None)
    }

    /// A server with the certificate of `name` in front of one without TLS on this port.
    pub(crate) fn before(name: &str, port: u16) -> Self {
        Self::with(name, Some(port))
    }

    fn with(name: &str, forward: Option<u16>) -> Self {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new([name.to_owned()]).expect("a name");
        let certificate = params.self_signed(&key).expect("a certificate");
        let file = NamedTempFile::new().expect("a file");
        std::fs::write(&file, certificate.pem()).expect("a file");
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivateKeyDer::Pkcs8(key.serialize_der().into()),
            );
        let acceptor = TlsAcceptor::from(Arc::new(config.expect("a certificate with its key")));
        let (listener, port) = super::servers::listener();
        std::thread::spawn(move || serve(listener, &acceptor, forward));
        Self {
            port,
            certificate: file,
        }
    }

    /// The file with the authority of its certificate.
    pub(crate) fn certificate(&self) -> &Path {
        self.certificate.path()
    }
}

fn serve(listener: TcpListener, acceptor: &TlsAcceptor, forward: Option<u16>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        listener.set_nonblocking(true).expect("a listener");
        let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(mut stream) = acceptor.accept(stream).await else {
                    return;
                };
                if let Some(port) = forward {
                    let server = TcpStream::connect(("127.0.0.1", port)).await;
                    let mut server = server.expect("a server");
                    // Clients may end without a word.
                    let _ = copy_bidirectional(&mut stream, &mut server).await;
                    return;
                }
                let mut head = Vec::new();
                while let Ok(byte) = stream.read_u8().await {
                    head.push(byte);
                    if !head.ends_with(b"\r\n\r\n") {
                        continue;
                    }
                    let length = head.len();
                    let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
                    head.splice(..0, answer.into_bytes());
                    let written = stream.write_all(&head).await;
                    if written.is_err() || stream.flush().await.is_err() {
                        return;
                    }
                    head.clear();
                }
            });
        }
    });
}
