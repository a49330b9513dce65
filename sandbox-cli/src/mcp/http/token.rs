//! The secret that clients send.

use std::fmt;

use rustix::rand::{GetRandomFlags, getrandom};
use sandbox::{Error, ErrorKind, Result};

/// The shortest token that is accepted, in characters.
const MIN_LENGTH: usize = 16;

/// The secret that an HTTP client sends as `Authorization: Bearer TOKEN`.
#[derive(Clone)]
pub struct AccessToken(String);

impl fmt::Debug for AccessToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AccessToken(…)")
    }
}

impl AccessToken {
    /// A new random token.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] if the kernel gives no random bytes.
    pub fn generate() -> Result<Self> {
        let mut bytes = [0; 32];
        let filled = getrandom(&mut bytes, GetRandomFlags::empty()).map_err(|errno| {
            let context = "the kernel gives no random bytes";
            Error::new(ErrorKind::Io, "make access token", context).with_source(errno)
        })?;
        assert_eq!(
            filled,
            bytes.len(),
            "requests of up to 256 bytes are filled"
        );
        Ok(Self(bytes.map(|byte| format!("{byte:02x}")).concat()))
    }

    /// A token that the operator chose, without the space around it.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidRequest`] if it is shorter than 16 characters, or has others than visible
    /// ASCII ones.
    pub fn new(text: &str) -> Result<Self> {
        let text = text.trim();
        if text.len() < MIN_LENGTH || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            let why = format!("it must be at least {MIN_LENGTH} visible ASCII characters");
            return Err(Error::new(
                ErrorKind::InvalidRequest,
                "read access token",
                why,
            ));
        }
        Ok(Self(text.to_owned()))
    }

    /// The token itself.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Whether the value of an `Authorization` header has this token. Takes the same time for every
    /// wrong token of the right length.
    pub(super) fn is_in(&self, header: &[u8]) -> bool {
        let Some((scheme, sent)) = header.split_at_checked("Bearer ".len()) else {
            return false;
        };
        let own = self.0.as_bytes();
        let differences = own.iter().zip(sent).fold(0, |all, (a, b)| all | (a ^ b));
        scheme.eq_ignore_ascii_case(b"Bearer ") && own.len() == sent.len() && differences == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_token_is_accepted() {
        let token = AccessToken::new(" 0123456789abcdef\n").expect("a token");
        assert!(token.is_in(b"Bearer 0123456789abcdef"));
        assert!(token.is_in(b"bearer 0123456789abcdef"));
        for wrong in [
            &b""[..],
            b"Bearer ",
            b"Bearer 0123456789abcde",
            b"Bearer 0123456789abcdeF",
            b"Bearer 0123456789abcdef0",
            b"Basic  0123456789abcdef",
            b"0123456789abcdef",
        ] {
            assert!(!token.is_in(wrong), "{wrong:?}");
        }
    }

    #[test]
    fn generated_tokens_differ() {
        let [one, two] = [(); 2].map(|()| AccessToken::generate().expect("random"));
        assert_eq!(one.text().len(), 64);
        assert_ne!(one.text(), two.text());
    }

    #[test]
    fn short_token_is_refused() {
        assert!(AccessToken::new("short").is_err());
    }

    #[test]
    fn debug_output_has_no_token() {
        let token = AccessToken::generate().expect("random");
        assert!(!format!("{token:?}").contains(token.text()));
    }
}
