//! Executions of a live agent.

mod common;

use common::{Client, command, script, settings};
use sandbox_agent::protocol::ExitKind;

#[test]
fn runs_a_program() {
    let mut client = Client::start(&settings());
    let outcome = client.run(&command(&["echo", "hello"]));
    assert_eq!(outcome.text(), "hello\n");
    assert_eq!(outcome.kind(), ExitKind::Exited(0));
    assert!(outcome.pid.is_some());
}

#[test]
fn reports_every_exit_code() {
    let mut client = Client::start(&settings());
    for code in 0..=255 {
        let outcome = client.run(&script(&format!("exit {code}")));
        assert_eq!(outcome.kind(), ExitKind::Exited(code));
    }
}
