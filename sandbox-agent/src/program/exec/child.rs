//! The main process of an execution, from fork to `execve`.

use alloc::{ffi::CString, string::String, vec::Vec};
use core::ffi::{CStr, c_char};

use crate::runtime::{
    Errno, Fd,
    descriptor::Descriptor,
    fs, io, landlock, limits,
    path::terminated,
    process::{self, PR_SET_PDEATHSIG, exit, set_attribute},
    seccomp,
    signal::{self, SIGKILL, SignalSet},
    terminal,
};

use super::{identity::become_identity, lookup, spawn::ChildEnds};
use crate::{
    program::{
        builtin,
        descriptors::close_all_but,
        exec_once,
        failures::{failure, refusal, text},
        prepared_sandbox::{PreparedSandbox, ROOT},
    },
    protocol::{ExecProgram, ExecRequest, FailStep, Failure, MAX_MESSAGE},
};

/// Exit code of a child that has reported a failure. It is ignored.
const EXIT_FAILED: i32 = 127;

/// The largest request in bytes, as in the protocol.
const MAX_REQUEST: usize = MAX_MESSAGE;

/// Runs the request; without one, waits for it. `notify` sends the seccomp listener of an execution
/// that may call `execve` only once.
pub(super) fn run(
    sandbox: &PreparedSandbox,
    request: Option<&ExecRequest>,
    ends: &ChildEnds,
    notify: Option<Fd>,
) -> ! {
    let outcome = start(sandbox, request, ends, notify);
    match outcome {
        Ok(code) => exit(code),
        Err(failure) => {
            // A write fails only if the agent is gone.
            let _ = io::write_all(&ends.progress, &failure.encode());
            exit(EXIT_FAILED)
        }
    }
}

fn start(
    sandbox: &PreparedSandbox,
    request: Option<&ExecRequest>,
    ends: &ChildEnds,
    notify: Option<Fd>,
) -> Result<i32, Failure> {
    let spawn = |what: &'static str| move |errno| failure(FailStep::Spawn, errno, what);
    process::new_session().map_err(spawn("setsid"))?;
    let pid = process::current().0.to_le_bytes();
    io::write_all(&ends.progress, &pid).map_err(spawn("report of the process id"))?;
    set_limits(sandbox)?;
    let root = request.is_some_and(|request| request.root);
    if let Some((user, group)) = sandbox.identity.map(|code| if root { ROOT } else { code }) {
        become_identity(user, group).map_err(|errno| {
            failure(
                FailStep::Identity,
                errno,
                alloc::format!("user {user}, group {group}"),
            )
        })?;
    }
    // After the change of identity, which clears it.
    set_attribute(PR_SET_PDEATHSIG, SIGKILL.cast_unsigned() as usize, 0)
        .map_err(spawn("PR_SET_PDEATHSIG"))?;
    fs::set_umask(sandbox.umask);
    let Some(request) = request else {
        return wait_and_execute(sandbox, ends, notify);
    };
    take_streams(&ends.stdin, ends)?;
    if request.terminal.is_some() {
        terminal::take_controlling(0)
            .map_err(|errno| failure(FailStep::Terminal, errno, "TIOCSCTTY"))?;
    }
    change_folder(sandbox, request)?;
    match &request.program {
        ExecProgram::Command { argv } => {
            let prepared = PreparedProgram::new(sandbox, argv, request)?;
            confine(sandbox, notify)?;
            prepared.execute()
        }
        ExecProgram::Builtin(builtin) => {
            let mut keep = Vec::from([0, 1, 2, ends.progress.raw()]);
            keep.extend(ends.complete.iter().map(Fd::raw));
            keep.extend(sandbox.landlock.iter().map(Fd::raw));
            close_all_but(&mut keep, sandbox.procfs.as_ref());
            confine(sandbox, None)?;
            unblock()?;
            builtin::run(builtin, ends.complete.as_ref().map(Fd::as_raw))
        }
    }
}

/// Confines itself and then waits for the request.
fn wait_and_execute(
    sandbox: &PreparedSandbox,
    ends: &ChildEnds,
    notify: Option<Fd>,
) -> Result<i32, Failure> {
    let Some(waiting) = &ends.waiting else {
        return Err(refusal(
            FailStep::Request,
            "no request, and none to wait for",
        ));
    };
    confine(sandbox, notify)?;
    let message = read_request(&waiting.request)
        .map_err(|errno| failure(FailStep::Request, errno, "the request's pipe"))?;
    if message.is_empty() {
        // The agent closed the pipe: no request will come.
        exit(0);
    }
    let request = ExecRequest::decode(&message)
        .map_err(|_| refusal(FailStep::Request, "the request came garbled"))?;
    let stdin = if request.stdin {
        &ends.stdin
    } else {
        &waiting.no_stdin
    };
    take_streams(stdin, ends)?;
    change_folder(sandbox, &request)?;
    match &request.program {
        ExecProgram::Command { argv } => PreparedProgram::new(sandbox, argv, &request)?.execute(),
        ExecProgram::Builtin(_) => Err(refusal(FailStep::Request, "a builtin does not wait")),
    }
}

