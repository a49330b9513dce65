//! A backend with faults.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use sandbox_core::spi::{Backend, Finding, Input, Instance, Source};
use sandbox_core::{
    Artifact, ArtifactLimits, Capability, CapabilityPolicy, Enforcement, EnforcementReport, Error,
    ErrorKind, ExecEnd, ExecRequest, Export, Flow, Outcome, OutputSink, OutputStream, Plan, Result,
    SandboxClient, SkipReason, SkippedArtifact,
};
use tokio::io::AsyncReadExt as _;

/// How many bytes of a file each call of the sink gets.
const PIECE: usize = 40;

/// A backend whose sandboxes have one fault. It counts its sandboxes and stores their files.
#[derive(Clone, Default)]
pub struct Faulty {
    fault: Fault,
    created: Arc<AtomicUsize>,
    killed: Arc<AtomicUsize>,
    files: Arc<Mutex<BTreeMap<String, Vec<u8>>>>,
}

#[derive(Clone, Copy, Default, PartialEq)]
pub enum Fault {
    #[default]
    None,
    /// The assessment promises more than the sandbox enforces.
    Boasts,
    /// An execution never ends.
    Hangs,
    /// An execution fails.
    Fails,
    /// An execution writes without end.
    Floods,
    /// The sandbox cannot be removed.
    Stays,
    /// An execution ends a minute after its time limit, in an instance with its own limit.
    Late,
    /// An execution ends right after this process was stopped for 100 s.
    Stopped,
    /// The export gives a file.
    Exports,
}

impl Faulty {
    pub fn new(fault: Fault) -> Self {
        Self {
            fault,
            ..Self::default()
        }
    }

    pub fn client(&self, policy: CapabilityPolicy) -> SandboxClient {
        SandboxClient::with_backend(Arc::new(self.clone()), policy).unwrap()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Vec<u8>>> {
        self.files.lock().unwrap()
    }

    pub fn counts(&self) -> (usize, usize) {
        (
            self.created.load(Ordering::SeqCst),
            self.killed.load(Ordering::SeqCst),
        )
    }
}

#[async_trait]
impl Backend for Faulty {
    fn name(&self) -> &str {
        "faulty"
    }

    async fn assess(&self, _plan: &Plan) -> Result<EnforcementReport> {
        Ok(super::report(&[]))
    }

    async fn create(&self, _plan: &Plan) -> Result<Box<dyn Instance>> {
        self.created.fetch_add(1, Ordering::SeqCst);
        let weaker = (
            Capability::NetworkAccess,
            Enforcement::unenforced("not available"),
        );
        let report = if self.fault == Fault::Boasts {
            super::report(&[weaker])
        } else {
            super::report(&[])
        };
        Ok(Box::new(FaultyInstance {
            backend: self.clone(),
            report,
        }))
    }

    async fn diagnose(&self) -> Vec<Finding> {
        Vec::new()
    }

    async fn profile(&self) -> Result<Vec<(String, String)>> {
        Ok(Vec::new())
    }
}

struct FaultyInstance {
    backend: Faulty,
    report: EnforcementReport,
}

#[async_trait]
impl Instance for FaultyInstance {
    fn enforcement(&self) -> &EnforcementReport {
        &self.report
    }

    async fn exec(
        &self,
        request: &ExecRequest,
        _input: Input,
        sink: &mut dyn OutputSink,
    ) -> Result<ExecEnd> {
        sink.write(OutputStream::Stdout, b"first line\n").await;
        match self.backend.fault {
            Fault::Hangs => std::future::pending().await,
            Fault::Late => {
                tokio::time::sleep(request.timeout.unwrap() + Duration::from_secs(60)).await;
                Ok(ExecEnd::new(Outcome::Exited { code: 0 }))
            }
            Fault::Stopped => {
                tokio::time::advance(Duration::from_secs(100)).await;
                // The end arrived while the process was stopped, and is read a moment later.
                tokio::time::sleep(Duration::from_millis(10)).await;
                Ok(ExecEnd::new(Outcome::Exited { code: 0 }))
            }
            Fault::Fails => Err(Error::new(ErrorKind::Protocol, "execute", "garbage")),
            Fault::Floods => {
                let piece = vec![b'x'; 64 * 1024];
                // A terabyte, unless the sink stops it.
                for _ in 0..1 << 24 {
                    if sink.write(OutputStream::Stdout, &piece).await == Flow::Stop {
                        return Ok(ExecEnd::new(Outcome::OutputLimit));
                    }
                }
                Ok(ExecEnd::new(Outcome::Exited { code: 0 }))
            }
            _ => Ok(ExecEnd::new(Outcome::Exited { code: 0 })),
        }
    }

    fn bounds_executions(&self) -> bool {
        self.backend.fault == Fault::Late
    }

    async fn put(&self, path: &str, mode: u32, mut content: Source) -> Result<()> {
        let mut bytes = format!("{mode:o} ").into_bytes();
        let read = content.read_to_end(&mut bytes).await;
        read.map_err(|error| Error::new(ErrorKind::Io, "read content", error.to_string()))?;
        self.backend.lock().insert(path.to_owned(), bytes);
        Ok(())
    }

    async fn fetch(&self, path: &str, sink: &mut dyn OutputSink) -> Result<()> {
        let bytes = self.backend.lock().get(path).cloned();
        let missing = || Error::new(ErrorKind::Path, "read file", "no such file");
        for piece in bytes.ok_or_else(missing)?.chunks(PIECE) {
            if sink.write(OutputStream::Stdout, piece).await == Flow::Stop {
                break;
            }
        }
        Ok(())
    }

    async fn export(
        &self,
        paths: &[String],
        folder: &Path,
        _limits: ArtifactLimits,
    ) -> Result<Export> {
        if self.backend.fault == Fault::Exports {
            assert_eq!(
                self.backend.counts().1,
                0,
                "the sandbox was removed before the export"
            );
            let path = folder.join("report.txt");
            let artifact = Artifact::new(path, paths[0].clone(), 1, None, String::new());
            return Ok(Export {
                artifacts: vec![artifact],
                skipped: vec![SkippedArtifact {
                    source: paths[1].clone(),
                    reason: SkipReason::Missing,
                }],
                ..Export::default()
            });
        }
        Err(Error::new(
            ErrorKind::Io,
            "export",
            "there is nothing to export",
        ))
    }

    async fn logs(&self, _tail: Option<u32>) -> Result<Vec<u8>> {
        Ok(Vec::new())
    }

    async fn stop(&self, _grace: Duration) -> Result<()> {
        self.kill().await
    }

    async fn kill(&self) -> Result<()> {
        self.backend.killed.fetch_add(1, Ordering::SeqCst);
        match self.backend.fault {
            Fault::Stays => Err(Error::new(
                ErrorKind::Io,
                "remove sandbox",
                "it is still there",
            )),
            _ => Ok(()),
        }
    }
}
