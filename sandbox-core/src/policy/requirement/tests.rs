//! Tests of what every installer shares.

use proptest::prelude::*;

use super::*;

fn read(text: &str) -> Option<String> {
    text.parse::<Requirement>().ok().map(|r| r.to_string())
}

#[test]
fn requirements_are_parsed_and_normalized() {
    for (text, same) in [
        ("numpy", "numpy"),
        (" NumPy ", "numpy"),
        ("zope.interface", "zope-interface"),
        ("a__b--c..d", "a-b-c-d"),
        ("numpy==1.26.4", "numpy==1.26.4"),
        ("numpy == 1.26.*", "numpy==1.26.*"),
        ("x>=1, <2,!=1.5", "x!=1.5,<2,>=1"),
        ("x~=1.0", "x~=1.0"),
        ("x===1.0+Local", "x===1.0+local"),
        ("requests[Socks, security]>2", "requests[security,socks]>2"),
        ("x==1!2.0", "x==1!2.0"),
        ("7zip", "7zip"),
    ] {
        assert_eq!(read(text).as_deref(), Some(same), "{text:?}");
    }
}

#[test]
fn other_text_is_refused() {
    for text in [
        "",
        " ",
        "-r requirements.txt",
        "-rfile",
        "--index-url=http://example.org",
        "-e .",
        ".",
        "..",
        "./package",
        "/tmp/package",
        "../package.whl",
        "package.whl/",
        "numpy; rm -rf /",
        "numpy;python_version<'3'",
        "numpy && true",
        "numpy\nscipy",
        "numpy\0",
        "numpy scipy",
        "numpy @ https://example.org/x.whl",
        "git+https://example.org/x",
        "https://example.org/x.whl",
        "file:///tmp/x.whl",
        "numpy==",
        "numpy=1",
        "numpy==1 --hash=x",
        "numpy==1;",
        "numpy==$(id)",
        "numpy[",
        "numpy[]",
        "numpy[a]]",
        "numpy,",
        "numpy==1,",
        "_numpy",
        "numpy-",
        "größe",
        "%s",
        "$HOME",
        "`id`",
        "n'",
        "~user",
    ] {
        assert_eq!(read(text), None, "{text:?}");
    }
    assert_eq!(read(&"a".repeat(MAX_LENGTH + 1)), None);
}

#[test]
fn installers_have_prefixes() {
    assert_eq!(read("pip:NumPy==1").as_deref(), Some("numpy==1"));
    assert_eq!(read("npm:a").as_deref(), Some("npm:a"));
    assert_eq!(read("gem:a").as_deref(), Some("gem:a"));
    assert_eq!(read("go:a.b/c").as_deref(), Some("go:a.b/c"));
    for text in ["npm", "npm-x", "gem", "go"] {
        assert_eq!(read(text).as_deref(), Some(text), "a package of pip");
    }
    for text in ["npm:npm:a", "gem: -v", "NPM:a", "other:a", ":a", "npm:"] {
        assert_eq!(read(text), None, "{text:?}");
    }
    let requirement = |text| Requirement::of_installer(Installer::Gem, text);
    assert_eq!(
        requirement("rack").expect("valid"),
        requirement("gem:rack").expect("valid")
    );
    let error = requirement("npm:rack").expect_err("another");
    assert_eq!(error.kind(), ErrorKind::InvalidPolicy, "{error}");
}

#[test]
fn unsupported_installer_is_a_typed_error() {
    for (text, word) in [("apt:gcc", "image build"), ("conda:numpy", "image")] {
        let error = text.parse::<Requirement>().expect_err(text);
        assert_eq!(error.kind(), ErrorKind::LibrariesNotSupported, "{error}");
        assert!(error.fix().is_some_and(|fix| fix.contains(word)), "{error}");
        let listed = requirements(ErrorKind::InvalidSpec, "read", &[text.into()]);
        assert_eq!(
            listed.expect_err(text).kind(),
            ErrorKind::LibrariesNotSupported
        );
    }
}

#[test]
fn one_name_may_have_two_installers() {
    let both = ["a".into(), "npm:a".into(), "gem:a".into()];
    let read = requirements(ErrorKind::InvalidSpec, "read", &both).expect("valid");
    assert_eq!(read.len(), 3);
    let twice = ["npm:a@1".into(), "npm:a".into()];
    requirements(ErrorKind::InvalidSpec, "read", &twice).expect_err("twice");
    let all = read[1].clone();
    assert!(all.provides(&"npm:a".parse().expect("valid")));
    assert!(!all.provides(&"gem:a".parse().expect("valid")));
    assert!(!all.provides(&"npm:a@1".parse().expect("valid")));
}

proptest! {
    #[test]
    fn accepted_text_is_one_word_without_options(text in "\\PC{0,40}") {
        if let Some(read) = read(&text) {
            prop_assert!(read.starts_with(|c: char| c.is_ascii_alphanumeric()), "{read:?}");
            let rest = ["npm:", "gem:", "go:", "cargo:"].iter().find_map(|prefix| read.strip_prefix(prefix));
            prop_assert!(!rest.unwrap_or(&read).contains(|c: char| c.is_whitespace() || ":;'\"$`\\|&(){}".contains(c)), "{read:?}");
        }
    }

    #[test]
    fn displayed_requirement_round_trips(text in "[a-z]{1,9}(\\[[a-z]{1,5}\\])?((==|>=|<)[0-9.]{0,4}[0-9](,!=[0-9])?)?") {
        if let Ok(requirement) = text.parse::<Requirement>() {
            prop_assert_eq!(requirement.to_string().parse::<Requirement>().unwrap(), requirement);
        }
    }
}