fn read_request(pipe: &Fd) -> Result<Vec<u8>, Errno> {
    let mut message = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        let count = io::read(pipe, &mut chunk)?;
        if count == 0 {
            return Ok(message);
        }
        if message.len() + count > MAX_REQUEST {
            return Err(Errno::E2BIG);
        }
        message.extend_from_slice(&chunk[..count]);
    }
}

fn take_streams(stdin: &Fd, ends: &ChildEnds) -> Result<(), Failure> {
    for (source, target) in [(stdin, 0), (&ends.stdout, 1), (&ends.stderr, 2)] {
        io::duplicate_onto(source, target, 0)
            .map_err(|errno| failure(FailStep::Spawn, errno, "standard streams"))?;
    }
    Ok(())
}

fn set_limits(sandbox: &PreparedSandbox) -> Result<(), Failure> {
    let failed = |resource: u32| {
        move |errno| {
            failure(
                FailStep::Limits,
                errno,
                alloc::format!("resource limit {resource}"),
            )
        }
    };
    limits::set(limits::RLIMIT_NOFILE, sandbox.open_files)
        .map_err(failed(limits::RLIMIT_NOFILE))?;
    for limit in &sandbox.limits {
        let now = limits::get(limit.resource).map_err(failed(limit.resource))?;
        let value = limit.value.min(now.hard);
        // gVisor refuses to set some limits even to their current value.
        if now.soft == value && now.hard == value {
            continue;
        }
        limits::set(
            limit.resource,
            limits::Rlimit {
                soft: value,
                hard: value,
            },
        )
        .map_err(failed(limit.resource))?;
    }
    Ok(())
}

fn change_folder(sandbox: &PreparedSandbox, request: &ExecRequest) -> Result<(), Failure> {
    let failed = |path: &[u8]| {
        let path = text(path);
        move |errno| failure(FailStep::Workdir, errno, path)
    };
    let workdir = &request.workdir[..];
    // A relative folder starts in the sandbox's.
    if workdir.first() != Some(&b'/') {
        fs::change_directory(&sandbox.workdir).map_err(failed(sandbox.workdir.to_bytes()))?;
    }
    if workdir.is_empty() {
        return Ok(());
    }
    terminated(workdir)
        .and_then(|path| fs::change_directory(&path))
        .map_err(failed(workdir))
}

/// `no_new_privs` is inherited from the agent.
fn confine(sandbox: &PreparedSandbox, notify: Option<Fd>) -> Result<(), Failure> {
    let failed = |what: &'static str| move |errno| failure(FailStep::Confinement, errno, what);
    if let Some(rules) = &sandbox.landlock {
        landlock::restrict_self(rules).map_err(failed("landlock_restrict_self"))?;
    }
    if let Some(notify) = notify {
        exec_once::install(&notify).map_err(failed("seccomp program that counts executions"))?;
    }
    if !sandbox.seccomp.is_empty() {
        seccomp::install(&sandbox.seccomp).map_err(failed("seccomp program"))?;
    }
    Ok(())
}

/// The agent and its supervisors block every signal. Pending signals take effect here.
fn unblock() -> Result<(), Failure> {
    signal::set_mask(SignalSet::default())
        .map(drop)
        .map_err(|errno| failure(FailStep::Spawn, errno, "rt_sigprocmask"))
}

fn strings(items: &[Vec<u8>]) -> Result<Vec<CString>, Failure> {
    items
        .iter()
        .map(|item| terminated(&item[..]))
        .collect::<Result<_, Errno>>()
        .map_err(|errno| failure(FailStep::Request, errno, "a NUL byte in a string"))
}

/// A program that is ready to be executed.
struct PreparedProgram {
    path: CString,
    arguments: Vec<CString>,
    environment: Vec<CString>,
}

impl PreparedProgram {
    fn new(
        sandbox: &PreparedSandbox,
        argv: &[Vec<u8>],
        request: &ExecRequest,
    ) -> Result<Self, Failure> {
        let argv = &[&sandbox.launcher, argv].concat();
        let name = argv.first().map_or(&[][..], Vec::as_slice);
        let path = lookup::resolve(name, &request.env)
            .map_err(|(step, errno)| failure(step, errno, text(name)))?;
        Ok(Self {
            path,
            arguments: strings(argv)?,
            environment: strings(&request.env)?,
        })
    }

    fn execute(&self) -> Result<i32, Failure> {
        let arguments = pointers(&self.arguments);
        let environment = pointers(&self.environment);
        unblock()?;
        // SAFETY: both lists point to terminated strings that live, and end with a null pointer.
        let errno =
            unsafe { process::execute(&self.path, arguments.as_ptr(), environment.as_ptr()) };
        Err(refused(&self.path, errno))
    }
}

fn refused(path: &CStr, errno: Errno) -> Failure {
    let (step, hint) = lookup::classify(path, errno);
    let mut detail: String = text(path.to_bytes());
    detail.push_str(hint);
    failure(step, errno, detail)
}

fn pointers(strings: &[CString]) -> Vec<*const c_char> {
    strings
        .iter()
        .map(|string| string.as_ptr())
        .chain([core::ptr::null()])
        .collect()
}
