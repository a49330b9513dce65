//! The rules of the sandboxes that connect.

use sandbox_core::policy::{EgressRules, NetworkPolicy};

use super::{ANOTHER, NAME};
use crate::egress_server::EgressServer;
use crate::name_server::{ANOTHER_ADDRESS, MANY, MAPPED, OPEN, REBOUND, SPECIAL, UNSPECIFIED};
use crate::probes::prelude::*;

/// A sandbox with these rules.
pub(super) fn rules(rules: &[String]) -> SandboxSetup {
    let rules = EgressRules::parse(rules.iter().map(String::as_str));
    let rules = rules.expect("the suite's own rules").into_rules();
    SandboxSetup::with(|policy| policy.network = Some(NetworkPolicy::Allow(rules)))
}

/// Each port of the server has a rule of another kind.
pub(super) fn with_rules() -> SandboxSetup {
    let server = EgressServer::get();
    rules(&[
        format!("{NAME}:{} tcp private", server.open),
        format!("{NAME}:{} tcp private", server.held),
        format!("{NAME}:{} tcp", server.public),
        format!("{ANOTHER}:{} tcp private", server.of_another),
        format!("{NAME}:{} name private", server.named),
    ])
}

/// Rules for names that only the suite's name server knows.
pub(super) fn with_names() -> SandboxSetup {
    let server = EgressServer::get();
    let (open, public) = (server.open, server.public);
    rules(&[
        format!("*.{OPEN}:{open} tcp private"),
        format!("*.{REBOUND}:{open} tcp private"),
        format!("!{ANOTHER_ADDRESS}:{open}"),
        format!("*.{UNSPECIFIED}:{public} tcp"),
        format!("*.{MAPPED}:{public} tcp"),
        format!("*.{SPECIAL}:{public} tcp"),
    ])
}

/// A rule whose names are used up.
pub(super) fn with_a_wildcard() -> SandboxSetup {
    rules(&[format!("*.{MANY}:{} tcp private", EgressServer::get().open)])
}

/// A rule at level `http`.
pub(super) fn with_requests() -> SandboxSetup {
    let port = EgressServer::get().read;
    rules(&[format!("{NAME}:{port} http GET /allowed/* private")])
}

/// The name is denied, and its port is allowed for another one.
pub(super) fn without_the_name() -> SandboxSetup {
    let open = EgressServer::get().open;
    rules(&[format!("{ANOTHER}:{open} tcp private"), format!("!{NAME}")])
}
