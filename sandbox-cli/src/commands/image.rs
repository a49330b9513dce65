//! `sandbox image`: images of an engine.

use std::path::PathBuf;
use std::time::SystemTime;

use clap::{Args, Subcommand};
use sandbox::{BuildRequest, ImageInfo, PullPolicy, SandboxClient};
use serde::Serialize;

use super::batch::BatchReport;
use super::ls::time;
use super::run::signals::Signals;
use crate::command_error::{CommandError, Outcome};
use crate::exit::Exit;
use crate::options::{PolicySource, in_file, pull_policy};
use crate::output::{Format, FormatOption, print, print_json};
use crate::progress::Progress;
use crate::table::table;

/// The options of `image`.
#[derive(Debug, Args)]
pub struct ImageArguments {
    /// What to do.
    #[command(subcommand)]
    command: ImageCommand,
}

#[derive(Debug, Subcommand)]
enum ImageCommand {
    /// Pull images from their registries
    Pull(PullArguments),
    /// Build an image from a Dockerfile, without a network unless --network is given
    Build(BuildArguments),
    /// List the engine's images
    Ls(ListArguments),
    /// Remove images that no container uses
    Rm(RemoveArguments),
}

/// The engine, and the policy for its images.
#[derive(Debug, Args)]
struct ImageEngineOptions {
    /// Tier that uses images: docker or podman
    #[arg(short, long, value_name = "TIER", default_value = "docker")]
    backend: String,

    /// Policy file whose `images` list the allowed images
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,

    /// Print only warnings and errors
    #[arg(short, long)]
    quiet: bool,

    #[command(flatten)]
    format: FormatOption,
}

impl ImageEngineOptions {
    fn client(&self, follow: bool) -> Result<SandboxClient, CommandError> {
        let policy = match &self.policy {
            Some(path) => {
                let file = PolicySource::read(path, follow)?.file;
                file.resolve().map_err(|error| in_file(path, &error))?
            }
            None => sandbox::CapabilityPolicy::new(),
        };
        Ok(SandboxClient::open(&self.backend, policy)?)
    }

    fn progress(&self) -> Progress {
        Progress::new(self.quiet, self.format.format)
    }
}

#[derive(Debug, Args)]
struct PullArguments {
    /// Names of the images
    #[arg(required = true, value_name = "IMAGE")]
    images: Vec<String>,

    /// When to pull: always or missing
    #[arg(long, value_name = "WHEN", value_parser = pull_policy, default_value = "always")]
    pull: PullPolicy,

    #[command(flatten)]
    engine: ImageEngineOptions,
}

#[derive(Debug, Args)]
struct BuildArguments {
    /// Build context; its .dockerignore is applied
    #[arg(value_name = "DIR")]
    context: PathBuf,

    /// Follow symbolic links that leave their folder, in the paths of DIR and the policy file
    #[arg(long)]
    follow: bool,

    /// Dockerfile, relative to DIR [default: Dockerfile]
    #[arg(short, long, value_name = "PATH")]
    file: Option<PathBuf>,

    /// Name of the image
    #[arg(short, long, value_name = "IMAGE")]
    tag: Option<String>,

    /// Value of an ARG (repeatable); it stays visible in the image
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    build_arg: Vec<(String, String)>,

    /// Build stage [default: the last one]
    #[arg(long, value_name = "STAGE")]
    target: Option<String>,

    /// Allow the engine's default network, and ADD with URLs
    #[arg(long)]
    network: bool,

    /// When to pull the base images: never, missing or always
    #[arg(long, value_name = "WHEN", value_parser = pull_policy, default_value = "never")]
    pull: PullPolicy,

    /// Do not use the build cache
    #[arg(long)]
    no_cache: bool,

    #[command(flatten)]
    engine: ImageEngineOptions,
}

#[derive(Debug, Args)]
struct ListArguments {
    #[command(flatten)]
    engine: ImageEngineOptions,
}

#[derive(Debug, Args)]
struct RemoveArguments {
    /// Names or ids of the images
    #[arg(required = true, value_name = "IMAGE")]
    images: Vec<String>,

    #[command(flatten)]
    engine: ImageEngineOptions,
}

/// An image in JSON.
#[derive(Debug, Serialize)]
struct ImageRow {
    id: String,
    names: Vec<String>,
    digests: Vec<String>,
    size_bytes: Option<u64>,
    created: Option<String>,
    built: bool,
    brought: bool,
}

#[derive(Debug, Serialize)]
struct ImagesDocument {
    images: Vec<ImageRow>,
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write NAME=VALUE".to_owned()),
    }
}

impl ImageArguments {
    /// The output format.
    pub fn format(&self) -> Format {
        let engine = match &self.command {
            ImageCommand::Pull(arguments) => &arguments.engine,
            ImageCommand::Build(arguments) => &arguments.engine,
            ImageCommand::Ls(arguments) => &arguments.engine,
            ImageCommand::Rm(arguments) => &arguments.engine,
        };
        engine.format.format
    }
}

