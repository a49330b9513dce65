//! A rule that is revoked while code uses it.

use std::net::Ipv4Addr;
use std::time::Duration;

use sandbox_core::policy::EgressRules;
use sandbox_core::{ErrorKind, Stdin};

use super::messages::{Attempted, digits};
use super::{ANOTHER, NAME, offered};
use crate::egress_server::EgressServer;
use crate::probes::prelude::*;
use crate::program::Run;

pub(super) const ENDED: &[ExpectedDenial] = &[
    denied("ECONNRESET", "the host resets the rule's connections"),
    denied("EPIPE", "the host resets the rule's connections"),
    denied(
        "ENOENT",
        "the sandbox's name server no longer knows the name",
    ),
    denied("ECONNREFUSED", "the name has no listener any more"),
];

/// How long the connection is tried: longer than everything else here takes.
const TIMES: &str = "600";

/// How long the first message and the end of the connection are waited for.
const PATIENCE: Duration = Duration::from_secs(20);

/// What was sent before the revocation has arrived after this time.
const SETTLED: Duration = Duration::from_millis(500);

/// What the new rules say of the held connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Revoked {
    /// None is for its name.
    Name,
    /// One is for its name, and one denies its address.
    Address,
    /// One is for its name, and allows only connections that say it.
    Level,
}

impl Revoked {
    fn rules(self, server: &EgressServer) -> Vec<String> {
        let mut rules = vec![format!("{NAME}:{} tcp private", server.open)];
        match self {
            Self::Name => {}
            Self::Address => {
                rules.push(format!("{NAME}:{} tcp private", server.held));
                rules.push(format!("!{}:{}", Ipv4Addr::LOCALHOST, server.held));
            }
            Self::Level => rules.push(format!("{NAME}:{} name private", server.held)),
        }
        rules
    }
}

pub(super) async fn hold(context: &mut ProbeContext, revoked: Revoked) -> Result<(), ProbeError> {
    let token = context.token().to_owned();
    let server = EgressServer::get();
    let held = |times: &str, name: &str, word: &str| {
        let message = digits(format!("{token}-{word}.").as_bytes());
        let port = server.held.to_string();
        let call = Call::new(["tcp-held", times, &message, name, &port]);
        call.and(format!("{}/{port}", Ipv4Addr::LOCALHOST))
    };
    context.host_control(&held("3", "", "host")).await?;
    if !offered(context).await {
        return Ok(());
    }
    let attack = held(TIMES, NAME, "held");
    let again = held("1", NAME, "again");
    let other = Attempted::to(server.open).call(&format!("{token}-other."));
    // No server is behind it.
    let port = server.of_another.to_string();
    let another = Call::new(["tcp-held", "1", "", ANOTHER, &port]);
    let marker = format!("{token}-held.");
    let tried = context
        .with_sandbox(async |sandbox| {
            let begun = sandbox.run(&held("3", NAME, "permitted")).await;
            let begun = begun.map(|run| run.attempt(None))?;
            let known = sandbox.run(&another).await?.attempt(None);
            let request = sandbox.request(&attack).timeout(PATIENCE * 2);
            let mut execution = sandbox.handle().start(&request, Stdin::Null).await?;
            let mut waited = Duration::ZERO;
            while !EgressServer::has_received(&marker) && waited < PATIENCE {
                tokio::time::sleep(SETTLED / 10).await;
                waited += SETTLED / 10;
            }
            let rules = EgressRules::parse(revoked.rules(server))?;
            match sandbox.handle().set_egress(rules).await {
                // The rule stays in force.
                Err(error) if error.kind() == ErrorKind::Unsupported => {
                    let later = sandbox.run(&again).await?.attempt(None);
                    let other = sandbox.run(&other).await?.attempt(None);
                    return Ok((begun, 1, later.clone(), later, other, true));
                }
                changed => changed?,
            }
            tokio::time::sleep(SETTLED).await;
            let before = EgressServer::count(&marker);
            tokio::time::sleep(SETTLED * 2).await;
            let untouched = EgressServer::count(&marker) == before;
            let end = execution.wait().await?;
            let end = Run::from(end).attempt(None);
            let later = sandbox.run(&again).await?.attempt(None);
            let other = sandbox.run(&other).await?.attempt(None);
            // A name that had an address before has none without a rule.
            let unknown = sandbox.run(&another).await?.attempt(None);
            let later = match unknown == Attempt::blocked(["ENOENT"]) && known != unknown {
                true => later,
                false => Attempt::Succeeded {
                    value: format!("the name of a revoked rule: {known:?}, {unknown:?}"),
                },
            };
            Ok::<_, sandbox_core::Error>((begun, before, end, later, other, untouched))
        })
        .await;
    let (begun, before, end, later, other, untouched) = match tried {
        Ok(Ok(tried)) => tried,
        Ok(Err(error)) => return Err(error.into()),
        Err(attempt) => {
            context.record_attack(Step::new(attack.text(), attempt));
            return Ok(());
        }
    };
    if before == 0 && begun.is_success() {
        return Err(ProbeError::new("the held connection sent nothing"));
    }
    // Connections of another rule work before and after.
    let permitted = if begun.is_success() { other } else { begun };
    context.record_allow_control(Step::new("connections of both rules", permitted));
    let attempt = if end.is_success() { end } else { later };
    context.record_attack(Step::new(attack.text(), attempt));
    let again = EgressServer::has_received(&format!("{token}-again."));
    context.check_host("messages after the rule was revoked", untouched && !again);
    Ok(())
}
