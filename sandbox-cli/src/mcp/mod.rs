//! A server of the Model Context Protocol (MCP) whose tools run code in sandboxes, over standard
//! input and output or HTTP.
//!
//! The operator gives a [`McpServer`] a client with its policy. Clients of the server can only ask
//! for less than that policy, and reach only the sandboxes that they made. Their sandboxes end with
//! the connection.
//!
//! docs/mcp.md describes the tools, the resources and the configuration of clients.

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
