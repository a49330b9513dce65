//! The rules of a detached sandbox, which another client can change.

use sandbox_core::policy::EgressRules;

use super::messages::{Attempted, FirstMessage};
use super::{NAME, offered};
use crate::egress_server::EgressServer;
use crate::probes::detached::{LIFETIME, in_detached};
use crate::probes::prelude::*;

pub(super) async fn connect(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let token = context.token().to_owned();
    let server = EgressServer::get();
    let call = |port: u16, word: &str| Attempted::to(port).call(&format!("{token}-{word}."));
    let host = Attempted::to(server.of_another).by_address();
    context
        .host_control(&host.call(&format!("{token}-host.")))
        .await?;
    if !offered(context).await {
        return Ok(());
    }
    context.allow_control(&call(server.open, "control")).await;
    let deviation = in_detached(context, LIFETIME, async |sandbox, name, client| {
        let attempt = async |call: Call| {
            let run = sandbox.run(&call).await?;
            Ok::<_, sandbox_core::Error>(run.attempt(None))
        };
        let before = attempt(call(server.open, "before")).await?;
        let denied = attempt(call(server.of_another, "denied")).await?;
        let rules = [format!("{NAME}:{} name private", server.named)];
        let other = client.get(name).await?;
        other.set_egress(EgressRules::parse(rules)?).await?;
        let revoked = attempt(call(server.open, "revoked")).await?;
        let named = Attempted::to(server.named).saying(FirstMessage::Http { host: NAME });
        let after = attempt(named.call(&format!("{token}-after."))).await?;
        let is_right = before.is_success()
            && denied == Attempt::blocked(["ECONNREFUSED"])
            && !revoked.is_success()
            && after.is_success();
        Ok((!is_right)
            .then(|| format!("{before:?}; denied {denied:?}; revoked {revoked:?}; {after:?}")))
    })
    .await?;
    context.record_attack(behavior("connect from a detached sandbox", deviation));
    let received = |word: &str| EgressServer::has_received(&format!("{token}-{word}."));
    let untouched = !received("denied") && !received("revoked");
    context.check_host("messages at the host's server", untouched);
    Ok(())
}
