//! Splits a Dockerfile into instructions, one line each.
//!
//! Builders disagree on where a line ends: on continuations, heredocs, parser directives and
//! control characters. This joins lines where they agree and refuses the rest, so every builder
//! reads the result alike.

/// All instructions.
pub(super) const KEYWORDS: [&str; 18] = [
    "ADD",
    "ARG",
    "CMD",
    "COPY",
    "ENTRYPOINT",
    "ENV",
    "EXPOSE",
    "FROM",
    "HEALTHCHECK",
    "LABEL",
    "MAINTAINER",
    "ONBUILD",
    "RUN",
    "SHELL",
    "STOPSIGNAL",
    "USER",
    "VOLUME",
    "WORKDIR",
];

/// Byte limit of a line. Builders read lines of less than 64 KiB; replacing a name by an id adds a
/// little.
const MAX_LENGTH: usize = 65_000;

/// The image that `# syntax=` may name: the engine's builder supports its syntax without it.
const FRONTEND: &str = "docker/dockerfile";

/// A Dockerfile split into instructions.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Lines {
    pub lines: Vec<Line>,
    /// Notes on dropped lines that are not comments.
    pub notes: Vec<String>,
}

/// One instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    /// Number of its first line in the file, from 1.
    pub number: usize,
    pub keyword: &'static str,
    /// The text after the keyword, trimmed, and never ending with a backslash.
    pub rest: String,
}

/// Joins continued lines and drops comments.
///
/// # Errors
///
/// Text that builders interpret differently, with the line number and the fix.
pub(super) fn lines(text: &str) -> Result<Lines, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let text = text.replace("\r\n", "\n");
    let physical = text
        .split('\n')
        .zip(1..)
        .map(|(line, number)| (number, line));
    let physical = physical.collect::<Vec<(usize, &str)>>();
    for (number, line) in &physical {
        if let Some(bad) = line.chars().find(|c| c.is_control() && *c != '\t') {
            let bad = bad.escape_default();
            return Err(format!("line {number}: remove the control character {bad}"));
        }
    }
    let (notes, head) = directives(&physical)?;
    let mut rest = physical.into_iter().skip(head);
    let mut lines = Vec::new();
    while let Some((number, line)) = rest.next() {
        if is_skipped(line) {
            continue;
        }
        let joined = joined(number, line, &mut rest)?;
        lines.push(instruction(number, joined.trim())?);
    }
    Ok(Lines { lines, notes })
}

/// Whether builders skip this line, even between a line and its continuation.
fn is_skipped(line: &str) -> bool {
    let line = line.trim_start();
    line.is_empty() || line.starts_with('#')
}

/// A line with its continuations.
fn joined<'a>(
    number: usize,
    first: &'a str,
    rest: &mut impl Iterator<Item = (usize, &'a str)>,
) -> Result<String, String> {
    let mut joined = String::new();
    let mut piece = first;
    while let Some(part) = piece.trim_end_matches([' ', '\t']).strip_suffix('\\') {
        if part.ends_with('\\') {
            return Err(format!(
                "line {number}: some builders read two backslashes at the end of a line as a continuation, others do not; \
                 end the line with one, or with something else"
            ));
        }
        joined.push_str(part);
        let next = rest.find(|(_, line)| !is_skipped(line));
        let Some((_, next)) = next else {
            return Err(format!(
                "line {number}: no line follows the backslash at its end; remove it"
            ));
        };
        piece = next;
    }
    joined.push_str(piece);
    Ok(joined)
}

/// Splits a line into keyword and arguments.
fn instruction(number: usize, text: &str) -> Result<Line, String> {
    let (word, rest) = text.split_once([' ', '\t']).unwrap_or((text, ""));
    let capital = word.to_ascii_uppercase();
    let Some(keyword) = KEYWORDS.into_iter().find(|keyword| *keyword == capital) else {
        return Err(format!("line {number}: {word:?} is no instruction"));
    };
    let rest = rest.trim();
    if rest.ends_with('\\') {
        return Err(format!(
            "line {number}: a backslash ends the instruction, and builders would continue it; remove it"
        ));
    }
    if text.len() > MAX_LENGTH {
        return Err(format!(
            "line {number}: an instruction of more than {MAX_LENGTH} bytes; move the text to a file and COPY it"
        ));
    }
    if keyword == "ONBUILD" {
        return Err(format!(
            "line {number}: ONBUILD is not supported; write the instruction into the Dockerfile that starts from this image"
        ));
    }
    if matches!(keyword, "ADD" | "COPY" | "RUN") && has_heredoc(rest) {
        return Err(format!(
            "line {number}: heredocs (<<) are not supported; move the text to a file and COPY it, or join the commands with &&"
        ));
    }
    Ok(Line {
        number,
        keyword,
        rest: rest.to_owned(),
    })
}

/// Whether some builder may read a heredoc: exactly two consecutive `<`.
fn has_heredoc(text: &str) -> bool {
    text.split(|c| c != '<').any(|run| run.len() == 2)
}

