use proptest::prelude::*;

use super::strategies::rule;
use super::*;
use crate::ErrorKind;

fn read(text: &str) -> crate::Result<NetworkRule> {
    text.parse()
}

#[test]
fn rules_have_one_canonical_form() {
    for (text, canonical) in [
        ("example.org", "example.org"),
        (" Example.ORG. ", "example.org"),
        ("*.Example.org:8443", "*.example.org:8443"),
        ("_srv.example.org", "_srv.example.org"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("203.0.113.7", "203.0.113.7"),
        ("203.0.113.7/32:5432", "203.0.113.7:5432"),
        ("203.0.113.0/24", "203.0.113.0/24"),
        ("0.0.0.0/0:22", "0.0.0.0/0:22"),
        ("[2001:DB8::]/32", "[2001:db8::]/32"),
        ("2001:db8::/32:443", "[2001:db8::]/32:443"),
        ("[::1]:80 private", "[::1]:80 private"),
        ("!example.org", "!example.org"),
        ("!*.example.org:22", "!*.example.org:22"),
        ("example.org  private  tcp", "example.org tcp private"),
        // A level that is the default anyway is left out.
        ("example.org name", "example.org"),
        ("example.org:5432 tcp", "example.org:5432"),
        ("example.org:5432 name", "example.org:5432 name"),
        ("10.0.0.1 tcp", "10.0.0.1"),
        ("localhost:8080 private", "localhost:8080 private"),
        ("a.org private http", "a.org http private"),
        (
            "a.org:443 http /v1/* POST,GET /health GET",
            "a.org:443 http GET,POST /health /v1/*",
        ),
    ] {
        assert_eq!(read(text).unwrap().to_string(), canonical, "{text}");
    }
}

#[test]
fn other_text_is_refused_with_the_reason() {
    for (text, reason) in [
        ("", "write a host name"),
        ("!", "write a host name"),
        ("! example.org", "write a host name"),
        ("!!example.org", "write a host name"),
        ("http://a.org", "a host name has no /"),
        ("a.org/24", "a host name has no /"),
        ("a.org:0", "the port"),
        ("a.org:+80", "the port"),
        ("a.org:65536", "the port"),
        ("a.org:", "the port"),
        ("a.org:80:80", "the port"),
        ("a..b", "write a host name"),
        ("a..", "write a host name"),
        (".a", "write a host name"),
        ("*", "write a host name"),
        ("a.*.org", "write a host name"),
        ("*a.org", "write a host name"),
        ("-a.org", "write a host name"),
        ("a-.org", "write a host name"),
        ("bücher.example", "punycode"),
        ("a.org udp", "none of the words"),
        ("a.org NAME", "none of the words"),
        ("a.org tcp name", "one level"),
        ("a.org private private", "private once"),
        ("!a.org private", "no words"),
        ("10.0.0.1 name", "no name to check"),
        ("10.0.0.1 http", "no name to check"),
        ("a.org tcp http", "one level"),
        ("a.org GET", "none of the words"),
        ("a.org /v1", "none of the words"),
        ("a.org GET http", "none of the words"),
        ("a.org http get", "none of the words"),
        ("a.org http GET,", "no method"),
        ("a.org http CONNECT", "asks for a proxy"),
        ("a.org http /v1?x", "is no path"),
        ("a.org http /v1/*/x", "is no path"),
        ("a.org http /a/../b", "is no path"),
        ("a.org http /a%2fb", "is no path"),
        ("a.org http //", "is no path"),
        ("::1", "in brackets: [::1]"),
        ("2001:db8::7:443", "in brackets"),
        ("[::1", "ends with ]"),
        ("[::1]x", "the port"),
        ("[fe80::1%eth0]", "not an IPv6 address"),
        ("[a.org]", "not an IPv6 address"),
        ("[::ffff:10.0.0.1]", "write 10.0.0.1"),
        ("10.0.0.1/8", "bits behind"),
        ("10.0.0.0/33", "too long"),
        ("[2001:db8::1]/32", "bits behind"),
        ("10.0.0.0/", "as a number"),
        ("10.0.0.0/+8", "as a number"),
    ] {
        let error = read(text).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidPolicy);
        assert!(error.context().contains(reason), "{text}: {error}");
    }
    assert!(read(&format!("{}.org", "a".repeat(64))).is_err());
    assert!(read(&"a.".repeat(300)).is_err());
}

#[test]
fn other_forms_of_addresses_are_not_names() {
    for text in [
        "2130706433",
        "127.1",
        "0x7f.1",
        "0x7f000001",
        "0177.0.0.1",
        "1.2.3.4.5",
        "256.1.1.1",
        "127.0.0.0x1",
        "a.0x",
        "example.1",
        "*.1",
        "1.2.3.4x.09",
    ] {
        let error = read(text).unwrap_err();
        assert!(error.context().contains("four decimal numbers"), "{error}");
    }
    // These are names for every resolver.
    for text in ["1.example.org", "0x7f.org", "1e100.net", "a1"] {
        assert!(read(text).is_ok(), "{text}");
    }
}

#[test]
fn rule_without_a_port_allows_two_and_denies_all() {
    let ports = |text: &str| read(text).unwrap().ports();
    assert_eq!(ports("a.org"), Some(vec![80, 443]));
    assert_eq!(ports("10.0.0.1"), Some(vec![80, 443]));
    assert_eq!(ports("a.org:22"), Some(vec![22]));
    assert_eq!(ports("!a.org"), None);
    assert!(read("!a.org").unwrap().has_port(22));
}

#[test]
fn level_follows_destination_and_port() {
    let level = |text: &str, port| read(text).unwrap().level(port);
    assert_eq!(level("a.org", 443), RuleLevel::Name);
    assert_eq!(level("a.org:22", 22), RuleLevel::Tcp);
    assert_eq!(level("a.org tcp", 80), RuleLevel::Tcp);
    assert_eq!(level("a.org:22 name", 22), RuleLevel::Name);
    assert_eq!(level("10.0.0.1", 443), RuleLevel::Tcp);
}

proptest! {
    #[test]
    fn displayed_rule_is_read_as_the_same_value(rule in rule()) {
        let text = rule.to_string();
        prop_assert_eq!(read(&text).unwrap(), rule.clone(), "{}", text);
        // Files and plans keep the text.
        let json = serde_json::to_string(&rule).unwrap();
        prop_assert_eq!(serde_json::from_str::<NetworkRule>(&json).unwrap(), rule);
    }

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,60}") {
        if let Ok(rule) = read(&text) {
            prop_assert_eq!(read(&rule.to_string()).unwrap(), rule);
        }
    }

    #[test]
    fn text_like_rules_is_read_or_refused(text in "!?(\\*\\.)?[\\[\\]a-fx0-9:./%-]{0,30}( tcp| name| private| http){0,3}") {
        if let Ok(rule) = read(&text) {
            prop_assert_eq!(read(&rule.to_string()).unwrap(), rule);
        }
    }

    #[test]
    fn any_text_is_a_target_or_refused(text in "\\PC{0,60}|[\\[\\]a-f0-9:.]{0,40}") {
        if let Ok(target) = EgressTarget::new(&text) {
            prop_assert_eq!(EgressTarget::new(&target.to_string()).unwrap(), target);
        }
    }
}