/// Runs the subcommand.
pub fn run(arguments: &ImageArguments) -> Outcome {
    super::block_on(async {
        let mut signals = Signals::listen()?;
        let work = async {
            match &arguments.command {
                ImageCommand::Pull(arguments) => pull(arguments).await,
                ImageCommand::Build(arguments) => build(arguments).await,
                ImageCommand::Ls(arguments) => list(arguments).await,
                ImageCommand::Rm(arguments) => remove(arguments).await,
            }
        };
        tokio::select! {
            outcome = work => outcome,
            signal = signals.next() => Err(CommandError::interrupted(signal)),
        }
    })?
}

async fn pull(arguments: &PullArguments) -> Outcome {
    let client = arguments.engine.client(false)?;
    let mut pulled = Vec::new();
    for image in &arguments.images {
        let mut progress = arguments.engine.progress();
        let take = &mut |event: &_| progress.take(event);
        pulled.push(client.pull_image(image, arguments.pull, take).await?);
    }
    print_ids(&pulled, arguments.engine.format.format)
}

async fn build(arguments: &BuildArguments) -> Outcome {
    let client = arguments.engine.client(arguments.follow)?;
    let mut request = BuildRequest::new(&arguments.context)
        .follow_links(arguments.follow)
        .network(arguments.network)
        .pull(arguments.pull)
        .cache(!arguments.no_cache);
    request.dockerfile.clone_from(&arguments.file);
    request.tag.clone_from(&arguments.tag);
    request.target.clone_from(&arguments.target);
    request.args = arguments.build_arg.iter().cloned().collect();
    let mut progress = arguments.engine.progress();
    let take = &mut |event: &_| progress.take(event);
    let image = client.build_image(&request, take).await?;
    print_ids(&[image], arguments.engine.format.format)
}

/// Prints the id of each image, or the JSON document.
pub(super) fn print_ids(images: &[ImageInfo], format: Format) -> Outcome {
    match format {
        Format::Json => print_json(&ImagesDocument {
            images: images.iter().map(row).collect(),
        })?,
        Format::Text => {
            for image in images {
                print(&format!("{}\n", image.id))?;
            }
        }
    }
    Ok(Exit::SUCCESS)
}

async fn list(arguments: &ListArguments) -> Outcome {
    let images = arguments.engine.client(false)?.images().await?;
    match arguments.engine.format.format {
        Format::Json => print_ids(&images, Format::Json),
        Format::Text => {
            print(&text(&images, SystemTime::now()))?;
            Ok(Exit::SUCCESS)
        }
    }
}

fn text(images: &[ImageInfo], now: SystemTime) -> String {
    let header = ["IMAGE", "ID", "SIZE", "AGE", "BUILT HERE"].map(str::to_owned);
    let mut lines = vec![header.to_vec()];
    for image in images {
        let id = image.id.strip_prefix("sha256:").unwrap_or(&image.id);
        let id = id.chars().take(12).collect::<String>();
        let age = image
            .created
            .and_then(|created| now.duration_since(created).ok());
        let size = image.size.map_or_else(|| "-".to_owned(), megabytes);
        let names = match image.names.is_empty() {
            true => "-".to_owned(),
            false => image.names.join(" "),
        };
        lines.push(vec![
            names,
            id,
            size,
            age.map_or_else(|| "-".to_owned(), super::ls::brief),
            if image.built { "yes" } else { "-" }.to_owned(),
        ]);
    }
    table(&lines)
}

fn megabytes(size: sandbox::ByteSize) -> String {
    const MIB: u64 = 1 << 20;
    format!(
        "{}.{}MiB",
        size.as_u64() / MIB,
        size.as_u64() % MIB * 10 / MIB
    )
}

async fn remove(arguments: &RemoveArguments) -> Outcome {
    let format = arguments.engine.format.format;
    let client = arguments.engine.client(false)?;
    let mut report = BatchReport::new("images");
    for image in &arguments.images {
        let removed = client.remove_image(image).await;
        report.add(format, image, removed.map_err(CommandError::from))?;
    }
    report.finish(format)
}

fn row(image: &ImageInfo) -> ImageRow {
    ImageRow {
        id: image.id.clone(),
        names: image.names.clone(),
        digests: image.digests.clone(),
        size_bytes: image.size.map(sandbox::ByteSize::as_u64),
        created: image.created.map(time),
        built: image.built,
        brought: image.brought,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sandbox::ByteSize;
    use std::time::Duration;

    #[test]
    fn list_shows_name_state_and_age() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1000);
        let mut image = ImageInfo::new("sha256:0123456789abcdef");
        image.names = vec!["docker.io/library/a:1".into()];
        image.size = Some(ByteSize::kib(1536));
        image.created = Some(SystemTime::UNIX_EPOCH + Duration::from_secs(940));
        image.built = true;
        let unknown = ImageInfo::new("sha256:fedcba9876543210");
        assert_eq!(
            text(&[image, unknown], now),
            "IMAGE                  ID            SIZE    AGE  BUILT HERE\n\
             docker.io/library/a:1  0123456789ab  1.5MiB  1m   yes\n\
             -                      fedcba987654  -       -    -\n"
        );
    }
}
