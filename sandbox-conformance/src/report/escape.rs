//! Escapes output of a sandbox for terminals and documents.

use std::fmt::Write as _;

/// The text on one line of at most 500 characters. Control characters, and those that reorder text,
/// are spelled out.
#[must_use]
pub fn printable(text: &str) -> String {
    let mut safe = String::new();
    for (index, character) in text.trim_end().chars().enumerate() {
        if index == 500 {
            safe.push('…');
            break;
        }
        if character.is_control() || is_reordering(character) {
            let _ = write!(safe, "\\u{{{:x}}}", u32::from(character));
        } else {
            safe.push(character);
        }
    }
    safe
}

fn is_reordering(character: char) -> bool {
    matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// Escapes text and attributes of XML.
#[must_use]
pub fn xml(text: &str) -> String {
    let mut safe = String::new();
    for character in printable(text).chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            '\u{fffe}' | '\u{ffff}' => safe.push('\u{fffd}'),
            other => safe.push(other),
        }
    }
    safe
}

/// Escapes text of HTML line by line, as [`xml`] does, and keeps the line breaks.
#[must_use]
pub fn html(text: &str) -> String {
    text.split('\n').map(xml).collect::<Vec<_>>().join("\n")
}

/// Escapes a table cell of Markdown.
#[must_use]
pub fn markdown(text: &str) -> String {
    let mut safe = String::new();
    for character in printable(text).chars() {
        match character {
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '&' => safe.push_str("&amp;"),
            '|' | '`' | '*' | '_' | '[' | ']' | '\\' | '!' | '#' | '~' | '$' | '@' => {
                safe.push('\\');
                safe.push(character);
            }
            other => safe.push(other),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sandbox_text_is_escaped() {
        assert_eq!(
            printable("\u{1b}[2Ja\nb\u{202e}c"),
            "\\u{1b}[2Ja\\u{a}b\\u{202e}c"
        );
        assert_eq!(xml("<a b='c'>&\u{0}"), "&lt;a b=&#39;c&#39;&gt;&amp;\\u{0}");
        assert_eq!(markdown("|[x](y)<img>`"), "\\|\\[x\\](y)&lt;img&gt;\\`");
        assert_eq!(html("<b>\nc\r"), "&lt;b&gt;\nc");
        assert_eq!(printable(&"x".repeat(600)).chars().count(), 501);
    }
}
