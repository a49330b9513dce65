//! Requirements of CRAN: a name and comparisons with versions.

use super::{Installer, Requirement, comparisons, with_exact};

/// The version operators. `=` is `==`.
const OPERATORS: [&str; 3] = ["==", ">=", "="];

pub(super) fn parse(text: &str) -> Option<Requirement> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '.';
    let end = text.find(|c| !is_part(c)).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    // "Writing R Extensions": letters, digits and dots, from a letter on, at least two, no dot last.
    let is_name = name.len() > 1
        && name.starts_with(|c: char| c.is_ascii_alphabetic())
        && !name.ends_with('.');
    let versions = comparisons(rest.trim_start(), &OPERATORS, is_version)?;
    is_name.then(|| Requirement {
        installer: Installer::Cran,
        name: name.to_owned(),
        extras: Vec::new(),
        hashes: Vec::new(),
        versions: with_exact(versions),
    })
}

/// Numbers separated by `.` or `-`, as in `1.8-2`.
fn is_version(version: &str) -> bool {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|c| c.is_ascii_digit());
    version.split(['.', '-']).all(is_number)
}

#[cfg(test)]
mod tests {
    use super::super::read_back;

    fn read(text: &str) -> Option<String> {
        read_back(&format!("cran:{text}"))
    }

    #[test]
    fn comparisons_are_parsed() {
        for (text, same) in [
            ("jsonlite", "cran:jsonlite"),
            ("R6", "cran:R6"),
            ("data.table == 1.16.0", "cran:data.table==1.16.0"),
            ("nlme=3.1-166", "cran:nlme==3.1-166"),
            ("ggplot2 >= 3.5", "cran:ggplot2>=3.5"),
        ] {
            assert_eq!(read(text).as_deref(), Some(same), "{text:?}");
        }
    }

    #[test]
    fn other_text_is_refused() {
        for text in [
            "",
            "x",
            "-e",
            "1x",
            "x_y",
            "ends.",
            "../x",
            "/tmp/x.tar.gz",
            "a/b",
            "user/repository",
            "xy@1.0",
            "xy==",
            "xy==1..0",
            "xy==1.0.tar",
            "xy<2",
            "xy==1;id",
            "xy==$(id)",
            "xy,",
            "http://example.org/x",
        ] {
            assert_eq!(read(text), None, "{text:?}");
        }
    }
}
