//! Every probe of the conformance suite on Docker, a test each: `[docker]
//! network::tcp4_host_listener`.
//!
//! Without an engine each is ignored, with the reason; `SANDBOX_REQUIRE=docker` makes that a
//! failure. `cargo xtask test` leaves these out: its step `conformance` measures the same, and
//! compares it with the committed profile.

// Named so that the linker keeps the tier.
use sandbox_docker as _;

sandbox_conformance::trials!(sandbox_conformance::Target::tier("docker"));
