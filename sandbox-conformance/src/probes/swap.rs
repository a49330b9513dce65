//! Attacks that swap a host path before or while a sandbox is created with it.
//!
//! In [`swap_before_creation`], code swaps a folder and ends, and a later sandbox gets the path. In
//! [`swap_during_creation`], another sandbox swaps the folder repeatedly while sandboxes are
//! created. A [`PathUse`] says how the sandbox uses the path and how to tell where it leads.

use std::path::Path;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use sandbox_core::{Error, ErrorKind, Execution, Stdin};

use super::swap_fixture::{DATA, PathDestination, SwapFixture};
use crate::context::ProbeContext;
use crate::evidence::{Attempt, Step, UNAVAILABLE};
use crate::host;
use crate::pool::ProbeSandbox;
use crate::probe::{ExpectedDenial, ProbeError, SandboxSetup};
use crate::program::Call;

/// The path of a workspace inside a sandbox.
pub const WORKSPACE: &str = "/workspace";

/// The accepted denials of these attacks.
pub const STOPPED: &[ExpectedDenial] = &[
    ExpectedDenial {
        sign: LINK_REFUSED,
        means: "a typed error that names the link: it is where code can write, or leads out of its \
                folder",
    },
    ExpectedDenial {
        sign: "changed_refused",
        means: "a typed error: the path no longer leads to what was checked",
    },
    ExpectedDenial {
        sign: "rename_refused",
        means: "a typed error: the engine takes paths, and another user or sandbox can rename a \
                part of this one",
    },
    ExpectedDenial {
        sign: "other_content",
        means: "the sandbox was given the folder that was checked",
    },
    ExpectedDenial {
        sign: "elsewhere",
        means: "what was written is in the folder that was checked",
    },
];

/// A use of a host path by a sandbox.
#[derive(Debug, Clone, Copy)]
pub struct PathUse {
    /// The path below the swapped folder; empty for the folder itself.
    pub below: &'static str,
    /// The setup of the sandbox that uses the path.
    pub setup: fn(&Path) -> SandboxSetup,
    /// Whether the first run has the same policy, with the project as its workspace.
    pub same_policy: bool,
    /// Whether the policy follows links that leave their folder.
    pub follow_links: bool,
    /// Whether the creation uses the path. If not, one sandbox serves for every try.
    pub at_creation: bool,
    /// The call that uses the path on the host.
    pub on_host: fn(&PathDestination<'_>) -> Call,
    /// Uses the path. Succeeds if it leads to the destination.
    pub act: for<'a> fn(&'a ProbeSandbox, &'a PathDestination<'a>) -> BoxFuture<'a, Attempt>,
}

impl PathUse {
    fn second(&self, fixture: &SwapFixture) -> SandboxSetup {
        let mut setup = (self.setup)(&fixture.granted(self.below).path);
        setup.policy.follow_links = Some(self.follow_links);
        match self.same_policy {
            true => setup.workspace(&fixture.project),
            false => setup,
        }
    }

    fn first(&self, fixture: &SwapFixture) -> SandboxSetup {
        match self.same_policy {
            true => self.second(fixture),
            false => SandboxSetup::default().workspace(&fixture.project),
        }
    }

    /// Host control: without a sandbox the path leads to the destination.
    async fn control(
        &self,
        context: &mut ProbeContext,
        fixture: &SwapFixture,
    ) -> Result<(), ProbeError> {
        let destination = fixture.private(self.below);
        context.host_control(&(self.on_host)(&destination)).await?;
        Ok(())
    }

    /// Allow control: without a swap the path leads to its own folder. Returns whether it does; if
    /// not, an attack proves nothing.
    async fn allowed(&self, context: &mut ProbeContext) -> Result<bool, ProbeError> {
        let fixture = SwapFixture::build(context, "allowed")?;
        let attempt = match context.once(&self.second(&fixture)).await {
            Ok(sandbox) => {
                let attempt = (self.act)(&sandbox, &fixture.granted(self.below)).await;
                sandbox.handle().kill().await?;
                attempt
            }
            Err(error) => context.record_create_error(error),
        };
        let led = attempt.is_success();
        if !led {
            // A backend without workspaces may also lack what uses the path.
            match context.once(&self.first(&fixture)).await {
                Ok(first) => first.handle().kill().await?,
                Err(error) => drop(context.record_create_error(error)),
            }
        }
        context.record_allow_control(Step::new("use an unchanged path", attempt));
        Ok(led)
    }

