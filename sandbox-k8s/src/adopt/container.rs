//! A container of a foreign pod, as the API server describes it.

use std::fmt;

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use sandbox_core::{Error, ErrorKind, ImageReference, Plan, Result};

use super::extra_access;
use crate::cluster::Cluster;
use crate::error::{ClusterOperation, cluster_error};
use crate::pod::PodRef;
use crate::{TIER, failure, labels};

/// The annotation that names a pod's default container.
const DEFAULT: &str = "kubectl.kubernetes.io/default-container";

/// The longest name of a Kubernetes object.
const MAX_NAME: usize = 253;

/// A running container.
#[derive(Debug, Clone)]
pub(crate) struct ForeignPodContainer {
    pub pod: String,
    pub target: PodRef,
    pub container: Container,
    pub spec: PodSpec,
}

impl fmt::Display for ForeignPodContainer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "container {} of pod {}", self.container.name, self.pod)
    }
}

fn error(kind: ErrorKind, context: String) -> Error {
    Error::new(kind, "adopt pod", context).on(TIER)
}

impl ForeignPodContainer {
    /// Finds a container named `POD` or `POD/CONTAINER`.
    ///
    /// # Errors
    ///
    /// - `SandboxNotFound` for an unknown pod or container;
    /// - `SandboxEnded` for a container that does not run;
    /// - `InvalidRequest` for a sandbox of ours, or if the container is ambiguous;
    /// - `PolicyExceeded` for an image that the plan does not allow;
    /// - `Unsupported` for another user than the container's, or for the node's root with write
    ///   access to kernel settings.
    pub(crate) async fn find(cluster: &Cluster, written: &str, plan: &Plan) -> Result<Self> {
        let (pod, container) = parse(written)?;
        let found = cluster.pods().get_opt(pod).await;
        let found = found.map_err(|error| cluster_error(ClusterOperation::GetPod, error))?;
        let found = found.ok_or_else(|| {
            let namespace = &cluster.namespace;
            error(
                ErrorKind::SandboxNotFound,
                format!("there is no pod {pod:?} in the namespace {namespace}"),
            )
            .with_fix(format!("name one of `kubectl get pods -n {namespace}`"))
        })?;
        let found = Self::of(&found, container)?;
        let image = found.container.image.as_deref().unwrap_or_default();
        if plan.images.is_some() {
            let image = image.parse::<ImageReference>()?;
            plan.check_image(&image).map_err(|error| error.on(TIER))?;
        }
        found.check_user(plan)?;
        Ok(found)
    }

    fn of(pod: &Pod, container: Option<&str>) -> Result<Self> {
        let name = pod.metadata.name.clone().unwrap_or_default();
        if labels::is_ours(pod) {
            return Err(error(
                ErrorKind::InvalidRequest,
                format!("pod {name:?} is a sandbox"),
            )
            .with_fix("get a detached sandbox by its name; others belong to their handle"));
        }
        let spec = pod.spec.clone().unwrap_or_default();
        let container = choose(pod, &spec, container)?;
        extra_access::check(&spec, &container)?;
        if !runs(pod, &container.name) {
            let why = pod.status.as_ref().and_then(failure::status_reason);
            let why = why.map_or_else(String::new, |why| format!(": {why}"));
            let why = sandbox_core::spi::escape(&why).to_string();
            let context = format!(
                "container {} of pod {name} does not run{why}",
                container.name
            );
            return Err(error(ErrorKind::SandboxEnded, context));
        }
        Ok(Self {
            target: crate::pod::reference(pod)?,
            pod: name,
            container,
            spec,
        })
    }

    /// The names of pod and container.
    pub(super) fn names(&self) -> (&str, &str) {
        (&self.pod, &self.container.name)
    }

    /// Whether the same container still runs.
    pub(super) async fn still_runs(&self, cluster: &Cluster) -> Result<bool> {
        let found = cluster.pods().get_opt(&self.pod).await;
        let found = found.map_err(|error| cluster_error(ClusterOperation::GetPod, error))?;
        let same = found.filter(|pod| PodRef::of(pod).as_ref() == Some(&self.target));
        Ok(same.is_some_and(|pod| runs(&pod, &self.container.name)))
    }

    /// `exec` always uses the container's user, which is known only if the pod sets it.
    fn check_user(&self, plan: &Plan) -> Result<()> {
        let Some((user, group)) = plan.user else {
            return Ok(());
        };
        let own = self.container.security_context.as_ref();
        let all = self.spec.security_context.as_ref();
        let is = |own: Option<i64>, all: Option<i64>, asked| own.or(all) == Some(i64::from(asked));
        let same = is(
            own.and_then(|own| own.run_as_user),
            all.and_then(|all| all.run_as_user),
            user,
        ) && is(
            own.and_then(|own| own.run_as_group),
            all.and_then(|all| all.run_as_group),
            group,
        );
        if same {
            return Ok(());
        }
        let context = format!("user: a cluster executes as the container's own user, in {self}");
        Err(error(ErrorKind::Unsupported, context).with_fix("leave `user` out"))
    }
}

