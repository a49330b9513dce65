//! The text that stands for a secret, after its execution.

use sandbox_core::SandboxHandle;

use super::offered;
use super::secrets::{
    SECRET, Use, arrived, host_sends, owner, sending, targets, with_authorization,
};
use crate::egress_server::EgressServer;
use crate::host_fixture::random_name;
use crate::probes::detached::{LIFETIME, in_detached};
use crate::probes::prelude::*;

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    crate::name_server::started()?;
    let token = context.token().to_owned();
    let value = format!("secret-{}", random_name());
    let host = format!("{token}-host.");
    host_sends(context, Use::Header, &value, &host).await;
    if !offered(context).await {
        return Ok(());
    }
    context.allow_control(&Call::new(["alive"])).await;
    let marker = |word: &str| format!("{token}-{word}.");
    let owned = context
        .with_sandbox(async |sandbox| {
            let markers = [marker("own"), marker("own-later")];
            used_again(sandbox.handle(), &value, markers).await
        })
        .await;
    let owned = if_offered(context, owned);
    let deviation = match owned {
        Ok(None) => {
            in_detached(context, LIFETIME, async |_sandbox, name, client| {
                let markers = [marker("other"), marker("other-later")];
                let later = client.get(name).await?;
                Ok(used_again(&later, &value, markers).await?)
            })
            .await?
        }
        other => other,
    };
    context.record_attack(behavior("send the text again", deviation));
    context.no_host_effect("the attack itself reads what arrives");
    Ok(())
}

/// Uses the secret in one execution, and the text that it had for it in a second one.
async fn used_again(
    sandbox: &SandboxHandle,
    value: &str,
    [first, later]: [String; 2],
) -> Deviation {
    let target = |marker: &str| targets(Use::Header.kinds(), &owner(), marker);
    let hosts = [format!("{}:{}", owner(), EgressServer::get().secure)];
    let request = sending(&target(&first)).secret_for(SECRET, value, hosts);
    let result = sandbox.exec(&request).await?;
    let printed = result.stdout_text();
    let Some(text) = printed.lines().nth(1).filter(|_| result.success()) else {
        return Ok(Some(format!("{}: {}", result.outcome, result.output())));
    };
    if arrived(&first) != [with_authorization(value)] {
        return Ok(Some("the secret does not arrive".to_owned()));
    }
    let again = sending(&target(&later)).env(SECRET, text);
    let result = sandbox.exec(&again).await?;
    let arrived = arrived(&later);
    // It is a text like any other now, which the host passes on.
    Ok(if arrived.iter().any(|message| message.contains(value)) {
        Some("it still stands for the secret".to_owned())
    } else if !result.success() || arrived != [with_authorization(text)] {
        Some(format!(
            "{}: {}; {arrived:?}",
            result.outcome,
            result.output()
        ))
    } else {
        None
    })
}
