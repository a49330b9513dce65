//! The mechanisms that reports name: the one place that defines them and their words.

mod cgroup;
mod list;
mod parse;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt;

pub use cgroup::{CgroupController, CgroupLimit, CgroupVersion, LimitOwner};
pub use list::Mechanisms;

macro_rules! mechanisms {
    (
        fixed { $($(#[$doc:meta])* $variant:ident = $words:literal,)* }
        named { $($(#[$named_doc:meta])* $named:ident = $before:literal, $after:literal,)* }
    ) => {
        /// A means by which a backend enforces a capability.
        ///
        /// A few variants only remark on the mechanism before them in a list. [`fmt::Display`] writes
        /// the words that reports show.
        #[derive(Debug, Clone, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Mechanism {
            $($(#[$doc])* $variant,)*
            $($(#[$named_doc])* $named(String),)*
            /// A limit by a control group, such as `cgroup v2 memory`.
            Cgroup(CgroupLimit),
            /// What only a backend outside this workspace does, in its own words. A probe of a
            /// layer never looks for these.
            Other(Cow<'static, str>),
        }

        impl Mechanism {
            /// The mechanisms without data, and their words.
            const FIXED: &'static [(Self, &'static str)] = &[$((Self::$variant, $words)),*];

            /// The mechanisms with a name, and their words before and after it.
            const NAMED: &'static [(fn(String) -> Self, &'static str, &'static str)] =
                &[$((Self::$named, $before, $after)),*];
        }

        impl fmt::Display for Mechanism {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Self::$variant => f.write_str($words),)*
                    $(Self::$named(name) => {
                        f.write_str($before)?;
                        f.write_str(name)?;
                        f.write_str($after)
                    })*
                    Self::Cgroup(limit) => limit.fmt(f),
                    Self::Other(words) => f.write_str(words),
                }
            }
        }
    };
}

mechanisms! {
    fixed {
        // Files.
        /// Landlock rules.
        Landlock = "Landlock",
        /// A separate mount namespace.
        MountNamespace = "mount namespace",
        /// `pivot_root` into a root of the sandbox's own.
        PivotRoot = "pivot_root",
        /// Read-only mounts of everything outside the write roots.
        ReadOnlyMounts = "read-only mounts",
        /// The sandbox's root is read-only.
        ReadOnlyRoot = "read-only root",
        /// The sandbox's root is its image.
        ImageRoot = "image as root",
        /// Only the roots are mounted.
        RootBinds = "binds of the roots",
        /// Only the roots are mounted, and read-only.
        ReadOnlyRootBinds = "read-only binds of the roots",
        /// Changes to the image's files go to a layer of the sandbox's own.
        OwnLayer = "layer of the sandbox's own over the image",
        /// A pod whose root is its image, without folders of the node.
        PodWithoutNodeFolders = "pod with an image as root and no folder of the node",
        /// Everything writable is a volume of the pod.
        PodVolumes = "volumes of the pod's own",
        /// The mount namespace of an adopted container.
        ContainerMountNamespace = "the container's mount namespace",
        /// A remark: code can write to named pipes in read roots.
        OpenPipes = "(named pipes in read roots can be written)",
        /// A remark: code can write to named pipes in some read roots.
        OpenPipesBelowWritable =
            "(named pipes can be written in read roots that lie below /tmp, /dev/shm or a write root)",

        // Network.
        /// A separate network namespace.
        NetworkNamespace = "network namespace",
        /// A separate network namespace that has no interface but loopback.
        EmptyNetworkNamespace = "network namespace without interfaces",
        /// The network namespace of an adopted container, which has no interface but loopback.
        ContainerEmptyNetworkNamespace = "the container's network namespace without interfaces",
        /// The agent takes a pod's interfaces down before it serves anybody.
        InterfacesDown =
            "interfaces taken down by the agent before anybody is served, and the capability given up",
        /// A NetworkPolicy that a canary showed to work.
        ProvenNetworkPolicy =
            "NetworkPolicy without rules, shown by a canary to be enforced, and awaited by an init step",
        /// The network of a pod, where the policy permits all of it.
        PodNetwork = "the pod's network, as asked for",
        /// The host resolves, checks and dials what the rules for connections allow.
        HostDialsAllowedNames = "connections dialed by the host, by rules",
        /// The host ends TLS and checks each request.
        RequestsChecked = "requests checked by the host, which ends TLS",
        /// A remark: at level `name`, only the first request of a connection is checked.
        FirstRequestChecked =
            "(a server of an allowed name may reach its other names, in later requests of a connection)",
        /// A remark: a rule with a wildcard lets code choose names.
        WildcardNames = "(the owner of a wildcard's suffix learns the names that code looks up)",
        /// Code that cannot reach a registry cannot install packages.
        NoRegistry = "no network to a registry",

        // System calls and privileges.
        /// Our filter of system calls.
        Seccomp = "seccomp",
        /// Our filter of system calls, which denies sockets.
        SeccompWithoutSockets = "seccomp (no sockets but connected unix pairs)",
        /// The supervisor decides each `execve`.
        SeccompNotification = "seccomp notification on execve",
        /// The engine's filter of system calls, below ours.
        ContainerSeccompProfile = "seccomp profile of the container",
        /// The filter of system calls of a pod's runtime, below ours.
        RuntimeSeccompProfile = "the runtime's default seccomp profile",
        /// The engine's AppArmor profile.
        AppArmor = "AppArmor",
        /// The engine's SELinux label.
        SeLinux = "SELinux",
        /// A separate user namespace.
        UserNamespace = "user namespace",
        /// `PR_SET_NO_NEW_PRIVS`.
        NoNewPrivileges = "no_new_privs",
        /// The code has no capabilities.
        NoCapabilities = "no capabilities",
        /// The code cannot gain a capability.
        EmptyBoundingSet = "empty capability bounding set",
        /// The code has another user than the agent.
        OwnUser = "own user",
        /// The kernel's settings are mounted read-only.
        ReadOnlyKernelSettings = "read-only /proc/sys",
        /// The agent's confinement of each execution, where the sandbox around it is weaker.
        ExecutionConfinement = "what the agent gives each execution",

        // Environment.
        /// Code gets only the variables that the specification names.
        FreshEnvironment = "environment made from nothing",
        /// The agent gets a secret's value with the execution that uses it.
        SecretsPerExecution = "given to single executions, by the agent alone",
        /// Code gets only the variables that the specification names, and no descriptor.
        FreshEnvironmentAndDescriptors = "environment built from nothing, descriptors closed",

        // Processes and time.
        /// Separate process and IPC namespaces, of the local backend.
        ProcessAndIpcNamespaces = "process and ipc namespaces",
        /// Separate process and IPC namespaces, of a container or a pod.
        PidAndIpcNamespaces = "pid and ipc namespaces",
        /// A separate process namespace.
        ProcessNamespace = "process namespace",
        /// The process namespace of an adopted container.
        ContainerPidNamespace = "the container's pid namespace",
        /// A namespace's processes end with its first process.
        EndedWithFirstProcess = "ended with their first process",
        /// The sandbox ends with the stream to its owner.
        EndedWithOwnerStream = "ended with the owner's stream",
        /// A pod's agent ends it without its owner, and so does the kubelet.
        EndedByAgentOrKubelet =
            "ended by the agent with the owner's stream, or for want of its pings, and by the kubelet",
        /// The sandbox ends with the process of its owner.
        EndedWithOwner = "ended with the owner",
        /// The agent gets the orphans of an execution and ends them.
        ChildSubreaper = "child subreaper",
        /// Limits of inotify for the sandbox's users.
        InotifyLimits = "limits of inotify",
        /// A remark: other counters of the kernel are shared with the caller.
        SharedUserCounters =
            "shared with the caller: what the kernel counts for each user (pipe buffers, descriptors in \
             flight, epoll watches)",
        /// The agent supervises each execution.
        Agent = "agent",
        /// The host measures the time, too.
        HostClock = "host clock",
        /// A process outside a local sandbox ends it.
        Keeper = "keeper outside",
        /// The owner ends the sandbox.
        OwnerClock = "owner's clock",
        /// The agent ends the sandbox, and the owner removes it.
        AgentAndOwnerClocks =
            "agent's clock and owner's clock; the container ends with its owner",
        /// The agent ends the sandbox, or the next client does.
        AgentAndClientClocks = "agent's clock, and the next client's",
        /// The cluster ends the pod.
        PodDeadline = "activeDeadlineSeconds of the pod",

        // Limits.
        /// The swap that a control group permits counts as memory.
        SwapLimit = "swap included",
        /// The agent counts the processes that the kernel killed for want of memory.
        KillsCountedInside = "kills counted inside",
        /// A remark: the control group is in a scope of the machine's systemd.
        SystemdScope = "in a scope of systemd",
        /// A remark: the control group is in a scope of the user's systemd.
        UserSystemdScope = "in a scope of the user's systemd",
        /// A control group of which the report says no more.
        ControlGroup = "control group",
        /// The memory of all processes is summed up at intervals.
        MemorySampling = "sampled every 100 ms",
        /// `RLIMIT_DATA` of each process.
        RlimitData = "RLIMIT_DATA",
        /// `RLIMIT_NPROC`.
        RlimitNproc = "RLIMIT_NPROC",
        /// `RLIMIT_NPROC`, which counts only the sandbox's processes.
        RlimitNprocInOwnUserNamespace = "RLIMIT_NPROC in its own user namespace",
        /// `RLIMIT_FSIZE` of each file.
        RlimitFsize = "RLIMIT_FSIZE",
        /// `RLIMIT_NOFILE` of each process.
        RlimitNofile = "RLIMIT_NOFILE",
        /// One file system in memory, as large as the limit.
        OneTmpfs = "one tmpfs of that size",
        /// Changes to the image's files go to a layer of the sandbox's own, without a limit.
        OwnRootLayer = "root in a layer of its own",

        // Output and packages.
        /// The reader of a stream stops at the limit.
        BoundedCapture = "bounded capture",
        /// The reader of a stream stops at the limit, on the host.
        BoundedCaptureOnHost = "bounded capture on the host",
        /// The agent copies files with the rights of the code.
        CopiedByAgent = "copied by the agent as the code's user",
        /// No path leaves the exported folder.
        OpenedBeneathFolder = "opened beneath the folder",
        /// No path leaves the exported folder, and the host makes sure of it.
        OpenedBeneathHostFolder = "opened beneath the folder on the host",
        /// Packages are installed before the code runs.
        InstalledBefore = "installed before the code runs, and read-only for it",
        /// A separate sandbox installs packages.
        ProvisionSandbox = "a sandbox of its own, wheels alone, no secrets, no workspace",
    }
    named {
        /// A kernel in user space handles system calls; the name is the runtime's.
        UserSpaceKernel = "a kernel in user space (", ")",
        /// A virtual machine with a separate kernel; the name is the runtime's.
        VirtualMachine = "a virtual machine (", ")",
        /// A remark: the limit covers this runtime, too.
        SharedWithRuntime = "of ", " and the code together",
        /// Changes to the image's files go to a layer of this size.
        BoundedRootLayer = "root in a layer of its own of ", " by the quota of the engine's storage",
        /// Each writable folder is a tmpfs; the name lists folders and sizes.
        StorageInTmpfs = "storage split over tmpfs: ", "",
        /// Each writable folder is a volume in memory; the name lists folders and sizes.
        StorageInMemoryVolumes = "storage split over memory volumes: ", "",
        /// A remark: the sandbox is this pod of the warm pool.
        WarmPoolPod = "pod ", " of the warm pool, started ahead",
    }
}
