//! The description of the API, which the package lacks and a program of it makes.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::super::layout::Layout;
use super::super::output;
use super::compile::{TAGS, environment, go};
use crate::failure::{Context, Result};
use crate::programs;

/// The package of Go that it becomes.
const PACKAGE: &str = "k8s.io/kubernetes/pkg/generated/openapi";
/// Its file in the source.
const FILE: &str = "pkg/generated/openapi/zz_generated.openapi.go";

/// Makes it where it is missing.
///
/// # Errors
/// When the program cannot be built, or fails.
pub fn generate(layout: &Layout, source: &Path) -> Result<()> {
    if source.join(FILE).exists() {
        return Ok(());
    }
    eprintln!("k8s: generating the API's description");
    let new = layout.cache.join("new");
    fs::create_dir_all(&new).context(|| format!("cannot create {}", new.display()))?;
    let generator = new.join("openapi-gen");
    programs::run_with_progress(
        go(layout, source)
            .args(["build", "-o"])
            .arg(&generator)
            .arg("./vendor/k8s.io/kube-openapi/cmd/openapi-gen"),
    )?;
    let mut list = go(layout, source);
    list.args(["list", "-deps", "-tags", TAGS, "./cmd/kube-apiserver"]);
    let listed = output(&mut list)?;
    let mut packages: Vec<_> = listed
        .lines()
        .filter_map(|line| line.strip_prefix("k8s.io/kubernetes/"))
        .filter(|package| is_described(&source.join(package)))
        .map(|package| format!("k8s.io/kubernetes/{package}"))
        .collect();
    packages.sort();
    packages.dedup();
    // Into another folder first: half a file would be taken for a whole one.
    let mut command = Command::new(generator);
    environment(&mut command, layout);
    command
        .current_dir(source)
        .args(["--logtostderr", "-i", &packages.join(",")])
        .args(["-p", PACKAGE, "-O", "zz_generated.openapi"])
        .args(["-h", "vendor/k8s.io/code-generator/hack/boilerplate.go.txt"])
        .arg("--output-base")
        .arg(&new)
        .arg("-r")
        .arg(new.join("violations.report"));
    programs::run_with_progress(&mut command)?;
    let made = new.join(PACKAGE).join("zz_generated.openapi.go");
    let path = source.join(FILE);
    fs::rename(&made, &path).context(|| format!("cannot make {}", path.display()))
}

/// Whether a package says that it belongs into the description.
fn is_described(folder: &Path) -> bool {
    let Ok(entries) = fs::read_dir(folder) else {
        return false;
    };
    entries.flatten().any(|entry| {
        entry.path().extension().is_some_and(|name| name == "go")
            && fs::read_to_string(entry.path()).is_ok_and(|text| {
                text.lines().any(|line| {
                    line.strip_prefix("//")
                        .is_some_and(|rest| rest.trim_start().starts_with("+k8s:openapi-gen="))
                })
            })
    })
}
