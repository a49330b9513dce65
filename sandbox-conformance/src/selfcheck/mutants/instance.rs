//! The sandboxes of an [`super::altered::AlteredBackend`].

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use sandbox_core::policy::EgressRules;
use sandbox_core::spi::{
    ControlReceiver, Input, Instance, OutputSink, PlaceholderSecret, Source, TrustedCertificates,
};
use sandbox_core::{
    ArtifactLimits, Copied, EnforcementReport, Error, ErrorKind, ExecEnd, ExecRequest, Export,
    FileEntry, Outcome, Result,
};

use super::altered::{Alteration, ExecAlteration, ExportAlteration, SecretAlteration};
use super::sinks::{AlteredSink, ForwardingSink, forward};
use crate::egress_server::EgressServer;
use crate::name_server::OPEN;

/// The extra time of an execution that must not end at its limit.
const LONGER: Duration = Duration::from_secs(8);

/// The longest time limit for which only the process group is killed. Only probes of limits use so
/// short ones.
const SHORT: Duration = Duration::from_secs(2);

/// Runs a program, kills its process group at the time limit, and then keeps the execution open.
const GROUP_KILLER: &str =
    "timeout -s KILL \"$0\" \"$@\"; code=$?; [ $code = 137 ] && exec sleep 8; exit $code";

/// Removes the exported files whose names begin with a dot.
fn remove_hidden(export: &mut Export) -> std::io::Result<()> {
    let is_hidden = |path: &Path| path.file_name().is_some_and(|it| it.as_bytes()[0] == b'.');
    for artifact in export.artifacts.extract_if(.., |it| is_hidden(&it.path)) {
        std::fs::remove_file(&artifact.path)?;
    }
    Ok(())
}

/// An exported file: name and content.
type ExportedFile = (std::ffi::OsString, Vec<u8>);

/// A sandbox that alters results.
pub(super) struct AlteredInstance {
    instance: Arc<dyn Instance>,
    alteration: Alteration,
    claims: EnforcementReport,
    first_export: Mutex<Option<Vec<ExportedFile>>>,
    /// The variables of all executions.
    variables: Mutex<BTreeMap<String, String>>,
}

impl AlteredInstance {
    pub(super) fn new(
        instance: Arc<dyn Instance>,
        alteration: Alteration,
        claims: EnforcementReport,
    ) -> Self {
        Self {
            instance,
            alteration,
            claims,
            first_export: Mutex::new(None),
            variables: Mutex::default(),
        }
    }

    /// Runs the execution in a separate task that only the end of the sandbox stops.
    async fn exec_apart(
        &self,
        request: ExecRequest,
        input: Input,
        limit: Duration,
        sink: &mut dyn OutputSink,
    ) -> Result<ExecEnd> {
        let (forwarding, pieces) = ForwardingSink::new();
        let instance = Arc::clone(&self.instance);
        let running = tokio::spawn(async move {
            let mut forwarding = forwarding;
            instance.exec(&request, input, &mut forwarding).await
        });
        let results = async {
            forward(pieces, sink).await;
            running.await
        };
        match tokio::time::timeout(limit, results).await {
            Ok(Ok(end)) => end,
            Ok(Err(panicked)) => Err(Error::new(ErrorKind::Io, "execute", panicked.to_string())),
            Err(_) => Ok(ExecEnd::new(Outcome::TimedOut)),
        }
    }

    /// Stores the files of the first export, and writes them over those of later exports.
    fn make_stale(&self, folder: &Path) -> std::io::Result<()> {
        let mut first = self
            .first_export
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        match &*first {
            None => {
                let mut files = Vec::new();
                for entry in std::fs::read_dir(folder)?.flatten() {
                    if entry.path().is_file() {
                        files.push((entry.file_name(), std::fs::read(entry.path())?));
                    }
                }
                *first = Some(files);
            }
            Some(files) => {
                for (name, content) in files {
                    std::fs::write(folder.join(name), content)?;
                }
            }
        }
        Ok(())
    }
}

#[async_trait]
impl Instance for AlteredInstance {
    fn enforcement(&self) -> &EnforcementReport {
        &self.claims
    }

    fn temporary_folder(&self) -> &str {
        self.instance.temporary_folder()
    }

