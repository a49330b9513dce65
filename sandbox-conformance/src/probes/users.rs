//! Executions as user 0 of a sandbox.

use sandbox_core::{ErrorKind, ExecRequest, SandboxHandle, Stdin};

use crate::pool::ProbeSandbox;
use crate::probes::confined::answer;
use crate::probes::environment::{SECRETS, with_secrets};
use crate::probes::prelude::*;

/// The probes of this area.
pub static PROBES: &[Probe] = &[
    Probe::behavior(
        "users::limits_of_root",
        EXEC,
        "measures limits as user 0 and as the sandbox's user",
        |context| Box::pin(limits_of_root(context)),
    )
    .setup(|_| {
        SandboxSetup::with(|policy| {
            policy.pids = Some(24);
            policy.open_files = Some(48);
            policy.disk = Some(ByteSize::mib(16));
        })
        .fresh()
    }),
    Probe::behavior(
        "users::numbers",
        EXEC,
        "executes as its own user by number, and as other users and groups",
        |context| Box::pin(numbers(context)),
    ),
    Probe::behavior(
        "users::root",
        EXEC,
        "uses files, processes and variables of the sandbox's user as user 0, and the reverse",
        |context| Box::pin(root(context)),
    )
    .setup(|_| SandboxSetup::default().fresh()),
    Probe::behavior(
        "users::secrets_of_root",
        EXEC,
        "gets secrets as user 0, as a variable and as a file, and looks for those of the sandbox's \
         user",
        |context| Box::pin(secrets_of_root(context)),
    )
    .setup(with_secrets),
];

async fn numbers(context: &mut ProbeContext) -> Result<(), ProbeError> {
    plain_feature(context, "execute as each user", async |sandbox| {
        let show = || ExecRequest::shell("id -u; id -g");
        let own = sandbox.exec(&show()).await?.stdout_text();
        let ids: Vec<u32> = own.lines().filter_map(|line| line.parse().ok()).collect();
        let [user, group] = ids[..] else {
            return Ok(Some(format!("the program prints {own:?}")));
        };
        for named in [format!("{user}"), format!("{user}:{group}")] {
            match sandbox.exec(&show().user(&named)).await {
                Ok(result) if result.stdout_text() == own => {}
                Ok(result) => return Ok(Some(format!("{named}: {}", result.output()))),
                Err(error) => return Ok(Some(format!("{named}: {error}"))),
            }
        }
        let others = [
            format!("{}", user + 1),
            format!("{}:{group}", user + 1),
            format!("{user}:{}", group + 1),
            format!("0:{}", group + 1),
        ];
        for named in others {
            let request = show().user(&named);
            let executed = sandbox.exec(&request).await.map(drop);
            let started = sandbox.start(&request, Stdin::Null).await.map(drop);
            for answer in [executed, started] {
                if !answer.is_err_and(|error| error.kind() == ErrorKind::Unsupported) {
                    return Ok(Some(format!("{named} is not refused")));
                }
            }
        }
        Ok(None)
    })
    .await
}

async fn secrets_of_root(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let value = format!("{}-value", context.token());
    plain_feature(context, "get secrets as user 0", async |sandbox| {
        let own = sandbox.exec(&ExecRequest::shell("id -u")).await?;
        if own.stdout_text() == "0\n" {
            // Without isolation they are the same user.
            return Ok(None);
        }
        let show =
            || ExecRequest::shell("id -u; echo $PROBE_VARIABLE; cat $PROBE_KEPT_FILE < /dev/null");
        let variable = show().secret(SECRETS[0], value.clone()).user("root");
        let given = sandbox.exec(&variable).await?;
        if given.stdout_text() != format!("0\n{value}\n") {
            return Ok(Some(format!("as a variable: {}", given.output())));
        }
        let kept = show().secret_file(SECRETS[1], value.clone());
        let own = sandbox.exec(&kept).await?;
        if !own.stdout_text().ends_with(&value) {
            return Ok(Some(format!(
                "as a file of the sandbox's user: {}",
                own.output()
            )));
        }
        Ok(match sandbox.exec(&kept.user("root")).await {
            Ok(result) if !result.output().contains(&value) => None,
            Ok(_) => Some("it reads a file of the sandbox's user".to_owned()),
            Err(error) if error.kind() == ErrorKind::Unsupported => None,
            Err(error) => Some(format!("as a file: {error}")),
        })
    })
    .await
}

