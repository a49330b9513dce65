//! Expands build arguments in `FROM`.

use std::collections::{BTreeMap, HashMap};

use super::lines::Line;

/// Byte limit of an expanded value: no image name is longer, and nested values stay small.
const MAX_LENGTH: usize = 1024;

/// The values of all `ARG`s before the first stage, with the request's values.
pub(super) fn values(
    lines: &[Line],
    arguments: &BTreeMap<String, String>,
) -> HashMap<String, String> {
    let mut values = HashMap::new();
    let global = lines.iter().take_while(|line| line.keyword != "FROM");
    for part in global.flat_map(|line| line.rest.split_whitespace()) {
        let (name, default) = match part.split_once('=') {
            Some((name, default)) => (name, Some(default.trim_matches(['"', '\'']))),
            None => (part, None),
        };
        let given = arguments.get(name).map(String::as_str);
        if let Some(value) = given.or(default) {
            // A default may refer to earlier arguments; errors are reported where the value is
            // used.
            let value = expand(value, &values).unwrap_or_else(|_| value.to_owned());
            values.insert(name.to_owned(), value);
        }
    }
    values
}

/// Expands arguments in a text: `$name`, `${name}`, `${name:-default}`.
///
/// # Errors
///
/// Arguments without a value, and results that are too long for a name.
pub(super) fn expand(text: &str, values: &HashMap<String, String>) -> Result<String, String> {
    let unknown = |name: &str| {
        format!("{text}: no value is known for {name:?} (ARG before FROM, or a build argument)")
    };
    let mut out = String::new();
    let mut rest = text.trim_matches(['"', '\'']);
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let (name, default) = if let Some(inner) = rest.strip_prefix('{') {
            let (inner, after) = inner.split_once('}').ok_or_else(|| unknown(rest))?;
            rest = after;
            match inner.find(":-").map(|at| (&inner[..at], &inner[at + 2..])) {
                Some((name, default)) => (name, Some(default)),
                None => (inner, None),
            }
        } else {
            let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let end = rest.find(|c| !word(c)).unwrap_or(rest.len());
            let (name, after) = rest.split_at(end);
            rest = after;
            (name, None)
        };
        let value = values.get(name).map(String::as_str);
        let value = value.filter(|value| !value.is_empty() || default.is_none());
        match value.or(default) {
            Some(value) if !value.contains('$') => out.push_str(value),
            _ => return Err(unknown(name)),
        }
        if out.len() > MAX_LENGTH {
            break;
        }
    }
    out.push_str(rest);
    match out.len() > MAX_LENGTH {
        true => Err(format!(
            "a name with more than {MAX_LENGTH} bytes, made of arguments"
        )),
        false => Ok(out),
    }
}

#[cfg(test)]
mod tests {
    use super::super::lines::lines;
    use super::*;

    fn expanded(head: &str, text: &str) -> Result<String, String> {
        let given = BTreeMap::from([("GIVEN".to_owned(), "given:1".to_owned())]);
        let lines = lines(&format!("{head}\nFROM x\nARG LATE=1")).expect(head);
        expand(text, &values(&lines.lines, &given))
    }

    #[test]
    fn arguments_are_expanded() {
        let head = "ARG BASE=python:3.11\nARG GIVEN=other TAG=\"7\"\nARG ALL=a/${BASE}-$TAG EMPTY= BAD=$NONE";
        for (text, value) in [
            ("${BASE}", "python:3.11"),
            ("\"$GIVEN\"", "given:1"),
            ("$ALL", "a/python:3.11-7"),
            ("${NONE:-alpine}", "alpine"),
            ("${EMPTY:-alpine}", "alpine"),
            ("x$EMPTY", "x"),
            ("plain", "plain"),
        ] {
            assert_eq!(expanded(head, text).as_deref(), Ok(value));
        }
        for bad in [
            "$NONE",
            "$BAD",
            "$LATE",
            "${NONE:-$BASE}",
            "${BASE",
            "$",
            "${BASE:+x}",
        ] {
            let why = expanded(head, bad).expect_err(bad);
            assert!(why.contains("no value is known"), "{why}");
        }
    }

    #[test]
    fn nested_values_are_limited() {
        let mut head = "ARG A0=aaaaaaaa".to_owned();
        for n in 1..200 {
            head.push_str(&format!("\nARG A{n}=$A{0}$A{0}", n - 1));
        }
        assert!(expanded(&head, "$A3").is_ok());
        assert!(expanded(&head, "$A199").is_err());
        let long = expanded(&head, &"$A6".repeat(3)).expect_err("long");
        assert!(long.contains("1024 bytes"), "{long}");
    }
}
