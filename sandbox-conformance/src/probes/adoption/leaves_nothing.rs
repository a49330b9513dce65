//! What an adoption leaves in the container.

use std::time::Duration;

use sandbox_core::{Error, ErrorKind, Stdin};

use crate::foreign::Foreign;
use crate::pool::ProbeSandbox;
use crate::probes::prelude::*;

/// How long the end of an adoption may take that nobody waits for.
const LATE: Duration = Duration::from_secs(20);

/// The inventories of the probe program.
const INVENTORIES: [&str; 2] = ["inventory-files", "inventory-processes"];

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    context.host_control(&Call::new([INVENTORIES[0]])).await?;
    context.allow_control(&Call::new(["alive"])).await;
    let token = context.token().to_owned();
    let deviation = context
        .adopting(Foreign::default(), async |adopter| {
            let mut before: Option<String> = None;
            for (how, waits) in [("killed", true), ("dropped", false), ("last", true)] {
                let sandbox = adopter.adopt(|_| ()).await?;
                let left = match &before {
                    None => None,
                    Some(before) => left(&sandbox, before).await?,
                };
                if left.is_some() {
                    return Ok(left.map(|left| format!("before the {how} adoption: {left}")));
                }
                before.get_or_insert(inventory(&sandbox).await?);
                let sleep = sandbox.request(&Call::new(["sleep", &token, "60000"]));
                let running = sandbox.handle().start(&sleep, Stdin::Piped).await?;
                sandbox
                    .execute(&Call::new(["orphan", &token, "60000"]))
                    .await?;
                if waits {
                    sandbox.handle().kill().await?;
                }
                drop((running, sandbox));
            }
            Ok(None)
        })
        .await?;
    context.record_attack(behavior("end adoptions", deviation));
    context.no_host_effect("the programs run in the container");
    Ok(())
}

/// The files and processes in the container, as words.
async fn inventory(sandbox: &ProbeSandbox) -> sandbox_core::Result<String> {
    let mut words = Vec::new();
    for inventory in INVENTORIES {
        match sandbox.run(&Call::new([inventory])).await?.attempt(None) {
            Attempt::Succeeded { value } => words.push(value),
            other => {
                let context = format!("{inventory}: {other:?}");
                return Err(Error::new(
                    ErrorKind::Protocol,
                    "look into container",
                    context,
                ));
            }
        }
    }
    Ok(words.join(" "))
}

/// The difference to the inventory of the first adoption.
async fn left(sandbox: &ProbeSandbox, before: &str) -> Deviation {
    let end = tokio::time::Instant::now() + LATE;
    loop {
        let now = inventory(sandbox).await?;
        if now == *before {
            return Ok(None);
        }
        if tokio::time::Instant::now() >= end {
            return Ok(Some(difference(before, &now)));
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn difference(before: &str, now: &str) -> String {
    let mut rest = before.split(' ').collect::<Vec<_>>();
    let added = now.split(' ').filter(|word| {
        let known = rest.iter().position(|one| one == word);
        known.map(|index| rest.swap_remove(index)).is_none()
    });
    let added = added.collect::<Vec<_>>().join(" ");
    format!("more: {added}; missing: {}", rest.join(" "))
}
