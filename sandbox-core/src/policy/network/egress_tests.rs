use proptest::prelude::*;

use super::super::strategies::{address, port, rule, rules, target};
use super::*;
use crate::policy::RuleLevel;

fn rules_of(rules: &[&str]) -> EgressRules {
    EgressRules::parse(rules).unwrap()
}

fn decide(rules: &[&str], target: &str, port: u16) -> Decision {
    rules_of(rules).decide(&EgressTarget::new(target).unwrap(), port)
}

fn denial(rules: &[&str], target: &str, port: u16) -> String {
    match decide(rules, target, port) {
        Decision::Denied(reason) => reason.to_string(),
        allowed => panic!("{allowed:?}"),
    }
}

#[test]
fn requests_are_decided_at_level_http_alone() {
    let decide = |rules: &[&str], address: &str, method: &str, path: &str| {
        let host = EgressTarget::new("a.org").unwrap();
        rules_of(rules).decide_request(&host, 443, address.parse().unwrap(), method, path)
    };
    let rules = &[
        "a.org http GET /v1/*",
        "a.org http POST /in private",
        "b.org http",
    ];
    for (address, method, path, allowed) in [
        ("1.2.3.4", "GET", "/v1/x", true),
        ("1.2.3.4", "GET", "/v2", false),
        ("1.2.3.4", "POST", "/v1/x", false),
        ("1.2.3.4", "POST", "/in", true),
        // Each rule must allow the address, too.
        ("10.0.0.1", "POST", "/in", true),
        ("10.0.0.1", "GET", "/v1/x", false),
    ] {
        let decision = decide(rules, address, method, path);
        assert_eq!(
            decision.is_allowed(),
            allowed,
            "{address} {method} {path}: {decision:?}"
        );
    }
    let Decision::Denied(denial) = decide(rules, "1.2.3.4", "PUT", "/v1/x") else {
        panic!("it is denied");
    };
    assert_eq!(
        denial.to_string(),
        "the rule a.org http POST /in private does not allow the request PUT /v1/x"
    );
    // Of two that allow it, the one that opens more addresses applies.
    let both = &["a.org http", "a.org http GET private"];
    let allowed = decide(both, "1.2.3.4", "GET", "/");
    assert!(
        matches!(allowed, Decision::Allowed { private: true, .. }),
        "{allowed:?}"
    );
    // A wildcard takes names of a limited length, whatever they ask for.
    let host = EgressTarget::new("1.2.3.4.5.6.7.8.9.a.org").unwrap();
    let wild = rules_of(&["*.a.org http"]);
    let address = "1.2.3.4".parse().unwrap();
    assert!(
        !wild
            .decide_request(&host, 443, address, "GET", "/")
            .is_allowed()
    );
    assert!(wild.allowing_request(&host, 443, "GET", "/").is_empty());
    // A rule that checks less applies.
    assert!(decide(&["a.org", "a.org http GET"], "1.2.3.4", "PUT", "/").is_allowed());
    assert!(!decide(&["a.org http", "!a.org"], "1.2.3.4", "GET", "/").is_allowed());
}

#[test]
fn destinations_and_ports_are_matched() {
    let rules = &["a.org", "*.b.org:8443", "1.2.3.0/24:22"];
    for (target, port, allowed) in [
        ("a.org", 443, true),
        ("A.ORG.", 80, true),
        ("a.org", 8443, false),
        ("x.a.org", 443, false),
        ("b.org", 8443, false),
        ("x.b.org", 8443, true),
        ("y.x.b.org", 8443, true),
        ("xb.org", 8443, false),
        ("1.2.3.4", 22, true),
        ("1.2.3.4", 80, false),
        ("1.2.4.4", 22, false),
    ] {
        assert_eq!(
            decide(rules, target, port).is_allowed(),
            allowed,
            "{target}:{port}"
        );
    }
}

#[test]
fn denial_says_what_would_be_allowed() {
    let rules = &["a.org", "1.2.3.0/24:22"];
    assert_eq!(
        denial(rules, "a.org", 22),
        "the rule a.org is for other ports"
    );
    assert_eq!(
        denial(rules, "1.2.3.4", 80),
        "the rule 1.2.3.0/24:22 is for other ports"
    );
    assert_eq!(denial(rules, "b.org", 443), "no rule allows it");
}

#[test]
fn denial_wins_in_any_order() {
    for rules in [["*.a.org", "!x.a.org"], ["!x.a.org", "*.a.org"]] {
        assert!(decide(&rules, "y.a.org", 443).is_allowed());
        assert_eq!(
            denial(&rules, "x.a.org", 443),
            "the rule !x.a.org denies it"
        );
    }
    let rules = &["0.0.0.0/0", "!1.2.3.0/24"];
    assert!(decide(rules, "1.2.4.1", 80).is_allowed());
    assert!(denial(rules, "1.2.3.1", 80).contains("!1.2.3.0/24"));
    // The same host behind a translator.
    let rules = &["[::]/0 private", "!1.2.3.0/24"];
    assert!(denial(rules, "64:ff9b::102:301", 80).contains("!1.2.3.0/24"));
    assert!(denial(rules, "::ffff:1.2.3.1", 80).contains("!1.2.3.0/24"));
}

