//! Images built from Dockerfiles.
//!
//! The engine's builder would pull what it does not have and fetch what `ADD` names by address, with the host's network, whatever a
//! request says. So the Dockerfile is read first: every image that it names is looked at as any other, and put in by its id, so that the
//! builder has nothing to look for; what would reach a network is refused where the request has none.

mod context;
mod dockerfile;
mod ignore;

use std::collections::{HashMap, VecDeque};
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use bollard::errors::Error as EngineError;
use bollard::models::{BuildInfo, ImageInspect};
use bollard::query_parameters::{BuildImageOptions, ListImagesOptions};
use futures_util::StreamExt;
use sandbox_core::{
    BuildRequest, Error, ErrorKind, ImageEvent, ImageInfo, ImagePattern, ImageProgress,
    ImageReference, Result, escape,
};

use super::classify::classify;
use super::find::{Wanted, look};
use super::stock::is_upset;
use super::{Puller, info, pipe};
use crate::error::{Operation, engine_error};
use crate::labels;
use context::Context;

/// How often a build is begun whose search for steps done before met an image that was being removed.
const ATTEMPTS: u32 = 20;

/// The time between two attempts.
const PAUSE: Duration = Duration::from_millis(250);

/// How Podman's words on a failed search begin. Nothing that a step printed is among them.
const CACHE: &str = "checking if cached image exists";

/// How many lines of a failed step are told.
const TOLD_LINES: usize = 20;

/// How many characters of each of them.
const TOLD_LENGTH: usize = 400;

/// The largest Dockerfile.
const LARGEST: u64 = 1 << 20;

/// A build.
pub(crate) struct Build<'a> {
    pub puller: Puller<'a>,
    pub request: &'a BuildRequest,
    /// The operator's list.
    pub allowed: Option<&'a [ImagePattern]>,
}

