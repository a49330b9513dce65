//! The policy, reports, logs, outputs and artifacts as resources.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rmcp::model::{ReadResourceResult, Resource, ResourceContents, ResourceTemplate};
use sandbox::policy::PolicyFile;
use sandbox::{Error, ErrorKind, Result};
use serde::Serialize;
use serde_json::json;

use crate::mcp::content::resource;
use crate::mcp::server::Shared;
use crate::mcp::store::ClientStore;

const POLICY: &str = "sandbox://policy";
const HOST: &str = "sandbox://host";
const SANDBOXES: &str = "sandbox://sandboxes/";
const JSON: &str = "application/json";

/// How many lines of a log are a resource, and how many bytes of them at most.
const LOG_LINES: u32 = 10_000;
const LOG_BYTES: usize = 1024 * 1024;

/// All resources of a client.
pub fn list(store: &ClientStore) -> Vec<Resource> {
    let mut resources = vec![
        Resource::new(POLICY, "policy")
            .with_description("The most that a call can ask for, and the tier")
            .with_mime_type(JSON),
        Resource::new(HOST, "host")
            .with_description("How this host enforces the policy")
            .with_mime_type(JSON),
    ];
    for sandbox in store.sandboxes() {
        let name = sandbox.name();
        let report = Resource::new(report_uri(name), format!("{name} enforcement"));
        resources.push(report.with_mime_type(JSON));
        let log = Resource::new(format!("{SANDBOXES}{name}/log"), format!("{name} log"));
        resources.push(log.with_mime_type("text/plain"));
    }
    resources.extend(store.kept().iter().map(resource));
    resources
}

pub fn templates() -> Vec<ResourceTemplate> {
    vec![
        ResourceTemplate::new(format!("{SANDBOXES}{{name}}/enforcement"), "enforcement")
            .with_description("What is enforced in a sandbox")
            .with_mime_type(JSON),
        ResourceTemplate::new(format!("{SANDBOXES}{{name}}/log"), "log")
            .with_description("The end of what programs in a sandbox wrote")
            .with_mime_type("text/plain"),
    ]
}

/// The URI of a sandbox's enforcement report.
pub fn report_uri(name: &str) -> String {
    format!("{SANDBOXES}{name}/enforcement")
}

/// The resource of this URI; `None` if the client has none.
pub async fn read(
    shared: &Shared,
    store: &ClientStore,
    uri: &str,
) -> Result<Option<ReadResourceResult>> {
    let contents = match uri {
        POLICY => document(
            uri,
            &json!({
                "tier": shared.client.tier(),
                "policy": PolicyFile::from(&shared.ceiling),
                "timeout_seconds": shared.plan.timeout.as_secs_f64(),
            }),
        )?,
        HOST => document(uri, &shared.client.check(&shared.template).await?)?,
        uri if uri.starts_with(SANDBOXES) => {
            let rest = uri.trim_start_matches(SANDBOXES);
            let Some((name, part)) = rest.split_once('/') else {
                return Ok(None);
            };
            let Ok(sandbox) = store.sandbox(name) else {
                return Ok(None);
            };
            match part {
                "enforcement" => document(uri, sandbox.enforcement())?,
                "log" => {
                    let log = sandbox.logs(Some(LOG_LINES)).await?;
                    let end = &log[log.len().saturating_sub(LOG_BYTES)..];
                    text(uri, &String::from_utf8_lossy(end), "text/plain")
                }
                _ => return Ok(None),
            }
        }
        uri => {
            let Some(item) = store.kept().find(uri) else {
                return Ok(None);
            };
            let bytes = item.read()?;
            let media_type = item.media_type.as_deref();
            match String::from_utf8(bytes) {
                Ok(content) => text(uri, &content, media_type.unwrap_or("text/plain")),
                Err(error) => ResourceContents::blob(STANDARD.encode(error.as_bytes()), uri)
                    .with_mime_type(media_type.unwrap_or("application/octet-stream")),
            }
        }
    };
    Ok(Some(ReadResourceResult::new(vec![contents])))
}

fn text(uri: &str, content: &str, media_type: &str) -> ResourceContents {
    ResourceContents::text(content, uri).with_mime_type(media_type)
}

fn document(uri: &str, value: &impl Serialize) -> Result<ResourceContents> {
    let json = serde_json::to_string_pretty(value)
        .map_err(|error| Error::new(ErrorKind::Io, "read resource", uri).with_source(error))?;
    Ok(text(uri, &json, JSON))
}
