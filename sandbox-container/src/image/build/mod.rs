//! Builds images from Dockerfiles.
//!
//! The engine's builder would pull missing images and fetch addresses in `ADD`, over the host's
//! network, regardless of the request. So the Dockerfile is read first. Each image in it is checked
//! like any other and replaced by its id, so the builder pulls nothing. Anything that needs a
//! network is refused if the request grants none.
//!
//! Builders disagree on what a Dockerfile means. So the original text is never sent: the sent text
//! is written from the checked instructions, in a form that every builder reads alike. The steps
//! that the builder then announces are compared with it.

mod arguments;
mod beneath;
mod context;
mod dockerfile;
mod flags;
mod ignore;
mod lines;
mod output;
mod steps;

use std::collections::{HashMap, HashSet};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bollard::errors::Error as EngineError;
use bollard::models::ImageInspect;
use bollard::query_parameters::{BuildImageOptions, ListImagesOptions};
use futures_util::StreamExt;
use sandbox_core::spi::escape;
use sandbox_core::{
    BuildRequest, Error, ErrorKind, ImageEvent, ImageInfo, ImagePattern, ImageProgress,
    ImageReference, Result,
};

use super::classify::classify;
use super::find::{RequestedImage, inspect_named};
use super::list::is_concurrent_removal;
use super::{Puller, info, pipe};
use crate::error::{Operation, engine_error};
use crate::{labels, removal};
use context::BuildContext;
use dockerfile::Recipe;
use output::BuildOutput;
use steps::ExpectedSteps;

/// Attempts of a build whose cache lookup hit an image that was being removed.
const ATTEMPTS: u32 = 20;

/// The time between two attempts.
const PAUSE: Duration = Duration::from_millis(250);

/// Prefix of Podman's message for a failed cache lookup. A step's output cannot have it.
const CACHE_LOOKUP_FAILED: &str = "checking if cached image exists";

/// A build request and its context.
pub(crate) struct Build<'a> {
    pub puller: Puller<'a>,
    pub request: &'a BuildRequest,
    /// The policy's image list.
    pub allowed: Option<&'a [ImagePattern]>,
}

