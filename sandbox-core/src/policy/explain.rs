//! Which rule of a policy decides about a path, a host or a request.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::{Decision, EgressRules, EgressTarget, NetworkPolicy, RuleLevel};
use crate::escape::escape;
use crate::{CapabilityPolicy, Error, ErrorKind, Result};

/// The ports that are explained for a host without one.
const USUAL_PORTS: [u16; 2] = [443, 80];

/// What a policy says about one action of code, and the rule that decides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Explanation {
    /// What code would do: `read`, `write`, `connect` or `request`.
    pub action: &'static str,
    /// To what: a path, a host and port, or a method and URL.
    pub subject: String,
    /// Whether it is allowed.
    pub allowed: bool,
    /// The rule that decides, as the policy has it; `None` if no rule concerns it.
    pub rule: Option<String>,
    /// Why, in words.
    pub reason: String,
}

/// One line, with control characters escaped.
impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.allowed { "allowed" } else { "denied" };
        let rule = match &self.rule {
            Some(rule) => format!(" ({rule})"),
            None => String::new(),
        };
        let line = format!(
            "{} {}: {verdict}: {}{rule}",
            self.action, self.subject, self.reason
        );
        f.write_str(&escape(&line))
    }
}

impl CapabilityPolicy {
    /// Explains what code may do with a path of the host: `read`, then `write`. `real` resolves the
    /// links of a path; `Path::to_owned` compares paths as they are written.
    ///
    /// ```
    /// use sandbox_core::CapabilityPolicy;
    /// use std::path::Path;
    ///
    /// let policy = CapabilityPolicy::new().filesystem_read_root("/data");
    /// let [read, write] = policy.explain_path(Path::new("/data/a.csv"), Path::to_owned);
    /// assert!(read.allowed && !write.allowed);
    /// assert_eq!(read.rule.as_deref(), Some("filesystem_read_roots = /data"));
    /// ```
    #[must_use]
    pub fn explain_path(&self, path: &Path, real: impl Fn(&Path) -> PathBuf) -> [Explanation; 2] {
        let place = real(path);
        // The most specific root decides: a read root in a write root stays read-only.
        let root = |roots: &Option<Vec<PathBuf>>| {
            let roots = roots.iter().flatten();
            let roots = roots.map(|root| (real(root), root));
            let covering = roots.filter(|(real, _)| place.starts_with(real));
            covering
                .max_by_key(|(real, _)| real.components().count())
                .map(|(real, root)| (real.components().count(), root.clone()))
        };
        let read = root(&self.filesystem_read_roots);
        let write = root(&self.filesystem_write_roots);
        let explain = |action, allowed, rule: Option<(&str, &PathBuf)>, reason: &str| Explanation {
            action,
            subject: path.display().to_string(),
            allowed,
            rule: rule.map(|(field, root)| format!("{field} = {}", root.display())),
            reason: reason.to_owned(),
        };
        let (read_root, write_root) = ("filesystem_read_roots", "filesystem_write_roots");
        match (&read, &write) {
            (None, None) => ["read", "write"].map(|action| {
                let reason = "no root of the policy covers it; programs and libraries of the \
                              platform, or the image, can be read";
                explain(action, false, None, reason)
            }),
            (Some((depth, root)), Some((above, _))) if depth > above => [
                explain(
                    "read",
                    true,
                    Some((read_root, root)),
                    "a read root covers it",
                ),
                explain(
                    "write",
                    false,
                    Some((read_root, root)),
                    "this read root is in a write root, and stays read-only",
                ),
            ],
            (Some((_, root)), None) => [
                explain(
                    "read",
                    true,
                    Some((read_root, root)),
                    "a read root covers it",
                ),
                explain(
                    "write",
                    false,
                    None,
                    "no write root of the policy covers it",
                ),
            ],
            (_, Some((_, root))) => ["read", "write"].map(|action| {
                explain(
                    action,
                    true,
                    Some((write_root, root)),
                    "a write root covers it",
                )
            }),
        }
    }

