//! Evaluates the canary's observations. Pure, so that tests cover every outcome.

use std::collections::BTreeSet;
use std::net::SocketAddr;

/// The conclusion from the observations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PolicyVerdict {
    /// The pod under the policy reaches nothing that another pod reaches, and is not reached.
    Proven {
        /// Addresses reached without the policy that are not canary pods.
        witnesses: Vec<SocketAddr>,
    },
    /// The pod under the policy reaches this address, or is reached.
    Open(String),
    /// No conclusion, for this reason.
    Inconclusive(String),
}

/// The outcome for one address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DialAttempt {
    /// `api`, `dns`, or the address itself.
    pub target: String,
    pub address: SocketAddr,
    /// Why the address was not reached; `None` if it was.
    pub obstacle: Option<String>,
}

/// The roles of the addresses.
#[derive(Debug, Clone, Copy)]
pub(super) struct CanaryAddresses<'a> {
    /// A pod without our policy.
    pub listener: SocketAddr,
    /// The pod under the policy.
    pub denied: SocketAddr,
    /// Addresses of the configuration, each of which must answer without the policy.
    pub named: &'a [SocketAddr],
}

/// Parses the agent's lines: target, address, and `open` or an obstacle.
pub(super) fn attempts(text: &str) -> Result<Vec<DialAttempt>, String> {
    let attempt = |line: &str| {
        let mut words = line.splitn(3, ' ');
        let (target, address, outcome) = (words.next()?, words.next()?, words.next()?);
        Some(DialAttempt {
            target: target.to_owned(),
            address: address.parse().ok()?,
            obstacle: (outcome != "open").then(|| outcome.to_owned()),
        })
    };
    text.lines()
        .map(|line| {
            let escaped = || {
                format!(
                    "the canary says {:?}",
                    sandbox_core::spi::escape(line).to_string()
                )
            };
            attempt(line).ok_or_else(escaped)
        })
        .collect()
}

/// Compares the attempts of the pod under the policy (`inside`) with those of the pod outside. Only
/// the pod outside tries to reach the pod inside.
pub(super) fn verdict(
    outside: &[DialAttempt],
    inside: &[DialAttempt],
    addresses: &CanaryAddresses<'_>,
) -> PolicyVerdict {
    let open = inside.iter().find(|attempt| attempt.obstacle.is_none());
    if let Some(open) = open {
        return PolicyVerdict::Open(format!("a pod under it reaches {}", named(open, addresses)));
    }
    let reached: BTreeSet<SocketAddr> = outside
        .iter()
        .filter(|attempt| attempt.obstacle.is_none())
        .map(|attempt| attempt.address)
        .collect();
    if reached.contains(&addresses.denied) {
        return PolicyVerdict::Open("a pod under it is reached by another one".to_owned());
    }
    let tried = |attempts: &[DialAttempt], address| {
        attempts.iter().any(|attempt| attempt.address == address)
    };
    if !tried(outside, addresses.denied) {
        return PolicyVerdict::Inconclusive(
            "no attempt to reach the pod under the policy was made".to_owned(),
        );
    }
    for required in std::iter::once(&addresses.listener).chain(addresses.named) {
        if !reached.contains(required) {
            // The canary's own address changes with each run, and would make reports differ.
            let role = match *required == addresses.listener {
                true => "another pod (".to_owned(),
                false => format!("an address of the configuration ({required}: "),
            };
            let attempt = outside.iter().find(|attempt| attempt.address == *required);
            let obstacle = attempt
                .and_then(|attempt| attempt.obstacle.as_deref())
                .unwrap_or("not tried");
            return PolicyVerdict::Inconclusive(format!(
                "without it, too, nothing reaches {role}{obstacle})"
            ));
        }
    }
    if let Some(address) = reached.iter().find(|address| !tried(inside, **address)) {
        return PolicyVerdict::Inconclusive(format!("the pod under it has not tried {address}"));
    }
    let witnesses: Vec<_> = reached
        .into_iter()
        .filter(|address| *address != addresses.listener)
        .collect();
    if witnesses.is_empty() {
        return PolicyVerdict::Inconclusive(
            "without it, too, nothing outside of the pods answers: neither the API server's address nor the node's nor a name server; name one that does (`canary_target`)".to_owned(),
        );
    }
    PolicyVerdict::Proven { witnesses }
}

