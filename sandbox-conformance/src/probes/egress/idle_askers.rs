//! Clients of the sandbox's name server that connect and say nothing.

use std::time::Duration;

use simple_dns::TYPE;

use super::messages::digits;
use super::{answers, names};
use crate::name_server::OPEN;
use crate::probes::prelude::*;

/// More than the name server serves at once.
const IDLE: &str = "18";

/// After this time, the documented one and some for a busy host, a later client has its answer.
const LIMIT: Duration = Duration::from_secs(10 + 5);

pub(super) async fn wait_behind(context: &mut ProbeContext) -> Result<(), ProbeError> {
    if !names::prepared(context).await? {
        return Ok(());
    }
    let question = answers::question(1, &format!("behind.{OPEN}"), TYPE::A, false);
    let question = digits(&answers::framed(&question));
    let limit = LIMIT.as_millis().to_string();
    let call = Call::new(["ask-behind", IDLE, &limit, &question]).timeout(LIMIT * 2);
    let deviation = match context.execute(&call).await {
        Ok(result) if result.stdout_text().contains("result=value:") => Ok(None),
        Ok(result) => Ok(Some(format!("{}: {}", result.outcome, result.output()))),
        Err(attempt) => Err(attempt),
    };
    context.record_attack(behavior("ask behind idle clients", deviation));
    context.no_host_effect("questions stay in the sandbox");
    Ok(())
}
