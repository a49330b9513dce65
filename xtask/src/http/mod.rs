//! As much HTTP/1.1 as a container engine's local socket needs: one request per connection.

mod client;
mod response;

pub use client::{Body, Client, encode};
pub use response::Response;
