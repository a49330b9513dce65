//! A backend without isolation: it runs commands on the host, passes on its environment and
//! descriptors, applies no limit, follows every link, and claims to enforce everything.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use sandbox_core::spi::{Backend, Finding, Input, Instance, OutputSink, OutputStream, Source};
use sandbox_core::{
    ArtifactLimits, Copied, EnforcementReport, Error, ErrorKind, ExecEnd, ExecRequest, Export,
    Plan, Result,
};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;

use super::scripted::claims;
use crate::host;

/// A backend without isolation, for the self-check alone.
#[derive(Debug, Clone, Copy)]
pub struct OpenBackend;

#[async_trait]
impl Backend for OpenBackend {
    fn name(&self) -> &str {
        "open"
    }

    async fn assess(&self, plan: &Plan) -> Result<EnforcementReport> {
        Ok(claims(plan))
    }

    async fn create(&self, plan: &Plan) -> Result<Box<dyn Instance>> {
        let exported = |path: &String| {
            let folder = Path::new(path).parent()?;
            Some(on_host(plan.workspace.as_ref().map(|it| &*it.path), folder))
        };
        Ok(Box::new(OpenInstance {
            claims: claims(plan),
            env: plan.env.clone().into_iter().collect(),
            exported: plan.export_paths.iter().filter_map(exported).collect(),
            workspace: plan.workspace.as_ref().map(|it| it.path.clone()),
            made: Mutex::default(),
        }))
    }

    async fn diagnose(&self) -> Vec<Finding> {
        Vec::new()
    }

    async fn profile(&self) -> Result<Vec<(String, String)>> {
        Ok(vec![("backend".into(), "open".into())])
    }
}

/// Maps `/workspace` to a host folder.
fn on_host(workspace: Option<&Path>, path: &Path) -> PathBuf {
    match (workspace, path.strip_prefix("/workspace")) {
        (Some(folder), Ok(below)) => folder.join(below),
        _ => path.to_owned(),
    }
}

struct OpenInstance {
    claims: EnforcementReport,
    env: Vec<(String, String)>,
    exported: BTreeSet<PathBuf>,
    /// The host folder that stands for `/workspace`.
    workspace: Option<PathBuf>,
    made: Mutex<BTreeSet<PathBuf>>,
}

impl Drop for OpenInstance {
    fn drop(&mut self) {
        let made = std::mem::take(&mut *self.made.lock().unwrap_or_else(PoisonError::into_inner));
        for path in &made {
            // Another instance of the same run may have removed it.
            let _ = std::fs::remove_file(path);
        }
        for folder in made
            .iter()
            .filter_map(|path| path.parent())
            .chain(self.exported.iter().map(PathBuf::as_path))
        {
            // The folder stays while other instances have files in it.
            let _ = std::fs::remove_dir(folder);
        }
    }
}

impl OpenInstance {
    fn argument(&self, bytes: &[u8]) -> OsString {
        on_host(self.workspace.as_deref(), OsStr::from_bytes(bytes).as_ref()).into()
    }
}

fn failed(operation: &'static str, error: &std::io::Error) -> Error {
    let kind = match error.kind() {
        std::io::ErrorKind::NotFound => ErrorKind::ProgramNotFound,
        _ => ErrorKind::Io,
    };
    Error::new(kind, operation, error.to_string()).on("open")
}

#[async_trait]
impl Instance for OpenInstance {
    fn enforcement(&self) -> &EnforcementReport {
        &self.claims
    }

    async fn exec(
        &self,
        request: &ExecRequest,
        input: Input,
        sink: &mut dyn OutputSink,
    ) -> Result<ExecEnd> {
        let failed = |error: &std::io::Error| failed("execute", error);
        let mut command = Command::new(self.argument(&request.argv[0]));
        let arguments = request.argv[1..].iter();
        command.args(arguments.map(|argument| self.argument(argument)));
        command
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .envs(&request.env);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        if let Some(workdir) = &request.workdir {
            command.current_dir(workdir);
        }
        let mut child = host::start(&mut command)
            .await
            .map_err(|error| failed(&error))?;
        sink.started().await;
        if let (Some(mut input), Some(mut source)) = (child.stdin.take(), input.stdin) {
            // The program may end without reading all input.
            tokio::spawn(async move { tokio::io::copy(&mut source, &mut input).await });
        }
        let pipes = (child.stdout.take(), child.stderr.take());
        if let (Some(stdout), Some(stderr)) = pipes {
            copy(stdout, stderr, sink)
                .await
                .map_err(|error| failed(&error))?;
        }
        let status = child.wait().await.map_err(|error| failed(&error))?;
        Ok(ExecEnd::new(host::outcome(status)))
    }

    async fn put(&self, path: &str, mode: u32, mut content: Source) -> Result<()> {
        let failed = |error: &std::io::Error| failed("write file", error);
        let path = Path::new(path);
        let mut bytes = Vec::new();
        content
            .read_to_end(&mut bytes)
            .await
            .map_err(|error| failed(&error))?;
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(|error| failed(&error))?;
        }
        std::fs::write(path, bytes).map_err(|error| failed(&error))?;
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(path, mode).map_err(|error| failed(&error))?;
        self.made
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(path.to_owned());
        Ok(())
    }

    async fn fetch(&self, path: &str, sink: &mut dyn OutputSink) -> Result<()> {
        let content = std::fs::read(path).map_err(|error| failed("read file", &error))?;
        sink.write(OutputStream::Stdout, &content).await;
        Ok(())
    }

    async fn copy_in(&self, source: &Path, target: &str) -> Result<Copied> {
        let failed = |error: &std::io::Error| failed("copy into sandbox", error);
        // A new thread reads the file: a FIFO would block this one.
        tokio::fs::copy(source, target)
            .await
            .map_err(|error| failed(&error))?;
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        made.insert(target.into());
        Ok(Copied::default())
    }

    async fn export(&self, _: &[String], folder: &Path, _: ArtifactLimits) -> Result<Export> {
        for exported in &self.exported {
            let entries = std::fs::read_dir(exported).map_err(|error| failed("export", &error))?;
            for entry in entries.flatten().filter(|entry| entry.path().is_file()) {
                std::fs::copy(entry.path(), folder.join(entry.file_name()))
                    .map_err(|error| failed("export", &error))?;
            }
        }
        Ok(Export::default())
    }

    async fn logs(&self, _: Option<u32>) -> Result<Vec<u8>> {
        Ok(Vec::new())
    }

    async fn stop(&self, _: Duration) -> Result<()> {
        Ok(())
    }

    async fn kill(&self) -> Result<()> {
        Ok(())
    }
}

/// Copies both streams to their ends, even if the receiver asks to stop.
async fn copy(
    mut stdout: impl AsyncRead + Unpin,
    mut stderr: impl AsyncRead + Unpin,
    sink: &mut dyn OutputSink,
) -> std::io::Result<()> {
    let (mut out, mut error) = (vec![0; 65536], vec![0; 65536]);
    let mut open = (true, true);
    while open.0 || open.1 {
        tokio::select! {
            read = stdout.read(&mut out), if open.0 => {
                let length = read?;
                open.0 = length > 0;
                sink.write(OutputStream::Stdout, &out[..length]).await;
            }
            read = stderr.read(&mut error), if open.1 => {
                let length = read?;
                open.1 = length > 0;
                sink.write(OutputStream::Stderr, &error[..length]).await;
            }
        }
    }
    Ok(())
}
