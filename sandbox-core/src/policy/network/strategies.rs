//! Rules and targets for property tests, chosen so that they often concern each other.

use std::net::IpAddr;

use proptest::prelude::*;
use proptest::sample::select;

use super::{EgressRules, EgressTarget, NetworkRule};

const NAMES: &[&str] = &["a.org", "b.a.org", "c.b.a.org", "d.org", "x_1.d.org"];

const ADDRESSES: &[&str] = &[
    "1.2.3.4",
    "1.2.3.5",
    "10.0.0.1",
    "127.0.0.1",
    "169.254.169.254",
    "2606:4700::1",
    "fd00:ec2::254",
    "::1",
    "::ffff:10.0.0.1",
    "64:ff9b::a00:1",
];

const NETWORKS: &[&str] = &[
    "1.2.3.4",
    "1.2.3.0/24",
    "10.0.0.0/8",
    "0.0.0.0/0",
    "169.254.169.254",
    "169.254.0.0/16",
    "[::1]",
    "[::]/0",
    "[2606:4700::]/32",
    "[fd00:ec2::254]",
];

const PORTS: &[u16] = &[22, 80, 443];

pub(super) fn target() -> impl Strategy<Value = EgressTarget> {
    prop_oneof![select(NAMES), select(ADDRESSES)]
        .prop_map(|text| EgressTarget::new(text).expect("a target"))
}

pub(super) fn address() -> impl Strategy<Value = IpAddr> {
    select(ADDRESSES).prop_map(|text| text.parse().expect("an address"))
}

pub(super) fn port() -> impl Strategy<Value = u16> {
    select(PORTS)
}

pub(super) fn rule() -> impl Strategy<Value = NetworkRule> {
    let name = (select(NAMES), any::<bool>())
        .prop_map(|(name, wildcard)| format!("{}{name}", if wildcard { "*." } else { "" }));
    let place = prop_oneof![
        (
            name,
            select(&["", " tcp", " name", " http", " http GET /v1/*"][..])
        ),
        (
            select(NETWORKS).prop_map(str::to_owned),
            select(&["", " tcp"][..])
        ),
    ];
    let port = prop::option::of(port());
    let kind = prop_oneof![3 => Just(false), 1 => Just(true)];
    (place, port, kind, any::<bool>()).prop_map(|((place, level), port, denies, private)| {
        let port = port.map_or(String::new(), |port| format!(":{port}"));
        let text = match (denies, private) {
            (true, _) => format!("!{place}{port}"),
            (false, true) => format!("{place}{port}{level} private"),
            (false, false) => format!("{place}{port}{level}"),
        };
        text.parse().expect("a rule")
    })
}

pub(super) fn rules() -> impl Strategy<Value = EgressRules> {
    prop::collection::vec(rule(), 0..6).prop_map(EgressRules::new)
}
