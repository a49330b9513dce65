//! Constant texts in code.

use tree_sitter::Node;

use super::dialect::Shape;
use super::names::Names;

/// The longest constant that the scan computes, in bytes.
const MAX_CONSTANT: usize = 1 << 16;
/// How deeply the operands of a constant are nested.
const MAX_DEPTH: u8 = 16;

impl Names<'_> {
    /// The value of a constant text: a literal, or literals that are joined.
    pub(crate) fn constant(&self, node: Node<'_>) -> Option<String> {
        let mut text = String::new();
        self.append(node, &mut text, MAX_DEPTH)?;
        Some(text)
    }

    fn append(&self, node: Node<'_>, text: &mut String, depth: u8) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        match self.shape(node) {
            Shape::Text => self.append_literal(node, text),
            Shape::Joined => {
                for child in self.children(node) {
                    self.append(child, text, depth)?;
                }
                Some(())
            }
            Shape::Operator => {
                let plus = (0..node.child_count())
                    .filter_map(|index| node.child(index.try_into().ok()?))
                    .any(|child| matches!(child.kind(), "+" | ".."));
                if !plus {
                    return None;
                }
                self.append(node.child_by_field_name("left")?, text, depth)?;
                self.append(node.child_by_field_name("right")?, text, depth)
            }
            Shape::First | Shape::Last => {
                self.append(self.children(node).last().copied()?, text, depth)
            }
            _ => None,
        }
    }

    fn append_literal(&self, node: Node<'_>, text: &mut String) -> Option<()> {
        let literal = self.text(node);
        if literal.len() > MAX_CONSTANT || text.len() > MAX_CONSTANT {
            return None;
        }
        let children = self.children(node);
        if children.iter().any(|child| {
            child.kind().contains("interpolation") || child.kind().contains("substitution")
        }) {
            return None;
        }
        let quote = literal.find(['"', '\'', '`']);
        let (prefix, body) = match quote {
            Some(at) => literal.split_at(at),
            // A symbol of Ruby.
            None => return literal.strip_prefix(':').map(|name| text.push_str(name)),
        };
        let quote = body.chars().next()?;
        let trimmed = match body.strip_prefix(&String::from(quote).repeat(3)) {
            Some(inner) if inner.len() >= 3 => inner.get(..inner.len() - 3)?,
            _ => body.get(1..body.len().checked_sub(1)?)?,
        };
        let is_raw = prefix.contains(['r', 'R']) && self.dialect.name != "r";
        match is_raw {
            true => text.push_str(trimmed.trim_matches('#').trim_matches('"')),
            false => unescape(trimmed, text),
        }
        Some(())
    }
}

/// Appends a text with the escapes that most languages share replaced.
pub(crate) fn unescape(text: &str, to: &mut String) {
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        to.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let Some(first) = rest.chars().next() else {
            return;
        };
        let (length, value) = escape(rest, first);
        to.extend(value);
        rest = &rest[length..];
    }
    to.push_str(rest);
}

/// The length in bytes of the escape after its backslash, and its character.
fn escape(rest: &str, first: char) -> (usize, Option<char>) {
    let digits = |from: usize, most: usize, radix: u32| {
        let text = &rest[from..];
        let length = text
            .chars()
            .take(most)
            .take_while(|c| c.is_digit(radix))
            .count();
        let value = u32::from_str_radix(&text[..length], radix).ok();
        (from + length, value.and_then(char::from_u32))
    };
    match first {
        'n' => (1, Some('\n')),
        't' => (1, Some('\t')),
        'r' => (1, Some('\r')),
        '\n' => (1, None),
        'u' | 'x' if rest[1..].starts_with('{') => {
            let (end, value) = digits(2, 6, 16);
            (end + usize::from(rest[end..].starts_with('}')), value)
        }
        'x' => digits(1, 2, 16),
        'u' => digits(1, 4, 16),
        'U' => digits(1, 8, 16),
        '0'..='7' => digits(0, 3, 8),
        other => (other.len_utf8(), Some(other)),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn escapes_are_replaced() {
        let of = |text: &str| {
            let mut to = String::new();
            super::unescape(text, &mut to);
            to
        };
        assert_eq!(of(r"o\x73"), "os");
        assert_eq!(of(r"\157\163"), "os");
        assert_eq!(of(r"\u006fs\u{73}"), "oss");
        assert_eq!(of(r"\U0000006fs"), "os");
        assert_eq!(of("o\\\ns"), "os");
        assert_eq!(of(r"a\"), "a");
        assert_eq!(of(r"\xé\uD800é\\"), "éé\\");
    }
}
