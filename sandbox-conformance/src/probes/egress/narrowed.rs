//! Rules that replace those of a running sandbox, up to the policy's.

use sandbox_core::ErrorKind;
use sandbox_core::policy::EgressRules;

use super::exchanges::{self, Exchange, Transport};
use super::{names, rules};
use crate::egress_server::EgressServer;
use crate::name_server::OPEN;
use crate::probes::prelude::*;

/// Rules that are asked for, and whether the policy of [`ceiling`] allows as much.
const ROWS: &[(&str, bool)] = &[
    ("*.open.test:1000 tcp private", true),
    ("*.open.test:1000 tcp", true),
    ("*.open.test:1000 name private", true),
    ("*.open.test:1001 tcp private", false),
    ("*.x.open.test:1000 tcp private", true),
    ("x.open.test:1000 tcp private", true),
    ("open.test:1000 tcp private", false),
    ("*.test:1000 tcp private", false),
    ("x.other.test:1000 tcp private", false),
    ("1.2.3.4.5.6.7.8.open.test:1000 tcp private", true),
    ("1.2.3.4.5.6.7.8.9.open.test:1000 tcp private", false),
    ("no.open.test:1000 tcp private", false),
    ("x.no.open.test:1000 tcp private", true),
    ("*.below.open.test:1000 tcp private", false),
    ("two.test", true),
    ("two.test:443", true),
    ("two.test:80 name", true),
    ("two.test:8443", false),
    ("two.test:443 tcp", false),
    ("two.test:443 private", false),
    ("*.two.test", false),
    ("api.test:1000 http GET,POST /v1/* /x", true),
    ("api.test:1000 http GET /v1/users", true),
    ("api.test:1000 http POST /v1/a/* /x", true),
    ("api.test:1000 http PUT /v1/*", false),
    ("api.test:1000 http GET,PUT /v1/*", false),
    ("api.test:1000 http GET /v1*", false),
    ("api.test:1000 http GET /x*", false),
    ("api.test:1000 http GET /v1", false),
    ("api.test:1000 http GET", false),
    ("api.test:1000 http /v1/*", false),
    ("api.test:1000 http", false),
    ("api.test:1000 name", false),
    ("api.test:1000 tcp", false),
    ("198.51.100.0/24:22 private", true),
    ("198.51.100.128/25:22 private", true),
    ("198.51.100.7:22", true),
    ("198.51.100.0/23:22 private", false),
    ("198.51.101.7:22 private", false),
    ("198.51.100.7:23 private", false),
    ("0.0.0.0/0:22 private", false),
    ("!anything.test", true),
];

/// Rules that allow as much as the [`ROWS`] say.
pub(super) fn ceiling() -> SandboxSetup {
    let open = EgressServer::get().open;
    rules(&[
        format!("*.{OPEN}:{open} tcp private"),
        format!("!closed.{OPEN}"),
        format!("*.{OPEN}:1000 tcp private"),
        "!no.open.test:1000".to_owned(),
        "!*.below.open.test".to_owned(),
        "two.test".to_owned(),
        "api.test:1000 http GET,POST /v1/* /x".to_owned(),
        "198.51.100.0/24:22 private".to_owned(),
    ])
}

pub(super) async fn compare(context: &mut ProbeContext) -> Result<(), ProbeError> {
    if !names::prepared(context).await? {
        return Ok(());
    }
    let deviation = context.with_sandbox(async |sandbox| {
        let handle = sandbox.handle();
        let open = format!("*.{OPEN}:{} tcp private", EgressServer::get().open);
        for (asked, is_allowed) in ROWS {
            // One rule that allows must be among them.
            let asked = EgressRules::parse([asked, open.as_str()])?;
            let text = format!("{:?}", asked.rules()[0].to_string());
            match handle.set_egress(asked).await {
                Ok(()) if *is_allowed => {}
                Err(error) if error.kind() == ErrorKind::PolicyExceeded && !is_allowed => {}
                Err(error) if error.kind() == ErrorKind::Unsupported => return Err(error),
                changed => return Ok(Some(format!("{text}: {changed:?}"))),
            }
        }
        Ok(None)
    });
    let deviation = deviation.await;
    let deviation = match if_offered(context, deviation) {
        Ok(None) => denied_still(context).await,
        other => other,
    };
    context.record_attack(behavior("ask for rules", deviation));
    context.no_host_effect("the attack itself reads what the server gets");
    Ok(())
}

/// The policy's rules that deny stay in force.
async fn denied_still(context: &mut ProbeContext) -> Result<Option<String>, Attempt> {
    let token = context.token().to_owned();
    let port = EgressServer::get().open;
    let hosts = [format!("closed.{OPEN}"), format!("x.{OPEN}")];
    let exchanges = hosts.map(|host| {
        let message = format!("{token}-{host}.");
        Exchange::new(Transport::EndedStream, host, port, message)
    });
    let answers = exchanges::make(context, &exchanges).await?;
    let is_right = answers[0].error.as_deref() == Some("ENOENT") && answers[1].bytes == b"here";
    Ok((!is_right).then(|| format!("{answers:?}")))
}
