use super::*;
use crate::config::PodProfile;
use crate::lowering::tests::lowered_with;
use sandbox_core::{CapabilityPolicy, SandboxSpec};
use serde_json::json;

fn requested() -> (Pod, RequestedPod) {
    let pod = lowered_with(
        &SandboxSpec::new("job").label("app", "api"),
        &CapabilityPolicy::new(),
        PodProfile::Hardened,
        None,
    )
    .expect("a pod");
    let requested = RequestedPod::of(&pod).expect("written");
    (pod, requested)
}

/// A response whose changes are harmless.
fn answer(pod: &Pod) -> Value {
    let mut made = written(pod).expect("written");
    let spec = &mut made["spec"];
    for left_out in ["hostNetwork", "hostPID", "hostIPC"] {
        spec.as_object_mut().expect("an object").remove(left_out);
    }
    spec["serviceAccountName"] = json!("default");
    spec["serviceAccount"] = json!("default");
    spec["schedulerName"] = json!("default-scheduler");
    spec["priority"] = json!(0);
    spec["preemptionPolicy"] = json!("PreemptLowerPriority");
    spec["tolerations"] = json!([{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}]);
    let container = &mut spec["containers"][0];
    container["terminationMessagePath"] = json!("/dev/termination-log");
    container["resources"]["limits"]["cpu"] = json!("1");
    container.as_object_mut().expect("an object").remove("tty");
    made["metadata"]["uid"] = json!("u");
    made["metadata"]["annotations"]["seccomp.security.alpha.kubernetes.io/pod"] =
        json!("runtime/default");
    made["status"] = json!({"phase": "Pending"});
    made
}

#[test]
fn fields_filled_in_by_servers_are_accepted() {
    let (pod, requested) = requested();
    let answer = answer(&pod);
    requested.check_answer(&answer).expect("the same");
    let later = serde_json::from_value(answer).expect("a pod");
    requested.check_later(&later).expect("the same");
}

