//! Lists the measured profiles of this backend: the files in `matrix`, which `cargo xtask matrix
//! --write` writes. Their names hold a hash of the cluster's key, so a list in the source would go
//! out of date.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let package = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let folder = package.unwrap_or_default().join("matrix");
    println!("cargo::rerun-if-changed={}", folder.display());
    let list = match fs::read_dir(&folder) {
        Ok(entries) => list(entries)?,
        // Before the first measurement there is no folder.
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error),
    };
    let target = env::var_os("OUT_DIR").map(PathBuf::from);
    fs::write(
        target.unwrap_or_default().join("profiles.rs"),
        format!("&[{list}]\n"),
    )
}

fn list(entries: fs::ReadDir) -> io::Result<String> {
    let mut paths = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<io::Result<Vec<_>>>()?;
    paths.retain(|path| name(path).ends_with(".json"));
    paths.sort();
    let entry = |path: &PathBuf| format!("({:?}, include_str!({path:?})),\n", name(path));
    Ok(paths.iter().map(entry).collect())
}

fn name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}
