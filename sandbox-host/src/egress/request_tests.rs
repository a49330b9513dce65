use proptest::prelude::*;

use super::*;

fn of(head: &str) -> Flight {
    check(head.as_bytes(), "a.org", 8080)
}

fn refused(head: &str) -> Mismatch {
    match of(head) {
        Flight::Refused(why) => why,
        other => panic!("{head:?}: {other:?}"),
    }
}

#[test]
fn host_must_be_the_name() {
    for head in [
        "GET / HTTP/1.1\r\nHost: a.org\r\n\r\n",
        "GET / HTTP/1.1\r\nhOST:A.ORG:8080\r\n\r\n",
        "POST /x HTTP/1.0\r\nHost: a.org.\r\nContent-Length: 3\r\n\r\nabc",
        "OPTIONS * HTTP/1.1\r\nHost: a.org\r\n\r\n",
        "GET http://a.org/x HTTP/1.1\r\nHost: a.org\r\n\r\n",
        "GET HTTP://A.org:8080?q HTTP/1.1\r\nHost: a.org\r\n\r\n",
        "GET /?u=http://b.org/ HTTP/1.1\r\nX: 1\r\nHost: a.org\r\nY: 2\r\n\r\n",
    ] {
        assert_eq!(of(head), Flight::Matches, "{head:?}");
    }
    for host in [
        "b.org",
        "a.org:80",
        "a.org:",
        "a.org:8080:1",
        "xa.org",
        "a.org, b.org",
        "",
        "b@a.org",
        "a.org\t.b.org",
        "a.org/",
    ] {
        let head = format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n");
        assert!(matches!(refused(&head), Mismatch::Host(_)), "{host:?}");
    }
}

#[test]
fn address_in_the_request_line_must_be_the_name() {
    for path in [
        "http://b.org/",
        "http://a.org@b.org/",
        "http://b.org\\@a.org/",
        "https://a.org/",
        "ftp://a.org/",
        "a.org",
        "b.org:80",
        "http:/a.org",
        "http://a.org:80/",
    ] {
        let head = format!("GET {path} HTTP/1.1\r\nHost: a.org\r\n\r\n");
        assert!(
            matches!(refused(&head), Mismatch::Host(_) | Mismatch::Http),
            "{path}"
        );
    }
}

#[test]
fn request_has_one_host() {
    for head in [
        "GET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a.org\r\nHost: a.org\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a.org\r\nX: 1\r\nhost: b.org\r\n\r\n",
    ] {
        assert_eq!(refused(head), Mismatch::HostHeaders, "{head:?}");
    }
}

#[test]
fn what_servers_read_differently_is_refused() {
    for head in [
        "GET / HTTP/1.1\r\nHost: a.org\n\n",
        "GET / HTTP/1.1\nHost: a.org\r\n\r\n",
        "GET / HTTP/1.1\r\nX: 1\nHost: b.org\r\nHost: a.org\r\n\r\n",
        "GET / HTTP/1.1\r\nX: 1\rHost: b.org\r\nHost: a.org\r\n\r\n",
        "GET / HTTP/1.1\r\nHost : a.org\r\n\r\n",
        "GET / HTTP/1.1\r\nX: 1\r\n Host: b.org\r\nHost: a.org\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a.org\0\r\n\r\n",
        "GET / HTTP/3\r\nHost: a.org\r\n\r\n",
        "GET /\r\n\r\n",
    ] {
        assert_eq!(refused(head), Mismatch::Http, "{head:?}");
    }
    let many = format!(
        "GET / HTTP/1.1\r\nHost: a.org\r\n{}\r\n",
        "X: 1\r\n".repeat(MAX_HEADERS)
    );
    assert_eq!(refused(&many), Mismatch::Http);
}

#[test]
fn proxies_and_http2_are_refused() {
    let connect = "CONNECT a.org:8080 HTTP/1.1\r\nHost: a.org\r\n\r\n";
    assert_eq!(refused(connect), Mismatch::Connect);
    assert_eq!(refused("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), Mismatch::Http2);
}

#[test]
fn head_in_pieces_is_incomplete() {
    let head = "GET / HTTP/1.1\r\nHost: a.org\r\n\r\n";
    for end in 1..head.len() {
        assert_eq!(of(&head[..end]), Flight::Incomplete, "{end}");
    }
}

proptest! {
    #[test]
    fn any_head_is_read(head in "[A-Z]{1,7} [!-~]{0,20} HTTP/1\\.[01](\r?\n[A-Za-z]{0,5}:? ?[ -~]{0,20}){0,4}\r\n\r\n") {
        if of(&head) == Flight::Matches {
            prop_assert!(head.to_lowercase().contains("host:"));
        }
    }
}
