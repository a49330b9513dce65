//! Probes that compare many cases of the rules with the documents, in one execution each.

use super::{
    answers, destinations, first_requests, idle_askers, judged_requests, narrowed, own_addresses,
    records, unusual_questions,
};
use crate::probes::prelude::*;

/// The probes, beside those of [`super::PROBES`].
pub static COMPARED: &[Probe] = &[
    Probe::behavior(
        "egress::addresses",
        EGRESS,
        "connects to addresses of this host under rules for addresses",
        |context| Box::pin(own_addresses::connect_by_address(context)),
    )
    .setup(|_| own_addresses::by_address()),
    Probe::behavior(
        "egress::answers",
        EGRESS,
        "asks the sandbox's name server for names and types of records, over UDP and TCP",
        |context| Box::pin(answers::compare(context)),
    )
    .version(2)
    .setup(|_| answers::answering()),
    Probe::behavior(
        "egress::destinations",
        EGRESS,
        "connects to names and ports that rules allow and deny, and reads how each connection ends",
        |context| Box::pin(destinations::compare(context)),
    )
    .setup(|_| destinations::deciding()),
    Probe::behavior(
        "egress::first_requests",
        EGRESS,
        "sends first messages in HTTP and TLS at level name, whole and in pieces",
        |context| Box::pin(first_requests::compare(context)),
    )
    .setup(|_| first_requests::asking()),
    Probe::behavior(
        "egress::idle_askers",
        EGRESS,
        "asks the sandbox's name server behind more idle clients than it serves at once",
        |context| Box::pin(idle_askers::wait_behind(context)),
    )
    .waits()
    // The others would wait for it.
    .setup(|_| answers::answering().fresh()),
    Probe::behavior(
        "egress::judged_requests",
        EGRESS,
        "makes requests at level http, several on a connection, and reads what their server gets",
        |context| Box::pin(judged_requests::compare(context)),
    )
    .setup(|_| judged_requests::judging()),
    Probe::behavior(
        "egress::later_rules",
        EGRESS,
        "makes the same requests in a sandbox that gets the rules at level http later",
        |context| Box::pin(judged_requests::compare_later(context)),
    )
    .setup(|_| judged_requests::judging_later()),
    Probe::behavior(
        "egress::narrowed",
        EGRESS,
        "replaces the rules of a running sandbox with as much as the policy allows, and with more",
        |context| Box::pin(narrowed::compare(context)),
    )
    .setup(|_| narrowed::ceiling().fresh()),
    // A rule that allows public addresses must not open services of this host.
    Probe::isolation(
        "egress::own_addresses",
        EGRESS,
        "connects to allowed names whose addresses are public ones of this host",
        own_addresses::REFUSED,
        |context| Box::pin(own_addresses::connect(context)),
    )
    .setup(|_| own_addresses::named()),
    Probe::behavior(
        "egress::records",
        EGRESS,
        "connects and makes requests, and compares what is recorded and told of them",
        |context| Box::pin(records::compare(context)),
    )
    .version(3)
    .setup(|_| records::recorded()),
    Probe::behavior(
        "egress::unusual_questions",
        EGRESS,
        "asks the sandbox's name server in 22 ways that programs seldom use, and broken ones",
        |context| Box::pin(unusual_questions::compare(context)),
    )
    .setup(|_| answers::answering()),
];
