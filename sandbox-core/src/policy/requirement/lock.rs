//! Hashes of files, and lock files that have them.

use super::{Installer, Requirement};
use crate::{Error, ErrorKind, Result};

/// The maximum number of hashes of a package: one for each file of its version.
const MAX_HASHES: usize = 1024;

/// Before each hash of a requirement, and in a lock file.
const HASH: &str = "#sha256:";
const OPTION: &str = "--hash=sha256:";

/// The requirement without its hashes, and these, sorted. `None` if a hash is not one, or if the
/// installer checks none.
pub(super) fn split(installer: Installer, text: &str) -> Option<(&str, Vec<String>)> {
    let Some(start) = text.find('#') else {
        return Some((text, Vec::new()));
    };
    let (text, hashes) = text.split_at(start);
    let hashes = hashes.trim_end().strip_prefix(HASH)?;
    let mut hashes = hashes.split(HASH).map(hash).collect::<Option<Vec<_>>>()?;
    hashes.sort();
    hashes.dedup();
    (installer == Installer::Pip && hashes.len() <= MAX_HASHES).then_some((text, hashes))
}

/// A SHA-256 in lower case.
fn hash(text: &str) -> Option<String> {
    let is_hash = text.len() == 64 && text.bytes().all(|c| c.is_ascii_hexdigit());
    is_hash.then(|| text.to_ascii_lowercase())
}

/// Whether the requirement names one version, so that hashes can be those of its files.
pub(super) fn is_exact(requirement: &Requirement) -> bool {
    match requirement.versions.as_slice() {
        [("==" | "===", version)] => !version.contains('*'),
        _ => false,
    }
}

/// The packages of a lock file of pip.
pub(super) fn read(text: &str) -> Result<Vec<Requirement>> {
    let mut packages = Vec::new();
    // A backslash at the end continues a line.
    let joined = text.replace("\\\r\n", " ").replace("\\\n", " ");
    for line in joined.lines() {
        let without = line.split(" #").next().unwrap_or_default().trim();
        if without.is_empty() || without.starts_with('#') {
            continue;
        }
        packages.push(read_line(without)?);
    }
    Ok(packages)
}

fn read_line(line: &str) -> Result<Requirement> {
    let shown = line.chars().take(80).collect::<String>();
    let bad = |why: &str, fix: &str| {
        let context = format!("{shown:?} {why}");
        let error = Error::new(ErrorKind::InvalidPolicy, "read lock file", context);
        Err(error.with_fix(fix.to_owned()))
    };
    if line.starts_with('-') {
        let fix = "remove the line: the registry is that of the host's pip";
        return bad("is an option, not a package", fix);
    }
    let (name, hashes) = line.split_at(line.find(" --").unwrap_or(line.len()));
    if name.contains(';') {
        let fix = "make the lock file for one Python and platform, so that it has no conditions";
        return bad("has a condition", fix);
    }
    let mut text = name.trim().to_owned();
    for option in hashes.split_whitespace() {
        match option.strip_prefix(OPTION) {
            Some(hash) => text += &format!("{HASH}{hash}"),
            None => return bad("has an option that is no SHA-256", "remove the option"),
        }
    }
    if hashes.is_empty() {
        let fix = "make the lock file with hashes: pip-compile --generate-hashes";
        return bad("has no hash", fix);
    }
    Requirement::of_installer(Installer::Pip, &text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hashes() -> (String, String) {
        ("a".repeat(64), "b".repeat(64))
    }

    #[test]
    fn hashes_belong_to_one_version_of_pip() {
        let (a, b) = hashes();
        let read = |text: &str| {
            text.parse::<Requirement>()
                .ok()
                .map(|read| read.to_string())
        };
        let both = format!("demo==1.0#sha256:{a}#sha256:{b}");
        let swapped = format!("Demo == 1.0#sha256:{}#sha256:{a}", b.to_uppercase());
        assert_eq!(read(&both), Some(both.clone()));
        assert_eq!(read(&swapped), Some(both));
        for text in [
            format!("demo#sha256:{a}"),
            format!("demo>=1#sha256:{a}"),
            format!("demo==1.*#sha256:{a}"),
            format!("demo==1,<2#sha256:{a}"),
            format!("npm:demo@1.0.0#sha256:{a}"),
            format!("cargo:demo@=1.0.0#sha256:{a}"),
            format!("demo==1#sha512:{a}"),
            format!("demo==1#sha256:{a} "),
            format!("demo==1#sha256:{}", &a[1..]),
            "demo==1#sha256:".to_owned(),
            "demo==1#".to_owned(),
        ] {
            let is_padded = text.ends_with(' ');
            assert_eq!(read(&text).is_some(), is_padded, "{text}");
        }
    }

    #[test]
    fn package_with_hashes_is_narrower_than_the_same_without() {
        let (a, _) = hashes();
        let parse = |text: &str| text.parse::<Requirement>().expect("valid");
        let plain = parse("demo==1.0");
        let locked = parse(&format!("demo==1.0#sha256:{a}"));
        assert!(plain.allows(&locked) && !locked.allows(&plain));
        assert!(locked.provides(&plain) && !plain.provides(&locked));
        assert!(!parse("demo==2.0").allows(&locked));
        assert_eq!(locked.without_hashes(), plain);
    }

    #[test]
    fn lock_file_has_a_version_and_hashes_of_each_package() {
        let (a, b) = hashes();
        let text = format!(
            "# made by a tool\n\ndemo==1.0 \\\n    --hash=sha256:{a} \\\n    --hash=sha256:{b}\n    # via x\n\
             Other_One[e]==2 --hash=sha256:{b} # why\n"
        );
        let names = read(&text).expect("valid");
        let names = names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let expected = [
            format!("demo==1.0#sha256:{a}#sha256:{b}"),
            format!("other-one[e]==2#sha256:{b}"),
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn other_lines_are_errors() {
        let (a, _) = hashes();
        for (line, word) in [
            ("demo==1.0".to_owned(), "no hash"),
            ("--index-url http://example.org".to_owned(), "option"),
            ("-r other.txt".to_owned(), "option"),
            ("-e .".to_owned(), "option"),
            (
                format!("demo==1; os_name=='x' --hash=sha256:{a}"),
                "condition",
            ),
            (format!("demo==1 --hash=md5:{a}"), "SHA-256"),
            (format!("demo==1 --hash=sha256:{a} --pre"), "SHA-256"),
            (format!("demo>=1 --hash=sha256:{a}"), "name of a package"),
            (format!("./demo.whl --hash=sha256:{a}"), "name of a package"),
        ] {
            let error = read(&line).expect_err(&line);
            assert_eq!(error.kind(), ErrorKind::InvalidPolicy, "{error}");
            assert!(error.context().contains(word), "{error}");
            assert!(error.fix().is_some(), "{error}");
        }
    }
}
