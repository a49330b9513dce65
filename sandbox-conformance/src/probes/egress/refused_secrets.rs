//! Secrets for hosts that no host would get, or that code could get.

use sandbox_core::{ErrorKind, ExecRequest};

use super::offered;
use super::secrets::{SECRET, owner};
use crate::egress_server::EgressServer;
use crate::probes::prelude::*;

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    context.host_control(&Call::new(["alive"])).await?;
    if !offered(context).await {
        return Ok(());
    }
    let host = format!("{}:{}", owner(), EgressServer::get().secure);
    let level = format!("{host} http");
    let denied = format!("!{host}");
    let host = &*host;
    // The value, the hosts, and whether the request itself is invalid.
    let cases: [(&str, &[&str], bool); 8] = [
        ("value", &[], true),
        ("", &[host], true),
        ("two\nlines", &[host], true),
        ("valu\u{e9}", &[host], true),
        ("value", &[&level], true),
        ("value", &[&denied], true),
        ("value", &["without-a-rule.test"], false),
        ("value", &[host, "without-a-rule.test:443"], false),
    ];
    feature(context, "execute with each", async |sandbox| {
        let request = || ExecRequest::new(sandbox.program()).arg("alive");
        let right = request().secret_for(SECRET, "a ~", [host]);
        if !sandbox.handle().exec(&right).await?.success() {
            return Ok(Some("the secret of its host is refused".to_owned()));
        }
        for (value, hosts, is_invalid) in cases {
            let request = request().secret_for(SECRET, value, hosts.iter().copied());
            match sandbox.handle().exec(&request).await {
                Err(error) if !is_invalid || error.kind() == ErrorKind::InvalidRequest => {}
                Err(error) => return Ok(Some(format!("{value:?} for {hosts:?}: {error}"))),
                Ok(_) => return Ok(Some(format!("{value:?} for {hosts:?} is accepted"))),
            }
        }
        Ok(None)
    })
    .await;
    context.no_host_effect("nothing is sent");
    Ok(())
}