impl Build<'_> {
    /// Builds the image.
    ///
    /// # Errors
    ///
    /// See [`sandbox_core::SandboxClient::build_image`].
    pub(crate) async fn run(&self, progress: &mut ImageProgress<'_>) -> Result<ImageInfo> {
        let puller = &self.puller;
        let tag = self.tag().await?;
        let path = self.dockerfile()?;
        let request = self.request;
        let opened = BuildContext::open(&request.context, path.clone(), request.follow_links);
        let (context, text) = opened.map_err(|why| {
            let fix = "name the folder that holds the Dockerfile, and where in it with --file";
            self.invalid(why).with_fix(fix)
        })?;
        let checked = self.check(&path, &text, progress).await?;
        let context = Arc::new(context);
        let before = puller.ids(&ListImagesOptions::default()).await?;
        let mut attempts = 1;
        let id = loop {
            let built = self.build(&path, &context, &checked, tag.as_ref(), progress);
            match built.await {
                Ok(id) => break id,
                Err(failure) if failure.is_transient && attempts < ATTEMPTS => attempts += 1,
                Err(failure) => return Err(self.remove_created_image(failure, &before).await),
            }
            tokio::time::sleep(PAUSE).await;
        };
        let Some(image) = inspect_named(puller.tier, puller.engine, &id.parse()?).await? else {
            let context = format!("{id} was built, but the engine does not have it");
            return Err(self.error(ErrorKind::ImageBuildFailed, context));
        };
        let is_new = !before.contains(&id);
        if is_new {
            puller.pulled.add(&id);
        }
        Ok(info(&image, is_new))
    }

    /// The name of the new image, if requested.
    ///
    /// # Errors
    ///
    /// `AlreadyExists` if an image that was not built here has the name.
    async fn tag(&self) -> Result<Option<ImageReference>> {
        let Some(tag) = &self.request.tag else {
            return Ok(None);
        };
        let tag: ImageReference = tag.parse()?;
        if tag.name().is_none() || tag.digest().is_some() {
            return Err(self.invalid(format!("{tag} is no name with a tag")));
        }
        let there = inspect_named(self.puller.tier, self.puller.engine, &tag).await?;
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
        let is_plain = path
            .components()
            .all(|part| matches!(part, Component::Normal(_)));
        if !is_plain || path.to_str().is_none() {
            return Err(self.invalid(format!("{path:?} is no path within the context")));
        }
        if path.as_os_str().as_bytes().ends_with(b".in") {
            let context = format!(
                "{path:?}: Podman gives files whose names end in .in to the C preprocessor"
            );
            let error = self.invalid(context);
            return Err(
                error.with_fix("rename the file: what is checked would not be what is built")
            );
        }
        Ok(path.components().collect())
    }

    /// Checks the Dockerfile, and finds or pulls its images.
    async fn check(
        &self,
        path: &Path,
        text: &str,
        progress: &mut ImageProgress<'_>,
    ) -> Result<CheckedDockerfile> {
        let named = |why: String| self.invalid(format!("{}: {why}", path.display()));
        let request = self.request;
        let recipe = dockerfile::read(text, &request.args, request.network).map_err(named)?;
        for note in &recipe.notes {
            let text = format!("{}: {note}", path.display());
            progress(&ImageEvent::Note { text });
        }
        let mut target = None;
        if let Some(name) = &request.target {
            target = recipe.stage(name);
            if target.is_none() {
                return Err(named(format!("it has no stage {name:?}"))
                    .with_fix("name a stage (FROM image AS name), or its number"));
            }
        }
        // Nothing is pulled for a build that the policy refuses.
        for name in recipe.images() {
            self.allowed(name)?;
        }
        let mut ids = HashMap::new();
        let mut triggers = HashMap::new();
        for name in recipe.images() {
            if !ids.contains_key(name) {
                let (image, added) = self.base(name, progress).await?;
                let Some(id) = image.id else {
                    let context = format!("the engine has {name} without an id");
                    return Err(self.error(ErrorKind::ImageBuildFailed, context));
                };
                ids.insert(name.to_owned(), id);
                triggers.insert(name.to_owned(), added);
            }
        }
        Ok(CheckedDockerfile {
            text: Arc::from(recipe.text(&ids)),
            recipe,
            target,
            ids,
            triggers,
        })
    }

    /// The reference of an image that the Dockerfile names, if the policy allows it.
    fn allowed(&self, name: &str) -> Result<ImageReference> {
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
        Ok(reference)
    }

    /// Finds or pulls a base image; returns it with the keywords of its `ONBUILD` triggers.
    async fn base(
        &self,
        name: &str,
        progress: &mut ImageProgress<'_>,
    ) -> Result<(ImageInspect, Vec<&'static str>)> {
        let requested = RequestedImage {
            reference: self.allowed(name)?,
            original: self.allowed.is_none().then_some(name),
        };
        let provided = self.puller.provide(&requested, self.request.pull, progress);
        let (image, _) = provided.await?;
        let triggers = image
            .config
            .as_ref()
            .and_then(|config| config.on_build.clone());
        let mut added = Vec::new();
        for trigger in triggers.into_iter().flatten() {
            let keyword = dockerfile::check_trigger(&trigger, self.request.network);
            added.push(keyword.map_err(|why| {
                self.invalid(format!("{name} adds {trigger:?} to the build: {why}"))
            })?);
        }
        Ok((image, added))
    }

    /// Runs the engine's build; returns the image's id.
    async fn build(
        &self,
        path: &Path,
        context: &Arc<BuildContext>,
        checked: &CheckedDockerfile,
        tag: Option<&ImageReference>,
        progress: &mut ImageProgress<'_>,
    ) -> Result<String, BuildFailure> {
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
            target: checked.target().unwrap_or_default(),
            ..BuildImageOptions::default()
        };
        let (writer, archive) = pipe::writer();
        let (context, text) = (Arc::clone(context), Arc::clone(&checked.text));
        let sending = tokio::task::spawn_blocking(move || context.send(&text, writer));
        progress(&ImageEvent::Building);
        let limit = config.image_timeout;
        let client = engine.client.clone().with_timeout(limit);
        let mut output = BuildOutput::new(checked.steps());
        let events = async {
            let body = bollard::body_try_stream(archive);
            let mut events = Box::pin(client.build_image(options, None, Some(body)));
            while let Some(event) = events.next().await {
                output.observe(event?, progress);
                if output.steps.difference().is_some() {
                    // Dropping the request stops the builder.
                    break;
                }
            }
            Ok(())
        };
        let built = tokio::time::timeout(limit, events).await;
        if let Some(difference) = output.steps.difference() {
            return Err(self.differs(difference, output.id.clone()));
        }
        // The engine only reports a broken request; this is the cause.
        if let Ok(Some(why)) = sending.await {
            return Err(self.invalid(why).into());
        }
        match built {
            Ok(Ok(())) => {
                if output.id.is_some()
                    && let Some(difference) = output.steps.finish()
                {
                    return Err(self.differs(&difference, output.id));
                }
                output.id.ok_or_else(|| {
                    let context = format!("the builder returned no image{}", output.step_output);
                    self.error(ErrorKind::ImageBuildFailed, context).into()
                })
            }
            Ok(Err(error)) => Err(self.failed(error, &output)),
            Err(_) => {
                let context = format!(
                    "the image was not built after {limit:?}{}",
                    output.step_output
                );
                let error = self.error(ErrorKind::ImageTimedOut, context);
                Err(error.with_fix("allow more time (image_timeout)").into())
            }
        }
    }

    /// The error for a builder that deviated from the checked Dockerfile.
    fn differs(&self, difference: &str, created_image: Option<String>) -> BuildFailure {
        let context = format!(
            "the builder did not follow the Dockerfile that was checked: {}",
            escape(difference)
        );
        let error = self.error(ErrorKind::ImageBuildFailed, context);
        BuildFailure {
            error: error
                .with_fix("let no program of the build print lines such as \"Step 1/2 : RUN\""),
            is_transient: false,
            created_image,
        }
    }

    /// The error of a failed build, after removing an image that it created.
    async fn remove_created_image(&self, failure: BuildFailure, before: &HashSet<String>) -> Error {
        let BuildFailure {
            error,
            created_image,
            ..
        } = failure;
        let (Some(id), client) = (created_image, &self.puller.engine.client) else {
            return error;
        };
        let mut names = Vec::new();
        if let Some(tag) = &self.request.tag
            && self.is_named(tag, &id).await
        {
            names.push(tag);
        }
        if !before.contains(&id) {
            names.push(&id);
        }
        for name in names {
            if let Err(removal_error) = removal::remove_image(self.puller.tier, client, name).await
            {
                let context = format!(
                    "{}; {name} is left: {}",
                    error.context(),
                    removal_error.context()
                );
                return self.error(error.kind(), context);
            }
        }
        error
    }

    /// Whether the created image has this name: an earlier image may still have it.
    async fn is_named(&self, tag: &str, id: &str) -> bool {
        let Ok(tag) = tag.parse() else {
            return false;
        };
        let image = inspect_named(self.puller.tier, self.puller.engine, &tag).await;
        matches!(image, Ok(Some(image)) if image.id.as_deref() == Some(id))
    }

    fn failed(&self, error: EngineError, output: &BuildOutput) -> BuildFailure {
        let message = match &error {
            EngineError::DockerStreamError { error } => error.trim(),
            EngineError::DockerResponseServerError { message, .. } => message.trim(),
            _ => return engine_error(self.puller.tier, Operation::Build, error).into(),
        };
        let is_transient =
            message.starts_with(CACHE_LOOKUP_FAILED) && is_concurrent_removal(message);
        let kind = match classify(message) {
            Some(ErrorKind::StorageFull) => ErrorKind::StorageFull,
            _ => ErrorKind::ImageBuildFailed,
        };
        BuildFailure {
            error: self.error(kind, format!("{}{}", escape(message), output.step_output)),
            is_transient,
            created_image: None,
        }
    }

    fn invalid(&self, context: impl Into<String>) -> Error {
        self.error(ErrorKind::InvalidRequest, context.into())
    }

    fn error(&self, kind: ErrorKind, context: String) -> Error {
        Error::new(kind, "build image", context).on(self.puller.tier)
    }
}

