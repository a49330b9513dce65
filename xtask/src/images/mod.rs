//! `cargo xtask images [--force] [IMAGE…]`: test images, built without any registry.
//!
//! Each image is an archive in the cache folder and an import of it into every engine that runs; no
//! engine has to hand it to another. The archive's
//! name and the image's label hold a hash of the recipe, so a second run finds both and does
//! nothing, and a changed recipe rebuilds by itself.

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::ValueEnum;

use crate::engines;
use crate::failure::{Failure, Result};
use crate::lock::Lock;
use crate::places;

mod archive;
mod busybox;
mod cache;
mod cluster;
mod engine;
mod mirror;
mod python;
mod recipe;

use cache::Cache;
pub use cluster::Image as ClusterImage;
use engine::Engine;
use recipe::{Name, Recipe};

/// Most time between two signs of life while the engine unpacks an archive: on a slow disk the
/// largest takes tens of seconds.
const ENGINE_TIMEOUT: Duration = Duration::from_secs(300);

/// Which images to build, and whether to keep what is there.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Build and import again, whatever the cache and the engine hold
    #[arg(long)]
    force: bool,
    /// Change nothing: fail where an image is missing, or was made by an earlier recipe
    #[arg(long, conflicts_with = "force")]
    check: bool,
    /// Engines to import into, separated by commas; without any, all that run
    #[arg(long, value_enum, value_delimiter = ',', value_name = "ENGINE")]
    engine: Vec<engines::Name>,
    /// Debian mirror for the Python image, instead of the one in this machine's apt sources
    #[arg(long, value_name = "URL")]
    mirror: Option<String>,
    /// The images meant; all of them when none is named
    #[arg(value_enum, value_name = "IMAGE")]
    images: Vec<Name>,
}

/// Brings the engines' images up to date; a line for each on stdout: engine, reference, identifier
/// and `present` or `imported`.
///
/// # Errors
/// When no engine answers, or an image cannot be built or imported; later ones are not tried.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let engines = engines(&arguments.engine)?;
    let names = match arguments.images.as_slice() {
        [] => Name::value_variants(),
        chosen => chosen,
    };
    if arguments.check {
        for name in names {
            for engine in &engines {
                check(&name.recipe(), engine)?;
            }
        }
        return Ok(ExitCode::SUCCESS);
    }
    let folder = places::cache_folder("images")?;
    let _lock = Lock::acquire(&folder)?;
    let mut cache = Cache::new(folder, arguments.force, arguments.mirror.clone());
    for name in names {
        for engine in &engines {
            bring_up_to_date(&name.recipe(), engine, &mut cache, arguments.force)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The engines that are meant: those that are named, else those that run.
fn engines(named: &[engines::Name]) -> Result<Vec<Engine>> {
    let engine = |name: &engines::Name| {
        let client = name.connect(ENGINE_TIMEOUT)?;
        Ok(Engine::new(name.text(), client))
    };
    if !named.is_empty() {
        return named.iter().map(engine).collect();
    }
    let tried = engines::Name::value_variants().iter().map(engine);
    let (found, missing): (Vec<_>, Vec<_>) = tried.partition(Result::is_ok);
    if found.is_empty() {
        let reasons: Vec<_> = missing.into_iter().filter_map(Result::err).collect();
        let reasons: Vec<_> = reasons.iter().map(Failure::to_string).collect();
        return Err(Failure::new(reasons.join("; ")));
    }
    found.into_iter().collect()
}

/// The test images for a cluster's nodes, their files made where they are missing.
///
/// # Errors
/// When the files of one cannot be made.
pub fn for_clusters() -> Result<Vec<ClusterImage>> {
    cluster::all()
}

/// One-line sources of Debian's packages and source packages for `release`, out of this machine's apt configuration.
///
/// # Errors
/// When the configuration cannot be read, or names no Debian mirror.
pub fn packages(release: &str) -> Result<String> {
    let mut sources = mirror::of_this_machine(release)?;
    let of_source: String = sources
        .lines()
        .filter_map(|line| line.strip_prefix("deb "))
        .map(|rest| format!("deb-src {rest}\n"))
        .collect();
    if !sources.ends_with('\n') {
        sources.push('\n');
    }
    Ok(sources + &of_source)
}

/// Makes an archive of a Debian system at `archive`, with these arguments for mmdebstrap.
///
/// # Errors
/// When mmdebstrap cannot be installed or fails, or no mirror is known.
pub fn debian(arguments: &[String], mirror: Option<&str>, archive: &Path) -> Result<()> {
    python::build(arguments, mirror, archive)
}

/// Whether an engine has an image of this recipe, under each of its names.
fn check(recipe: &Recipe, engine: &Engine) -> Result<()> {
    let name = engine.name();
    let missing = |why: String| {
        Err(Failure::new(format!("{name}: {why}")).with_fix(format!(
            "cargo xtask images --engine {name}, or --require {name}: both put the test images into that engine"
        )))
    };
    match engine.inspect(recipe.reference)? {
        None => return missing(format!("it has no image {}", recipe.reference)),
        Some(image) if image.recipe.as_deref() != Some(&recipe.hash()) => {
            return missing(format!("its image {} is another one", recipe.reference));
        }
        Some(_) => {}
    }
    match recipe.alias {
        Some(alias) if engine.inspect(alias)?.is_none() => {
            missing(format!("it has no image {alias}"))
        }
        _ => Ok(()),
    }
}

fn bring_up_to_date(
    recipe: &Recipe,
    engine: &Engine,
    cache: &mut Cache,
    force: bool,
) -> Result<()> {
    let what = format!("{}: {}", engine.name(), recipe.reference);
    let archive = cache.archive(&recipe.contents)?;
    let hash = recipe.hash();
    let existing = engine.inspect(recipe.reference)?;
    let (id, done) = match &existing {
        Some(image) if image.recipe.as_deref() == Some(&hash) && !force => {
            (image.id.clone(), "present")
        }
        _ => {
            let begin = Instant::now();
            eprintln!("{what}: importing {}", archive.display());
            let id = engine.import(&archive, recipe, &hash)?;
            eprintln!("{what}: imported in {:.1} s", begin.elapsed().as_secs_f64());
            (id, "imported")
        }
    };
    println!("{what} {id} {done}");
    if let Some(alias) = recipe.alias {
        println!(
            "{}: {alias} {}",
            engine.name(),
            tag_unless_foreign(engine, &id, alias)?
        );
    }
    // Its predecessor lost its names just now, and nobody would ever remove it.
    if let Some(earlier) = existing.filter(|image| image.recipe.is_some() && image.id != id)
        && !engine.remove_unused(&earlier.id)?
    {
        eprintln!(
            "{what}: kept the earlier image {}, still in use",
            earlier.id
        );
    }
    Ok(())
}

/// Gives the image `id` the name `alias`, unless an image that is not ours has it.
fn tag_unless_foreign(engine: &Engine, id: &str, alias: &str) -> Result<String> {
    match engine.inspect(alias)? {
        Some(image) if image.id == id => Ok(format!("{id} present")),
        Some(image) if image.recipe.is_none() => {
            Ok(format!("{} kept: not one of our test images", image.id))
        }
        Some(_) | None => {
            engine.tag(id, alias)?;
            Ok(format!("{id} tagged"))
        }
    }
}