fn named(attempt: &DialAttempt, addresses: &CanaryAddresses<'_>) -> String {
    let DialAttempt {
        target, address, ..
    } = attempt;
    match target.as_str() {
        "api" => format!("the API server ({address})"),
        "dns" => format!("the name server ({address})"),
        _ if *address == addresses.listener => "another pod".to_owned(),
        _ => address.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const API: &str = "10.96.0.1:443";
    const LISTENER: &str = "10.244.0.5:7070";
    const DENIED: &str = "10.244.0.6:7070";
    const NAMED: &str = "203.0.113.9:443";

    fn parse(address: &str) -> SocketAddr {
        address.parse().expect("an address")
    }

    fn seen(lines: &[(&str, &str, &str)]) -> Vec<DialAttempt> {
        let text: String = lines
            .iter()
            .map(|(target, address, outcome)| format!("{target} {address} {outcome}\n"))
            .collect();
        attempts(&text).expect("attempts")
    }

    fn judged(
        outside: &[(&str, &str, &str)],
        inside: &[(&str, &str, &str)],
        also: &[SocketAddr],
    ) -> PolicyVerdict {
        let addresses = CanaryAddresses {
            listener: parse(LISTENER),
            denied: parse(DENIED),
            named: also,
        };
        verdict(&seen(outside), &seen(inside), &addresses)
    }

    fn inconclusive(verdict: PolicyVerdict, words: &str) {
        match verdict {
            PolicyVerdict::Inconclusive(why) => assert!(why.contains(words), "{why}"),
            other => panic!("{words}: {other:?}"),
        }
    }

    fn open(verdict: PolicyVerdict, words: &str) {
        match verdict {
            PolicyVerdict::Open(why) => assert!(why.contains(words), "{why}"),
            other => panic!("{words}: {other:?}"),
        }
    }

    const OUTSIDE: [(&str, &str, &str); 4] = [
        ("api", API, "open"),
        ("dns", "10.96.0.10:53", "ECONNREFUSED"),
        (LISTENER, LISTENER, "open"),
        (DENIED, DENIED, "ETIMEDOUT"),
    ];
    const INSIDE: [(&str, &str, &str); 3] = [
        ("api", API, "ETIMEDOUT"),
        ("dns", "10.96.0.10:53", "ETIMEDOUT"),
        (LISTENER, LISTENER, "ECONNREFUSED"),
    ];

    #[test]
    fn access_only_without_the_policy_proves_denial() {
        let proven = PolicyVerdict::Proven {
            witnesses: vec![parse(API)],
        };
        assert_eq!(judged(&OUTSIDE, &INSIDE, &[]), proven);
    }

    #[test]
    fn any_access_under_the_policy_refutes_denial() {
        for (index, words) in [
            (0, "the API server (10.96.0.1:443)"),
            (1, "the name server"),
            (2, "another pod"),
        ] {
            let mut inside = INSIDE;
            inside[index].2 = "open";
            open(judged(&OUTSIDE, &inside, &[]), words);
            // Even if the pod outside did not reach it.
            open(judged(&[], &inside, &[]), words);
        }
        let mut outside = OUTSIDE;
        outside[3].2 = "open";
        open(judged(&outside, &INSIDE, &[]), "is reached by another one");
    }

    #[test]
    fn unreachable_targets_prove_nothing() {
        let mut outside = OUTSIDE;
        outside[2].2 = "ETIMEDOUT";
        inconclusive(judged(&outside, &INSIDE, &[]), "another pod (ETIMEDOUT)");
        let mut outside = OUTSIDE;
        outside[0].2 = "ENETUNREACH";
        inconclusive(
            judged(&outside, &INSIDE, &[]),
            "nothing outside of the pods answers",
        );
        inconclusive(judged(&[], &[], &[]), "no attempt");
        inconclusive(judged(&OUTSIDE[..3], &INSIDE, &[]), "no attempt");
        inconclusive(judged(&OUTSIDE[2..], &INSIDE[2..], &[]), "nothing outside");
    }

    #[test]
    fn untried_targets_prove_nothing() {
        inconclusive(
            judged(&OUTSIDE, &INSIDE[1..], &[]),
            "has not tried 10.96.0.1:443",
        );
        inconclusive(
            judged(&OUTSIDE, &INSIDE[..2], &[]),
            "has not tried 10.244.0.5:7070",
        );
    }

    #[test]
    fn configured_address_must_answer_without_the_policy() {
        let named = [parse(NAMED)];
        inconclusive(
            judged(&OUTSIDE, &INSIDE, &named),
            "an address of the configuration (203.0.113.9:443: not tried)",
        );
        let mut outside = OUTSIDE.to_vec();
        outside.push((NAMED, NAMED, "open"));
        inconclusive(
            judged(&outside, &INSIDE, &named),
            "has not tried 203.0.113.9:443",
        );
        let mut inside = INSIDE.to_vec();
        inside.push((NAMED, NAMED, "EHOSTUNREACH"));
        let proven = PolicyVerdict::Proven {
            witnesses: vec![parse(API), parse(NAMED)],
        };
        assert_eq!(judged(&outside, &inside, &named), proven);
        inside[3].2 = "open";
        open(judged(&outside, &inside, &named), NAMED);
    }

    #[test]
    fn malformed_attempts_are_errors() {
        for text in [
            "api",
            "api 10.96.0.1:443",
            "api x open",
            "OCI runtime exec failed",
        ] {
            assert!(attempts(text).is_err(), "{text}");
        }
        assert_eq!(attempts(""), Ok(Vec::new()));
    }
}
