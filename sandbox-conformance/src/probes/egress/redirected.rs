//! A server's answer that leads elsewhere.

use std::net::Ipv4Addr;

use super::messages::{Attempted, FirstMessage, message_call};
use super::{NAME, offered};
use crate::egress_server::{EgressServer, REDIRECT};
use crate::probes::prelude::*;

pub(super) async fn follow(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let token = context.token().to_owned();
    let server = EgressServer::get();
    let named = (Ipv4Addr::LOCALHOST, server.named);
    // The first server gets the marker of the second without its end.
    let call = |name: &str, leads_to: &str, word: &str| {
        let request = format!(
            "GET / HTTP/1.1\r\nHost: {NAME}\r\n\
             {REDIRECT}{leads_to}:{}/{token}-{word}\r\nX-Probe: {token}-first.\r\n\r\n",
            server.public
        );
        message_call("tcp-followed", request.as_bytes(), name, named)
    };
    let control = call("", "127.0.0.1", "host");
    context.host_control(&control).await?;
    if !offered(context).await {
        return Ok(());
    }
    let permitted = Attempted::to(server.named).saying(FirstMessage::Http { host: NAME });
    let permitted = permitted.call(&format!("{token}-permitted."));
    context.allow_control(&permitted).await;
    context.attack(&call(NAME, NAME, "denied")).await;
    let untouched = !EgressServer::has_received(&format!("{token}-denied."));
    context.check_host("messages at the server that it leads to", untouched);
    Ok(())
}
