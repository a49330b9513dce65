//! Requests with one invalid field.

use sandbox_core::{ErrorKind, ExecRequest};

use crate::probes::prelude::*;

/// What is wrong, the request for a program, and the error.
type RequestCase = (&'static str, fn(&str) -> ExecRequest, ErrorKind);

const CASES: &[RequestCase] = &[
    (
        "no program",
        |_| ExecRequest::new(""),
        ErrorKind::InvalidRequest,
    ),
    (
        "a program with NUL",
        |program| ExecRequest::new(format!("{program}\0")),
        ErrorKind::InvalidRequest,
    ),
    (
        "an argument with NUL",
        |program| ExecRequest::new(program).arg("a\0b"),
        ErrorKind::InvalidRequest,
    ),
    (
        "a variable without a name",
        |program| ExecRequest::new(program).env("", "x"),
        ErrorKind::InvalidRequest,
    ),
    (
        "a variable with =",
        |program| ExecRequest::new(program).env("A=B", "x"),
        ErrorKind::InvalidRequest,
    ),
    (
        "a value with NUL",
        |program| ExecRequest::new(program).env("A", "x\0"),
        ErrorKind::InvalidRequest,
    ),
    (
        "a user by name",
        |program| ExecRequest::new(program).user("nobody"),
        ErrorKind::InvalidRequest,
    ),
    (
        "an empty working folder",
        |program| ExecRequest::new(program).workdir(""),
        ErrorKind::BadWorkdir,
    ),
    (
        "a working folder with NUL",
        |program| ExecRequest::new(program).workdir("/\0"),
        ErrorKind::BadWorkdir,
    ),
    (
        "a file as the working folder",
        |program| ExecRequest::new(program).workdir(program),
        ErrorKind::BadWorkdir,
    ),
    (
        "a folder as the program",
        |_| ExecRequest::new("/tmp"),
        ErrorKind::NotExecutable,
    ),
    (
        "a secret that was not named",
        |program| ExecRequest::new(program).secret("unnamed", "value"),
        ErrorKind::InvalidRequest,
    ),
];

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    context.host_control(&Call::new(["alive"])).await?;
    feature(context, "execute each", async |sandbox| {
        for (what, request, expected) in CASES {
            let request = request(sandbox.program()).arg("alive");
            let told = match sandbox.handle().exec(&request).await {
                Err(error) if error.kind() == *expected => continue,
                Err(error) => error.to_string(),
                Ok(result) => format!("it ran: {}", result.outcome),
            };
            return Ok(Some(format!("{what}: {told}")));
        }
        Ok(None)
    })
    .await;
    context.no_host_effect("nothing runs");
    Ok(())
}
