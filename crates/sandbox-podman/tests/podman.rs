//! The shared tests of engines, on Podman.

#[path = "../../sandbox-container/tests/engine/mod.rs"]
mod suite;

/// What the tests have to know of the family.
mod family {
    pub use sandbox_podman::{PodmanBackend as Backend, PodmanConfig as Config};

    pub const FAMILY: &sandbox_container::Family =
        <sandbox_podman::Podman as sandbox_container::OfFamily>::FAMILY;

    /// What does not hold on this family, by the beginnings of the tests' names, and why.
    pub const NOT_HERE: &[(&str, &str)] = &[
        ("hardening::a_kernel_of_its_own_is_named", ONE_RUNTIME),
        (
            "runtime::a_sandbox_runs_on_the_chosen_one_and_says_so",
            ONE_RUNTIME,
        ),
        ("images::an_image_is_pulled_when_it_is_missing", NO_REGISTRY),
        ("images::always_follows_a_tag_that_has_moved", NO_REGISTRY),
        ("images::a_digest_pins_the_image", NO_REGISTRY),
        ("images::pulls_that_fail_are_told_apart", NO_REGISTRY),
        (
            "images::credentials_of_the_client_are_used_and_not_shown",
            NO_REGISTRY,
        ),
        ("images::what_a_sandbox_brought_goes_with_it", NO_REGISTRY),
    ];

    const ONE_RUNTIME: &str = "Podman's service takes no runtime from a request; that one is refused is tested in `hardening`";

    const NO_REGISTRY: &str = "Podman speaks TLS to registries on the loopback, too, unless its host's registries.conf says otherwise";

    /// Why none of them can run as this user.
    pub fn left_out() -> Option<&'static str> {
        use std::os::unix::fs::MetadataExt as _;

        let is_root = std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0);
        let reason = "they look at containers from the host as root does; without root the conformance suite and `hardening` are run";
        (!is_root).then_some(reason)
    }

    /// The path of the engine's socket.
    pub fn socket() -> String {
        let host = std::env::var("CONTAINER_HOST");
        let host = host.unwrap_or_else(|_| "unix:///run/podman/podman.sock".to_owned());
        host.trim_start_matches("unix://").to_owned()
    }

    /// The engine's own API, to look at what the backend has made.
    pub fn api() -> bollard::Docker {
        bollard::Docker::connect_with_unix(&socket(), 60, bollard::API_DEFAULT_VERSION)
            .expect("a client of the engine")
    }
}

fn main() -> std::process::ExitCode {
    suite::main()
}