    async fn exec(
        &self,
        request: &ExecRequest,
        mut input: Input,
        sink: &mut dyn OutputSink,
    ) -> Result<ExecEnd> {
        let mut request = request.clone();
        (self.alteration.request)(&mut request);
        let limit = request.timeout.unwrap_or(Duration::MAX);
        let mut sink = AlteredSink::new(sink, self.alteration.exec);
        let mut end = match self.alteration.exec {
            ExecAlteration::GoesOn => {
                request.timeout = Some(limit.saturating_add(LONGER));
                self.exec_apart(request, input, limit, &mut sink).await?
            }
            ExecAlteration::GroupKilled if limit <= SHORT => {
                let mut argv: Vec<Vec<u8>> = ["/bin/sh", "-c", GROUP_KILLER].map(Into::into).into();
                argv.push(limit.as_secs_f64().to_string().into_bytes());
                argv.append(&mut request.argv);
                request.argv = argv;
                request.timeout = Some(limit.saturating_add(LONGER));
                self.exec_apart(request, input, limit, &mut sink).await?
            }
            exec => {
                if exec == ExecAlteration::NoInput {
                    input.stdin = None;
                }
                if exec == ExecAlteration::Deaf {
                    input.control = ControlReceiver::default();
                }
                if exec == ExecAlteration::KeepsVariables {
                    let mut kept = self
                        .variables
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner);
                    kept.append(&mut request.env);
                    request.env.clone_from(&kept);
                }
                if exec == ExecAlteration::PatientWithInput && input.stdin.is_some() {
                    request.timeout = Some(limit.saturating_mul(3));
                }
                self.instance.exec(&request, input, &mut sink).await?
            }
        };
        let exceeds = matches!(
            end.outcome,
            Outcome::TimedOut | Outcome::OutOfMemory | Outcome::OutputLimit
        );
        if self.alteration.exec == ExecAlteration::EndsSandbox && exceeds {
            self.instance.kill().await?;
        }
        (self.alteration.end)(&mut end);
        Ok(end)
    }

    async fn put(&self, path: &str, mode: u32, content: Source) -> Result<()> {
        let mode = match self.alteration.exec {
            // The probe program stays executable.
            ExecAlteration::SameMode if mode & 0o111 == 0 => 0o644,
            _ => mode,
        };
        self.instance.put(path, mode, content).await
    }

    async fn stat(&self, path: &str) -> Result<Option<FileEntry>> {
        self.instance.stat(path).await
    }

    async fn list_dir(&self, path: &str) -> Result<Vec<FileEntry>> {
        self.instance.list_dir(path).await
    }

    async fn make_dir(&self, path: &str, mode: u32) -> Result<()> {
        self.instance.make_dir(path, mode).await
    }

    async fn remove(&self, path: &str) -> Result<()> {
        self.instance.remove(path).await
    }

    async fn fetch(&self, path: &str, sink: &mut dyn OutputSink) -> Result<()> {
        let mut sink = AlteredSink::new(sink, self.alteration.exec);
        self.instance.fetch(path, &mut sink).await
    }

    async fn copy_in(&self, source: &Path, target: &str) -> Result<Copied> {
        self.instance.copy_in(source, target).await
    }

    async fn copy_out(
        &self,
        source: &str,
        target: &Path,
        limits: ArtifactLimits,
    ) -> Result<Copied> {
        self.instance.copy_out(source, target, limits).await
    }

    async fn export(
        &self,
        paths: &[String],
        folder: &Path,
        mut limits: ArtifactLimits,
    ) -> Result<Export> {
        if self.alteration.exports == ExportAlteration::TwiceAsMany {
            limits.count *= 2;
        }
        let mut export = self.instance.export(paths, folder, limits).await?;
        match self.alteration.exports {
            ExportAlteration::Stale => self.make_stale(folder),
            ExportAlteration::NotHidden => remove_hidden(&mut export),
            ExportAlteration::Straight | ExportAlteration::TwiceAsMany => Ok(()),
        }
        .map_err(|error| Error::new(ErrorKind::Io, "export", error.to_string()))?;
        Ok(export)
    }

    async fn logs(&self, tail: Option<u32>) -> Result<Vec<u8>> {
        self.instance.logs(tail).await
    }

    async fn follow_logs(&self, tail: Option<u32>, sink: &mut dyn OutputSink) -> Result<()> {
        self.instance.follow_logs(tail, sink).await
    }

    async fn set_egress(&self, rules: EgressRules) -> Result<()> {
        match self.alteration.keeps_rules {
            true => Ok(()),
            false => self.instance.set_egress(rules).await,
        }
    }

    async fn trusted_certificates(&self) -> Result<Option<TrustedCertificates>> {
        self.instance.trusted_certificates().await
    }

    async fn add_placeholder(&self, mut secret: PlaceholderSecret) -> Result<String> {
        match self.alteration.secrets {
            SecretAlteration::Straight => (),
            SecretAlteration::Told => {
                let value = secret.value.expose().to_vec();
                return String::from_utf8(value)
                    .map_err(|error| Error::new(ErrorKind::Io, "use secret", error.to_string()));
            }
            SecretAlteration::ForAllHosts => {
                let others = format!("*.{OPEN}:{}", EgressServer::get().secure);
                secret.hosts.push(others.parse()?);
            }
        }
        self.instance.add_placeholder(secret).await
    }

    fn remove_placeholder(&self, text: &str) {
        self.instance.remove_placeholder(text);
    }

    async fn stop(&self, grace: Duration) -> Result<()> {
        self.instance.stop(grace).await
    }

    async fn kill(&self) -> Result<()> {
        if self.alteration.recycled {
            return Ok(());
        }
        if self.alteration.immortal {
            // Delayed, because nothing may outlive the suite.
            let instance = Arc::clone(&self.instance);
            tokio::spawn(async move {
                tokio::time::sleep(LONGER).await;
                instance.kill().await
            });
            return Ok(());
        }
        self.instance.kill().await
    }
}
