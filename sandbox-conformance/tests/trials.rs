//! Every probe on the local tier, a test each.

sandbox_conformance::trials!(sandbox_conformance::Target::tier("local"));