    /// Uses the path in `sandbox`, or else in one that is created for this.
    async fn attempted(
        &self,
        context: &mut ProbeContext,
        fixture: &SwapFixture,
        sandbox: Option<&ProbeSandbox>,
    ) -> Result<Attempt, ProbeError> {
        if let Some(sandbox) = sandbox {
            return Ok((self.act)(sandbox, &fixture.private(self.below)).await);
        }
        let sandbox = match context.once(&self.second(fixture)).await {
            Ok(sandbox) => sandbox,
            Err(error) => return Ok(refusal(&error, &fixture.project.join(DATA))),
        };
        let attempt = (self.act)(&sandbox, &fixture.private(self.below)).await;
        sandbox.handle().kill().await?;
        Ok(attempt)
    }
}

/// Code of a first sandbox replaces `data` by a link to the private folder. A later sandbox uses
/// the path.
pub async fn swap_before_creation(
    context: &mut ProbeContext,
    used: PathUse,
) -> Result<(), ProbeError> {
    let swapped = |fixture: &SwapFixture, project: &Path| {
        let data = project.join(DATA);
        let call = Call::new(["rearrange", "rename"]).and(&data);
        let call = call.and(project.join("old")).and("link");
        call.and(&fixture.private).and(&data)
    };
    let fixture = SwapFixture::build(context, "control")?;
    host::run(
        &context.fixture().program(),
        &swapped(&fixture, &fixture.project),
    )
    .await?;
    used.control(context, &fixture).await?;
    if !used.allowed(context).await? {
        return Ok(());
    }
    let fixture = SwapFixture::build(context, "attack")?;
    let call = swapped(&fixture, Path::new(WORKSPACE));
    let attempt = match context.once(&used.first(&fixture)).await {
        Err(error) => context.record_create_error(error),
        Ok(first) => {
            let rearranged = ran(&first, &call).await;
            // On a cluster a workspace is a copy, which `sync` writes back.
            let synced = first.handle().sync().await;
            first.handle().kill().await?;
            match (rearranged, synced) {
                (Attempt::Succeeded { .. }, Ok(_)) => {
                    used.attempted(context, &fixture, None).await?
                }
                (Attempt::Succeeded { .. }, Err(error)) => Attempt::unclear(error.to_string()),
                (other, _) => Attempt::unclear(format!("the first run: {other:?}")),
            }
        }
    };
    context.record_attack(Step::new(
        format!("{}, and use the path in a second run", call.text()),
        attempt,
    ));
    context.host_check(fixture.host_check());
    Ok(())
}

/// Fast creations are repeated for this time, at most this many times the requested number.
const WHILE: Duration = Duration::from_secs(2);
const MORE: u32 = 5;

/// The time limit of swapping. The probe ends it earlier.
const SWAP_LIMIT: Duration = Duration::from_secs(1200);

/// An upper bound that [`SWAP_LIMIT`] does not reach.
const SWAPS: &str = "2000000000";

/// The name of the link, beside the folder.
const OTHER: &str = "other";

/// The time limit of observing the first swap.
const SEEN: Duration = Duration::from_secs(10);

/// The maximum number of tries of the host control.
const TRIES: u32 = 1000;

fn swap_call(project: &Path) -> Call {
    let call = Call::new(["flip"]).and(project.join(DATA));
    let call = call.and(project.join(OTHER)).and(SWAPS);
    call.and(SWAP_LIMIT.as_millis().to_string())
}

/// A sandbox swaps `data` with a link to the private folder while other sandboxes are created that
/// use the path.
pub async fn swap_during_creation(
    context: &mut ProbeContext,
    used: PathUse,
) -> Result<(), ProbeError> {
    controlled(context, used).await?;
    if !used.allowed(context).await? {
        return Ok(());
    }
    let fixture = SwapFixture::build(context, "attack")?;
    let (attempt, hit) =
        match LinkSwapper::start(context, &fixture.project, &fixture.private).await? {
            Err(attempt) => (attempt, 0),
            Ok(swapper) => {
                let repeated = repeated(context, used, &fixture).await;
                swapper.end().await?;
                repeated?
            }
        };
    let wanted = context.creations();
    let step = format!("use the path meanwhile: {hit}, of {wanted} wanted in limited time");
    context.record_attack(Step::new(step, attempt));
    context.host_check(fixture.host_check());
    Ok(())
}

/// The minimum number of creations on a slow tier, unless the caller asks for more than
/// [`crate::CREATIONS`].
const FEWEST: u32 = 3;

/// The pause after a refused creation. On a busy host, the swapping process may be preempted while
/// the link is in place, and then each creation is refused at once.
const PAUSE: Duration = Duration::from_millis(5);

/// The sign of a creation that found the link in its path.
const LINK_REFUSED: &str = "link_refused";

