//! The layers of enforcement that a report names.
//!
//! Several layers often deny the same call, so an attack does not show that one of them is missing.
//! These probes ask the kernel, inside or on the host, for each layer that the report names.

use group::{LIMITED, call_without_limit};
use sandbox_core::{CgroupController, CgroupLimit, CgroupVersion, Mechanism};

use crate::host_cgroups::GroupLimit;
use crate::probes::prelude::*;

mod group;
mod options;

/// The probes of this area.
pub static PROBES: &[Probe] = &[
    Probe::isolation(
        "layers::bounding_set",
        PRIVILEGES,
        "looks for a capability in the bounding set where the report names an empty one",
        &kernel_state("no_capabilities"),
        |context| Box::pin(bounding_set(context)),
    ),
    Probe::isolation(
        "layers::capabilities",
        PRIVILEGES,
        "looks for a capability where the report names none",
        &kernel_state("no_capabilities"),
        |context| Box::pin(capabilities(context)),
    ),
    // Under the filter of each execution.
    Probe::isolation(
        "layers::container_filter",
        PRIVILEGES,
        "counts the seccomp filters where the report names the container's profile besides the \
         agent's filter",
        &kernel_state("filtered"),
        |context| Box::pin(container_filter(context)),
    ),
    // A list of paths of an option may replace the engine's own.
    Probe::behavior(
        "layers::engine_options",
        PRIVILEGES,
        "hides a path, limits the size of files and sets a host name by options of the engine, and \
         looks for what is covered without them; sets options that loosen sandboxes",
        |context| Box::pin(options::run(context)),
    ),
    Probe::isolation(
        "layers::filter",
        PRIVILEGES,
        "looks for a missing seccomp filter where the report names seccomp",
        &kernel_state("filtered"),
        |context| Box::pin(filter(context)),
    ),
    // A limit by `setrlimit` may hide it.
    Probe::isolation(
        "layers::group_pids",
        PIDS,
        "looks for a missing cgroup process limit where the report names one",
        &kernel_state(LIMITED),
        |context| {
            Box::pin(call_without_limit(
                context,
                GROUP_PIDS,
                GROUP_PIDS_LIMIT,
                GROUP_PIDS_MOST,
            ))
        },
    )
    .setup(|_| SandboxSetup::with(|policy| policy.pids = Some(32))),
    // A host without swap cannot decide it.
    Probe::isolation(
        "layers::group_swap",
        MEMORY,
        "looks for a missing swap limit where the report names one",
        &kernel_state(LIMITED),
        |context| {
            Box::pin(call_without_limit(
                context,
                GROUP_SWAP,
                GROUP_SWAP_LIMIT,
                GROUP_SWAP_MOST,
            ))
        },
    )
    .setup(|_| SandboxSetup::with(|policy| policy.memory = Some(ByteSize::mib(64)))),
    Probe::isolation(
        "layers::kernel_settings",
        PRIVILEGES,
        "looks for a writable mount at /proc/sys where the report names a read-only one",
        &kernel_state("read_only"),
        |context| Box::pin(kernel_settings(context)),
    ),
    Probe::isolation(
        "layers::landlock",
        FILESYSTEM_READ_ROOTS,
        "counts how many more Landlock domains it can enter where the report names Landlock",
        &kernel_state("domain"),
        |context| Box::pin(landlock(context)),
    ),
    // A limit by control groups may hide it.
    Probe::isolation(
        "layers::limit_pids",
        PIDS,
        "reads the process limit of the user where the report names RLIMIT_NPROC",
        &kernel_state(LIMITED),
        |context| Box::pin(limit_pids(context)),
    )
    .setup(|_| SandboxSetup::with(|policy| policy.pids = Some(32))),
    Probe::isolation(
        "layers::no_new_privileges",
        PRIVILEGES,
        "reads no_new_privs where the report names it",
        &kernel_state("no_new_privs"),
        |context| Box::pin(no_new_privileges(context)),
    ),
    Probe::isolation(
        "layers::own_user",
        PRIVILEGES,
        "compares the code's user with its parent's where the report names a separate user",
        &kernel_state("own_user"),
        |context| Box::pin(own_user(context)),
    ),
    Probe::isolation(
        "layers::read_only",
        FILESYSTEM_WRITE_ROOTS,
        "looks for a writable mount at /, /usr, /etc and /bin where the report names a \
         read-only one",
        &kernel_state("read_only"),
        |context| Box::pin(read_only(context)),
    ),
    // The kernel counts these per user.
    Probe::isolation(
        "layers::user_limits",
        PROCESSES,
        "reads the limits of inotify instances and watches where the report names one",
        &kernel_state("bounded"),
        |context| Box::pin(user_limits(context)),
    )
    .version(2),
];

