//! Text that came out of a sandbox, made harmless for terminals and logs.

use std::fmt::Write as _;

/// The text with control characters, and those that change the direction of text, written as escapes.
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

/// Zero-width characters, separators of lines and marks of direction, which let a name look like another one.
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
    fn controls_are_written_out_and_text_stays() {
        assert_eq!(
            escape("a\u{1b}[31mb\nc\u{9b}\u{202e}d"),
            "a\\u{1b}[31mb\\nc\\u{9b}\\u{202e}d"
        );
        assert_eq!(escape("Ünïcode naïve 表.csv"), "Ünïcode naïve 表.csv");
    }
}
