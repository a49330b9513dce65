//! Escapes text from a sandbox for terminals and logs.

use std::fmt::Write as _;

/// Escapes control characters and invisible characters (`\u{1b}`), which could change a terminal or
/// hide text.
#[must_use]
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() || is_invisible(character) {
            // Writing to a string cannot fail.
            let _ = write!(escaped, "{}", character.escape_default());
        } else {
            escaped.push(character);
        }
    }
    escaped
}

/// Whether it is zero-width, a line separator or a direction mark: they can disguise a name.
fn is_invisible(character: char) -> bool {
    matches!(
        character,
        '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
    )
}

#[cfg(test)]
mod tests {
    use super::escape;

    #[test]
    fn control_characters_are_escaped_and_text_is_kept() {
        assert_eq!(
            escape("a\u{1b}[31mb\nc\u{9b}\u{202e}d"),
            "a\\u{1b}[31mb\\nc\\u{9b}\\u{202e}d"
        );
        assert_eq!(escape("Ünïcode naïve 表.csv"), "Ünïcode naïve 表.csv");
    }
}