/// A layer that a probe looks for.
pub(crate) struct Layer {
    /// A mechanism that is this layer; it names the layer in errors.
    pub(crate) mechanism: Mechanism,
    /// Whether a mechanism of a report is this layer.
    is: fn(&Mechanism) -> bool,
}

/// Every layer.
pub(crate) static LAYERS: &[Layer] = &[
    BOUNDING_SET,
    CAPABILITIES,
    CONTAINER_FILTER,
    FILTER,
    GROUP_PIDS,
    GROUP_SWAP,
    KERNEL_SETTINGS,
    LANDLOCK,
    LIMIT_PIDS,
    NO_NEW_PRIVILEGES,
    OWN_USER,
    READ_ONLY,
    USER_LIMITS,
];

/// A layer of these mechanisms, named by the first.
macro_rules! layer {
    ($mechanism:ident $(| $other:ident)*) => {
        Layer {
            mechanism: Mechanism::$mechanism,
            is: |mechanism| matches!(mechanism, Mechanism::$mechanism $(| Mechanism::$other)*),
        }
    };
}

const BOUNDING_SET: Layer = layer!(EmptyBoundingSet);
const CAPABILITIES: Layer = layer!(NoCapabilities | EmptyBoundingSet);
const CONTAINER_FILTER: Layer = layer!(ContainerSeccompProfile | RuntimeSeccompProfile);
const FILTER: Layer = layer!(Seccomp | ContainerSeccompProfile | RuntimeSeccompProfile);
const GROUP_PIDS: Layer = Layer {
    mechanism: Mechanism::Cgroup(CgroupLimit::new(
        CgroupVersion::Unknown,
        CgroupController::Pids,
    )),
    is: |mechanism| match mechanism {
        Mechanism::Cgroup(limit) => limit.controller == CgroupController::Pids,
        _ => false,
    },
};
const GROUP_SWAP: Layer = layer!(SwapLimit);
const KERNEL_SETTINGS: Layer = layer!(ReadOnlyKernelSettings);
const LANDLOCK: Layer = layer!(Landlock);
const LIMIT_PIDS: Layer = layer!(RlimitNproc | RlimitNprocInOwnUserNamespace);
const NO_NEW_PRIVILEGES: Layer = layer!(NoNewPrivileges);
const OWN_USER: Layer = layer!(OwnUser);
const READ_ONLY: Layer = layer!(ReadOnlyMounts | ReadOnlyRoot);
const USER_LIMITS: Layer = layer!(InotifyLimits);

/// The denial that the kernel's state of the process shows.
const fn kernel_state(sign: &'static str) -> [ExpectedDenial; 1] {
    [ExpectedDenial {
        sign,
        means: "the kernel's state of the process",
    }]
}

/// Runs a call that succeeds without the layer, as on the host.
async fn call_without_layer(
    context: &mut ProbeContext,
    layer: Layer,
    call: Call,
) -> Result<(), ProbeError> {
    if is_reported(context, layer).await? {
        context.host_control(&call).await?;
        context.allow_control(&Call::new(["alive"])).await;
        context.attack(&call).await;
        context.no_host_effect("the probe only reads the kernel's state");
    }
    Ok(())
}

/// Whether the report names the layer. Without a sandbox, the context records the reason.
async fn is_reported(context: &mut ProbeContext, layer: Layer) -> Result<bool, ProbeError> {
    let Layer { mechanism, is } = layer;
    match context.declares(is).await {
        Ok(true) => Ok(true),
        Ok(false) => Err(ProbeError::new(format!(
            "the report does not name it: {mechanism}"
        ))),
        Err(declined) => {
            context.record_attack(crate::Step::new(format!("look for {mechanism}"), declined));
            Ok(false)
        }
    }
}

