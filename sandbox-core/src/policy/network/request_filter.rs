//! Which HTTP requests a rule at level `http` allows.

use std::fmt;

use percent_encoding::percent_decode;

/// The longest method.
const MAX_METHOD: usize = 32;

/// How often a path is decoded before it is compared. Servers behind servers decode again.
const MAX_DECODINGS: usize = 4;

/// The methods and paths that a rule at level `http` allows. An empty one allows every request.
///
/// A path is compared as the client writes it, without the query. `*` at the end of a pattern
/// stands for any rest.
///
/// ```
/// use sandbox_core::policy::NetworkRule;
///
/// let rule: NetworkRule = "api.example.org:443 http GET,HEAD /v1/*".parse()?;
/// assert!(rule.requests().allows("GET", "/v1/users?page=2"));
/// assert!(!rule.requests().allows("DELETE", "/v1/users"));
/// assert!(!rule.requests().allows("GET", "/v1/../admin"));
/// # Ok::<(), sandbox_core::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct RequestFilter {
    /// In order, without repetition.
    methods: Vec<String>,
    /// In order, without repetition.
    paths: Vec<PathPattern>,
}

/// A path, or the begin of paths.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct PathPattern {
    text: String,
    is_prefix: bool,
}

impl RequestFilter {
    /// Allows every request.
    pub(super) const fn every() -> Self {
        Self {
            methods: Vec::new(),
            paths: Vec::new(),
        }
    }

    /// Whether every request is allowed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.methods.is_empty() && self.paths.is_empty()
    }

    /// Whether a request is allowed. `target` is a path, with its query if it has one.
    ///
    /// Where paths are restricted, a path is denied if servers do not agree what it means: with
    /// empty segments, `.` or `..`, a backslash, or one of these and `/` behind percent signs.
    #[must_use]
    pub fn allows(&self, method: &str, target: &str) -> bool {
        let path = target.split(['?', '#']).next().unwrap_or_default();
        (self.methods.is_empty() || self.methods.iter().any(|own| own == method))
            && (self.paths.is_empty()
                || is_plain(path) && self.paths.iter().any(|pattern| pattern.matches(path)))
    }

    /// Whether it allows all that another one allows.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        let method = |method| self.methods.contains(method);
        let path = |path| self.paths.iter().any(|own| own.covers(path));
        (self.methods.is_empty() || !other.methods.is_empty() && other.methods.iter().all(method))
            && (self.paths.is_empty() || !other.paths.is_empty() && other.paths.iter().all(path))
    }

    /// Adds methods as a rule has them, separated by commas.
    pub(super) fn add_methods(&mut self, text: &str) -> Result<(), String> {
        for method in text.split(',') {
            if method == "CONNECT" {
                return Err("CONNECT asks for a proxy, and is never allowed at level http".into());
            }
            let is_method = (1..=MAX_METHOD).contains(&method.len())
                && method.bytes().all(|c| c.is_ascii_uppercase() || c == b'-');
            if !is_method {
                return Err(format!(
                    "{method:?} is no method; write methods like GET,POST"
                ));
            }
            insert(&mut self.methods, method.to_owned());
        }
        Ok(())
    }

    /// Adds a path as a rule has it.
    pub(super) fn add_path(&mut self, text: &str) -> Result<(), String> {
        let (path, is_prefix) = match text.strip_suffix('*') {
            Some(path) => (path, true),
            None => (text, false),
        };
        let is_written = path
            .bytes()
            .all(|c| c.is_ascii_graphic() && !b"*?#\"<>\\^`{|}".contains(&c));
        if !is_written || !is_plain(path) {
            return Err(format!(
                "{text:?} is no path; write one like /v1/users, or /v1/* for all below, without a query"
            ));
        }
        let text = path.to_owned();
        insert(&mut self.paths, PathPattern { text, is_prefix });
        Ok(())
    }
}

/// Inserts in order, so that equal filters are equal values.
fn insert<T: Ord>(list: &mut Vec<T>, value: T) {
    if let Err(place) = list.binary_search(&value) {
        list.insert(place, value);
    }
}

impl PathPattern {
    fn matches(&self, path: &str) -> bool {
        match self.is_prefix {
            true => path.starts_with(&self.text),
            false => path == self.text,
        }
    }

    fn covers(&self, other: &Self) -> bool {
        match other.is_prefix {
            true => self.is_prefix && other.text.starts_with(&self.text),
            false => self.matches(&other.text),
        }
    }
}

impl fmt::Display for RequestFilter {
    /// With a space before each word.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.methods.is_empty() {
            write!(f, " {}", self.methods.join(","))?;
        }
        for path in &self.paths {
            write!(f, " {}{}", path.text, if path.is_prefix { "*" } else { "" })?;
        }
        Ok(())
    }
}

