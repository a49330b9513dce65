//! The shared tests of egress rules, on the local tier.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use sandbox_core::spi::Backend;
use sandbox_core::{Capability, CapabilityPolicy};
use sandbox_local::{LocalBackend, LocalConfig};
use sandbox_testing::contract::egress::{self, EgressBackend};

use crate::harness::{Need, Test};
use crate::support::{config, policy};

struct Local;

/// Names each shared test as one of this program.
macro_rules! shared {
    ($($name:ident)*) => {
        pub const TESTS: &[Test] = &[$(Test {
            module: module_path!(),
            name: stringify!($name),
            run: || egress::$name(&Local).expect("it passes"),
            needs: &[Need::Namespaces],
        }),*];
    };
}

shared! {
    unchanged_clients_reach_an_allowed_name
    other_names_resolve_to_nothing_and_addresses_have_no_route
    rules_allow_their_hosts_and_addresses_alone
    revoked_connections_end_and_others_live_on
    short_connections_leave_no_descriptors
    connections_end_with_the_owner
    connections_and_rules_are_audited
    requests_are_judged_by_rules_at_level_http
    detached_sandbox_has_one_carrier_at_a_time
    carrier_of_a_detached_sandbox_obeys_other_clients
    carrier_of_a_detached_sandbox_reads_requests
}

const _: () = assert!(
    TESTS.len() == egress::TESTS.len(),
    "a shared test is missing"
);

/// Runs the owner of a sandbox, if this process was started as one.
pub fn run_owner_if_asked() -> Option<std::process::ExitCode> {
    // The answer takes a runtime of its own, which does not start inside of the owner's.
    crate::support::namespaces();
    egress::run_owner_if_asked(&Local)
}

impl EgressBackend for Local {
    fn with_hosts(
        &self,
        hosts: &[(&str, IpAddr)],
        certificates: Option<&Path>,
    ) -> Arc<dyn Backend> {
        let config = hosts.iter().fold(config(), |config, (name, address)| {
            config.host(*name, *address)
        });
        let config = certificates
            .into_iter()
            .fold(config, LocalConfig::certificates);
        Arc::new(LocalBackend::new(config))
    }

    fn policy(&self) -> CapabilityPolicy {
        let mut policy = policy();
        for accepted in [&mut policy.allow_partial, &mut policy.allow_unenforced] {
            accepted.retain(|one| *one != Capability::Egress);
        }
        policy
    }

    /// The platform's, which every sandbox sees.
    fn python(&self) -> &'static str {
        "/usr/bin/python3"
    }
}
