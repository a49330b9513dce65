//! Applying the settings of the first client.

use alloc::{string::String, vec::Vec};

use crate::runtime::{
    Errno, Fd,
    credentials::{Capabilities, effective_group, effective_user},
    fs,
    landlock::{self, RulesetAttributes},
    limits,
    path::terminated,
    seccomp::SockFilter,
    signal::{self, SIGCHLD, SignalSet},
    stat::{S_IFCHR, stat_of},
};

use super::{
    expected_objects::check_expected_objects,
    failures::{failure, is_object, replaced_failure, text},
    make_dirs::{chown_dirs, make_dirs},
    memory_kills::KillCount,
    oom_score::OomScore,
    prepared_sandbox::PreparedSandbox,
    privilege,
    procfs::Procfs,
};
use crate::protocol::{AgentSettings, FailStep, Failure, LandlockRules, Welcome};

/// `LANDLOCK_ACCESS_FS_*` bits that apply to files: EXECUTE, WRITE_FILE, READ_FILE, TRUNCATE and
/// IOCTL_DEV. The kernel refuses others in a rule for a file.
const ACCESS_OF_FILES: u64 = 1 | 1 << 1 | 1 << 2 | 1 << 14 | 1 << 15;

/// Makes the folders, builds the Landlock ruleset and drops capabilities. `own_users`: in a user
/// namespace that the agent made.
///
/// # Errors
///
/// When the settings cannot be applied.
pub(super) fn prepare(
    settings: &AgentSettings,
    procfs: Option<Procfs>,
    oom: Option<OomScore>,
    own_users: bool,
) -> Result<(PreparedSandbox, Welcome), Failure> {
    let confinement = &settings.confinement;
    let identity = confinement
        .identity
        .filter(|identity| privilege::differs(*identity));
    check_expected_objects(&settings.expected_objects, identity)?;
    chown_dirs(&settings.chown_dirs, identity)?;
    make_dirs(&settings.make_dirs, identity)?;
    let landlock_abi = landlock::abi();
    let rules = confinement.landlock.as_ref();
    let rules = rules.and_then(|rules| rules.for_abi(landlock_abi));
    let landlock = rules.as_ref().map(build_rules).transpose()?;
    let null = open_null();
    let kill_count = KillCount::open(&settings.kill_count_files);
    let open_files = raise_open_files();
    let child_ended = signal::descriptor(SignalSet::default().with(SIGCHLD))
        .map_err(|errno| failure(FailStep::Settings, errno, "signalfd"))?;
    let (remaining, oom) = drop_capabilities(identity, oom)?;
    let workdir: &[u8] = if settings.workdir.is_empty() {
        b"/"
    } else {
        &settings.workdir
    };
    let workdir = terminated(workdir)
        .map_err(|errno| failure(FailStep::Settings, errno, "working folder"))?;
    // Elsewhere the agent is user 0 itself, or user 0 is one of the host.
    let allows_root = own_users && identity.is_some() && effective_user() != 0;
    let sandbox = PreparedSandbox {
        workdir,
        launcher: settings.launcher.clone(),
        identity,
        allows_root,
        limits: confinement.limits.clone(),
        landlock,
        seccomp: filter(&confinement.seccomp),
        exec_once: confinement.exec_once,
        umask: confinement.umask & 0o777,
        open_files,
        procfs,
        null,
        oom,
        kill_count,
        child_ended,
    };
    let welcome = Welcome {
        split: identity.is_some(),
        landlock_abi,
        capabilities: remaining.permitted,
        code: identity.unwrap_or_else(|| (effective_user(), effective_group())),
        root: allows_root,
    };
    Ok((sandbox, welcome))
}

fn drop_capabilities(
    identity: Option<(u32, u32)>,
    oom: Option<OomScore>,
) -> Result<(Capabilities, Option<OomScore>), Failure> {
    // Without CAP_SYS_RESOURCE the OOM score can be lowered again after it was raised.
    let held =
        Capabilities::current().map_err(|errno| failure(FailStep::Settings, errno, "capget"))?;
    let without = Capabilities {
        effective: held.effective & !(1 << CAP_SYS_RESOURCE),
        permitted: held.permitted & !(1 << CAP_SYS_RESOURCE),
        inheritable: 0,
    };
    without
        .apply()
        .map_err(|errno| failure(FailStep::Settings, errno, "capset"))?;
    let oom = oom.filter(OomScore::can_be_raised);
    let remaining = privilege::drop_all_but_needed(identity)?;
    Ok((remaining, oom))
}

