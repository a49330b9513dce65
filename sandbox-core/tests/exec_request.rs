//! Requests that no sandbox could run, and results.

use sandbox_core::{Captured, ErrorKind, ExecRequest, Outcome};

#[test]
fn argv_is_bytes_and_never_a_shell_string() {
    let request = ExecRequest::new("printf")
        .arg(&b"\xff; rm -rf /"[..])
        .args(["a b", ""]);
    assert!(request.validate().is_ok());
    assert_eq!(
        request.argv,
        [&b"printf"[..], b"\xff; rm -rf /", b"a b", b""]
    );
    assert_eq!(ExecRequest::shell("x").argv, [&b"/bin/sh"[..], b"-c", b"x"]);
}

#[test]
fn what_the_kernel_cannot_take_is_refused() {
    let kind = |request: ExecRequest| request.validate().unwrap_err().kind();
    assert_eq!(kind(ExecRequest::new("")), ErrorKind::InvalidRequest);
    assert_eq!(kind(ExecRequest::new("a\0b")), ErrorKind::InvalidRequest);
    assert_eq!(
        kind(ExecRequest::new("a").arg("b\0")),
        ErrorKind::InvalidRequest
    );
    assert_eq!(
        kind(ExecRequest::new("a").env("", "x")),
        ErrorKind::InvalidRequest
    );
    assert_eq!(
        kind(ExecRequest::new("a").env("A=B", "x")),
        ErrorKind::InvalidRequest
    );
    assert_eq!(
        kind(ExecRequest::new("a").env("A", "\0")),
        ErrorKind::InvalidRequest
    );
    assert_eq!(
        kind(ExecRequest::new("a").workdir("b")),
        ErrorKind::BadWorkdir
    );
    assert_eq!(
        kind(ExecRequest::new("a").workdir("/b\0")),
        ErrorKind::BadWorkdir
    );
    let mut empty = ExecRequest::new("a");
    empty.argv.clear();
    assert_eq!(kind(empty), ErrorKind::InvalidRequest);
}

#[test]
fn a_missing_exit_code_is_never_zero() {
    let endings = [
        Outcome::Signaled { signal: 9 },
        Outcome::TimedOut,
        Outcome::OutOfMemory,
        Outcome::OutputLimit,
        Outcome::Unknown {
            reason: "the stream ended".into(),
        },
    ];
    for outcome in endings {
        assert_eq!(outcome.exit_code(), None, "{outcome}");
        assert!(!outcome.ok(), "{outcome}");
    }
    assert!(Outcome::Exited { code: 0 }.ok());
    assert!(!Outcome::Exited { code: 1 }.ok());
}

#[test]
fn outcomes_are_tagged_in_json() {
    let json = |outcome: &Outcome| serde_json::to_string(outcome).unwrap();
    assert_eq!(
        json(&Outcome::Exited { code: 0 }),
        r#"{"kind":"exited","code":0}"#
    );
    assert_eq!(json(&Outcome::TimedOut), r#"{"kind":"timed_out"}"#);
    assert_eq!(json(&Outcome::OutOfMemory), r#"{"kind":"out_of_memory"}"#);
}

#[test]
fn text_leaves_out_a_character_that_the_cap_cut() {
    let text = |bytes: &[u8], total| {
        Captured {
            bytes: bytes.to_vec(),
            total,
        }
        .text()
    };
    assert_eq!(text("aé".as_bytes(), 3), "aé");
    assert_eq!(text(b"a\xc3", 3), "a");
    assert_eq!(text(b"a\xc3", 2), "a\u{fffd}");
    assert_eq!(text(b"\xffa\xc3", 9), "\u{fffd}a\u{fffd}");
}
