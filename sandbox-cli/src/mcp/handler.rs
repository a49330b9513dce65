//! The protocol's requests of one client.

use std::sync::Arc;

use http::request::Parts;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ErrorData, Implementation,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    ReadResourceRequestParams, ReadResourceResponse, ServerCapabilities, ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler};

use crate::mcp::server::Shared;
use crate::mcp::store::ClientStore;
use crate::mcp::{content, resources, tools};

const INSTRUCTIONS: &str = "Runs untrusted code in sandboxes. run_code without `sandbox` uses a new \
sandbox that is removed afterwards; files that code writes to an exported path are returned. \
sandbox_create makes one that keeps its files until remove or the end of the connection, and \
session_run keeps variables in it. \
The resource sandbox://policy says what is allowed. A call can ask for less, never for more.";

/// Serves one client, or one request of a client without a session.
#[derive(Debug, Clone)]
pub struct Handler {
    shared: Arc<Shared>,
    /// What this client made, if it has a connection or a session.
    own: Arc<ClientStore>,
}

impl Handler {
    pub fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            own: Arc::default(),
        }
    }

    /// What the client of this request made. A request over HTTP without a session has a handler of
    /// its own, so what its client made is kept by the server.
    fn store(&self, context: &RequestContext<RoleServer>) -> &ClientStore {
        let http = context.extensions.get::<Parts>();
        let is_sessionless =
            http.is_some_and(|parts| !parts.headers.contains_key("mcp-session-id"));
        match is_sessionless {
            true => &self.shared.sessionless,
            false => &self.own,
        }
    }
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_resources()
            .build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("sandbox", env!("CARGO_PKG_VERSION")))
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools::list()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = tools::find(&request.name) else {
            let message = format!("unknown tool {:?}", request.name);
            return Err(ErrorData::invalid_params(message, None));
        };
        let call = tools::ToolCall {
            shared: &self.shared,
            store: self.store(&context),
            context: &context,
        };
        let arguments = request.arguments.unwrap_or_default();
        let result = tool.run(&call, arguments).await;
        Ok(result.unwrap_or_else(|error| content::error(&error)).into())
    }

    async fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let resources = resources::list(self.store(&context));
        Ok(ListResourcesResult::with_all_items(resources))
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(
            resources::templates(),
        ))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let store = self.store(&context);
        let read = resources::read(&self.shared, store, &request.uri).await;
        match read {
            Ok(Some(result)) => Ok(result.into()),
            Ok(None) => {
                let message = format!("no resource {}", request.uri);
                Err(ErrorData::resource_not_found(message, None))
            }
            Err(error) => Err(ErrorData::internal_error(error.to_string(), None)),
        }
    }
}
