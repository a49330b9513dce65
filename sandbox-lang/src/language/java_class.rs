//! The names in Java code that decide about its file and its main class.

/// Names of a Java source file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct JavaNames {
    /// The public type, after which the file must be named; else the main class; else `Main`.
    pub(super) file_stem: String,
    /// The class with `main`, with its package; else the public type; else `Main`.
    pub(super) main_class: String,
}

impl JavaNames {
    /// Reads the top-level types of the code. Code that is not Java has the default names: its
    /// errors are the compiler's to tell.
    pub(super) fn of(code: &[u8]) -> Self {
        let text = String::from_utf8_lossy(code);
        let tokens = tokens(&text);
        let mut found = FoundClass::default();
        let mut depth = 0usize;
        let mut is_public = false;
        for (index, token) in tokens.iter().enumerate() {
            let next = tokens.get(index + 1).copied().unwrap_or_default();
            match *token {
                "{" => depth += 1,
                "}" => {
                    depth = depth.saturating_sub(1);
                    is_public = false;
                }
                ";" => is_public = false,
                "package" if depth == 0 => found.package = package(&tokens[index + 1..]),
                "public" if depth == 0 => is_public = true,
                "class" | "interface" | "enum" | "record" if depth == 0 && is_name(next) => {
                    found.current = Some(next);
                    if is_public {
                        found.public = found.public.or(Some(next));
                    }
                    is_public = false;
                }
                "main" if depth == 1 && next == "(" && index > 0 && tokens[index - 1] == "void" => {
                    found.main = found.main.or(found.current);
                }
                _ => {}
            }
        }
        found.names()
    }
}

#[derive(Default)]
struct FoundClass<'a> {
    package: String,
    current: Option<&'a str>,
    public: Option<&'a str>,
    main: Option<&'a str>,
}

impl FoundClass<'_> {
    fn names(self) -> JavaNames {
        let stem = self.public.or(self.main).unwrap_or("Main");
        let main = self.main.or(self.public).unwrap_or("Main");
        JavaNames {
            file_stem: stem.to_owned(),
            main_class: match self.package.as_str() {
                "" => main.to_owned(),
                package => format!("{package}.{main}"),
            },
        }
    }
}

/// The name before the semicolon.
fn package(tokens: &[&str]) -> String {
    let parts = tokens.iter().take_while(|token| **token != ";");
    let parts = parts.filter(|token| is_name(token)).copied();
    parts.collect::<Vec<_>>().join(".")
}

/// Whether it is a name in ASCII: it becomes a file's name.
fn is_name(token: &str) -> bool {
    let mut bytes = token.bytes();
    let starts = bytes
        .next()
        .is_some_and(|c| c.is_ascii_alphabetic() || c == b'_');
    starts && token.len() <= 200 && bytes.all(|c| c.is_ascii_alphanumeric() || c == b'_')
}

/// The words and signs of the code, without comments, strings and spaces.
fn tokens(text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            end_after(rest, 2, "*/")
        } else if rest.starts_with("\"\"\"") {
            end_after(rest, 3, "\"\"\"")
        } else if first == '"' || first == '\'' {
            quoted(rest, first)
        } else if first.is_alphanumeric() || first == '_' {
            let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
            let length = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            tokens.push(&rest[..length]);
            length
        } else {
            if !first.is_whitespace() {
                tokens.push(&rest[..first.len_utf8()]);
            }
            first.len_utf8()
        };
        rest = &rest[length..];
    }
    tokens
}

fn end_after(text: &str, start: usize, end: &str) -> usize {
    let found = text[start..].find(end);
    found.map_or(text.len(), |at| start + at + end.len())
}

/// The length of a string or character. It ends with its line at the latest.
fn quoted(text: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '\n' => return at,
            c if c == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(code: &str) -> (String, String) {
        let JavaNames {
            file_stem,
            main_class,
        } = JavaNames::of(code.as_bytes());
        (file_stem, main_class)
    }

    fn same(code: &str, name: &str) {
        assert_eq!(names(code), (name.to_owned(), name.to_owned()), "{code}");
    }

    #[test]
    fn public_type_names_the_file() {
        same(
            "public class Hello { public static void main(String[] a) {} }",
            "Hello",
        );
        same(
            "class A {} public final class B { static void main(String[] a) {} }",
            "B",
        );
        same(
            "public record P(int x) { public static void main(String[] a) {} }",
            "P",
        );
        same("import java.util.*;\n@Deprecated public enum E { A; }", "E");
    }

    #[test]
    fn class_with_main_runs_if_no_type_is_public() {
        same(
            "class A { void f() {} } class B { public static void main(String[] a) {} }",
            "B",
        );
        let code =
            "package a . b; public interface I {} class C { static void main(String[] a) {} }";
        assert_eq!(names(code), ("I".to_owned(), "a.b.C".to_owned()));
    }

    #[test]
    fn comments_and_strings_name_nothing() {
        same(
            "// public class No\n/* public class No */ class Yes { static void main(String[] a) {} }",
            "Yes",
        );
        same(
            "class A { String s = \"} public class No {\"; char c = '\\''; static void main(String[] a) {} }",
            "A",
        );
        same(
            "class A { String s = \"\"\"\n } public class No { \"\"\"; static void main(String[] a) {} }",
            "A",
        );
    }

    #[test]
    fn inner_classes_name_nothing() {
        same(
            "public class A { public static class B { public static void main(String[] a) {} } }",
            "A",
        );
    }

    #[test]
    fn other_text_has_the_default_names() {
        same("", "Main");
        same("public class", "Main");
        same("public class Ünder {}", "Main");
        same("\"unterminated", "Main");
        same("/* unterminated", "Main");
    }
}