impl Build<'_> {
    /// Builds the image.
    ///
    /// # Errors
    ///
    /// As [`sandbox_core::SandboxClient::build_image`] says.
    pub(crate) async fn run(&self, progress: &mut ImageProgress<'_>) -> Result<ImageInfo> {
        let puller = &self.puller;
        let tag = self.tag().await?;
        let path = self.dockerfile()?;
        let text = read(&self.request.context, &path).map_err(|why| {
            let fix = "name the folder that holds the Dockerfile, and where in it with --file";
            self.invalid(why).with_fix(fix)
        })?;
        let text = self.with_ids(&path, &text, progress).await?;
        let before = puller.ids(&ListImagesOptions::default()).await?;
        let mut attempts = 1;
        let id = loop {
            match self.build(&path, &text, tag.as_ref(), progress).await {
                Ok(id) => break id,
                Err(failure) if failure.is_passing && attempts < ATTEMPTS => attempts += 1,
                Err(failure) => return Err(failure.error),
            }
            tokio::time::sleep(PAUSE).await;
        };
        let Some(image) = look(puller.tier, puller.engine, &id.parse()?).await? else {
            let context = format!("{id} was built, and the engine does not have it");
            return Err(self.error(ErrorKind::ImageBuildFailed, context));
        };
        let brought = !before.contains(&id);
        if brought {
            puller.brought.add(&id);
        }
        Ok(info(&image, brought))
    }

    /// The name of the image, where it may be given.
    async fn tag(&self) -> Result<Option<ImageReference>> {
        let Some(tag) = &self.request.tag else {
            return Ok(None);
        };
        let tag: ImageReference = tag.parse()?;
        if tag.name().is_none() || tag.digest().is_some() {
            return Err(self.invalid(format!("{tag} is no name with a tag")));
        }
        let there = look(self.puller.tier, self.puller.engine, &tag).await?;
        if there.is_some_and(|image| !info(&image, false).built) {
            let context = format!("{tag}: another image, which was not built here, has this name");
            return Err(self
                .error(ErrorKind::AlreadyExists, context)
                .with_fix("give it a name that no image has"));
        }
        Ok(Some(tag))
    }

    fn dockerfile(&self) -> Result<PathBuf> {
        let path = self.request.dockerfile.clone();
        let path = path.unwrap_or_else(|| "Dockerfile".into());
        let plain = path
            .components()
            .all(|part| matches!(part, Component::Normal(_)));
        match plain && path.to_str().is_some() {
            true => Ok(path),
            false => Err(self.invalid(format!("{path:?} is no path within the context"))),
        }
    }

    /// The Dockerfile with the images that it names replaced by their ids.
    async fn with_ids(
        &self,
        path: &Path,
        text: &str,
        progress: &mut ImageProgress<'_>,
    ) -> Result<String> {
        let network = self.request.network;
        let uses = dockerfile::images(text, &self.request.args, network);
        let mut uses = uses.map_err(|why| self.invalid(format!("{}: {why}", path.display())))?;
        let mut ids = HashMap::new();
        for used in &uses {
            if !ids.contains_key(&used.name) {
                let image = self.base(&used.name, progress).await?;
                ids.insert(used.name.clone(), image.id.unwrap_or_default());
            }
        }
        let mut text = text.to_owned();
        uses.sort_by_key(|used| used.span.start);
        for used in uses.into_iter().rev() {
            text.replace_range(used.span, &ids[&used.name]);
        }
        Ok(text)
    }

    /// An image that the build starts or copies from.
    async fn base(&self, name: &str, progress: &mut ImageProgress<'_>) -> Result<ImageInspect> {
        let reference: ImageReference = name.parse()?;
        let allowed = self.allowed;
        if allowed.is_some_and(|allowed| !allowed.iter().any(|rule| rule.matches(&reference))) {
            let rules = allowed.iter().copied().flatten().map(ToString::to_string);
            let rules = rules.collect::<Vec<_>>().join(", ");
            let context = format!(
                "the Dockerfile names {reference}, which is none of the policy's images = [{rules}]"
            );
            return Err(self
                .error(ErrorKind::PolicyExceeded, context)
                .with_fix("start from an image that the policy names"));
        }
        let wanted = Wanted {
            reference,
            written: allowed.is_none().then_some(name),
        };
        let provided = self.puller.provide(&wanted, self.request.pull, progress);
        let (image, _) = provided.await?;
        let triggers = image
            .config
            .as_ref()
            .and_then(|config| config.on_build.clone());
        for trigger in triggers.into_iter().flatten() {
            let fragment = format!("FROM scratch\n{trigger}\n");
            let network = self.request.network;
            let refused = match dockerfile::images(&fragment, &self.request.args, network) {
                Ok(uses) if uses.is_empty() => continue,
                Ok(_) => "it names another image".to_owned(),
                Err(why) => why,
            };
            let context = format!("{name} adds {trigger:?} to the build: {refused}");
            return Err(self.invalid(context));
        }
        Ok(image)
    }

    /// Has the engine build; gives the image's id.
    async fn build(
        &self,
        path: &Path,
        text: &str,
        tag: Option<&ImageReference>,
        progress: &mut ImageProgress<'_>,
    ) -> Result<String, Failure> {
        let Puller { engine, config, .. } = self.puller;
        let request = self.request;
        let options = BuildImageOptions {
            dockerfile: path.to_string_lossy().into_owned(),
            t: tag.map(ToString::to_string),
            nocache: !request.cache,
            rm: true,
            forcerm: true,
            buildargs: Some(request.args.clone().into_iter().collect()),
            labels: Some(HashMap::from([(
                labels::BUILT.to_owned(),
                env!("CARGO_PKG_VERSION").to_owned(),
            )])),
            networkmode: (!request.network).then(|| {
                let family = self.puller.tier.family;
                family.no_network_in_builds.to_owned()
            }),
            target: request.target.clone().unwrap_or_default(),
            ..BuildImageOptions::default()
        };
        let context = Context::open(&request.context, path, text.to_owned());
        let context = context.map_err(|why| self.invalid(why))?;
        let (writer, archive) = pipe::writer();
        let sending = tokio::task::spawn_blocking(move || context.send(writer));
        progress(&ImageEvent::Building);
        let limit = config.image_timeout;
        let client = engine.client.clone().with_timeout(limit);
        let mut output = Output::default();
        let events = async {
            let body = bollard::body_try_stream(archive);
            let mut events = Box::pin(client.build_image(options, None, Some(body)));
            while let Some(event) = events.next().await {
                output.take(event?, progress);
            }
            Ok(())
        };
        let built = tokio::time::timeout(limit, events).await;
        // The engine only says that its request broke; we know why.
        if let Ok(Some(why)) = sending.await {
            return Err(self.invalid(why).into());
        }
        match built {
            Ok(Ok(())) => output.id.ok_or_else(|| {
                let context = format!("the builder gave no image{}", output.told);
                self.error(ErrorKind::ImageBuildFailed, context).into()
            }),
            Ok(Err(error)) => Err(self.failed(error, &output)),
            Err(_) => {
                let context = format!("the image was not built after {limit:?}{}", output.told);
                let error = self.error(ErrorKind::ImageTimedOut, context);
                Err(error.with_fix("allow more time (image_timeout)").into())
            }
        }
    }

    fn failed(&self, error: EngineError, output: &Output) -> Failure {
        let said = match &error {
            EngineError::DockerStreamError { error } => error.trim(),
            EngineError::DockerResponseServerError { message, .. } => message.trim(),
            _ => return engine_error(self.puller.tier, Operation::Build, error).into(),
        };
        let is_passing = said.starts_with(CACHE) && is_upset(said);
        let kind = match classify(said) {
            Some(ErrorKind::StorageFull) => ErrorKind::StorageFull,
            _ => ErrorKind::ImageBuildFailed,
        };
        Failure {
            error: self.error(kind, format!("{}{}", escape(said), output.told)),
            is_passing,
        }
    }

    fn invalid(&self, context: impl Into<String>) -> Error {
        self.error(ErrorKind::InvalidRequest, context.into())
    }

    fn error(&self, kind: ErrorKind, context: String) -> Error {
        Error::new(kind, "build image", context).on(self.puller.tier)
    }
}

