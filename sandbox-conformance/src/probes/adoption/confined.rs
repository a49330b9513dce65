//! Whether code is confined as the report of an adoption says, however it is started.

use sandbox_core::{Capability, Enforcement, Mechanism};

use crate::foreign::Foreign;
use crate::pool::{Adopter, ProbeSandbox};
use crate::probes::confined::{Attacks, INPUTS, answers, difference, terminal_answers};
use crate::probes::prelude::*;

/// A mechanism that a report may name, and the attacks that it stops.
type Promise = (Mechanism, &'static [&'static str]);

static PROMISES: &[Promise] = &[
    (Mechanism::NoNewPrivileges, &["may-gain-privileges"]),
    (
        Mechanism::NoCapabilities,
        &["capability-sets CapInh CapPrm CapEff CapAmb"],
    ),
    (Mechanism::EmptyBoundingSet, &["capability-sets CapBnd"]),
    (
        Mechanism::Seccomp,
        &["refused-calls", "user-namespace", "bpf", "netlink 9"],
    ),
    (Mechanism::OwnUser, &["parents-user"]),
];

/// The users of the containers. Root's capabilities must go; another user must not become root.
const USERS: [u32; 2] = [0, 1234];

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let attacks = Attacks::prepare(context).await?;
    let on_host = attacks.on_host(context).await?;
    // An attack that fails on the host shows nothing.
    let mut promises = Vec::new();
    for (named, lines) in PROMISES {
        for line in *lines {
            let call = Call::new(line.split(' '));
            let run = host::run(&context.fixture().program(), &call).await?;
            if run.attempt(None).is_success() {
                promises.push((named, call));
            }
        }
    }
    context.allow_control(&Call::new(["alive"])).await;
    let mut failure = promises
        .is_empty()
        .then(|| "no attack succeeds on the host".to_owned());
    let mut deviation = Ok(None);
    for user in USERS {
        let foreign = Foreign {
            user,
            ..Foreign::default()
        };
        deviation = context
            .adopting(foreign, async |adopter| {
                for (named, call) in &promises {
                    if let Some(broken) = first(adopter, named, call).await? {
                        return Ok(Some(broken));
                    }
                }
                let sandbox = adopter.adopt(|_| ()).await?;
                if let Some(other) = of_user(&sandbox, user).await? {
                    return Ok(Some(other));
                }
                let usual =
                    answers(sandbox.handle(), sandbox.program(), &attacks.calls, None).await?;
                if usual == on_host {
                    failure = Some("the host gives the same answers".to_owned());
                }
                let mut ways = vec![
                    terminal_answers(sandbox.handle(), sandbox.program(), &attacks.calls).await?,
                ];
                for input in [None, Some(INPUTS[0]), Some(INPUTS[1])] {
                    ways.push(
                        answers(sandbox.handle(), sandbox.program(), &attacks.calls, input).await?,
                    );
                }
                let mut ways = ways.iter();
                Ok(ways.find_map(|answers| difference(&attacks.calls, &usual, answers)))
            })
            .await?;
        if deviation != Ok(None) {
            break;
        }
    }
    context.record_host_control(control("the same attacks on the host", failure));
    context.record_attack(behavior("attack from foreign containers", deviation));
    context.no_host_effect("the attacks leave no trace on the host");
    Ok(())
}

/// Runs the call as the first executions of an adoption. Later ones are prepared in advance.
async fn first(adopter: &Adopter<'_>, named: &Mechanism, call: &Call) -> Deviation {
    let sandbox = adopter.adopt(|_| ()).await?;
    let report = Capability::ALL
        .iter()
        .filter_map(|it| sandbox.declared(*it));
    let report = report.collect::<Vec<_>>();
    let mut mechanisms = report.iter().flat_map(Enforcement::mechanisms);
    if !mechanisms.any(|mechanism| mechanism == named) {
        return Ok(None);
    }
    for which in ["first", "second", "third"] {
        let answer = sandbox.run(call).await?.attempt(None);
        if !matches!(answer, Attempt::Blocked { .. }) {
            let call = call.text();
            return Ok(Some(format!("the {which} execution, {call}: {answer:?}")));
        }
    }
    sandbox.handle().kill().await?;
    Ok(None)
}

/// Code has the container's user, and a filter more than the container's own program.
async fn of_user(sandbox: &ProbeSandbox, user: u32) -> Deviation {
    let status = sandbox.handle().read("/proc/1/status").await?;
    let status = String::from_utf8_lossy(&status).into_owned();
    // Linux before 5.9 does not count them.
    let filters = status
        .lines()
        .find_map(|line| line.strip_prefix("Seccomp_filters:")?.trim().parse().ok());
    let filters = filters.unwrap_or(0) + 1;
    let users = [user; 4].map(|user| user.to_string()).join(" ");
    let expected = [
        (Call::new(["user"]), Attempt::Succeeded { value: users }),
        (
            Call::new(["filters", &filters.to_string()]),
            Attempt::blocked(["filtered"]),
        ),
    ];
    for (call, expected) in expected {
        let answer = sandbox.run(&call).await?.attempt(None);
        if answer != expected {
            return Ok(Some(format!("{}: {answer:?}", call.text())));
        }
    }
    Ok(None)
}
