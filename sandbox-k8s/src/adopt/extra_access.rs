//! Access that a foreign container has beyond the default, each a way around its namespaces.

use k8s_openapi::api::core::v1::{Container, PodSpec, SecurityContext};
use sandbox_core::{Error, ErrorKind, Result};

use crate::TIER;

/// Additional access, grouped by what it endangers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ExtraAccess {
    /// Privileges on the node's kernel.
    privileges: Vec<String>,
    /// Storage or kernel settings of the node.
    files: Vec<String>,
}

impl ExtraAccess {
    /// Inspects a container and its pod.
    pub(super) fn of(spec: &PodSpec, container: &Container) -> Self {
        let mut this = Self::default();
        let own = container.security_context.clone().unwrap_or_default();
        if own.privileged == Some(true) {
            this.both("the container is privileged");
        }
        if own.proc_mount.as_deref() == Some(UNMASKED) {
            this.both("the container's /proc is unmasked (procMount)");
        }
        let devices = devices(container);
        if !devices.is_empty() {
            let devices = devices.join(", ");
            this.both(&format!("the container has devices of its node: {devices}"));
        }
        let added = own.capabilities.as_ref().and_then(|own| own.add.clone());
        if let Some(added) = added.filter(|added| !added.is_empty()) {
            let added = added.join(", ");
            this.privileges
                .push(format!("capabilities were added to the container: {added}"));
        }
        let all = spec.security_context.as_ref();
        let seccomp = own.seccomp_profile.as_ref();
        let seccomp = seccomp.or(all.and_then(|all| all.seccomp_profile.as_ref()));
        if seccomp.is_some_and(|profile| profile.type_ == UNCONFINED) {
            this.privileges
                .push("the container's seccomp profile is Unconfined".to_owned());
        }
        let apparmor = own.app_armor_profile.as_ref();
        let apparmor = apparmor.or(all.and_then(|all| all.app_armor_profile.as_ref()));
        if apparmor.is_some_and(|profile| profile.type_ == UNCONFINED) {
            this.privileges
                .push("the container's AppArmor profile is Unconfined".to_owned());
        }
        for (shared, what) in [
            (spec.host_pid, "processes (hostPID)"),
            (spec.host_ipc, "shared memory (hostIPC)"),
            (spec.host_network, "network (hostNetwork)"),
        ] {
            if shared == Some(true) {
                this.privileges
                    .push(format!("the pod is in its node's namespace of {what}"));
            }
        }
        this
    }

    fn both(&mut self, what: &str) {
        self.privileges.push(what.to_owned());
        self.files.push(what.to_owned());
    }

    /// What endangers privileges, as text; `None` if nothing does.
    pub(super) fn privileges(&self) -> Option<String> {
        joined(&self.privileges)
    }

    /// What endangers files, as text; `None` if nothing does.
    pub(super) fn files(&self) -> Option<String> {
        joined(&self.files)
    }
}

const UNMASKED: &str = "Unmasked";
const UNCONFINED: &str = "Unconfined";

fn joined(words: &[String]) -> Option<String> {
    (!words.is_empty()).then(|| words.join("; "))
}

/// Devices come as claims, as raw volumes, and as resources of device plugins, whose names contain
/// a domain.
fn devices(container: &Container) -> Vec<String> {
    let resources = container.resources.clone().unwrap_or_default();
    let claims = resources.claims.into_iter().flatten();
    let claims = claims.map(|claim| format!("claim {}", claim.name));
    let volumes = container.volume_devices.iter().flatten();
    let volumes = volumes.map(|volume| volume.device_path.clone());
    let plugins = resources.limits.into_iter().flatten();
    let plugins = plugins.map(|(name, _)| name);
    let plugins = plugins.filter(|name| name.contains('/') && !name.starts_with("kubernetes.io/"));
    claims.chain(volumes).chain(plugins).collect()
}

