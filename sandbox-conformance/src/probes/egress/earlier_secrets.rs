//! The text that stands for a secret, after its execution.

use std::time::Duration;

use sandbox_core::{ExecRequest, SandboxHandle, Stdin};

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
            let handle = sandbox.handle();
            let markers = [marker("own"), marker("own-later")];
            let mut wrong = used_again(handle, &value, markers).await?;
            for end in [End::Killed, End::Dropped] {
                if wrong.is_none() {
                    let marker = marker(&format!("{end:?}"));
                    wrong = used_after(handle, &value, end, &marker).await?;
                }
            }
            Ok(wrong)
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

/// Ends an execution with the secret before its program ends, and returns the text that the program
/// had for it.
async fn text_of_ended(
    sandbox: &SandboxHandle,
    value: &str,
    end: End,
) -> sandbox_core::Result<String> {
    let hosts = [format!("{}:{}", owner(), EgressServer::get().secure)];
    let path = format!("/tmp/{}", random_name());
    let script = format!("echo -n ${SECRET} > {path}.new; mv {path}.new {path}; exec sleep 60");
    let request = ExecRequest::shell(script).secret_for(SECRET, value, hosts);
    let mut execution = sandbox.start(&request, Stdin::Null).await?;
    let mut text = Vec::new();
    for _ in 0..250 {
        text = sandbox.read(&path).await.unwrap_or_default();
        if !text.is_empty() {
            break;
        }
        tokio::time::sleep(PAUSE).await;
    }
    match end {
        End::Killed => {
            execution.kill().await;
            execution.wait().await?;
        }
        End::Dropped => drop(execution),
    }
    sandbox.remove(&path).await?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// The pause between two looks for a file.
const PAUSE: Duration = Duration::from_millis(20);

/// How an execution ends before its program.
#[derive(Debug, Clone, Copy)]
enum End {
    Killed,
    Dropped,
}

/// Sends the text of an ended execution in a later one.
async fn used_after(sandbox: &SandboxHandle, value: &str, end: End, marker: &str) -> Deviation {
    let text = text_of_ended(sandbox, value, end).await?;
    if text.is_empty() || text.contains(value) {
        return Ok(Some(format!(
            "{end:?}: the program has no text for the secret"
        )));
    }
    let requests = targets(Use::Header.kinds(), &owner(), marker);
    let result = sandbox
        .exec(&sending(&requests).env(SECRET, &*text))
        .await?;
    let arrived = arrived(marker);
    let is_right = result.success() && arrived == [with_authorization(&text)];
    Ok((!is_right).then(|| format!("{end:?}: {}; {arrived:?}", result.outcome)))
}