    /// Explains whether code may connect to `HOST` or `HOST:PORT`; without a port, for 443 and 80.
    ///
    /// ```
    /// use sandbox_core::CapabilityPolicy;
    /// use sandbox_core::policy::NetworkPolicy;
    ///
    /// let rules = vec!["*.example.org".parse()?, "!x.example.org".parse()?];
    /// let policy = CapabilityPolicy::new().network(NetworkPolicy::Allow(rules));
    /// let explained = policy.explain_host("x.example.org:443")?;
    /// assert_eq!(explained[0].reason, "the rule !x.example.org denies it");
    /// # Ok::<(), sandbox_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidRequest`] for text that is not a host.
    pub fn explain_host(&self, host: &str) -> Result<Vec<Explanation>> {
        let (target, port) = host_and_port(host)?;
        let ports = match &port {
            Some(port) => std::slice::from_ref(port),
            None => &USUAL_PORTS[..],
        };
        let explain = |port: &u16| {
            let (allowed, rule, reason) = self.explain_connection(&target, *port);
            Explanation {
                action: "connect",
                subject: format!("{target}:{port}"),
                allowed,
                rule,
                reason,
            }
        };
        Ok(ports.iter().map(explain).collect())
    }

    /// Explains whether code may make an HTTP request: a URL, or a method and a URL.
    ///
    /// ```
    /// use sandbox_core::CapabilityPolicy;
    /// use sandbox_core::policy::{NetworkPolicy, NetworkRule};
    ///
    /// let mut policy = CapabilityPolicy::new();
    /// let rule: NetworkRule = "api.example.org:443 http GET /v1/*".parse()?;
    /// policy.network = Some(NetworkPolicy::Allow(vec![rule]));
    /// assert!(policy.explain_request("https://api.example.org/v1/users")?.allowed);
    /// assert!(!policy.explain_request("DELETE https://api.example.org/v1/users")?.allowed);
    /// # Ok::<(), sandbox_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidRequest`] for text that is none.
    pub fn explain_request(&self, request: &str) -> Result<Explanation> {
        let (method, url) = request.split_once(' ').unwrap_or(("GET", request));
        let (place, path, default_port) = match url.split_once("://") {
            Some((scheme @ ("http" | "https"), rest)) => {
                let begin = rest.find(['/', '?']).unwrap_or(rest.len());
                let (place, path) = rest.split_at(begin);
                let path = match path.starts_with('/') {
                    true => path.to_owned(),
                    false => format!("/{path}"),
                };
                (place, path, if scheme == "http" { 80 } else { 443 })
            }
            _ => {
                let context = format!("{request:?} is no URL with http or https");
                return Err(Error::new(
                    ErrorKind::InvalidRequest,
                    "explain policy",
                    context,
                ));
            }
        };
        let (target, port) = host_and_port(place)?;
        let port = port.unwrap_or(default_port);
        let (mut allowed, mut rule, mut reason) = self.explain_connection(&target, port);
        if let (true, Some(NetworkPolicy::Allow(rules))) = (allowed, &self.network) {
            let rules = EgressRules::new(rules.clone());
            let decision = rules.decide(&target, port);
            match rules.allowing_request(&target, port, method, &path).first() {
                _ if decision.level() != Some(RuleLevel::Http) => {
                    reason.push_str(", and no request is checked");
                }
                Some(own) => {
                    rule = Some(format!("egress = {own}"));
                    reason = "a rule allows this request".into();
                }
                None => {
                    allowed = false;
                    reason = "the rule does not allow this request".into();
                }
            }
        }
        Ok(Explanation {
            action: "request",
            subject: format!("{method} {url}"),
            allowed,
            rule,
            reason,
        })
    }

    fn explain_connection(
        &self,
        target: &EgressTarget,
        port: u16,
    ) -> (bool, Option<String>, String) {
        let network = |value: &str| Some(format!("network = {value}"));
        let rules = match &self.network {
            None => return (false, None, "the policy has no network".into()),
            Some(NetworkPolicy::None) => {
                return (false, network("none"), "the policy has no network".into());
            }
            Some(NetworkPolicy::Full) => {
                return (true, network("full"), "the network is open".into());
            }
            Some(NetworkPolicy::Allow(rules)) => EgressRules::new(rules.clone()),
        };
        let of_rule = |rule: &dyn std::fmt::Display| Some(format!("egress = {rule}"));
        match rules.decide(target, port) {
            Decision::Denied(reason) => {
                let rule = reason.rule().and_then(|rule| of_rule(rule));
                (false, rule, reason.to_string())
            }
            Decision::Allowed {
                rule,
                level,
                private,
            } => {
                let addresses = match (target, private) {
                    (EgressTarget::Address(_), _) => "",
                    (_, true) => "; its addresses may be private",
                    (_, false) => "; its addresses must be public",
                };
                let reason = format!("a rule allows it at level {level}{addresses}");
                (true, of_rule(&rule), reason)
            }
        }
    }
}

