//! Tests of both source formats, and of the choice among sources.

use super::{Source, choose, one_line, stanzas};

const STANZAS: &str = "\
Types: deb
# a comment within a stanza
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates
Components: main contrib
Signed-By: /usr/share/keyrings/debian.gpg

Types: deb deb-src
URIs: http://mirror.example/security
Suites: bookworm-security
Components:
 main
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .

Types: deb
URIs: http://mirror.example/disabled
Suites: bookworm
Components: main
Enabled: no

Types: deb-src
URIs: http://mirror.example/source-only
Suites: bookworm
Components: main
";

fn texts(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[test]
fn stanzas_become_lines_of_their_release() {
    let chosen = choose(&stanzas(STANZAS), "bookworm", true).expect("a mirror");
    assert_eq!(
        chosen,
        "deb [signed-by=/usr/share/keyrings/debian.gpg] http://mirror.example/debian bookworm main\n\
         deb [signed-by=/usr/share/keyrings/debian.gpg] http://mirror.example/debian \
         bookworm-updates main\n\
         deb http://mirror.example/security bookworm-security main\n"
    );
}

#[test]
fn one_line_sources_are_parsed() {
    assert_eq!(
        one_line("deb [arch=amd64 signed-by=/k.gpg] http://m/debian bookworm main contrib # x"),
        Some(Source {
            addresses: texts(&["http://m/debian"]),
            suites: texts(&["bookworm"]),
            components: texts(&["main", "contrib"]),
            keyring: Some("/k.gpg".to_owned()),
        })
    );
    for line in [
        "",
        "# deb http://m/debian bookworm main",
        "deb-src http://m/debian bookworm main",
        "deb cdrom:[Debian]/ bookworm main",
        "deb [broken http://m/debian",
        "deb http://m/debian",
    ] {
        assert_eq!(one_line(line), None, "{line:?}");
    }
}

#[test]
fn another_release_of_debian_lends_its_mirror() {
    let sources: Vec<_> = [
        "deb http://third.example/apt trixie-tool main",
        "deb http://m/security trixie-security main",
        "deb http://m/debian trixie main",
    ]
    .iter()
    .filter_map(|line| one_line(line))
    .collect();
    assert_eq!(
        choose(&sources, "bookworm", true),
        Some("deb http://m/debian bookworm main\n".to_owned())
    );
    assert_eq!(
        choose(&sources, "bookworm", false),
        None,
        "not Debian: not its mirror"
    );
}

#[test]
fn updates_alone_are_no_mirror() {
    let sources: Vec<_> = one_line("deb http://m/s bookworm-security main")
        .into_iter()
        .collect();
    assert_eq!(choose(&sources, "bookworm", true), None);
    let other: Vec<_> = one_line("deb http://docker/debian bookworm stable")
        .into_iter()
        .collect();
    assert_eq!(choose(&other, "bookworm", true), None, "no component main");
    assert_eq!(choose(&[], "bookworm", true), None);
}