/// Checks the parser directives at the top; returns notes on those dropped, and their number of
/// lines.
fn directives(lines: &[(usize, &str)]) -> Result<(Vec<String>, usize), String> {
    let mut notes = Vec::new();
    for (number, line) in lines {
        let Some((name, value)) = directive(line) else {
            break;
        };
        let fix = match name.to_ascii_lowercase().as_str() {
            "syntax" if is_plain(value) => {
                notes.push(format!(
                    "line {number}: \"# syntax={value}\" is left out: the engine's own builder is used"
                ));
                continue;
            }
            "syntax" => {
                "remove it, or write # syntax=docker/dockerfile:1: the engine's own builder is used"
            }
            "escape" => "remove it, and continue lines with a backslash",
            "check" => "remove it: it configures a linter, which does not run here",
            _ => {
                "builders may read it as a parser directive; move the comment below the first instruction"
            }
        };
        return Err(format!("line {number}: \"# {name}={value}\": {fix}"));
    }
    let count = notes.len();
    Ok((notes, count))
}

/// Name and value of a parser directive, known or unknown.
fn directive(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.trim_start().strip_prefix('#')?.split_once('=')?;
    let (name, value) = (name.trim(), value.trim());
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric());
    (is_name && !value.is_empty()).then_some((name, value))
}

/// Whether `# syntax=` names version 1 of the standard Dockerfile syntax.
fn is_plain(value: &str) -> bool {
    let name = value.strip_prefix("docker.io/").unwrap_or(value);
    let Some(version) = name.strip_prefix(FRONTEND) else {
        return false;
    };
    let Some(version) = version.strip_prefix(':') else {
        return version.is_empty();
    };
    let mut parts = version.split('.');
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    parts.next() == Some("1") && parts.clone().count() <= 2 && parts.all(is_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(text: &str) -> String {
        let lines = lines(text).expect(text).lines;
        let line = |line: &Line| format!("{}: {} {}\n", line.number, line.keyword, line.rest);
        lines.iter().map(line).collect()
    }

    #[test]
    fn instructions_are_joined_to_one_line() {
        let text = "\u{feff}# syntax=docker/dockerfile:1.4\r\n\n# comment\r\nfrom  alpine\tAS x \r\n\
                    RUN a && \\\n\n  # between\n\tb \\ \n  c\n  \\\n  env A=\\\n\\\n  \"b  c\"\n\
                    RUN cat <<< x; [ -f a ] && echo \\$x\nRUN echo é\u{a0}\n";
        insta::assert_snapshot!(sent(text), @r#"
        4: FROM alpine	AS x
        5: RUN a && 	b   c
        10: ENV A=  "b  c"
        14: RUN cat <<< x; [ -f a ] && echo \$x
        15: RUN echo é
        "#);
        assert_eq!(sent(""), "");
    }

    #[test]
    fn standard_syntax_directive_is_dropped_with_a_note() {
        for good in [
            "docker/dockerfile",
            "docker/dockerfile:1",
            "docker/dockerfile:1.7",
            "docker/dockerfile:1.7.0",
            "docker.io/docker/dockerfile:1",
        ] {
            let lines = lines(&format!("#syntax = {good}\nFROM x")).expect(good);
            assert!(lines.notes.len() == 1 && lines.notes[0].contains(good));
            assert_eq!(lines.lines.len(), 1);
        }
        assert!(
            lines("# Copyright 2026\n# a=b\nFROM x\n")
                .expect("comments")
                .notes
                .is_empty()
        );
    }

    #[test]
    fn text_that_builders_interpret_differently_is_refused() {
        let mut reasons = String::new();
        for bad in [
            "# escape=`\nFROM x",
            "# foo=bar\n# escape=`\nFROM x",
            "# syntax=docker/dockerfile:1\n# escape=`\nFROM x",
            "# Escape = \\\nFROM x",
            "# check=skip=all\nFROM x",
            "# syntax=evil/frontend\nFROM x",
            "# syntax=docker/dockerfile:1-labs\nFROM x",
            "# syntax=docker/dockerfile:2\nFROM x",
            "# syntax=docker/dockerfile@sha256:00\nFROM x",
            "FROM x\nRUN <<CMD\nFROM evil\nCMD",
            "FROM x\nRUN cat <\\\n<EOF\nFROM evil\nEOF",
            "FROM x\nCOPY <<-EOF /x\nEOF",
            "FROM x\nADD <<\"EOF\" /x\nEOF",
            "FROM x\nRUN 3<<EOF cat\nEOF",
            "FROM x\nONBUILD ADD http://evil /",
            "FROM x\nonbuild run <<EOF",
            "FROM x\nRUN echo \\\\\nFROM evil",
            "FROM x\nRUN echo \\\\ \t\nFROM evil",
            "FROM x\nRUN echo \\\u{a0}\nFROM evil",
            "FROM x\nRUN echo \\",
            "FROM x\nRUN echo \\\n# only comments\n\n",
            "FROM x\rFROM evil",
            "FROM x\nRUN a\u{c}FROM evil",
            "FROM x\nRUN a\u{b}b",
            "FROM x\nRUN a\u{85}b",
            "FROM x\nRUN a\0b",
            "FROM\u{a0}x",
            "FROM x\nINCLUDE+ y",
        ] {
            let why = lines(bad).expect_err(bad);
            reasons.push_str(&format!("{}\n    {why}\n", bad.escape_debug()));
        }
        let long = format!("FROM x\nRUN {}", "a \\\n".repeat(40_000) + "b");
        assert!(lines(&long).expect_err("long").contains("65000 bytes"));
        insta::assert_snapshot!(reasons);
    }
}
