//! What is checked and changed of the head of a request or an answer.

use ::http::header::{CONNECTION, CONTENT_LENGTH, EXPECT, HOST, TRANSFER_ENCODING, UPGRADE};
use ::http::request::Parts;
use ::http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};

use crate::egress::request::is_authority;

/// The headers that belong to one connection, by RFC 9110 and practice.
const OF_ONE_CONNECTION: [&str; 9] = [
    "connection",
    "http2-settings",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "upgrade",
];

/// What a connection is for.
#[derive(Debug, Clone, Copy)]
pub(super) struct RequestedServer<'a> {
    pub(super) name: &'a str,
    pub(super) port: u16,
    pub(super) is_tls: bool,
}

impl RequestedServer<'_> {
    /// Checks that a request is for this server, in a form that is carried. Returns its path with
    /// its query.
    pub(super) fn checked(self, parts: &Parts) -> Result<String, String> {
        if parts.method == Method::CONNECT {
            return Err("it is a CONNECT request to a proxy".to_owned());
        }
        let mut hosts = parts.headers.get_all(HOST).iter();
        let (Some(host), None) = (hosts.next(), hosts.next()) else {
            return Err("its HTTP request has not one Host header".to_owned());
        };
        if !is_authority(host.as_bytes(), self.name, self.port) {
            return Err(format!(
                "its HTTP request asks for the host {}",
                short(&String::from_utf8_lossy(host.as_bytes()))
            ));
        }
        if let Some(authority) = parts.uri.authority() {
            let scheme = if self.is_tls { "https" } else { "http" };
            let is_same = parts.uri.scheme_str() == Some(scheme)
                && is_authority(authority.as_str().as_bytes(), self.name, self.port);
            if !is_same {
                return Err(format!(
                    "its HTTP request asks for {}",
                    short(&parts.uri.to_string())
                ));
            }
        }
        let upgrades = parts.headers.get_all(UPGRADE).iter();
        let mut upgrades = upgrades.map(|value| value.as_bytes().to_ascii_lowercase());
        // Others are requests for HTTP/2, which a server may ignore.
        if upgrades.any(|upgrade| upgrade.windows(9).any(|word| word == b"websocket")) {
            return Err(
                "it is a WebSocket, which level http cannot read; a rule with name allows it"
                    .into(),
            );
        }
        let path = parts.uri.path_and_query().map(|path| path.as_str());
        Ok(path.unwrap_or("/").to_owned())
    }

    /// Changes a checked request into the one that the server gets.
    pub(super) fn forward(self, parts: &mut Parts, path: &str) -> Result<(), String> {
        parts.uri = path.parse::<Uri>().map_err(|error| error.to_string())?;
        strip(&mut parts.headers);
        // This host has answered it.
        parts.headers.remove(EXPECT);
        let default = if self.is_tls { 443 } else { 80 };
        let host = match self.port == default {
            true => self.name.to_owned(),
            false => format!("{}:{}", self.name, self.port),
        };
        let host = HeaderValue::from_str(&host).map_err(|error| error.to_string())?;
        parts.headers.insert(HOST, host);
        parts.version = ::http::Version::HTTP_11;
        Ok(())
    }
}

/// Removes what belongs to one connection. The other side frames its bodies itself.
pub(super) fn strip(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named {
        // Without its length, a body could be taken for a request.
        if name != CONTENT_LENGTH && name != HOST {
            headers.remove(name);
        }
    }
    for name in OF_ONE_CONNECTION {
        headers.remove(name);
    }
    if headers.remove(TRANSFER_ENCODING).is_some() {
        headers.remove(CONTENT_LENGTH);
    }
}

/// As much of a text of code as a message shows.
pub(super) fn short(text: &str) -> String {
    text.chars().take(200).collect()
}

#[cfg(test)]
mod tests {
    use ::http::Request;

    use super::*;

    const SERVER: RequestedServer<'_> = RequestedServer {
        name: "a.org",
        port: 443,
        is_tls: true,
    };

    fn parts(method: &str, uri: &str, headers: &[(&str, &str)]) -> Parts {
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn request_for_another_server_is_refused() {
        for (uri, host) in [
            ("/x?y=z", "a.org"),
            ("/x", "A.org:443"),
            ("https://a.org/x", "a.org"),
            ("https://a.org:443/x", "a.org."),
        ] {
            let checked = SERVER.checked(&parts("GET", uri, &[("host", host)]));
            assert!(checked.is_ok(), "{uri} {host}: {checked:?}");
        }
        for (method, uri, headers) in [
            ("GET", "/", &[][..]),
            ("GET", "/", &[("host", "a.org"), ("host", "a.org")]),
            ("GET", "/", &[("host", "b.org")]),
            ("GET", "/", &[("host", "a.org:80")]),
            ("GET", "/", &[("host", "x@a.org")]),
            ("GET", "/", &[("host", "a.org, b.org")]),
            ("GET", "https://b.org/", &[("host", "a.org")]),
            ("GET", "http://a.org/", &[("host", "a.org")]),
            ("GET", "https://a.org@b.org/", &[("host", "a.org")]),
            ("CONNECT", "a.org:443", &[("host", "a.org")]),
            (
                "GET",
                "/",
                &[("host", "a.org"), ("upgrade", "h2c, WebSocket")],
            ),
        ] {
            let checked = SERVER.checked(&parts(method, uri, headers));
            assert!(checked.is_err(), "{method} {uri} {headers:?}: {checked:?}");
        }
    }

    #[test]
    fn server_gets_no_header_of_the_connection() {
        let mut parts = parts(
            "POST",
            "https://a.org/x?y",
            &[
                ("host", "A.ORG:443"),
                ("connection", "keep-alive, X-Secret, content-length, host"),
                ("x-secret", "1"),
                ("content-length", "5"),
                ("upgrade", "h2c"),
                ("http2-settings", "x"),
                ("te", "trailers"),
                ("proxy-authorization", "Basic x"),
                ("expect", "100-continue"),
                ("x-kept", "2"),
            ],
        );
        SERVER.forward(&mut parts, "/x?y").unwrap();
        assert_eq!(parts.uri, "/x?y");
        let mut left: Vec<_> = parts.headers.iter().collect();
        left.sort_by_key(|(name, _)| name.as_str());
        let left: Vec<_> = left
            .into_iter()
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
            .collect();
        assert_eq!(left, ["content-length: 5", "host: a.org", "x-kept: 2"]);
    }

    #[test]
    fn length_of_a_chunked_body_is_removed() {
        let mut parts = parts(
            "POST",
            "/",
            &[
                ("host", "a.org"),
                ("transfer-encoding", "chunked"),
                ("content-length", "5"),
            ],
        );
        SERVER.forward(&mut parts, "/").unwrap();
        assert_eq!(parts.headers.len(), 1);
    }
}
