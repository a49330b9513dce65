//! What a run of the tests requires to be present.

/// Whether the list in the environment variable `SANDBOX_REQUIRE` names this tier, so that a test
/// fails where it cannot run.
pub fn is_required(tier: &str) -> bool {
    std::env::var("SANDBOX_REQUIRE")
        .is_ok_and(|list| list.split(',').any(|name| name.trim() == tier))
}