fn read(context: &Path, path: &Path) -> Result<String, String> {
    let failed = |why: &dyn std::fmt::Display| format!("{}: {why}", context.join(path).display());
    let root = context.canonicalize().map_err(|why| failed(&why))?;
    let file = root.join(path).canonicalize().map_err(|why| failed(&why))?;
    if !file.starts_with(&root) {
        return Err(failed(&"leads out of the context"));
    }
    let facts = file.metadata().map_err(|why| failed(&why))?;
    if !facts.is_file() || facts.len() > LARGEST {
        return Err(failed(&"is no file of at most 1 MiB"));
    }
    std::fs::read_to_string(file).map_err(|why| failed(&why))
}

/// A build that failed.
#[derive(Debug)]
struct Failure {
    error: Error,
    /// The same build may succeed at once.
    is_passing: bool,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self {
            error,
            is_passing: false,
        }
    }
}

/// What a build has said.
#[derive(Debug, Default)]
struct Output {
    id: Option<String>,
    told: Told,
}

/// The last lines of the step that runs.
#[derive(Debug, Default)]
struct Told {
    lines: VecDeque<String>,
    /// What no line end has come for.
    rest: String,
}

impl Output {
    fn take(&mut self, event: BuildInfo, progress: &mut ImageProgress<'_>) {
        if let Some(id) = event.aux.and_then(|aux| aux.id) {
            self.id = Some(id);
        }
        if let Some(text) = event.stream {
            self.told.take(&text);
            progress(&ImageEvent::Output { text });
        }
    }
}

impl Told {
    fn take(&mut self, text: &str) {
        self.rest.push_str(text);
        while let Some(end) = self.rest.find('\n') {
            let line = self.rest.drain(..=end).collect::<String>();
            self.line(line.trim_end());
        }
        // Output without an end of line is kept as far as it is told.
        if self.rest.len() > 16 * TOLD_LENGTH {
            let line = std::mem::take(&mut self.rest);
            self.line(&line);
        }
    }

    fn line(&mut self, line: &str) {
        let step = line
            .strip_prefix("Step ")
            .or_else(|| line.strip_prefix("STEP "));
        if step.is_some_and(|step| step.starts_with(|c: char| c.is_ascii_digit())) {
            self.lines.clear();
        }
        self.lines
            .push_back(line.chars().take(TOLD_LENGTH).collect());
        if self.lines.len() > TOLD_LINES {
            self.lines.pop_front();
        }
    }
}

impl std::fmt::Display for Told {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let rest = [self.rest.clone()];
        let lines = self.lines.iter().chain(&rest).map(|line| line.trim());
        let lines = lines.filter(|line| !line.is_empty()).map(escape);
        let lines = lines.collect::<Vec<_>>().join(" | ");
        match lines.is_empty() {
            true => Ok(()),
            false => write!(f, "; the step's last lines: {lines}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_those_of_the_step_that_failed() {
        let mut told = Told::default();
        for text in [
            "Step 1/2 : RUN a",
            "\n",
            "old\n",
            "Step 2/2 : RUN b\nnew \x1b[31m",
            "er\n",
            "end",
        ] {
            told.take(text);
        }
        let text = told.to_string();
        assert!(
            text.contains("Step 2/2 : RUN b | new") && text.ends_with("| end"),
            "{text}"
        );
        assert!(!text.contains("old") && !text.contains('\x1b'), "{text}");
        let many = "line\n".repeat(1000) + &"x".repeat(1 << 20);
        told.take(&many);
        assert!(told.to_string().len() < TOLD_LINES * (TOLD_LENGTH + 10) + 16 * TOLD_LENGTH + 100);
    }
}
