//! `sandbox_create`.

use std::collections::BTreeMap;

use rmcp::model::CallToolResult;
use sandbox::spi::unique_name;
use sandbox::{ByteSize, Cpus, Result};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::{Effect, ToolArguments, ToolCall, shorter};
use crate::mcp::execution::ToolReport;
use crate::mcp::resources::report_uri;

/// The arguments of `sandbox_create`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CreateArguments {
    /// Name of the sandbox: a-z, 0-9, '-', '_' and '.'. One is made up if it is left out.
    name: Option<String>,
    /// Image, on tiers that use images.
    image: Option<String>,
    /// Memory limit of the whole sandbox.
    memory: Option<ByteSize>,
    /// Processors of the whole sandbox.
    cpus: Option<Cpus>,
    /// Packages to install first: numpy==1.26.4, npm:lodash@^4, gem:rack, go:example.org/greet,
    /// cargo:itoa@1.
    #[serde(default)]
    packages: Vec<String>,
    /// Destinations that code may reach, like example.org:443; an empty list for none.
    egress: Option<Vec<String>>,
    /// Environment variables.
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// The sandbox ends after this time.
    lifetime_seconds: Option<f64>,
}

impl ToolArguments for CreateArguments {
    const NAME: &'static str = "sandbox_create";
    const DESCRIPTION: &'static str = "Create a sandbox for several calls. It keeps its files, and \
        ends with remove, with its lifetime or with the connection.";
    const EFFECT: Effect = Effect::Adds;

    async fn run(self, call: &ToolCall<'_>) -> Result<CallToolResult> {
        let shared = call.shared;
        let mut spec = shared.template.clone();
        spec.name = self.name.unwrap_or_else(|| unique_name("mcp"));
        spec.image = self.image.or(spec.image);
        spec.memory = self.memory.or(spec.memory);
        spec.cpus = self.cpus.or(spec.cpus);
        spec.packages.extend(self.packages);
        spec.egress = self.egress.or(spec.egress);
        spec.env.extend(self.env);
        let allowed = shared.ceiling.lifetime.unwrap_or(std::time::Duration::MAX);
        let lifetime = shorter("lifetime_seconds", self.lifetime_seconds, allowed)?;
        spec.lifetime = lifetime.or(spec.lifetime);
        call.check(&spec)?;
        let created = call.store.create(&shared.client, &spec);
        let sandbox = call.supervised(created).await?;

        let (plan, report) = (sandbox.plan(), sandbox.enforcement());
        let mut answer = ToolReport::default();
        answer.line(&format!(
            "created {} on {}: memory {}, {} CPUs, {:?} for each execution",
            plan.name,
            sandbox.tier(),
            plan.memory,
            plan.cpus,
            plan.timeout
        ));
        let open = report.unenforced_capabilities();
        if !open.is_empty() {
            let open = open.iter().map(ToString::to_string).collect::<Vec<_>>();
            answer.line(&format!("not fully enforced: {}", open.join(", ")));
        }
        for (name, value) in [
            ("sandbox", json!(plan.name)),
            ("tier", json!(sandbox.tier())),
            ("memory", json!(plan.memory)),
            ("cpus", json!(plan.cpus)),
            ("timeout_seconds", json!(plan.timeout.as_secs_f64())),
            (
                "lifetime_seconds",
                json!(plan.lifetime.map(|lifetime| lifetime.as_secs_f64())),
            ),
            ("export_paths", json!(plan.export_paths)),
            ("enforcement", json!(report_uri(&plan.name))),
        ] {
            answer.set(name, value);
        }
        Ok(answer.into_result())
    }
}