fn host_and_port(text: &str) -> Result<(EgressTarget, Option<u16>)> {
    let bad = |why: String| {
        Error::new(
            ErrorKind::InvalidRequest,
            "explain host",
            format!("{text:?}: {why}"),
        )
    };
    if let Ok(target) = EgressTarget::new(text) {
        return Ok((target, None));
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (text, None),
    };
    let port = port.map(|port| {
        let number = port.parse().ok().filter(|port| *port != 0);
        number.ok_or_else(|| bad("the port is 1 to 65535".into()))
    });
    Ok((EgressTarget::new(host).map_err(bad)?, port.transpose()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(explained: &[Explanation]) -> Vec<bool> {
        explained.iter().map(|one| one.allowed).collect()
    }

    #[test]
    fn most_specific_root_decides() {
        let policy = CapabilityPolicy::new()
            .filesystem_read_root("/work/data")
            .filesystem_write_root("/work")
            .filesystem_read_root("/srv");
        let explain = |path: &str| policy.explain_path(Path::new(path), Path::to_owned);
        assert_eq!(allowed(&explain("/work/a")), [true, true]);
        assert_eq!(allowed(&explain("/work/data/a")), [true, false]);
        assert_eq!(allowed(&explain("/srv")), [true, false]);
        assert_eq!(allowed(&explain("/srvx")), [false, false]);
        let [_, write] = explain("/work/data/a");
        assert_eq!(
            write.rule.as_deref(),
            Some("filesystem_read_roots = /work/data")
        );
        assert!(explain("/etc").iter().all(|one| one.rule.is_none()));
    }

    #[test]
    fn request_is_explained_by_the_rules_of_its_level() {
        let rules = ["a.org:443 http GET /v1/*", "a.org:443 http POST", "b.org"];
        let rules = rules.map(|rule| rule.parse().unwrap()).to_vec();
        let policy = CapabilityPolicy::new().network(NetworkPolicy::Allow(rules));
        for (request, allowed, reason) in [
            ("https://a.org/v1/x?y", true, "allows this request"),
            ("POST https://a.org", true, "allows this request"),
            ("https://a.org/v2", false, "does not allow this request"),
            (
                "DELETE https://a.org:443/v1/x",
                false,
                "does not allow this request",
            ),
            ("http://a.org/v1/x", false, "other ports"),
            ("https://b.org/any", true, "no request is checked"),
            ("https://c.org/", false, "no rule"),
        ] {
            let explained = policy.explain_request(request).unwrap();
            assert_eq!(explained.allowed, allowed, "{explained}");
            assert!(explained.reason.contains(reason), "{explained}");
        }
        for bad in ["a.org", "ftp://a.org/", "GET  https://a.org", "https://"] {
            assert!(policy.explain_request(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn rule_that_decides_about_a_host_is_named() {
        let rules = ["a.org", "*.b.org:22", "!x.b.org", "10.0.0.0/8"];
        let rules = rules.map(|rule| rule.parse().unwrap()).to_vec();
        let policy = CapabilityPolicy::new().network(NetworkPolicy::Allow(rules));
        for (host, allowed, rule) in [
            ("a.org:443", true, Some("egress = a.org")),
            ("a.org:22", false, Some("egress = a.org")),
            ("b.org:22", false, None),
            ("y.b.org:22", true, Some("egress = *.b.org:22")),
            ("x.b.org:22", false, Some("egress = !x.b.org")),
            ("10.0.0.1:80", false, Some("egress = 10.0.0.0/8")),
            ("[::1]:80", false, None),
        ] {
            let explained = policy.explain_host(host).unwrap();
            assert_eq!(explained.len(), 1);
            assert_eq!(
                (explained[0].allowed, explained[0].rule.as_deref()),
                (allowed, rule),
                "{host}"
            );
        }
        assert_eq!(
            allowed(&policy.explain_host("a.org").unwrap()),
            [true, true]
        );
        for bad in ["", "a.org:0", "http://a.org", "127.1"] {
            assert!(policy.explain_host(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn network_without_rules_decides_for_every_host() {
        for (network, allowed, rule) in [
            (None, false, None),
            (Some(NetworkPolicy::None), false, Some("network = none")),
            (Some(NetworkPolicy::Full), true, Some("network = full")),
        ] {
            let mut policy = CapabilityPolicy::new();
            policy.network = network;
            let explained = &policy.explain_host("a.org:443").unwrap()[0];
            assert_eq!(
                (explained.allowed, explained.rule.as_deref()),
                (allowed, rule)
            );
        }
    }
}