/// A Dockerfile that passed all checks.
#[derive(Debug)]
struct CheckedDockerfile {
    recipe: Recipe,
    /// The text to send.
    text: Arc<str>,
    /// Number of the stage to build; `None` for the last one.
    target: Option<usize>,
    /// The ids of its images, by name.
    ids: HashMap<String, String>,
    /// The keywords of their `ONBUILD` triggers, by name.
    triggers: HashMap<String, Vec<&'static str>>,
}

impl CheckedDockerfile {
    fn steps(&self) -> ExpectedSteps {
        ExpectedSteps::of(&self.recipe, self.target, &self.ids, &self.triggers)
    }

    /// The target stage for the builder: its name, else its number.
    fn target(&self) -> Option<String> {
        let number = self.target?;
        let mut froms = self
            .recipe
            .instructions
            .iter()
            .filter(|instruction| instruction.keyword == "FROM");
        let stage = froms.nth(number).and_then(|from| from.stage.clone());
        Some(stage.unwrap_or_else(|| number.to_string()))
    }
}

/// A failed build.
#[derive(Debug)]
struct BuildFailure {
    error: Error,
    /// Whether a retry may succeed at once.
    is_transient: bool,
    /// The id of an image that it created.
    created_image: Option<String>,
}

impl From<Error> for BuildFailure {
    fn from(error: Error) -> Self {
        Self {
            error,
            is_transient: false,
            created_image: None,
        }
    }
}