/// The time limit for each [`crate::CREATIONS`] requested creations. One creation more must still
/// fit into the probe's time limit.
const LONGEST: Duration = Duration::from_secs(30);

/// The result of the attack, and the number of uses that it could have hit.
async fn repeated(
    context: &mut ProbeContext,
    used: PathUse,
    fixture: &SwapFixture,
) -> Result<(Attempt, u32), ProbeError> {
    if used.at_creation {
        return tried(context, used, fixture, None).await;
    }
    let sandbox = match context.once(&used.second(fixture)).await {
        Ok(sandbox) => sandbox,
        Err(error) => return Ok((context.record_create_error(error), 0)),
    };
    let tried = tried(context, used, fixture, Some(&sandbox)).await;
    sandbox.handle().kill().await?;
    tried
}

async fn tried(
    context: &mut ProbeContext,
    used: PathUse,
    fixture: &SwapFixture,
    sandbox: Option<&ProbeSandbox>,
) -> Result<(Attempt, u32), ProbeError> {
    let mut signs = Vec::new();
    let start = Instant::now();
    let least = context.creations();
    // Each creation has the same chance of a hit, so fast creations are repeated more often.
    let more = |met: u32| met < least * MORE && start.elapsed() < WHILE;
    let longest = LONGEST * least.div_ceil(crate::CREATIONS).max(1);
    // A number that the caller asked for is not cut short.
    let (fewest, required) = match least > crate::CREATIONS {
        true => (least, least),
        false => (FEWEST, 1),
    };
    let enough = |met: u32| met >= least || (met >= fewest && start.elapsed() > longest);
    let (mut met, mut number) = (0, 0);
    while (!enough(met) || more(met)) && start.elapsed() < longest * 2 {
        number += 1;
        match used.attempted(context, fixture, sandbox).await? {
            Attempt::Blocked { signature } => {
                let is = |wanted: &str| signature.iter().any(|sign| sign.starts_with(wanted));
                // The attack could hit neither a creation that found the link and was refused, nor
                // one that a busy engine did not answer.
                match is(LINK_REFUSED) || is(UNAVAILABLE) {
                    true => tokio::time::sleep(PAUSE).await,
                    false => met += 1,
                }
                if !is(UNAVAILABLE) {
                    signs.extend(signature);
                }
            }
            Attempt::Succeeded { .. } => {
                let value = format!("in creation {number}");
                return Ok((Attempt::Succeeded { value }, met + 1));
            }
            unclear @ Attempt::Unclear { .. } => return Ok((unclear, met)),
        }
    }
    if met >= required {
        return Ok((Attempt::blocked(signs), met));
    }
    let swaps = match swaps(&fixture.project.join(DATA)).await {
        true => "still swaps",
        false => "no longer swaps",
    };
    let detail = format!(
        "the attack could hit {met} of {number} creations, and {required} are wanted: the others \
         found the link or no engine, and the process {swaps}"
    );
    Ok((Attempt::unclear(detail), met))
}

/// Host control: during the swaps, the path leads to the private folder sooner or later.
async fn controlled(context: &mut ProbeContext, used: PathUse) -> Result<(), ProbeError> {
    let fixture = SwapFixture::build(context, "control")?;
    let _flipper = process(context, &fixture.project, &fixture.private).await?;
    for _ in 0..TRIES {
        let call = (used.on_host)(&fixture.private(used.below));
        if context.host_control(&call).await?.is_success() {
            break;
        }
    }
    Ok(())
}

/// A host process that swaps the project's `data` with a link to `target`. Dropping it kills it.
pub async fn process(
    context: &ProbeContext,
    project: &Path,
    target: &Path,
) -> Result<tokio::process::Child, ProbeError> {
    std::os::unix::fs::symlink(target, project.join(OTHER))?;
    host::spawn(&context.fixture().program(), &swap_call(project)).await
}

/// Whether the path becomes a link, and then no link, within [`SEEN`].
async fn swaps(path: &Path) -> bool {
    let seen = async {
        for link in [true, false] {
            while std::fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink()) != link {
                tokio::time::sleep(Duration::from_micros(100)).await;
            }
        }
    };
    tokio::time::timeout(SEEN, seen).await.is_ok()
}

/// The swapping process. It runs in a sandbox, or on the host if the tier is a cluster, because pods
/// have no folder of this host.
pub enum LinkSwapper {
    /// Dropping it kills the execution.
    ProbeSandbox(Box<(ProbeSandbox, Execution)>),
    /// Dropping it kills the process.
    Process {
        /// The process.
        _child: tokio::process::Child,
    },
}

