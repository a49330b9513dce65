//! A Python that has llm-sandbox, in a virtual environment in the cache folder.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::failure::{Context, Failure, Result};
use crate::lock::Lock;
use crate::places;
use crate::programs;

/// The version that is measured, so that numbers of different days compare.
const PACKAGE: &str = "llm-sandbox[docker]==0.3.46";
/// The folder's name, which changes with the package.
const FOLDER: &str = "llm-sandbox-0.3.46";
/// Marks an environment that is whole.
const DONE: &str = "installed";

/// The environment's Python. Makes the environment where it is missing, which needs the network.
///
/// # Errors
/// When it cannot be made.
pub fn find_or_make() -> Result<PathBuf> {
    let cache = places::cache_folder("bench")?;
    let _lock = Lock::acquire(&cache)?;
    let folder = cache.join(FOLDER);
    let python = folder.join("bin/python");
    let done = folder.join(DONE);
    if done.exists() && python.exists() {
        return Ok(python);
    }
    if folder.exists() {
        fs::remove_dir_all(&folder).context(|| format!("cannot remove {}", folder.display()))?;
    }
    eprintln!("installing {PACKAGE} in {}", folder.display());
    let mut make = Command::new("python3");
    make.args(["-m", "venv"]).arg(&folder);
    programs::run_with_progress(&mut make)
        .map_err(|failure| explain(&failure, "apt-get install python3-venv"))?;
    let mut install = Command::new(&python);
    install.args(["-m", "pip", "install", "--quiet"]);
    install.args(["--disable-pip-version-check", PACKAGE]);
    programs::run_with_progress(&mut install)
        .map_err(|failure| explain(&failure, "allow pip to reach its index"))?;
    fs::write(&done, "").context(|| format!("cannot write {}", done.display()))?;
    Ok(python)
}

fn explain(failure: &Failure, fix: &str) -> Failure {
    Failure::new(format!("cannot install {PACKAGE}: {failure}")).with_fix(fix)
}
