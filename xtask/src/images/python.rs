//! The default image's stand-in: Debian 12 with its Python 3.11, out of Debian's packages.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::mirror;
use super::recipe::Contents;
use crate::apt;
use crate::failure::{Context, Failure, Result};
use crate::programs;

/// The Debian release whose Python is the 3.11 that the image's name promises.
const RELEASE: &str = "bookworm";
const PACKAGE: &str = "mmdebstrap";

/// The image's packages, and what is left out of them.
pub fn contents() -> Contents {
    let arguments = [
        "--variant=minbase",
        // python3-minimal would lack http, among others. The image that this one stands in for has pip.
        "--include=python3,python3-pip",
        "--dpkgopt=path-exclude=/usr/share/man/*",
        "--dpkgopt=path-exclude=/usr/share/locale/*",
        "--dpkgopt=path-exclude=/usr/share/doc/*",
        "--dpkgopt=path-include=/usr/share/doc/*/copyright",
        "--customize-hook=ln -s python3 \"$1/usr/bin/python\"",
        // What only this machine's network needs does not belong in an image.
        "--customize-hook=rm -f \"$1/etc/apt/sources.list\" \"$1/etc/apt/apt.conf.d/99mmdebstrap\"",
        "--customize-hook=rm -rf \"$1\"/etc/apt/sources.list.d/* \"$1\"/var/log/apt",
        "--customize-hook=: >\"$1/etc/hostname\"; : >\"$1/etc/resolv.conf\"",
        "--customize-hook=chroot \"$1\" python3 -c \"import sys, http.client, json, ssl, pip; \
         assert sys.version_info[:2] == (3, 11)\"",
    ];
    Contents::Debian {
        name: "python",
        arguments: arguments.map(str::to_owned).to_vec(),
    }
}

/// Builds the archive at `path`. Installs mmdebstrap where it is missing.
///
/// # Errors
/// When mmdebstrap cannot be installed or fails, or no mirror is known.
pub fn build(arguments: &[String], mirror: Option<&str>, path: &Path) -> Result<()> {
    if programs::find(PACKAGE).is_none() {
        apt::install(&[PACKAGE])?;
    }
    let sources = match mirror {
        Some(address) => format!("deb {address} {RELEASE} main\n"),
        None => mirror::of_this_machine(RELEASE)?,
    };
    let written = |extension: &str, text: &str| {
        let file = path.with_extension(extension);
        fs::write(&file, text).context(|| format!("cannot write {}", file.display()))?;
        Ok(file)
    };
    let sources = written("list", &sources)?;
    let options = written("conf", &acquire_options()?)?;
    eprintln!("running mmdebstrap for Debian {RELEASE}; this takes about a minute");
    let result = programs::run_with_progress(
        Command::new(PACKAGE)
            .args(arguments)
            .arg("--format=tar")
            .arg(format!("--aptopt={}", options.display()))
            .arg(RELEASE)
            .arg(path)
            .arg(&sources),
    );
    for file in [sources, options] {
        fs::remove_file(&file).context(|| format!("cannot remove {}", file.display()))?;
    }
    result.map_err(|failure| {
        failure.with_fix("see its messages above; --mirror URL names another mirror")
    })
}

/// How this machine's apt reaches its mirror (proxies, retries, dates): mmdebstrap starts from
/// apt's defaults otherwise.
fn acquire_options() -> Result<String> {
    let output = Command::new("apt-config")
        .args(["dump", "--no-empty"])
        .output()
        .context(|| "cannot start apt-config".to_owned())?;
    if !output.status.success() {
        return Err(Failure::new(format!(
            "apt-config dump failed with {}",
            output.status
        )));
    }
    Ok(only_acquire_options(&String::from_utf8_lossy(
        &output.stdout,
    )))
}

fn only_acquire_options(dump: &str) -> String {
    let wanted = [
        "http::",
        "https::",
        "Retries",
        "Check-Date",
        "Check-Valid-Until",
    ];
    dump.lines()
        .filter_map(|line| line.strip_prefix("Acquire::").map(|rest| (line, rest)))
        .filter(|(_, rest)| {
            wanted.iter().any(|name| {
                rest.get(..name.len())
                    .is_some_and(|start| start.eq_ignore_ascii_case(name))
            })
        })
        .map(|(line, _)| format!("{line}\n"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_concerns_the_way_to_the_mirror_is_taken() {
        let dump = "APT::Architecture \"amd64\";\nAcquire::http::Proxy \"x\";\n\
                    Acquire::Languages:: \"none\";\nAcquire::Check-Valid-Until \"false\";\n\
                    Acquire::é \"x\";\n";
        assert_eq!(
            only_acquire_options(dump),
            "Acquire::http::Proxy \"x\";\nAcquire::Check-Valid-Until \"false\";\n"
        );
    }
}
