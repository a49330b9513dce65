//! Settings of a tier.

use sandbox_core::registry::Settings;
use sandbox_core::{Error, ErrorKind, SandboxClient};

use crate::engine_api::EngineApi;
use crate::probes::prelude::*;

/// A setting that engines have, and a value that none of them has.
const RUNTIME: (&str, &str) = ("runtime", "no-such-runtime");

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    context.host_control(&Call::new(["alive"])).await?;
    context.allow_control(&Call::new(["alive"])).await;
    let has_engine = EngineApi::of(context.tier()).await?.is_some();
    let told = match context.client_and_spec().await {
        Err(declined) => Err(declined),
        Ok((client, spec)) => {
            let tier = context.tier();
            let ask = async |(name, value): (&str, &str)| {
                let settings = Settings::from([(name.to_owned(), value.to_owned())]);
                let policy = client.policy().clone();
                let opened = SandboxClient::open_with(tier, policy, &settings)?;
                opened.create(&spec).await?.kill().await
            };
            let runtime = match has_engine {
                true => ErrorKind::SandboxUnavailable,
                false => ErrorKind::InvalidSpec,
            };
            let mut wrong = None;
            for (setting, expected) in [
                (("no-such-setting", "1"), ErrorKind::InvalidSpec),
                ((RUNTIME.0, ""), ErrorKind::InvalidSpec),
                (RUNTIME, runtime),
            ] {
                let answer = ask(setting).await;
                let kind = answer.as_ref().map_err(Error::kind);
                // A backend that is not linked has no settings.
                if ![Err(expected), Err(ErrorKind::UnknownBackend)].contains(&kind.copied()) {
                    wrong = wrong.or(Some(format!("{setting:?}: {answer:?}")));
                }
            }
            Ok(wrong)
        }
    };
    context.record_attack(behavior("open the tier with wrong settings", told));
    context.no_host_effect("nothing is created");
    Ok(())
}
