//! What a parser of a file that a person wrote says, in the words of this project.

/// The error of a TOML parser: one line with the place and the problem, followed by the lines of the
/// file that it is about.
pub fn toml_error(error: &impl ToString) -> String {
    with_caret(&error.to_string())
}

/// The error of a JSON parser: one line with the problem and the place.
pub(crate) fn json_error(error: &serde_json::Error) -> String {
    nearest_key(&one_line(&error.to_string()))
}

/// The message of a TOML error first, then its lines with the caret, each behind two spaces.
fn with_caret(message: &str) -> String {
    let mut lines = message.trim_end().lines();
    let place = lines.next().unwrap_or_default();
    let place = place.strip_prefix("TOML parse error at ").unwrap_or(place);
    let is_source = |line: &&str| {
        line.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ')
            .starts_with('|')
    };
    let (source, words): (Vec<_>, Vec<_>) = lines.partition(is_source);
    let words = nearest_key(&one_line(&words.join("\n")));
    let message = match words.is_empty() {
        true => place.to_owned(),
        false => format!("{place}: {words}"),
    };
    let source = source.iter().map(|line| format!("\n  {line}"));
    message + &source.collect::<String>()
}

fn one_line(message: &str) -> String {
    message
        .split('\n')
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

/// An unknown key is mostly a misspelled one, and the list of all keys hides which.
fn nearest_key(message: &str) -> String {
    shortened(message).unwrap_or_else(|| message.to_owned())
}

fn shortened(message: &str) -> Option<String> {
    let (start, rest) = message.split_once("unknown field `")?;
    let (unknown, list) = rest.split_once("`, expected one of ")?;
    let (list, end) = list.rsplit_once('`')?;
    let keys = list.split('`').skip(1).step_by(2);
    let similarity = |key: &str| strsim::normalized_damerau_levenshtein(unknown, key);
    let nearest = keys.max_by(|one, other| similarity(one).total_cmp(&similarity(other)))?;
    // A third of the letters may differ.
    (similarity(nearest) > 0.66)
        .then(|| format!("{start}unknown field `{unknown}`; did you mean `{nearest}`?{end}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelled_key_names_the_nearest_one() {
        let message = "unknown field `memry`, expected one of `version`, `memory`, `cpus`";
        let expected = "unknown field `memry`; did you mean `memory`?";
        assert_eq!(nearest_key(message), expected);
        let in_json = nearest_key(&format!("{message} at line 1 column 9"));
        assert_eq!(in_json, format!("{expected} at line 1 column 9"));
        for kept in [
            "unknown field `network_mode`, expected one of `version`, `memory`",
            "invalid type: string \"x\", expected one of `a`",
            "unknown field ``, expected one of ",
        ] {
            assert_eq!(nearest_key(kept), kept);
        }
    }
}
