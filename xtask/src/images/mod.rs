//! `cargo xtask images [--force] [IMAGE…]`: test images, built without any registry.
//!
//! Each image is an archive in the cache folder and an import of it into the engine. The archive's
//! name and the image's label hold a hash of the recipe, so a second run finds both and does
//! nothing, and a changed recipe rebuilds by itself.

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::ValueEnum;

use crate::engines;
use crate::failure::Result;
use crate::lock::Lock;
use crate::places;

mod archive;
mod busybox;
mod cache;
mod engine;
mod mirror;
mod python;
mod recipe;

use cache::Cache;
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
    /// Debian mirror for the Python image, instead of the one in this machine's apt sources
    #[arg(long, value_name = "URL")]
    mirror: Option<String>,
    /// The images meant; all of them when none is named
    #[arg(value_enum, value_name = "IMAGE")]
    images: Vec<Name>,
}

/// Brings the engine's images up to date; a line for each on stdout: reference, identifier and
/// `present` or `imported`.
///
/// # Errors
/// When no engine answers, or an image cannot be built or imported; later ones are not tried.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let engine = Engine::new(engines::connect_docker(ENGINE_TIMEOUT)?);
    let folder = places::image_cache_folder()?;
    let _lock = Lock::acquire(&folder)?;
    let mut cache = Cache::new(folder, arguments.force, arguments.mirror.clone());
    let names = match arguments.images.as_slice() {
        [] => Name::value_variants(),
        chosen => chosen,
    };
    for name in names {
        bring_up_to_date(&name.recipe(), &engine, &mut cache, arguments.force)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Makes an archive of a Debian system at `archive`, with these arguments for mmdebstrap.
///
/// # Errors
/// When mmdebstrap cannot be installed or fails, or no mirror is known.
pub fn debian(arguments: &[String], mirror: Option<&str>, archive: &Path) -> Result<()> {
    python::build(arguments, mirror, archive)
}

fn bring_up_to_date(
    recipe: &Recipe,
    engine: &Engine,
    cache: &mut Cache,
    force: bool,
) -> Result<()> {
    let archive = cache.archive(&recipe.contents)?;
    let hash = recipe.hash();
    let existing = engine.inspect(recipe.reference)?;
    let (id, done) = match &existing {
        Some(image) if image.recipe.as_deref() == Some(&hash) && !force => {
            (image.id.clone(), "present")
        }
        _ => {
            let begin = Instant::now();
            eprintln!("{}: importing {}", recipe.reference, archive.display());
            let id = engine.import(&archive, recipe, &hash)?;
            eprintln!(
                "{}: imported in {:.1} s",
                recipe.reference,
                begin.elapsed().as_secs_f64()
            );
            (id, "imported")
        }
    };
    println!("{} {id} {done}", recipe.reference);
    if let Some(alias) = recipe.alias {
        println!("{alias} {}", tag_unless_foreign(engine, &id, alias)?);
    }
    // Its predecessor lost its names just now, and nobody would ever remove it.
    if let Some(earlier) = existing.filter(|image| image.recipe.is_some() && image.id != id)
        && !engine.remove_unused(&earlier.id)?
    {
        eprintln!(
            "{}: kept the earlier image {}, still in use",
            recipe.reference, earlier.id
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
