//! Sandboxes that are created before they are needed.

use std::time::Instant;

use sandbox_core::spi::unique_name;
use sandbox_core::{PoolSettings, PooledSandbox, SandboxClient, SandboxPool, SandboxSpec};

use crate::pool::PAUSE;
use crate::probes::confined::{INPUTS, answers, compare, terminal_answers};
use crate::probes::prelude::*;
use crate::program::PROGRAM;

mod claims;
mod places;
mod warm_pods;

/// The probes of this area.
pub static PROBES: &[Probe] = &[
    Probe::isolation(
        "pools::claims",
        POOLS,
        "looks in a claim for what the claim before left: files, shared memory, a process",
        claims::NOT_THERE,
        |context| Box::pin(claims::run(context)),
    ),
    Probe::behavior(
        "pools::confined",
        POOLS,
        "attacks from claimed sandboxes as from one that did not wait, with input and on a terminal",
        |context| Box::pin(confined(context)),
    ),
    Probe::behavior(
        "pools::ended",
        POOLS,
        "removes a sandbox that waits, and claims one",
        |context| Box::pin(behaves(context, "claim one of two", places::ended)),
    ),
    Probe::behavior(
        "pools::max_age",
        POOLS,
        "lets a sandbox wait for longer than it may, and claims the one in its place",
        |context| Box::pin(behaves(context, "wait in a pool", places::max_age)),
    )
    .waits(),
    Probe::behavior(
        "pools::places",
        POOLS,
        "claims more sandboxes than may exist, with each answer that a pool can give",
        |context| Box::pin(behaves(context, "claim one too many", places::exhausted)),
    ),
    Probe::behavior(
        "pools::removed",
        POOLS,
        "drops a pool, and a claim in which a program runs, and looks for what is left",
        |context| Box::pin(behaves(context, "drop a pool and a claim", places::removed)),
    ),
    // Their time begins with the pod.
    Probe::behavior(
        "pools::warm_pods",
        POOLS,
        "creates sandboxes with a lifetime of their own, with the policy's and without one beside \
         a pod that was started ahead",
        |context| Box::pin(warm_pods::run(context)),
    ),
];

/// A client, a specification that pools create sandboxes from, and the probe's token.
struct Template {
    client: SandboxClient,
    spec: SandboxSpec,
    token: String,
}

impl Template {
    async fn of(context: &mut ProbeContext) -> Result<Self, Attempt> {
        let (client, spec) = context.client_and_spec().await?;
        Ok(Self::new(client, spec, context.token()))
    }

    fn new(client: SandboxClient, mut spec: SandboxSpec, token: &str) -> Self {
        // Pools give each sandbox a name that begins with this one.
        spec.name = unique_name("conformance-pool");
        Self {
            client,
            spec,
            token: token.to_owned(),
        }
    }

    fn pool(&self, settings: PoolSettings) -> sandbox_core::Result<SandboxPool> {
        SandboxPool::new(&self.client, &self.spec, settings)
    }

    /// A claim. While its pod fits on no node, or a start takes longer than a claim waits, tries
    /// again.
    async fn claim(&self, pool: &SandboxPool) -> sandbox_core::Result<PooledSandbox> {
        let deadline = fits_until();
        loop {
            let claimed = pool.claim().await;
            if claimed.is_err() && pool.status().starting > 0 && Instant::now() < deadline {
                tokio::time::sleep(PAUSE).await;
            } else if !fits_later(&claimed, deadline).await {
                return claimed;
            }
        }
    }

    /// The names of the pools' sandboxes that exist.
    async fn names(&self) -> sandbox_core::Result<Vec<String>> {
        let listed = self.client.list_all().await?;
        let names = listed.into_iter().map(|sandbox| sandbox.name);
        Ok(names
            .filter(|name| name.starts_with(&self.spec.name))
            .collect())
    }
}

async fn behaves(
    context: &mut ProbeContext,
    action: &str,
    act: impl AsyncFnOnce(&Template) -> Deviation,
) -> Result<(), ProbeError> {
    let token = context.token().to_owned();
    client_feature(context, action, async |client, spec| {
        act(&Template::new(client, spec, &token)).await
    })
    .await
}

async fn confined(context: &mut ProbeContext) -> Result<(), ProbeError> {
    compare(context, "attack from claims", async |context, calls| {
        let template = match Template::of(context).await {
            Ok(template) => template,
            Err(declined) => return Ok(Err(declined)),
        };
        let program = context.inside("probe");
        let runs = async {
            let pool = template.pool(PoolSettings::new(2))?;
            pool.filled().await?;
            let mut runs = Vec::new();
            // The second claim waited longer, and the pool fills up meanwhile.
            for input in [None, Some(INPUTS[1])] {
                let claim = template.claim(&pool).await?;
                let sandbox = claim.sandbox();
                sandbox.upload(&program, 0o755, PROGRAM).await?;
                runs.push(answers(sandbox, &program, calls, input).await?);
                if input.is_none() {
                    runs.push(terminal_answers(sandbox, &program, calls).await?);
                }
                claim.end().await?;
            }
            pool.close().await?;
            Ok(runs)
        };
        let runs: sandbox_core::Result<_> = runs.await;
        Ok(if_offered(context, Ok(runs)))
    })
    .await
}
