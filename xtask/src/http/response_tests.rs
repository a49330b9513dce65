//! Tests of the parser: the three framings, and everything that must not pass for an answer.

use std::io::ErrorKind;

use super::{MAX_BODY, Response, read};

fn parse(text: &str) -> std::io::Result<Response> {
    read(&mut text.as_bytes())
}

fn parsed(text: &str) -> (u16, String) {
    let response = parse(text).expect("a valid answer");
    (
        response.status,
        String::from_utf8(response.body).expect("text"),
    )
}

fn refused(text: &str) -> ErrorKind {
    parse(text).expect_err("must be refused").kind()
}

#[test]
fn content_length_ends_the_body() {
    let text = "HTTP/1.1 200 OK\r\nserver: x\r\ncontent-LENGTH: 2\r\n\r\nOKjunk";
    assert_eq!(parsed(text), (200, "OK".into()));
}

#[test]
fn chunks_are_joined_with_extensions_and_trailers() {
    let text = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
                3;x=y\r\nabc\r\nA\r\n0123456789\r\n0\r\nTrailer: t\r\n\r\n";
    assert_eq!(parsed(text), (200, "abc0123456789".into()));
}

#[test]
fn without_framing_the_body_ends_with_the_connection() {
    assert_eq!(
        parsed("HTTP/1.0 200 OK\r\n\r\nall of it"),
        (200, "all of it".into())
    );
}

#[test]
fn no_content_has_no_body() {
    assert_eq!(
        parsed("HTTP/1.1 204 No Content\r\n\r\nx"),
        (204, String::new())
    );
}

#[test]
fn interim_answers_are_skipped() {
    let text = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 1\r\n\r\nx";
    assert_eq!(parsed(text), (201, "x".into()));
}

#[test]
fn bare_line_feeds_are_accepted() {
    assert_eq!(
        parsed("HTTP/1.1 200 OK\nContent-Length: 1\n\nx"),
        (200, "x".into())
    );
}

#[test]
fn a_cut_off_answer_is_an_error() {
    for text in [
        "",
        "HTTP/1.1 200 OK",
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
    ] {
        assert_eq!(refused(text), ErrorKind::UnexpectedEof, "{text:?}");
    }
}

#[test]
fn what_is_not_http_is_an_error() {
    for text in [
        "SSH-2.0-OpenSSH\r\n\r\n",
        "HTTP/2 200\r\n\r\n",
        "HTTP/1.1 abc\r\n\r\n",
        "HTTP/1.1 +20\r\n\r\n",
        "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
    ] {
        assert_eq!(refused(text), ErrorKind::InvalidData, "{text:?}");
    }
}

#[test]
fn size_is_bounded_before_anything_is_allocated() {
    let long = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n",
        MAX_BODY + 1
    );
    assert_eq!(refused(&long), ErrorKind::InvalidData);
    let endless = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n";
    assert_eq!(refused(endless), ErrorKind::InvalidData);
    let head = format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "x".repeat(70_000));
    assert_eq!(refused(&head), ErrorKind::UnexpectedEof);
}

#[test]
fn an_error_body_is_quoted_on_one_line() {
    let message = |status: u16, body: &str| {
        Response {
            status,
            body: body.as_bytes().to_vec(),
        }
        .error_message()
    };
    assert_eq!(
        message(404, "{\"message\":\"No such\\nimage\"}"),
        "No such image (status 404)"
    );
    assert_eq!(
        message(502, "<html>bad\n gateway"),
        "<html>bad gateway (status 502)"
    );
    assert_eq!(message(500, ""), "status 500");
    assert_eq!(
        message(500, &"x".repeat(1000)).len(),
        500 + " (status 500)".len()
    );
    assert!(
        !Response {
            status: 404,
            body: Vec::new()
        }
        .is_success()
    );
    assert!(
        Response {
            status: 201,
            body: Vec::new()
        }
        .is_success()
    );
}
