//! The tools. Each is a type of its arguments, with the work that they ask for.

mod create;
mod exec;
mod export;
mod files;
mod remove;
mod run_code;
mod session;
mod why;

use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{CallToolResult, JsonObject, Tool, ToolAnnotations};
use rmcp::service::RequestContext;
use sandbox::{Error, ErrorKind, Plan, Result, SandboxSpec};
use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, Transform as _};
use schemars::{JsonSchema, Schema};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::mcp::call::supervise;
use crate::mcp::server::Shared;
use crate::mcp::store::ClientStore;

/// One call of a tool.
pub struct ToolCall<'c> {
    pub shared: &'c Shared,
    /// What the client made.
    pub store: &'c ClientStore,
    pub context: &'c RequestContext<RoleServer>,
}

/// A tool. The type has the arguments, and refuses unknown ones.
trait ToolArguments: DeserializeOwned + JsonSchema + Send {
    const NAME: &'static str;
    const DESCRIPTION: &'static str;
    const EFFECT: Effect;

    async fn run(self, call: &ToolCall<'_>) -> Result<CallToolResult>;
}

/// What a tool may change, as a hint for clients.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Effect {
    /// Nothing.
    Reads,
    /// Something in a sandbox, or a new sandbox.
    Adds,
    /// What is in a sandbox may be lost.
    Destroys,
}

type Running<'c> = Pin<Box<dyn Future<Output = Result<CallToolResult>> + Send + 'c>>;

/// A tool as the server finds it.
pub struct ToolEntry {
    tool: Tool,
    run: for<'c> fn(&'c ToolCall<'c>, JsonObject) -> Running<'c>,
}

impl ToolEntry {
    pub fn run<'c>(&self, call: &'c ToolCall<'c>, arguments: JsonObject) -> Running<'c> {
        (self.run)(call, arguments)
    }
}

static TOOLS: LazyLock<Vec<ToolEntry>> = LazyLock::new(|| {
    vec![
        entry!(run_code::RunCodeArguments),
        entry!(session::SessionRunArguments),
        entry!(create::CreateArguments),
        entry!(exec::ExecArguments),
        entry!(files::ReadArguments),
        entry!(files::WriteArguments),
        entry!(files::ListArguments),
        entry!(export::ExportArguments),
        entry!(why::WhyArguments),
        entry!(remove::RemoveArguments),
    ]
});

/// All tools, as clients see them.
pub fn list() -> Vec<Tool> {
    TOOLS.iter().map(|entry| entry.tool.clone()).collect()
}

pub fn find(name: &str) -> Option<&'static ToolEntry> {
    TOOLS.iter().find(|entry| entry.tool.name == name)
}

macro_rules! entry {
    ($arguments:ty) => {
        ToolEntry {
            tool: tool::<$arguments>(),
            run: |call, arguments| {
                Box::pin(async move { read::<$arguments>(arguments)?.run(call).await })
            },
        }
    };
}
use entry;

fn tool<T: ToolArguments>() -> Tool {
    let annotations = ToolAnnotations::new()
        .read_only(T::EFFECT == Effect::Reads)
        .destructive(T::EFFECT == Effect::Destroys)
        .open_world(false);
    Tool::new(T::NAME, T::DESCRIPTION, Arc::new(schema::<T>())).with_annotations(annotations)
}

/// The JSON schema of the arguments. Optional ones are left out, never null: not every client reads
/// lists of types.
fn schema<T: JsonSchema>() -> JsonObject {
    let settings =
        SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    RecursiveTransform(|schema: &mut Schema| {
        if schema.get("default").is_some_and(Value::is_null) {
            schema.remove("default");
        }
        if let Some(Value::Array(types)) = schema.get_mut("type") {
            types.retain(|name| name != "null");
            if let [only] = types.as_slice() {
                let only = only.clone();
                schema.insert("type".to_owned(), only);
            }
        }
        if let Some(Value::Array(choices)) = schema.get_mut("anyOf") {
            choices.retain(|choice| choice.get("type").is_none_or(|name| name != "null"));
            if let [Value::Object(only)] = choices.as_slice() {
                let only = only.clone();
                schema.remove("anyOf");
                for (name, value) in only {
                    schema.ensure_object().entry(name).or_insert(value);
                }
            }
        }
    })
    .transform(&mut schema);
    // The tool has its own name and description.
    schema.remove("title");
    schema.remove("description");
    schema.ensure_object().clone()
}

fn read<T: ToolArguments>(arguments: JsonObject) -> Result<T> {
    serde_json::from_value(Value::Object(arguments)).map_err(|error| {
        let context = format!("arguments of {}: {error}", T::NAME);
        Error::new(ErrorKind::InvalidRequest, "call tool", context)
    })
}

impl ToolCall<'_> {
    /// Does the work of the call, within the time that a call may take.
    async fn supervised<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        supervise(self.context, self.shared.call_limit(), async {
            let permit = self.shared.calls.acquire().await;
            let _permit = permit
                .map_err(|_| Error::new(ErrorKind::SandboxEnded, "call tool", "the server ends"))?;
            work.await
        })
        .await
    }

    /// Checks that a specification asks for no more than the operator allows.
    fn check(&self, spec: &SandboxSpec) -> Result<()> {
        Plan::resolve(spec, &self.shared.ceiling).map(drop)
    }
}

/// A number of seconds that may shorten a limit and never lengthen it.
fn shorter(what: &str, asked: Option<f64>, allowed: Duration) -> Result<Option<Duration>> {
    let Some(seconds) = asked else {
        return Ok(None);
    };
    let bad = |kind, context| Err(Error::new(kind, "call tool", context));
    match Duration::try_from_secs_f64(seconds) {
        Ok(asked) if asked > allowed => bad(
            ErrorKind::PolicyExceeded,
            format!("{what}: asked for {asked:?}, the policy allows {allowed:?}"),
        ),
        Ok(asked) if !asked.is_zero() => Ok(Some(asked)),
        _ => bad(
            ErrorKind::InvalidRequest,
            format!("{what}: {seconds} is not a positive number of seconds"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_refuse_unknown_arguments_and_have_no_null() {
        for tool in list() {
            let schema = &tool.input_schema;
            assert_eq!(schema["type"], "object", "{}", tool.name);
            assert_eq!(schema["additionalProperties"], false, "{}", tool.name);
            let text = serde_json::to_string(schema).expect("JSON");
            assert!(!text.contains("null") && !text.contains("$ref"), "{text}");
        }
    }

    #[test]
    fn time_limits_are_only_shortened() {
        let allowed = Duration::from_secs(30);
        let asked = |seconds| shorter("timeout_seconds", seconds, allowed);
        assert_eq!(asked(None).expect("none"), None);
        assert_eq!(
            asked(Some(0.5)).expect("shorter"),
            Some(Duration::from_millis(500))
        );
        let kind = |seconds| asked(Some(seconds)).expect_err("refused").kind();
        assert_eq!(kind(31.0), ErrorKind::PolicyExceeded);
        for seconds in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(kind(seconds), ErrorKind::InvalidRequest);
        }
    }
}
