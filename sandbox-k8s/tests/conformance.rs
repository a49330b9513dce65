//! Every probe of the conformance suite on the cluster of `KUBECONFIG`, a test each: `[k8s]
//! network::tcp4_host_listener`. The pods' profile is that of `SANDBOX_K8S_PROFILE`.
//!
//! Without a cluster each is ignored, with the reason; `SANDBOX_REQUIRE=k8s` makes that a failure.

// Named so that the linker keeps the tier.
use sandbox_k8s as _;

sandbox_conformance::trials!(sandbox_conformance::Target::tier("k8s"));
