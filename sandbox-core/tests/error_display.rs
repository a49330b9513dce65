//! The text of errors: one line that says what failed, where, why, and what to do.

use sandbox_core::{Error, ErrorKind};

#[test]
fn error_displays_operation_and_context() {
    let error = Error::new(
        ErrorKind::ProgramNotFound,
        "execute",
        "no program \"perl\" in PATH",
    );
    insta::assert_snapshot!(error, @r#"execute failed: no program "perl" in PATH"#);
}

#[test]
fn error_displays_backend_cause_and_fix() {
    let cause = std::io::Error::from_raw_os_error(13);
    let error = Error::unavailable(
        "docker",
        "cannot connect to /var/run/docker.sock",
        "start dockerd",
    )
    .with_source(cause);
    assert_eq!(error.kind(), ErrorKind::SandboxUnavailable);
    assert_eq!(error.backend(), Some("docker"));
    let cause = error.cause().and_then(|cause| cause.downcast_ref());
    assert_eq!(cause.and_then(std::io::Error::raw_os_error), Some(13));
    insta::assert_snapshot!(
        error,
        @"reach the sandbox backend failed on docker: cannot connect to /var/run/docker.sock: Permission denied (os error 13) (fix: start dockerd)"
    );
}

#[test]
fn chain_of_sources_prints_each_text_once() {
    #[derive(Debug, thiserror::Error)]
    #[error("request failed")]
    struct RequestError(#[source] std::io::Error);

    let refused = std::io::Error::new(std::io::ErrorKind::ConnectionRefused, "refused");
    let error = Error::unavailable("docker", "no answer", "start dockerd")
        .with_source(RequestError(refused));
    let mut chain = vec![error.to_string()];
    let mut source = std::error::Error::source(&error);
    while let Some(error) = source {
        chain.push(error.to_string());
        source = error.source();
    }
    assert!(
        chain[0].contains("no answer: request failed (fix"),
        "{chain:?}"
    );
    assert_eq!(chain[1..], ["refused"]);
}

#[test]
fn errors_can_cross_threads_and_be_boxed() {
    fn check<T: std::error::Error + Send + Sync + 'static>() {}
    check::<Error>();
    assert!(std::mem::size_of::<Error>() <= 8, "results stay small");
}
