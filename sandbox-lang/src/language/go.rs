//! Go.

use super::{FileName, Installer, Language, Step};

pub(super) fn language() -> Language {
    let compile = Step::new(["go", "/usr/local/go/bin/go", "/usr/lib/go/bin/go"])
        .args(["build", "-o", "{program}", "{options}", "{sources}"])
        // The standard library is compiled once for all code of the sandbox.
        .env("GOCACHE", "{cache}/go-build")
        .env("GOPATH", "{cache}/go")
        // Go would download the version that a module asks for.
        .env("GOTOOLCHAIN", "local")
        .env("GOTELEMETRY", "off");
    Language::new("go", "go", Step::compiled())
        .alias("golang")
        .file_name(FileName::Main)
        .compile(compile)
        .image("golang:1.23")
        .package("golang-go")
        .installer(Installer::Go)
}