#[test]
fn rule_that_checks_the_least_applies() {
    let level = |rules: &[&str]| match decide(rules, "x.a.org", 443) {
        Decision::Allowed { level, rule, .. } => (level, rule.to_string()),
        denied => panic!("{denied:?}"),
    };
    let tcp = (RuleLevel::Tcp, "x.a.org:443 tcp".to_owned());
    assert_eq!(level(&["*.a.org", "x.a.org:443 tcp"]), tcp);
    assert_eq!(level(&["x.a.org:443 tcp", "*.a.org"]), tcp);
    let name = (RuleLevel::Name, "*.a.org private".to_owned());
    assert_eq!(level(&["x.a.org", "*.a.org private"]), name);
}

#[test]
fn private_addresses_need_the_word() {
    let reason = denial(&["10.0.0.0/8"], "10.0.0.1", 80);
    assert_eq!(
        reason,
        "10.0.0.1 is a private address, and the rule 10.0.0.0/8 does not say `private`"
    );
    assert!(decide(&["10.0.0.0/8 private"], "10.0.0.1", 80).is_allowed());

    let rules = rules_of(&["a.org", "b.org private", "!10.1.0.0/16"]);
    let [open, private] = [&rules.rules()[0], &rules.rules()[1]];
    let judge = |rule, address: &str| rules.judge(rule, address.parse().unwrap(), 443).is_ok();
    assert!(judge(open, "1.2.3.4"));
    assert!(!judge(open, "10.0.0.1"));
    assert!(judge(private, "10.0.0.1"));
    assert!(!judge(private, "10.1.0.1"));
}

#[test]
fn metadata_service_needs_a_rule_for_its_address() {
    for closed in [
        "169.254.0.0/16 private",
        "0.0.0.0/0 private",
        "169.254.169.254",
    ] {
        let reason = denial(&[closed], "169.254.169.254", 80);
        assert!(reason.contains("exactly this address"), "{reason}");
    }
    let open = &["169.254.169.254 private"];
    assert!(decide(open, "169.254.169.254", 80).is_allowed());
    let rules = rules_of(&["a.org private"]);
    for address in ["169.254.169.254", "fd00:ec2::254", "::ffff:169.254.169.254"] {
        let judged = rules.judge(&rules.rules()[0], address.parse().unwrap(), 80);
        assert!(judged.is_err(), "{address}");
    }
}

#[test]
fn wildcard_takes_short_names_only() {
    let below = |labels: usize| format!("{}a.org", "x.".repeat(labels));
    assert!(decide(&["*.a.org"], &below(8), 443).is_allowed());
    assert!(denial(&["*.a.org"], &below(9), 443).contains("at most 8 labels"));
    let label = "x".repeat(50);
    let long = format!("{label}.{label}.a.org");
    assert!(denial(&["*.a.org"], &long, 443).contains("100 characters"));
    // A rule that names it is no channel.
    assert!(decide(&["*.a.org", &long], &long, 443).is_allowed());
}

#[test]
fn name_has_an_address_if_one_port_can_be_reached() {
    let decide =
        |rules: &[&str], name: &str| rules_of(rules).decide_name(&HostName::new(name).unwrap());
    assert!(decide(&["a.org:22"], "a.org").is_allowed());
    assert!(decide(&["a.org", "!a.org:80"], "a.org").is_allowed());
    for (rules, name) in [
        (&["a.org", "!a.org"][..], "a.org"),
        (&["*.a.org", "!x.a.org"], "x.a.org"),
        (&["b.org", "!x.a.org"], "x.a.org"),
    ] {
        let Decision::Denied(EgressDenial::Rule(rule)) = decide(rules, name) else {
            panic!("{name} is allowed, or by no rule");
        };
        assert!(rule.is_deny());
    }
    assert_eq!(
        decide(&["a.org"], "b.org"),
        Decision::Denied(EgressDenial::NoRule)
    );
}

#[test]
fn rules_that_only_deny_are_refused() {
    let error = EgressRules::parse(["!a.org"]).unwrap_err();
    assert!(error.context().contains("all rules deny"), "{error}");
    assert!(EgressRules::parse(["a.org"; 1025]).is_err());
    assert!(EgressRules::parse(["a.org"; 1024]).is_ok());
    assert!(EgressRules::parse::<&str>([]).unwrap().is_empty());
}

proptest! {
    #[test]
    fn allowed_connection_has_an_allowing_and_no_denying_rule(rules in rules(), target in target(), port in port()) {
        let denied = rules.denying().any(|rule| rule.matches(&target, port));
        match rules.decide(&target, port) {
            Decision::Allowed { rule, level, private } => {
                prop_assert!(!denied && rule.matches(&target, port) && !rule.is_deny());
                prop_assert_eq!((level, private), (rule.level(port), rule.is_private()));
                prop_assert!(rules.rules().contains(&rule));
            }
            Decision::Denied(_) => {}
        }
    }

    #[test]
    fn denying_rule_never_opens_and_allowing_rule_never_closes(rules in rules(), rule in rule(), target in target(), port in port()) {
        let before = rules.decide(&target, port).is_allowed();
        let mut more = rules.into_rules();
        more.push(rule.clone());
        let after = EgressRules::new(more).decide(&target, port).is_allowed();
        prop_assert!(before == after || after != rule.is_deny());
    }

    #[test]
    fn only_private_rules_open_special_addresses(rules in rules(), rule in rule(), address in address(), port in port()) {
        if rules.judge(&rule, address, port).is_ok() {
            prop_assert!(rule.is_private() || AddressClass::of(address) == AddressClass::Global);
        }
        let target = EgressTarget::Address(address);
        if let Decision::Allowed { private, .. } = rules.decide(&target, port) {
            prop_assert!(private || AddressClass::of(address) == AddressClass::Global);
        }
    }
}