#[test]
fn other_changes_are_named() {
    let (pod, requested) = requested();
    let error_after = |change: &dyn Fn(&mut Value)| {
        let mut made = answer(&pod);
        change(&mut made);
        let error = requested.check_answer(&made).expect_err("it differs");
        assert_eq!(error.kind(), ErrorKind::SetupFailed);
        error.context().to_owned()
    };
    let push = |list: &mut Value, element: Value| match list {
        Value::Array(elements) => elements.push(element),
        other => *other = json!([element]),
    };
    /// What the error names, and the change that it is about.
    type SpecEdit<'a> = (&'a str, &'a dyn Fn(&mut Value));
    let changes: &[SpecEdit<'_>] = &[
        ("a sidecar", &|pod| {
            push(
                &mut pod["spec"]["containers"],
                json!({"name": "istio-proxy", "image": "i/proxy"}),
            );
        }),
        ("an init container", &|pod| {
            push(
                &mut pod["spec"]["initContainers"],
                json!({"name": "setup", "image": "i"}),
            );
        }),
        ("an ephemeral container", &|pod| {
            push(
                &mut pod["spec"]["ephemeralContainers"],
                json!({"name": "debug"}),
            );
        }),
        ("a token", &|pod| {
            push(
                &mut pod["spec"]["volumes"],
                json!({"name": "kube-api-access-x", "projected": {}}),
            );
        }),
        ("a mount", &|pod| {
            let mounts = &mut pod["spec"]["containers"][0]["volumeMounts"];
            push(
                mounts,
                json!({"name": "v", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}),
            );
        }),
        ("a folder of the node", &|pod| {
            push(
                &mut pod["spec"]["volumes"],
                json!({"name": "node", "hostPath": {"path": "/"}}),
            );
        }),
        ("another volume of the same name", &|pod| {
            pod["spec"]["volumes"][0] = json!({"name": "agent", "hostPath": {"path": "/"}});
        }),
        ("a mount that can be written", &|pod| {
            let mount = &mut pod["spec"]["containers"][0]["volumeMounts"][0];
            mount.as_object_mut().expect("a mount").remove("readOnly");
        }),
        ("privileges", &|pod| {
            pod["spec"]["containers"][0]["securityContext"]["privileged"] = json!(true);
        }),
        ("privileges by omission", &|pod| {
            let context = &mut pod["spec"]["containers"][0]["securityContext"];
            let context = context.as_object_mut().expect("a context");
            context.remove("allowPrivilegeEscalation");
        }),
        ("a token by omission", &|pod| {
            let spec = pod["spec"].as_object_mut().expect("a spec");
            spec.remove("automountServiceAccountToken");
        }),
        ("capabilities", &|pod| {
            let context = &mut pod["spec"]["containers"][0]["securityContext"];
            push(&mut context["capabilities"]["add"], json!("SYS_ADMIN"));
        }),
        ("the node's proc", &|pod| {
            pod["spec"]["containers"][0]["securityContext"]["procMount"] = json!("Unmasked");
        }),
        ("the node's network", &|pod| {
            pod["spec"]["hostNetwork"] = json!(true)
        }),
        ("the node's processes", &|pod| {
            pod["spec"]["hostPID"] = json!(true)
        }),
        ("a variable", &|pod| {
            push(
                &mut pod["spec"]["containers"][0]["env"],
                json!({"name": "LD_PRELOAD", "value": "/x"}),
            );
        }),
        ("variables", &|pod| {
            push(
                &mut pod["spec"]["containers"][0]["envFrom"],
                json!({"secretRef": {"name": "s"}}),
            );
        }),
        ("another account", &|pod| {
            pod["spec"]["serviceAccountName"] = json!("admin")
        }),
        ("another runtime", &|pod| {
            pod["spec"]["runtimeClassName"] = json!("other")
        }),
        ("another image", &|pod| {
            pod["spec"]["containers"][0]["image"] = json!("mirror/python")
        }),
        ("another program", &|pod| {
            pod["spec"]["containers"][0]["args"] = json!(["--debug"]);
        }),
        ("a device", &|pod| {
            pod["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = json!("1");
        }),
        ("a claim of devices", &|pod| {
            push(&mut pod["spec"]["resourceClaims"], json!({"name": "gpu"}));
        }),
        ("more memory", &|pod| {
            pod["spec"]["containers"][0]["resources"]["limits"]["memory"] = json!("64Gi");
        }),
        ("an unknown field", &|pod| {
            pod["spec"]["future"] = json!({"x": true})
        }),
        ("a label", &|pod| {
            pod["metadata"]["labels"]["app"] = json!("api")
        }),
        ("no label", &|pod| {
            let labels = pod["metadata"]["labels"].as_object_mut().expect("labels");
            labels.remove("sandbox.tier");
        }),
        ("a network", &|pod| {
            pod["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"] = json!("other");
        }),
        ("another SELinux type", &|pod| {
            pod["spec"]["securityContext"]["seLinuxOptions"] =
                json!({"level": "s0", "type": "spc_t"});
        }),
    ];
    let errors = changes
        .iter()
        .map(|(name, change)| format!("{name}: {}", error_after(change)))
        .collect::<Vec<_>>();
    insta::assert_snapshot!(errors.join("\n"));
}

#[test]
fn scheduling_fields_may_be_added() {
    let (pod, requested) = requested();
    let mut made = answer(&pod);
    let spec = &mut made["spec"];
    spec["nodeName"] = json!("node");
    spec["nodeSelector"]["pool"] = json!("small");
    spec["imagePullSecrets"] = json!([{"name": "registry"}]);
    spec["priorityClassName"] = json!("low");
    spec["containers"][0]["imagePullPolicy"] = json!("Always");
    spec["containers"][0]["resizePolicy"] = json!([{"resourceName": "cpu"}]);
    spec["securityContext"]["seLinuxOptions"] = json!({"level": "s0:c1,c2"});
    made["metadata"]["labels"]["topology.kubernetes.io/zone"] = json!("a");
    made["metadata"]["annotations"]["note"] = json!("x");
    requested.check_answer(&made).expect("the same");
    made["spec"]["nodeSelector"]["kubernetes.io/arch"] = json!("other");
    requested
        .check_answer(&made)
        .expect_err("another node than requested");
}
