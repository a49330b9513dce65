//! Texts that stand for secrets: code sends them, and the host puts the values in their place.

use std::sync::{Arc, Mutex};

use ::http::header::{
    CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderValue, TRANSFER_ENCODING,
};
use ::http::request::Parts;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use sandbox_core::policy::EgressTarget;
use sandbox_core::spi::PlaceholderSecret;

use super::head::RequestedServer;
use crate::lock;

/// What each of them begins with. It has no character that a header, a URL or JSON would encode.
const PREFIX: &str = "sandbox-secret-";

/// How many hexadecimal digits follow. Nothing can be guessed with them: code has them anyway.
const DIGITS: usize = 32;

/// All but the characters that RFC 3986 does not reserve.
pub(super) const RESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// The longest body that is searched. Requests with secrets in their body ask for tokens.
const MAX_BODY: u64 = 1 << 20;

/// The secrets of one sandbox, by the texts that stand for them.
#[derive(Default)]
pub(super) struct Placeholders(Mutex<Vec<(String, Arc<PlaceholderSecret>)>>);

/// How a value is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Encoding {
    /// As it is, in a header.
    Header,
    /// For queries and forms.
    Percent,
    /// Inside of a string.
    Json,
}

impl Placeholders {
    /// Adds a secret. Returns the text that stands for it.
    pub(super) fn add(&self, secret: PlaceholderSecret) -> sandbox_core::Result<String> {
        let random = crate::sandbox::random_key()?;
        let digits = random.as_bytes().iter().take(DIGITS / 2);
        let digits: String = digits.map(|byte| format!("{byte:02x}")).collect();
        let text = format!("{PREFIX}{digits}");
        lock(&self.0).push((text.clone(), Arc::new(secret)));
        Ok(text)
    }

    pub(super) fn remove(&self, text: &str) {
        lock(&self.0).retain(|(own, _)| own != text);
    }

    pub(super) fn is_empty(&self) -> bool {
        lock(&self.0).is_empty()
    }

    /// The secrets with their texts.
    pub(super) fn all(&self) -> Vec<(String, Arc<PlaceholderSecret>)> {
        lock(&self.0).clone()
    }

    /// Puts values in place of texts in the headers and the query of a request. Returns the names of
    /// their secrets, or why the request is denied.
    pub(super) fn swap_head(
        &self,
        server: RequestedServer<'_>,
        parts: &mut Parts,
        path: &mut String,
    ) -> Result<Vec<String>, String> {
        let mut used = Vec::new();
        for (_, value) in parts.headers.iter_mut() {
            if let Some(changed) = self.swap_header(server, value.as_bytes(), &mut used)? {
                let changed = HeaderValue::from_bytes(&changed);
                *value = changed.map_err(|_| "a secret does not fit a header".to_owned())?;
                value.set_sensitive(true);
            }
        }
        if let Some((before, query)) = path.split_once('?')
            && let Some(query) =
                self.swap(server, query.as_bytes(), Encoding::Percent, &mut used)?
        {
            let query = String::from_utf8_lossy(&query);
            *path = format!("{before}?{query}");
        }
        Ok(used)
    }

    fn swap_header(
        &self,
        server: RequestedServer<'_>,
        value: &[u8],
        used: &mut Vec<String>,
    ) -> Result<Option<Vec<u8>>, String> {
        if let Some(swapped) = self.swap(server, value, Encoding::Header, used)? {
            return Ok(Some(swapped));
        }
        // A name and a password, by RFC 7617.
        let basic = value
            .get(..6)
            .filter(|scheme| scheme.eq_ignore_ascii_case(b"basic "));
        let decoded = basic.and_then(|_| STANDARD.decode(value[6..].trim_ascii()).ok());
        let Some(decoded) = decoded else {
            return Ok(None);
        };
        let swapped = self.swap(server, &decoded, Encoding::Header, used)?;
        Ok(swapped.map(|pair| format!("Basic {}", STANDARD.encode(pair)).into_bytes()))
    }

    /// Puts values in place of texts. `None` if there is none.
    pub(super) fn swap(
        &self,
        server: RequestedServer<'_>,
        text: &[u8],
        encoding: Encoding,
        used: &mut Vec<String>,
    ) -> Result<Option<Vec<u8>>, String> {
        if find(text, PREFIX.as_bytes()).is_none() {
            return Ok(None);
        }
        let placeholders = self.all();
        let mut swapped = None;
        for (placeholder, secret) in placeholders {
            let mut rest = swapped.as_deref().unwrap_or(text);
            let Some(_) = find(rest, placeholder.as_bytes()) else {
                continue;
            };
            check(server, &secret)?;
            let value = encoding.apply(&secret)?;
            let mut changed = Vec::with_capacity(rest.len() + value.len());
            while let Some(begin) = find(rest, placeholder.as_bytes()) {
                changed.extend_from_slice(&rest[..begin]);
                changed.extend_from_slice(&value);
                rest = &rest[begin + placeholder.len()..];
            }
            changed.extend_from_slice(rest);
            swapped = Some(changed);
            if !used.contains(&secret.name) {
                used.push(secret.name.clone());
            }
        }
        Ok(swapped)
    }
}

/// Whether a server may get a secret.
pub(super) fn check(server: RequestedServer<'_>, secret: &PlaceholderSecret) -> Result<(), String> {
    let name = &secret.name;
    if !server.is_tls {
        return Err(format!("the secret {name} is sent only with TLS"));
    }
    let target = EgressTarget::new(server.name)?;
    match secret
        .hosts
        .iter()
        .any(|host| host.matches(&target, server.port))
    {
        true => Ok(()),
        false => Err(format!("the secret {name} is not for this server")),
    }
}

