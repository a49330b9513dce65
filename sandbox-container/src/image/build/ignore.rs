//! Reads `.dockerignore`.

use std::path::Path;

use globset::{GlobBuilder, GlobMatcher};

/// The patterns of a `.dockerignore`, in order: the last match decides.
#[derive(Debug, Default)]
pub(super) struct IgnoreRules {
    rules: Vec<(GlobMatcher, bool)>,
}

impl IgnoreRules {
    /// Parses the patterns.
    ///
    /// # Errors
    ///
    /// An invalid pattern.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut rules = Vec::new();
        for line in text.trim_start_matches('\u{feff}').lines() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (pattern, is_exception) = match line.strip_prefix('!') {
                Some(pattern) => (pattern.trim(), true),
                None => (line, false),
            };
            // Clean the path: no empty parts, dots, or slashes at either end.
            let parts = pattern.split('/').filter(|part| !matches!(*part, "" | "."));
            let clean = parts.collect::<Vec<_>>().join("/");
            if clean.is_empty() {
                continue;
            }
            // Braces are literal in `.dockerignore`, but special in globs.
            let plain = clean.replace('{', "[{]").replace('}', "[}]");
            let glob = GlobBuilder::new(&plain)
                .literal_separator(true)
                .backslash_escape(true)
                .build()
                .map_err(|error| format!(".dockerignore: {line:?}: {error}"))?;
            rules.push((glob.compile_matcher(), is_exception));
        }
        Ok(Self { rules })
    }

    /// Whether this path in the context is ignored. A pattern that matches a folder covers its
    /// content.
    pub(super) fn ignores(&self, path: &Path) -> bool {
        let matches = |glob: &GlobMatcher| {
            path.ancestors()
                .filter(|part| !part.as_os_str().is_empty())
                .any(|part| glob.is_match(part))
        };
        let last = self.rules.iter().rev().find(|(glob, _)| matches(glob));
        last.is_some_and(|(_, is_exception)| !is_exception)
    }

    /// Whether files in an ignored folder may still be sent.
    pub(super) fn has_exceptions(&self) -> bool {
        self.rules.iter().any(|(_, is_exception)| *is_exception)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_like_dockers() {
        let ignore = IgnoreRules::parse(
            "# comment\n\n/build/\n*.log\n**/cache\ndocs\n!docs/README.md\n./x/../y\na{b\nsecret?\n!\n",
        );
        let ignore = ignore.expect("patterns");
        for (path, out) in [
            ("build", true),
            ("build/a/b", true),
            ("sub/build", false),
            ("a.log", true),
            ("sub/a.log", false),
            ("cache", true),
            ("a/b/cache/c", true),
            ("docs/x", true),
            ("docs/README.md", false),
            ("a{b", true),
            ("secret1", true),
            ("secret", false),
            ("src/main.rs", false),
        ] {
            assert_eq!(ignore.ignores(Path::new(path)), out, "{path}");
        }
        assert!(ignore.has_exceptions());
        assert!(IgnoreRules::parse("[a").is_err());
        assert!(!IgnoreRules::default().ignores(Path::new("x")));
    }
}
