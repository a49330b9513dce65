//! Every probe on the local tier, as one test each.

sandbox_conformance::trials!(sandbox_conformance::Target::tier("local"));
