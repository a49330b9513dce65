//! Files `Cargo.toml` with packages as dependencies.

use sandbox_core::policy::Requirement;

/// The manifest of an empty library that has these dependencies.
pub(super) fn library_manifest(packages: &[Requirement]) -> String {
    let head = "[package]\nname = \"sandbox-packages\"\nversion = \"0.0.0\"\nedition = \"2021\"\n\n\
        [lib]\npath = \"lib.rs\"\n";
    format!("{head}{}", dependencies(packages))
}

/// The manifest of a program in the file `main.rs` beside it.
pub(crate) fn program_manifest(packages: &[Requirement]) -> String {
    let head = "[package]\nname = \"sandbox-code\"\nversion = \"0.0.0\"\nedition = \"2021\"\n\n\
        [[bin]]\nname = \"program\"\npath = \"main.rs\"\n";
    format!("{head}{}", dependencies(packages))
}

/// The dependencies. The workspace keeps cargo from looking for one in the folders above. No part
/// of a requirement has a quote or a control character.
fn dependencies(packages: &[Requirement]) -> String {
    let lines = packages.iter().map(|package| {
        let versions = package
            .versions()
            .map(|(operator, version)| match operator {
                "==" => format!("={version}"),
                operator => format!("{operator}{version}"),
            });
        let version = match versions.collect::<Vec<_>>().join(", ") {
            any if any.is_empty() => "*".to_owned(),
            range => range,
        };
        let features = package.extras().map(|feature| format!("\"{feature}\""));
        let features = features.collect::<Vec<_>>().join(", ");
        let name = package.name();
        format!("{name} = {{ version = \"{version}\", features = [{features}] }}\n")
    });
    format!(
        "\n[workspace]\n\n[dependencies]\n{}",
        lines.collect::<String>()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_dependencies() {
        let packages = [
            "cargo:a",
            "cargo:b[x,y]@1",
            "cargo:c@=1.0.0",
            "cargo:d>=1,<2",
        ];
        let packages = packages.map(|text| text.parse::<Requirement>().expect("valid"));
        let written = dependencies(&packages);
        let (_, lines) = written.split_once("[dependencies]\n").expect("the table");
        assert_eq!(
            lines.lines().collect::<Vec<_>>(),
            [
                "a = { version = \"*\", features = [] }",
                "b = { version = \"^1\", features = [\"x\", \"y\"] }",
                "c = { version = \"=1.0.0\", features = [] }",
                "d = { version = \"<2, >=1\", features = [] }",
            ]
        );
    }
}