fn parse(written: &str) -> Result<(&str, Option<&str>)> {
    let (pod, container) = match written.split_once('/') {
        Some((pod, container)) => (pod, Some(container)),
        None => (written, None),
    };
    let is_name = |text: &str| {
        let letter = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
        let ends =
            text.bytes().next().is_some_and(letter) && text.bytes().last().is_some_and(letter);
        ends && text.len() <= MAX_NAME && text.bytes().all(|c| letter(c) || b"-.".contains(&c))
    };
    if is_name(pod) && container.is_none_or(is_name) {
        return Ok((pod, container));
    }
    let context = format!("{written:?} is not a pod name");
    Err(error(ErrorKind::InvalidRequest, context).with_fix("name it as POD or POD/CONTAINER"))
}

fn choose(pod: &Pod, spec: &PodSpec, container: Option<&str>) -> Result<Container> {
    let annotations = pod.metadata.annotations.as_ref();
    let default = annotations.and_then(|annotations| annotations.get(DEFAULT));
    let wanted = container.or(default.map(String::as_str));
    let mut all = spec.containers.iter();
    let chosen = match (wanted, &spec.containers[..]) {
        (Some(name), _) => all.find(|container| container.name == name),
        (None, [only]) => Some(only),
        (None, _) => None,
    };
    chosen.cloned().ok_or_else(|| {
        let names = spec.containers.iter().map(|container| &*container.name);
        let names = names.collect::<Vec<_>>().join(", ");
        let kind = match wanted {
            Some(_) => ErrorKind::SandboxNotFound,
            None => ErrorKind::InvalidRequest,
        };
        let context = match wanted {
            Some(name) => format!("the pod has no container {name:?}: it has {names}"),
            None => format!("the pod has several containers: {names}"),
        };
        error(kind, context).with_fix("name one of them as POD/CONTAINER")
    })
}

fn runs(pod: &Pod, container: &str) -> bool {
    let leaving = pod.metadata.deletion_timestamp.is_some();
    let status = pod.status.as_ref();
    let mut statuses = status
        .and_then(|status| status.container_statuses.as_ref())
        .into_iter()
        .flatten();
    let status = statuses.find(|status| status.name == container);
    let state = status.and_then(|status| status.state.as_ref());
    !leaving && state.is_some_and(|state| state.running.is_some())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use serde_json::json;

    /// A running pod with these containers, in addition to the given specification.
    pub(in crate::adopt) fn pod(names: &[&str], mut spec: serde_json::Value) -> Pod {
        let containers = names.iter().map(|name| json!({"name": name, "image": "i"}));
        let statuses = names.iter().map(|name| {
            json!({"name": name, "image": "i", "imageID": "", "ready": true, "restartCount": 0,
                   "state": {"running": {}}})
        });
        if spec.get("containers").is_none() {
            spec["containers"] = containers.collect();
        }
        let pod = json!({
            "metadata": {"name": "p", "uid": "1"},
            "spec": spec,
            "status": {"phase": "Running", "containerStatuses": statuses.collect::<Vec<_>>()},
        });
        serde_json::from_value(pod).expect("a pod")
    }

    pub(in crate::adopt) fn running_container(spec: serde_json::Value) -> ForeignPodContainer {
        ForeignPodContainer::of(&pod(&["main"], spec), None).expect("found")
    }

    #[test]
    fn pod_and_container_names_are_parsed() {
        assert_eq!(parse("a-b.c").expect("a pod"), ("a-b.c", None));
        assert_eq!(parse("a/b").expect("both"), ("a", Some("b")));
        for wrong in ["", "/", "a/", "A", "a/b/c", "a b", "../a"] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn ambiguous_container_must_be_named() {
        let of =
            |pod: &Pod, name| ForeignPodContainer::of(pod, name).map(|found| found.container.name);
        assert_eq!(
            of(&pod(&["one"], json!({})), None).expect("the only"),
            "one"
        );
        let mut two = pod(&["one", "two"], json!({}));
        let error = of(&two, None).expect_err("which");
        assert_eq!(error.kind(), ErrorKind::InvalidRequest);
        assert!(error.to_string().contains("one, two"), "{error}");
        assert_eq!(of(&two, Some("two")).expect("a name"), "two");
        let error = of(&two, Some("three")).expect_err("none");
        assert_eq!(error.kind(), ErrorKind::SandboxNotFound);
        let annotations = two.metadata.annotations.get_or_insert_default();
        annotations.insert(DEFAULT.into(), "two".into());
        assert_eq!(of(&two, None).expect("the default"), "two");
    }

    #[test]
    fn ended_and_own_pods_are_refused() {
        let mut ours = pod(&["main"], json!({}));
        ours.metadata.labels = Some(labels::ours().into());
        let error = ForeignPodContainer::of(&ours, None).expect_err("ours");
        assert_eq!(error.kind(), ErrorKind::InvalidRequest);
        let mut ended = pod(&["main"], json!({}));
        ended.status = None;
        let error = ForeignPodContainer::of(&ended, None).expect_err("ended");
        assert_eq!(error.kind(), ErrorKind::SandboxEnded);
    }
}