async fn bounding_set(context: &mut ProbeContext) -> Result<(), ProbeError> {
    call_without_layer(
        context,
        BOUNDING_SET,
        Call::new(["capability-sets", "CapBnd"]),
    )
    .await
}

async fn capabilities(context: &mut ProbeContext) -> Result<(), ProbeError> {
    call_without_layer(
        context,
        CAPABILITIES,
        Call::new(["capability-sets", "CapInh", "CapPrm", "CapEff", "CapAmb"]),
    )
    .await
}

async fn container_filter(context: &mut ProbeContext) -> Result<(), ProbeError> {
    call_without_layer(context, CONTAINER_FILTER, Call::new(["filters", "2"])).await
}

async fn filter(context: &mut ProbeContext) -> Result<(), ProbeError> {
    call_without_layer(context, FILTER, Call::new(["filters", "1"])).await
}

const GROUP_PIDS_LIMIT: GroupLimit = GroupLimit {
    controller: "pids",
    first: "pids.max",
    second: "pids.max",
};

/// The policy's limit, and room for the processes that start the code.
const GROUP_PIDS_MOST: u64 = 48;

const GROUP_SWAP_LIMIT: GroupLimit = GroupLimit {
    controller: "memory",
    first: "memory.memsw.limit_in_bytes",
    second: "memory.swap.max",
};

/// The policy's memory, with or as swap, rounded up by the kernel.
const GROUP_SWAP_MOST: u64 = 65 << 20;

async fn kernel_settings(context: &mut ProbeContext) -> Result<(), ProbeError> {
    call_without_layer(
        context,
        KERNEL_SETTINGS,
        Call::new(["writable-mount", "/proc/sys"]),
    )
    .await
}

async fn landlock(context: &mut ProbeContext) -> Result<(), ProbeError> {
    if !is_reported(context, LANDLOCK).await? {
        return Ok(());
    }
    let call = Call::new(["landlock-room"]);
    let host = context.host_control(&call).await?;
    context.allow_control(&Call::new(["alive"])).await;
    // Each Landlock domain of a process takes one of the nested levels that the host has.
    let attempt = match (host, context.attack(&call).await) {
        (Attempt::Succeeded { value: host }, Attempt::Succeeded { value: inside }) => {
            match (host.parse::<u32>(), inside.parse::<u32>()) {
                (Ok(host), Ok(inside)) => Attempt::leak_if(inside >= host, "domain"),
                _ => Attempt::unclear(format!("{host} and {inside} are not numbers")),
            }
        }
        (_, other) => other,
    };
    context.record_attack(Step::new("landlock-room, less than on the host", attempt));
    context.no_host_effect("the probe only reads the kernel's state");
    Ok(())
}

async fn limit_pids(context: &mut ProbeContext) -> Result<(), ProbeError> {
    const RLIMIT_NPROC: &str = "6";
    let call = Call::new(["resource-limit", RLIMIT_NPROC, "32"]);
    call_without_layer(context, LIMIT_PIDS, call).await
}

async fn no_new_privileges(context: &mut ProbeContext) -> Result<(), ProbeError> {
    call_without_layer(
        context,
        NO_NEW_PRIVILEGES,
        Call::new(["may-gain-privileges"]),
    )
    .await
}

async fn own_user(context: &mut ProbeContext) -> Result<(), ProbeError> {
    call_without_layer(context, OWN_USER, Call::new(["parents-user"])).await
}

async fn read_only(context: &mut ProbeContext) -> Result<(), ProbeError> {
    call_without_layer(
        context,
        READ_ONLY,
        Call::new(["writable-mount", "/", "/usr", "/etc", "/bin"]),
    )
    .await
}

async fn user_limits(context: &mut ProbeContext) -> Result<(), ProbeError> {
    // The first is half of a user's default in the kernel.
    call_without_layer(
        context,
        USER_LIMITS,
        Call::new([
            "user-limit",
            "max_inotify_instances",
            "64",
            "max_inotify_watches",
            "8192",
        ]),
    )
    .await
}