/// How the values of a body are written, if it is one that is searched.
pub(super) fn of_body(headers: &HeaderMap) -> Option<Encoding> {
    let length = headers
        .get(CONTENT_LENGTH)?
        .to_str()
        .ok()?
        .parse::<u64>()
        .ok()?;
    let kind = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    let kind = kind
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase();
    // A chunked body has any length.
    let is_framed = headers.contains_key(TRANSFER_ENCODING);
    if length > MAX_BODY || is_framed || headers.contains_key(CONTENT_ENCODING) {
        return None;
    }
    match kind.as_str() {
        "application/x-www-form-urlencoded" => Some(Encoding::Percent),
        "application/json" => Some(Encoding::Json),
        _ => None,
    }
}

impl Encoding {
    fn apply(self, secret: &PlaceholderSecret) -> Result<Vec<u8>, String> {
        let value = secret.value.expose();
        match self {
            Self::Header => Ok(value.to_vec()),
            Self::Percent => Ok(percent_encode(value, RESERVED).to_string().into_bytes()),
            Self::Json => {
                let failed = || format!("the secret {} does not fit JSON", secret.name);
                let text = std::str::from_utf8(value).map_err(|_| failed())?;
                let quoted = serde_json::to_string(text).map_err(|_| failed())?;
                Ok(quoted.as_bytes()[1..quoted.len() - 1].to_vec())
            }
        }
    }
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}

#[cfg(test)]
mod tests {
    use ::http::Request;
    use sandbox_core::SecretValue;

    use super::*;

    const SERVER: RequestedServer<'_> = RequestedServer {
        name: "api.a.org",
        port: 443,
        is_tls: true,
    };

    fn with(value: &str, host: &str) -> (Placeholders, String) {
        let placeholders = Placeholders::default();
        let text = placeholders.add(PlaceholderSecret {
            name: "TOKEN".into(),
            value: SecretValue::new(value),
            hosts: vec![host.parse().unwrap()],
        });
        (placeholders, text.unwrap())
    }

    fn swapped(
        placeholders: &Placeholders,
        server: RequestedServer<'_>,
        path: &str,
        header: &str,
    ) -> Result<(String, String, usize), String> {
        let request = Request::builder().uri(path).header("authorization", header);
        let (mut parts, ()) = request.body(()).unwrap().into_parts();
        let mut path = path.to_owned();
        let used = placeholders.swap_head(server, &mut parts, &mut path)?;
        let header = parts.headers["authorization"].to_str().unwrap();
        Ok((path, header.to_owned(), used.len()))
    }

    #[test]
    fn value_is_put_into_headers_and_queries() {
        let (own, text) = with("s3cret/+", "*.a.org");
        for (path, header, expected_path, expected_header) in [
            ("/x", format!("Bearer {text}"), "/x", "Bearer s3cret/+"),
            ("/x", format!("{text}{text}"), "/x", "s3cret/+s3cret/+"),
            (
                "/x",
                format!("Basic {}", STANDARD.encode(format!("user:{text}"))),
                "/x",
                "Basic dXNlcjpzM2NyZXQvKw==",
            ),
            (
                &format!("/x?a=b&k={text}&c"),
                "y".into(),
                "/x?a=b&k=s3cret%2F%2B&c",
                "y",
            ),
        ] {
            let (path, header, used) = swapped(&own, SERVER, path, &header).unwrap();
            assert_eq!(
                (&*path, &*header, used),
                (expected_path, expected_header, 1)
            );
        }
        let other = format!("Bearer {PREFIX}0000");
        let unchanged = swapped(&own, SERVER, "/x", &other).unwrap();
        assert_eq!(unchanged, ("/x".into(), other, 0));
        own.remove(&text);
        let unchanged = swapped(&own, SERVER, "/x", &text).unwrap();
        assert_eq!(unchanged, ("/x".into(), text, 0));
    }

    #[test]
    fn other_servers_get_no_value() {
        let (own, text) = with("s3cret", "api.a.org:443");
        let named = |name| RequestedServer { name, ..SERVER };
        for server in [
            named("b.org"),
            named("x.api.a.org"),
            RequestedServer {
                port: 8443,
                ..SERVER
            },
            RequestedServer {
                is_tls: false,
                ..SERVER
            },
        ] {
            for (path, header) in [
                ("/", text.clone()),
                ("/", format!("Basic {}", STANDARD.encode(&text))),
                (&format!("/?{text}"), "x".into()),
            ] {
                let denied = swapped(&own, server, path, &header).unwrap_err();
                assert!(
                    denied.contains("TOKEN") && !denied.contains("s3cret"),
                    "{denied}"
                );
            }
        }
    }

    #[test]
    fn body_is_searched_where_its_form_is_known() {
        let of = |kind: &'static str, length: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
            headers.insert(CONTENT_LENGTH, HeaderValue::from_static(length));
            of_body(&headers)
        };
        assert_eq!(
            of("application/json; charset=utf-8", "9"),
            Some(Encoding::Json)
        );
        assert_eq!(
            of("application/x-www-form-urlencoded", "1048576"),
            Some(Encoding::Percent)
        );
        assert_eq!(of("application/json", "1048577"), None);
        assert_eq!(of("application/octet-stream", "9"), None);
        let (own, text) = with("a\"b", "api.a.org");
        let body = format!("{{\"k\":\"{text}\"}}");
        let mut used = Vec::new();
        let swapped = own.swap(SERVER, body.as_bytes(), Encoding::Json, &mut used);
        assert_eq!(swapped.unwrap().unwrap(), br#"{"k":"a\"b"}"#);
    }
}
