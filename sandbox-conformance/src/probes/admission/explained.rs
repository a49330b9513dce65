//! What policies say of paths, connections and requests before anything runs.

use std::path::Path;

use sandbox_core::CapabilityPolicy;
use sandbox_core::policy::NetworkPolicy;

use crate::probes::prelude::*;

const RULES: [&str; 8] = [
    "packages.example.net",
    "*.example.org:8443",
    "!secret.example.org",
    "db.example.org:5432",
    "api.example.org http GET,HEAD /v1/* /health",
    "203.0.113.0/24:22 private",
    "least.example.net:443 http GET /a",
    "least.example.net:443",
];

/// Hosts with ports, and whether code may connect.
const CONNECTIONS: &[(&str, bool)] = &[
    ("packages.example.net:80", true),
    ("packages.example.net:443", true),
    ("packages.example.net:8080", false),
    ("PACKAGES.Example.NET.:443", true),
    ("a.packages.example.net:443", false),
    ("a.example.org:8443", true),
    ("a.b.example.org:8443", true),
    ("example.org:8443", false),
    ("badexample.org:8443", false),
    ("a.example.org:443", false),
    ("secret.example.org:8443", false),
    ("a.secret.example.org:8443", true),
    ("db.example.org:5432", true),
    ("203.0.113.255:22", true),
    ("203.0.114.0:22", false),
    ("203.0.113.1:23", false),
];

/// Requests, and whether code may make them.
const REQUESTS: &[(&str, bool)] = &[
    ("https://api.example.org/v1/users", true),
    ("HEAD http://api.example.org/v1/", true),
    ("https://api.example.org/health?x=/../", true),
    ("POST https://api.example.org/v1/users", false),
    ("https://api.example.org/v1", false),
    ("https://api.example.org/V1/users", false),
    ("https://api.example.org/healthy", false),
    ("https://api.example.org/v1/../v2", false),
    ("https://api.example.org/v1//x", false),
    ("https://api.example.org/v1/%2e%2e/x", false),
    ("https://api.example.org/v1/a%2Fb", false),
    ("https://api.example.org/v1/a\\b", false),
    ("https://api.example.org:8443/v1/x", true),
    ("https://api.example.org:444/v1/x", false),
    // The rule that checks the least applies.
    ("DELETE https://least.example.net/b", true),
    ("https://secret.example.org:8443/", false),
];

/// Paths of the host, and whether code may read and write them.
const PATHS: &[(&str, [bool; 2])] = &[
    ("/opt/work/a", [true, true]),
    ("/opt/work/data/a", [true, false]),
    ("/opt/work/data/out/a", [true, true]),
    ("/opt/workshop", [false, false]),
    ("/opt", [false, false]),
    ("/srv/data", [true, false]),
];

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    super::compare(context, "ask for each", async |_| Ok(deviation()?)).await
}

fn deviation() -> Deviation {
    let rules = RULES.iter().map(|rule| rule.parse());
    let rules = rules.collect::<sandbox_core::Result<Vec<_>>>()?;
    let policy = CapabilityPolicy::new()
        .network(NetworkPolicy::Allow(rules))
        .filesystem_write_root("/opt/work")
        .filesystem_read_root("/opt/work/data")
        .filesystem_write_root("/opt/work/data/out")
        .filesystem_read_root("/srv/data");
    for (host, allowed) in CONNECTIONS {
        let explained = policy.explain_host(host)?;
        if explained.iter().any(|one| one.allowed != *allowed) {
            return Ok(Some(format!("{explained:?}")));
        }
    }
    for (request, allowed) in REQUESTS {
        let explained = policy.explain_request(request)?;
        if explained.allowed != *allowed {
            return Ok(Some(format!("{explained:?}")));
        }
    }
    for (path, allowed) in PATHS {
        let explained = policy.explain_path(Path::new(path), Path::to_owned);
        if explained.each_ref().map(|one| one.allowed) != *allowed {
            return Ok(Some(format!("{explained:?}")));
        }
    }
    let denied = policy.explain_host("secret.example.org:8443")?;
    let told = denied.first().map(ToString::to_string).unwrap_or_default();
    let documented = "connect secret.example.org:8443: denied: the rule !secret.example.org denies it \
                      (egress = !secret.example.org)";
    Ok((told != documented).then_some(told))
}