/// Capability: raise resource limits.
const CAP_SYS_RESOURCE: u32 = 24;

fn build_rules(rules: &LandlockRules) -> Result<Fd, Failure> {
    let attributes = RulesetAttributes {
        handled_fs: rules.handled_fs,
        handled_net: rules.handled_net,
        scoped: rules.scoped,
    };
    let ruleset = landlock::create(&attributes)
        .map_err(|errno| failure(FailStep::Settings, errno, "landlock_create_ruleset"))?;
    for rule in &rules.paths {
        let failed = |errno| {
            let detail = String::from("landlock rule for ") + &text(&rule.path);
            failure(FailStep::Settings, errno, detail)
        };
        let path = terminated(&rule.path[..]).map_err(failed)?;
        let parent = match fs::open(&path, fs::O_PATH | fs::O_CLOEXEC, 0) {
            Ok(parent) => parent,
            Err(Errno::ENOENT) if rule.object.is_none() => continue,
            Err(Errno::ENOENT) => return Err(replaced_failure(FailStep::Settings, &rule.path)),
            Err(errno) => return Err(failed(errno)),
        };
        let metadata = stat_of(&parent).map_err(failed)?;
        if rule
            .object
            .is_some_and(|object| !is_object(&metadata, object))
        {
            return Err(replaced_failure(FailStep::Settings, &rule.path));
        }
        let is_folder = metadata.is_directory();
        let access = if is_folder {
            rule.access
        } else {
            rule.access & ACCESS_OF_FILES
        };
        landlock::allow_beneath(&ruleset, &parent, access).map_err(failed)?;
    }
    Ok(ruleset)
}

fn filter(program: &[u8]) -> Vec<SockFilter> {
    program
        .chunks_exact(8)
        .map(|record| SockFilter {
            code: u16::from_ne_bytes([record[0], record[1]]),
            jump_true: record[2],
            jump_false: record[3],
            k: u32::from_ne_bytes([record[4], record[5], record[6], record[7]]),
        })
        .collect()
}

/// Opens `/dev/null`, if it is the null device.
fn open_null() -> Option<Fd> {
    let null = fs::open(c"/dev/null", fs::O_RDWR | fs::O_CLOEXEC, 0).ok()?;
    let metadata = stat_of(&null).ok()?;
    (metadata.kind() == S_IFCHR && metadata.special_device == fs::device(1, 3)).then_some(null)
}

/// Raises the soft limit of open files: the agent holds up to five for each execution. Returns the
/// initial limit, which executions get back.
fn raise_open_files() -> limits::Rlimit {
    let initial = match limits::get(limits::RLIMIT_NOFILE) {
        Ok(initial) => initial,
        // A kernel without this limit.
        Err(_) => limits::Rlimit {
            soft: u64::MAX,
            hard: u64::MAX,
        },
    };
    // With the old limit fewer executions run at once; the next one reports the failure.
    let _ = limits::set(
        limits::RLIMIT_NOFILE,
        limits::Rlimit {
            soft: initial.hard,
            hard: initial.hard,
        },
    );
    initial
}

/// Occupies closed descriptors 0 to 2, so that no pipe of an execution gets such a number.
///
/// # Errors
///
/// When no pipe can be created.
pub(super) fn occupy_standard_streams() -> Result<(), Errno> {
    loop {
        let (reading, writing) = crate::runtime::io::pipe(fs::O_CLOEXEC)?;
        let lowest = reading.as_raw().min(writing.as_raw());
        for end in [reading, writing] {
            if end.as_raw() <= 2 {
                // Stays open.
                let _ = end.into_raw();
            }
        }
        if lowest > 2 {
            return Ok(());
        }
    }
}
