//! Requests and results of executions.

mod common;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

use sandbox_core::fake::{FakeAnswer, FakeBackend};
use sandbox_core::{
    CapabilityPolicy, Captured, ErrorKind, ExecRequest, ExecResult, Outcome, SandboxClient,
    SandboxSpec,
};

#[test]
fn arguments_are_os_strings_without_shell_expansion() {
    let request = ExecRequest::new("printf")
        .arg(OsStr::from_bytes(b"\xff; rm -rf /"))
        .args(["a b", ""]);
    assert!(request.validate().is_ok());
    assert_eq!(
        request.argv,
        [&b"printf"[..], b"\xff; rm -rf /", b"a b", b""]
    );
    let request = ExecRequest::new(Path::new("/bin/cat")).arg(String::from("x"));
    assert_eq!(request.argv, [&b"/bin/cat"[..], b"x"]);
    assert_eq!(ExecRequest::shell("x").argv, [&b"/bin/sh"[..], b"-c", b"x"]);
}

#[test]
fn request_that_the_kernel_cannot_run_is_refused() {
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
        kind(ExecRequest::new("a").workdir("")),
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
fn missing_exit_code_is_never_zero() {
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
        assert!(!outcome.success(), "{outcome}");
    }
    assert!(Outcome::Exited { code: 0 }.success());
    assert!(!Outcome::Exited { code: 1 }.success());
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
fn text_omits_a_character_that_the_limit_cut() {
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

/// The result of a program with this outcome and standard error.
fn result(outcome: Outcome, stderr: &str) -> ExecResult {
    let stderr = stderr.as_bytes().to_vec();
    let backend = FakeBackend::new(move |_| {
        let mut answer = FakeAnswer::stdout("");
        answer.outcome = outcome.clone();
        answer.stderr = stderr.clone();
        Ok(answer)
    });
    common::block_on(async {
        let policy = CapabilityPolicy::new();
        let client = SandboxClient::with_backend(Arc::new(backend), policy).unwrap();
        let sandbox = client.create(&SandboxSpec::new("test")).await.unwrap();
        sandbox.shell("x").await.unwrap()
    })
}

#[test]
fn check_accepts_only_exit_code_0() {
    let exited = |code| result(Outcome::Exited { code }, "message");
    assert!(exited(0).success());
    assert!(exited(0).check().is_ok());
    for failed in [exited(3), result(Outcome::TimedOut, "message")] {
        assert!(!failed.success());
        let error = failed.check().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ProgramFailed);
    }
}

#[test]
fn check_reports_the_outcome_and_the_end_of_standard_error() {
    let failed = Outcome::Exited { code: 3 };
    let error = result(failed.clone(), "\u{1b}[31mno such file\n");
    assert_eq!(
        error.check().unwrap_err().to_string(),
        "run program failed: exited with code 3: \\u{1b}[31mno such file"
    );
    let silent = result(failed.clone(), "").check().unwrap_err().to_string();
    assert_eq!(silent, "run program failed: exited with code 3");
    let long = result(failed, &("x".repeat(5000) + "end"));
    let message = long.check().unwrap_err().to_string();
    assert!(message.ends_with("xend") && message.len() < 1200);
}
