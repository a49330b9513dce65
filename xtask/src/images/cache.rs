//! The archives on disk: one file for each recipe, named by its hash.

use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::archive;
use super::busybox;
use super::python;
use super::recipe::Contents;
use crate::failure::{Context, Result};

/// The cache folder, held under its lock.
#[derive(Debug)]
pub struct Cache {
    folder: PathBuf,
    force: bool,
    mirror: Option<String>,
    /// Built in this run: `force` builds an archive once, also where two images share it.
    fresh: Vec<PathBuf>,
}

impl Cache {
    /// The cache in `folder`, which exists. With `force`, what it holds is built again.
    pub fn new(folder: PathBuf, force: bool, mirror: Option<String>) -> Self {
        Self {
            folder,
            force,
            mirror,
            fresh: Vec::new(),
        }
    }

    /// The path of the archive with these contents, built where it is missing. Archives of earlier
    /// recipes of the same name are removed.
    ///
    /// # Errors
    /// When it cannot be built. A file under the archive's own name is always whole.
    pub fn archive(&mut self, contents: &Contents) -> Result<PathBuf> {
        let path = self
            .folder
            .join(format!("{}-{}.tar", contents.name(), contents.hash()));
        if path.exists() && (!self.force || self.fresh.contains(&path)) {
            return Ok(path);
        }
        let begin = Instant::now();
        eprintln!("building {}", path.display());
        let partial = path.with_extension("tar.partial");
        if let Err(failure) = self.build(contents, &partial) {
            // What was being built counts more than what is left of it: the next run overwrites it.
            let _ = fs::remove_file(&partial);
            return Err(failure);
        }
        fs::rename(&partial, &path).context(|| format!("cannot create {}", path.display()))?;
        self.remove_earlier(contents.name(), &path)?;
        let size = path
            .metadata()
            .context(|| format!("cannot read {}", path.display()))?
            .len();
        let seconds = begin.elapsed().as_secs_f64();
        eprintln!("built {} MB in {seconds:.1} s", size / 1_000_000);
        self.fresh.push(path.clone());
        Ok(path)
    }

    fn build(&self, contents: &Contents, path: &Path) -> Result<()> {
        match contents {
            Contents::Entries {
                busybox, entries, ..
            } => {
                let mut entries = entries.clone();
                if *busybox {
                    entries.extend(busybox::program()?);
                }
                let doing = || format!("cannot write {}", path.display());
                let file = BufWriter::new(File::create(path).context(doing)?);
                archive::write(&entries, file).context(doing)
            }
            Contents::Debian { arguments, .. } => {
                python::build(arguments, self.mirror.as_deref(), path)
            }
        }
    }

    fn remove_earlier(&self, name: &str, current: &Path) -> Result<()> {
        let doing = || format!("cannot clean {}", self.folder.display());
        for entry in fs::read_dir(&self.folder).context(doing)? {
            let path = entry.context(doing)?.path();
            let file_name = path.file_name().unwrap_or_default().to_string_lossy();
            if path != current && is_archive_of(&file_name, name) {
                match fs::remove_file(&path) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => {
                        return Err(error).context(doing);
                    }
                    _ => eprintln!("removed {}, of an earlier recipe", path.display()),
                }
            }
        }
        Ok(())
    }
}

fn is_archive_of(file_name: &str, name: &str) -> bool {
    file_name
        .strip_prefix(name)
        .and_then(|rest| rest.strip_prefix('-'))
        .and_then(|rest| {
            rest.strip_suffix(".tar")
                .or_else(|| rest.strip_suffix(".tar.partial"))
        })
        .is_some_and(|hash| hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::super::archive::Entry;
    use super::*;

    fn contents(text: &str) -> Contents {
        let entries = vec![Entry::file("file", 0o644, text)];
        Contents::Entries {
            name: "small",
            busybox: false,
            entries,
        }
    }

    #[test]
    fn an_archive_is_built_once_and_replaces_its_predecessor() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let other = folder.path().join("small-other-0123456789abcdef.tar");
        fs::write(&other, "").expect("write");
        let mut cache = Cache::new(folder.path().into(), false, None);
        let first = cache.archive(&contents("one")).expect("built");
        fs::write(&first, "marked").expect("write");
        assert_eq!(cache.archive(&contents("one")), Ok(first.clone()));
        assert_eq!(
            fs::read_to_string(&first).expect("file"),
            "marked",
            "not built again"
        );
        let second = cache.archive(&contents("two")).expect("built");
        assert!(second.exists() && !first.exists() && other.exists());
    }

    #[test]
    fn force_builds_again_but_once() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let path = Cache::new(folder.path().into(), false, None)
            .archive(&contents("one"))
            .expect("built");
        fs::write(&path, "marked").expect("write");
        let mut forced = Cache::new(folder.path().into(), true, None);
        forced.archive(&contents("one")).expect("built");
        assert!(path.metadata().expect("file").len() > 1000);
        fs::write(&path, "marked").expect("write");
        forced.archive(&contents("one")).expect("kept");
        assert_eq!(fs::read_to_string(&path).expect("file"), "marked");
    }
}
