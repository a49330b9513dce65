//! A server of the Model Context Protocol (MCP) whose tools run code in sandboxes.
//!
//! The operator gives a [`McpServer`] a client with its policy. Clients of the server can only ask
//! for less than that policy, and reach only the sandboxes that they made. Their sandboxes end with
//! the connection.
//!
//! ```no_run
//! use sandbox_core::{CapabilityPolicy, SandboxClient};
//! use sandbox_mcp::McpServer;
//!
//! # async fn example() -> sandbox_core::Result<()> {
//! let policy = CapabilityPolicy::new().artifact_export_path("/output/**");
//! let client = SandboxClient::open("local", policy)?;
//! let server = McpServer::new(client)?;
//! server.serve_stdio().await?;
//! server.close().await;
//! # Ok(()) }
//! ```

mod call;
mod cell;
mod content;
mod execution;
mod handler;
mod http;
mod kept;
mod resources;
mod server;
mod store;
mod tools;

pub use http::{AccessToken, HttpListener};
pub use server::McpServer;
