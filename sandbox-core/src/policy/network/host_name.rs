//! Host names.

use std::fmt;

/// The maximum length of a name in characters.
const MAX_LENGTH: usize = 253;

/// A host name: ASCII, in lower case, without a dot at its end, and not a form of an address.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostName(String);

impl HostName {
    /// Reads a name.
    ///
    /// # Errors
    ///
    /// What is wrong, as the end of a sentence.
    pub fn new(text: &str) -> Result<Self, String> {
        if !text.is_ascii() {
            return Err(
                "host names are ASCII here; write an international name in punycode (xn--…)"
                    .to_owned(),
            );
        }
        let name = text.strip_suffix('.').unwrap_or(text);
        if name.len() > MAX_LENGTH {
            return Err(format!("a host name has at most {MAX_LENGTH} characters"));
        }
        if !name.split('.').all(is_label) {
            return Err(
                "write a host name like example.org, *.example.org or example.org:8443, or an address"
                    .to_owned(),
            );
        }
        if name.rsplit('.').next().is_some_and(is_number) {
            return Err(
                "this looks like an address in another form than a.b.c.d; write an IPv4 address as \
                 four decimal numbers"
                    .to_owned(),
            );
        }
        Ok(Self(name.to_ascii_lowercase()))
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What stands before `.suffix` at the end of this name; `None` if it does not end so.
    #[must_use]
    pub fn below(&self, suffix: &Self) -> Option<&str> {
        self.0.strip_suffix(&suffix.0)?.strip_suffix('.')
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn is_label(label: &str) -> bool {
    (1..=63).contains(&label.len())
        && !label.starts_with('-')
        && !label.ends_with('-')
        && label
            .bytes()
            .all(|c| c.is_ascii_alphanumeric() || c == b'-' || c == b'_')
}

/// Whether a last label makes resolvers read the whole name as an IPv4 address: `1`, `017`, `0x7f`.
fn is_number(label: &str) -> bool {
    let hexadecimal = label
        .strip_prefix("0x")
        .or_else(|| label.strip_prefix("0X"));
    match hexadecimal {
        Some(digits) => digits.bytes().all(|c| c.is_ascii_hexdigit()),
        None => label.bytes().all(|c| c.is_ascii_digit()),
    }
}