/// What the program gets as user 0 must be what it gets as the sandbox's user.
async fn limits_of_root(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let calls = [
        Call::new(["measure-processes", "100"]),
        Call::new(["measure-open-files", "100"]),
        Call::new(["measure-disk", "65536", context.token(), "/tmp"]),
    ];
    for call in &calls[..2] {
        context.host_control(call).await?;
    }
    feature(context, "measure limits as user 0", async |sandbox| {
        let (handle, program) = (sandbox.handle(), sandbox.program());
        for call in &calls {
            let request = crate::pool::request(program, call);
            let own = answer(handle, &request, Stdin::Null).await?;
            let root = answer(handle, &request.user("root"), Stdin::Null).await?;
            if own != root || !own.is_success() {
                return Ok(Some(format!("{}: {root:?}, not {own:?}", call.text())));
            }
        }
        Ok(None)
    })
    .await;
    context.no_host_effect("the limits are the sandbox's own");
    Ok(())
}

/// A command, and whether it succeeds as the owner and as the other user. Without a value, it may.
struct Command(&'static str, Option<bool>, bool);

/// `$T` is the probe's token. It is in the environment and the command line of a process of the
/// owner. Landlock hides that from other executions of the owner too.
const COMMANDS: &[Command] = &[
    Command("cat /tmp/$T-file", Some(true), false),
    Command("echo more >> /tmp/$T-file", Some(true), false),
    Command("chmod 600 /tmp/$T-file", Some(true), false),
    Command(
        "mv /tmp/$T-file /tmp/$T-moved && mv /tmp/$T-moved /tmp/$T-file",
        Some(true),
        false,
    ),
    Command("cat /proc/[0-9]*/environ | grep -q mark-$T", None, false),
    Command(
        "for p in /proc/[0-9]*; do grep -q sleep.$T $p/cmdline && kill -s 0 ${p#/proc/} && exit; done; \
         false",
        None,
        false,
    ),
    Command("echo new > /tmp/$T-new && rm /tmp/$T-new", Some(true), true),
];

/// The working folder belongs to the sandbox's user.
const IN_WORKING_FOLDER: Command = Command("echo new > $T-new && rm $T-new", Some(true), false);

async fn root(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let token = context.token().to_owned();
    context.host_control(&Call::new(["user"])).await?;
    feature(context, "act as user 0", async |sandbox| {
        acts_apart(sandbox, &token).await
    })
    .await;
    context.no_host_effect("the files and processes are the sandbox's own");
    Ok(())
}

async fn acts_apart(sandbox: &ProbeSandbox, token: &str) -> Deviation {
    let handle = sandbox.handle();
    let ids = request("id -u; id -g; id -G", token, true);
    let ids = handle.exec(&ids).await?.check()?.stdout_text();
    if ids != "0\n0\n0\n" {
        return Ok(Some(format!("user 0 has other numbers: {ids}")));
    }
    for owner_is_root in [false, true] {
        let sleep = sandbox
            .request(&Call::new(["sleep", token, "20000"]))
            .env("MARK", format!("mark-{token}"));
        let sleep = if owner_is_root {
            sleep.user("root")
        } else {
            sleep
        };
        let process = handle.start(&sleep, Stdin::Null).await?;
        let make = "umask 077; echo > /tmp/$T-file";
        if !succeeds(handle, make, token, owner_is_root).await? {
            return Ok(Some(format!("`{make}` failed")));
        }
        let own_folder = (!owner_is_root).then_some(&IN_WORKING_FOLDER);
        for Command(script, as_owner, as_other) in COMMANDS.iter().chain(own_folder) {
            let owner = succeeds(handle, script, token, owner_is_root).await?;
            let other = succeeds(handle, script, token, !owner_is_root).await?;
            if as_owner.is_some_and(|wanted| owner != wanted) || other != *as_other {
                return Ok(Some(format!(
                    "`{script}` where root is the owner: {owner_is_root}; worked as the owner: \
                     {owner}, as the other: {other}"
                )));
            }
        }
        succeeds(handle, "rm /tmp/$T-file", token, owner_is_root).await?;
        process.kill().await;
    }
    Ok(None)
}

fn request(script: &str, token: &str, as_root: bool) -> ExecRequest {
    let request = ExecRequest::shell(script).env("T", token);
    match as_root {
        true => request.user("root"),
        false => request,
    }
}

async fn succeeds(
    handle: &SandboxHandle,
    script: &str,
    token: &str,
    as_root: bool,
) -> sandbox_core::Result<bool> {
    let result = handle.exec(&request(script, token, as_root)).await?;
    Ok(result.success())
}