/// Whether every server takes a path for the same one.
fn is_plain(path: &str) -> bool {
    if !path.starts_with('/') {
        return false;
    }
    // Only what is written as itself separates segments. Decoded separators are denied.
    let separators = path.bytes().filter(|byte| *byte == b'/').count();
    let mut decoded = path.as_bytes().to_vec();
    for _ in 0..MAX_DECODINGS {
        let found = decoded.iter().filter(|byte| **byte == b'/').count();
        if found != separators || !has_plain_segments(&decoded) {
            return false;
        }
        let next: Vec<u8> = percent_decode(&decoded).collect();
        if next == decoded {
            return true;
        }
        decoded = next;
    }
    false
}

fn has_plain_segments(path: &[u8]) -> bool {
    let mut segments = path[1..].split(|byte| *byte == b'/').peekable();
    while let Some(segment) = segments.next() {
        // Some servers cut parameters off: `..;a` is `..` for them.
        let name = segment.split(|byte| *byte == b';').next();
        let name = name.unwrap_or_default();
        let is_last = segments.peek().is_none();
        if name == b"." || name == b".." || name.is_empty() && !is_last {
            return false;
        }
        if name.is_empty() && !segment.is_empty() {
            return false;
        }
        if segment
            .iter()
            .any(|byte| *byte == b'\\' || byte.is_ascii_control())
        {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn filter(methods: &str, paths: &[&str]) -> RequestFilter {
        let mut filter = RequestFilter::default();
        if !methods.is_empty() {
            filter.add_methods(methods).unwrap();
        }
        for path in paths {
            filter.add_path(path).unwrap();
        }
        filter
    }

    #[test]
    fn methods_and_paths_are_compared_as_written() {
        let some = filter("GET,HEAD", &["/v1/*", "/health"]);
        for (method, target) in [
            ("GET", "/v1/"),
            ("HEAD", "/v1/a/b?x=../..&y=%2f"),
            ("GET", "/health"),
            ("GET", "/v1/a%20b"),
            ("GET", "/v1/a/"),
        ] {
            assert!(some.allows(method, target), "{method} {target}");
        }
        for (method, target) in [
            ("POST", "/v1/"),
            ("get", "/v1/"),
            ("GET", "/v1"),
            ("GET", "/V1/"),
            ("GET", "/health/"),
            ("GET", "/healthy"),
            ("GET", "/%76%31/"),
            ("GET", "*"),
            ("GET", ""),
        ] {
            assert!(!some.allows(method, target), "{method} {target}");
        }
        assert!(RequestFilter::default().allows("ANY", "/%2e%2e//"));
        assert!(filter("PUT", &[]).allows("PUT", "/../x"));
    }

    #[test]
    fn path_that_servers_read_differently_is_denied() {
        let some = filter("", &["/v1/*"]);
        for target in [
            "/v1/../admin",
            "/v1/./x",
            "/v1//x",
            "/v1/..",
            "/v1/%2e%2e/admin",
            "/v1/.%2E/admin",
            "/v1/..%2fadmin",
            "/v1/a%2Fb",
            "/v1/%252e%252e%252fadmin",
            "/v1/%25252525252fadmin",
            "/v1/..;/admin",
            "/v1/..;a=b/admin",
            "/v1/;/admin",
            "/v1/..\\admin",
            "/v1/%5c..%5cadmin",
            "/v1/a%00",
        ] {
            assert!(!some.allows("GET", target), "{target}");
        }
    }

    #[test]
    fn filter_covers_what_allows_less() {
        let any = filter("", &[]);
        for (own, other, covers) in [
            (any.clone(), filter("GET", &["/x"]), true),
            (filter("GET", &[]), any.clone(), false),
            (filter("", &["/*"]), any, false),
            (filter("GET,PUT", &[]), filter("PUT", &["/x"]), true),
            (filter("GET", &[]), filter("GET,PUT", &[]), false),
            (
                filter("", &["/v1/*"]),
                filter("", &["/v1/a", "/v1/b/*"]),
                true,
            ),
            (filter("", &["/v1/*"]), filter("", &["/v1/a", "/v2"]), false),
            (filter("", &["/v1"]), filter("", &["/v1*"]), false),
        ] {
            assert_eq!(own.covers(&other), covers, "{own} {other}");
        }
    }

    proptest! {
        #[test]
        fn what_a_covered_filter_allows_is_allowed(
            methods in prop::sample::select(vec!["", "GET", "GET,PUT"]),
            paths in prop::collection::vec(prop::sample::select(vec!["/a", "/a*", "/a/*", "/b"]), 0..3),
            asked_methods in prop::sample::select(vec!["", "GET", "PUT"]),
            asked_paths in prop::collection::vec(prop::sample::select(vec!["/a", "/a/x", "/a/x*", "/b"]), 0..3),
            method in prop::sample::select(vec!["GET", "PUT", "POST"]),
            path in "(/|/a|/b|/ab|/a/x|/a/x/y|/a/\\.\\./b|%2e)",
        ) {
            let (own, asked) = (filter(methods, &paths), filter(asked_methods, &asked_paths));
            if own.covers(&asked) && asked.allows(method, &path) {
                prop_assert!(own.allows(method, &path));
            }
        }

        #[test]
        fn any_path_is_judged(path in "/[!-~]{0,30}") {
            let _ = filter("", &["/*"]).allows("GET", &path);
        }
    }
}