/// Refuses what no policy can accept: root that may write to the node's kernel settings, and so
/// controls the node.
///
/// # Errors
///
/// `Unsupported` for a container with an unmasked `/proc` whose user may be the node's root.
pub(super) fn check(spec: &PodSpec, container: &Container) -> Result<()> {
    let own = container.security_context.as_ref();
    let all = spec.security_context.as_ref();
    let unmasked = own.and_then(|own| own.proc_mount.as_deref()) == Some(UNMASKED);
    let user = own.and_then(|own| own.run_as_user);
    let user = user.or(all.and_then(|all| all.run_as_user));
    let not_root = own
        .and_then(|own: &SecurityContext| own.run_as_non_root)
        .or(all.and_then(|all| all.run_as_non_root));
    let may_be_root = user.map_or(not_root != Some(true), |user| user == 0);
    if !unmasked || !may_be_root || spec.host_users == Some(false) {
        return Ok(());
    }
    let context = format!(
        "container {}: its /proc is unmasked (procMount), and its user may be root of the node: code could write to settings of the node's kernel",
        container.name
    );
    Err(Error::new(ErrorKind::Unsupported, "adopt pod", context)
        .on(TIER)
        .with_fix(
            "give the pod a user namespace (hostUsers: false), another user, or leave procMount out",
        ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn of(spec: Value) -> (PodSpec, Container) {
        let mut spec: Value = spec;
        let container = &mut spec["containers"][0];
        container["name"] = "main".into();
        let spec: PodSpec = serde_json::from_value(spec).expect("a pod");
        let container = spec.containers[0].clone();
        (spec, container)
    }

    #[test]
    fn extra_access_is_named() {
        let cases = [
            (
                json!({"hostIPC": true, "containers": [{}]}),
                "hostIPC",
                false,
            ),
            (
                json!({"hostPID": true, "containers": [{}]}),
                "hostPID",
                false,
            ),
            (
                json!({"hostNetwork": true, "containers": [{}]}),
                "hostNetwork",
                false,
            ),
            (
                json!({"containers": [{"securityContext": {"procMount": "Unmasked"}}]}),
                "procMount",
                true,
            ),
            (
                json!({"containers": [{"resources": {"claims": [{"name": "gpu"}]}}]}),
                "claim gpu",
                true,
            ),
            (
                json!({"containers": [{"resources": {"limits": {"example.org/disk": "1"}}}]}),
                "example.org/disk",
                true,
            ),
            (
                json!({"containers": [{"volumeDevices": [{"name": "v", "devicePath": "/dev/x"}]}]}),
                "/dev/x",
                true,
            ),
            (
                json!({"containers": [{"securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}}]}),
                "SYS_ADMIN",
                false,
            ),
            (
                json!({"containers": [{"securityContext": {"seccompProfile": {"type": "Unconfined"}}}]}),
                "seccomp",
                false,
            ),
            (
                json!({"securityContext": {"seccompProfile": {"type": "Unconfined"}}, "containers": [{}]}),
                "seccomp",
                false,
            ),
            (
                json!({"containers": [{"securityContext": {"appArmorProfile": {"type": "Unconfined"}}}]}),
                "AppArmor",
                false,
            ),
            (
                json!({"containers": [{"securityContext": {"privileged": true}}]}),
                "privileged",
                true,
            ),
        ];
        for (spec, words, of_files) in cases {
            let (spec, container) = of(spec);
            let extra_access = ExtraAccess::of(&spec, &container);
            let reason = extra_access.privileges().expect(words);
            assert!(reason.contains(words), "{words}: {reason}");
            assert_eq!(extra_access.files().is_some(), of_files, "{words}");
        }
        let (spec, container) = of(json!({
            "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{"resources": {"limits": {"memory": "1Gi"}}}],
        }));
        assert_eq!(ExtraAccess::of(&spec, &container), ExtraAccess::default());
    }

    #[test]
    fn node_root_with_unmasked_proc_is_refused() {
        let refused = |more: Value, user: Value| {
            let mut spec = more;
            spec["containers"] = json!([{"securityContext": user}]);
            let (spec, container) = of(spec);
            check(&spec, &container).is_err()
        };
        let unmasked = json!({"procMount": "Unmasked"});
        let as_user = |user: u32| json!({"procMount": "Unmasked", "runAsUser": user});
        assert!(refused(json!({}), unmasked.clone()));
        assert!(refused(json!({}), as_user(0)));
        assert!(refused(
            json!({"securityContext": {"runAsUser": 0}}),
            unmasked.clone()
        ));
        assert!(!refused(json!({}), as_user(7)));
        assert!(!refused(
            json!({"securityContext": {"runAsNonRoot": true}}),
            unmasked.clone()
        ));
        assert!(!refused(json!({"hostUsers": false}), unmasked));
        assert!(!refused(json!({}), json!({})));
    }
}