impl LinkSwapper {
    /// Starts to swap the project's `data` with a link to `target`.
    ///
    /// # Errors
    ///
    /// If the suite itself fails. The attempt says why nothing swaps.
    pub async fn start(
        context: &mut ProbeContext,
        project: &Path,
        target: &Path,
    ) -> Result<Result<Self, Attempt>, ProbeError> {
        let swapper = match context.is_cluster() {
            true => Self::Process {
                _child: process(context, project, target).await?,
            },
            false => {
                let setup = SandboxSetup::with(|policy| policy.timeout = Some(SWAP_LIMIT));
                match context.once(&setup.workspace(project)).await {
                    Err(error) => return Ok(Err(context.record_create_error(error))),
                    Ok(sandbox) => {
                        // Created by the sandbox's code, which could not rename another user's
                        // link.
                        let link = Call::new(["rearrange", "link"]).and(target);
                        let link = link.and(Path::new(WORKSPACE).join(OTHER));
                        ran(&sandbox, &link).await;
                        let request = sandbox.request(&swap_call(Path::new(WORKSPACE)));
                        let execution = sandbox.handle().start(&request, Stdin::Null).await?;
                        Self::ProbeSandbox(Box::new((sandbox, execution)))
                    }
                }
            }
        };
        if !swaps(&project.join(DATA)).await {
            swapper.end().await?;
            return Ok(Err(Attempt::unclear("nothing was renamed")));
        }
        Ok(Ok(swapper))
    }

    /// Stops swapping.
    ///
    /// # Errors
    ///
    /// If the sandbox cannot be ended.
    pub async fn end(self) -> Result<(), ProbeError> {
        if let Self::ProbeSandbox(both) = self {
            let (sandbox, execution) = *both;
            drop(execution);
            sandbox.handle().kill().await?;
        }
        Ok(())
    }
}

/// Runs the probe program.
async fn ran(sandbox: &ProbeSandbox, call: &Call) -> Attempt {
    match sandbox.run(call).await {
        Ok(run) => run.attempt(call.expected.as_deref()),
        Err(error) => Attempt::unclear(error.to_string()),
    }
}

/// The sign of a refused path: one of [`STOPPED`] if the error is typed and names the path, else
/// the error's kind.
#[must_use]
pub fn refusal(error: &Error, link: &Path) -> Attempt {
    let text = error.to_string();
    if error.kind() == ErrorKind::SetupFailed && text.contains("was replaced while") {
        return Attempt::blocked(["changed_refused"]);
    }
    if error.kind() == ErrorKind::SetupFailed && text.contains("/data: Not a directory") {
        return Attempt::blocked(["folder_refused"]);
    }
    let named = text.contains(&*link.to_string_lossy());
    let sign = match error.kind() {
        _ if !named => None,
        ErrorKind::InvalidPolicy | ErrorKind::InvalidSpec | ErrorKind::Path | ErrorKind::Io => {
            let link = text.contains(" link").then_some(LINK_REFUSED);
            link.or(text.contains("changed").then_some("changed_refused"))
        }
        ErrorKind::Unsupported => {
            let exchanged = text.contains("exchange").then_some("changed_refused");
            exchanged.or(text.contains("rename").then_some("rename_refused"))
        }
        _ => None,
    };
    let kind = || format!("error:{} ({text})", error.kind().as_str());
    Attempt::blocked([sign.map_or_else(kind, ToOwned::to_owned)])
}

/// Reads the file at the path.
pub async fn read_at(
    sandbox: &ProbeSandbox,
    seen: &Path,
    destination: &PathDestination<'_>,
) -> Attempt {
    let call = Call::new(["read"]).and(seen.join(super::swap_fixture::FILE));
    ran(sandbox, &call.expect(destination.file.fingerprint())).await
}

/// Creates a file at the path, and checks where it is on the host.
pub async fn write_at(
    sandbox: &ProbeSandbox,
    seen: &Path,
    destination: &PathDestination<'_>,
) -> Attempt {
    let name = sandbox_core::spi::unique_name("written");
    let call = Call::new(["create"]).and(seen.join(&name));
    let made = ran(sandbox, &call).await;
    if let Err(error) = sandbox.handle().sync().await {
        return Attempt::unclear(error.to_string());
    }
    landed(made, &destination.folder.join(name))
}

/// Success if the file was created in the destination folder.
#[must_use]
pub fn landed(made: Attempt, file: &Path) -> Attempt {
    match made {
        Attempt::Succeeded { .. } => Attempt::leak_if(file.exists(), "elsewhere"),
        other => other,
    }
}
