//! Attacks on a path of the host that changes its meaning before, or while, a sandbox is given it.
//!
//! Two shapes: in [`in_a_first_run`] code rearranges a folder and ends, and a later sandbox is given a path in it; in
//! [`meanwhile`] another sandbox renames at full speed while the sandbox is created. What is given, and what shows where it
//! leads, is a [`Use`].

use std::path::Path;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use sandbox_core::{Error, ErrorKind, Execution, Stdin};

use super::scene::{DATA, Goal, Scene};
use crate::evidence::{Attempt, Step};
use crate::host;
use crate::pool::Sandbox;
use crate::probe::{Denial, Setting, Trouble};
use crate::program::Call;
use crate::stage::Stage;

/// Where a workspace is inside.
pub const WORKSPACE: &str = "/workspace";

/// How such an attack may be stopped.
pub const STOPPED: &[Denial] = &[
    Denial {
        sign: LINK_REFUSED,
        means: "a typed error that names the link: it stands where code can write, or leads out of its folder",
    },
    Denial {
        sign: "changed_refused",
        means: "a typed error: the path does not lead any more to what was checked",
    },
    Denial {
        sign: "rename_refused",
        means: "a typed error: the engine takes paths, and somebody else can rename a part of this one",
    },
    Denial {
        sign: "other_content",
        means: "the sandbox was given the folder that was checked",
    },
    Denial {
        sign: "elsewhere",
        means: "what was written is in the folder that was checked",
    },
];

/// A use of a path of the host.
#[derive(Debug, Clone, Copy)]
pub struct Use {
    /// The named path below the folder that changes; empty where it is that folder itself.
    pub below: &'static str,
    /// The sandbox that is given the path.
    pub setting: fn(&Path) -> Setting,
    /// Whether a first run is under the same policy, with the project as its workspace.
    pub same_policy: bool,
    /// What a plain process of the host does with the path.
    pub on_host: fn(&Goal<'_>) -> Call,
    /// Uses the path, and succeeds where it leads to the goal.
    pub act: for<'a> fn(&'a Sandbox, &'a Goal<'a>) -> BoxFuture<'a, Attempt>,
}

impl Use {
    fn second(&self, scene: &Scene) -> Setting {
        let setting = (self.setting)(&scene.granted(self.below).path);
        match self.same_policy {
            true => setting.workspace(&scene.project),
            false => setting,
        }
    }

    fn first(&self, scene: &Scene) -> Setting {
        match self.same_policy {
            true => self.second(scene),
            false => Setting::default().workspace(&scene.project),
        }
    }

    /// Without a sandbox the path leads to the goal.
    async fn control(&self, stage: &mut Stage, scene: &Scene) -> Result<(), Trouble> {
        let goal = scene.private(self.below);
        stage.host_control(&(self.on_host)(&goal)).await?;
        Ok(())
    }

    /// The same flow without the attack: the path leads to what it names. Says whether it did; else there is nothing to attack.
    async fn allowed(&self, stage: &mut Stage) -> Result<bool, Trouble> {
        let scene = Scene::build(stage, "allowed")?;
        let settings = [self.first(&scene), self.second(&scene)];
        let mut led = false;
        for (number, setting) in settings.into_iter().enumerate() {
            let step = "use a path that nobody has changed";
            let sandbox = match stage.once(&setting).await {
                Ok(sandbox) => sandbox,
                Err(error) => {
                    let attempt = stage.not_created(error);
                    stage.allow_control_was(Step::new(step, attempt));
                    return Ok(false);
                }
            };
            if number == 1 {
                let attempt = (self.act)(&sandbox, &scene.granted(self.below)).await;
                led = attempt.is_success();
                stage.allow_control_was(Step::new(step, attempt));
            }
            sandbox.handle().kill().await?;
        }
        Ok(led)
    }

    /// Creates the sandbox that is given the path, and uses it.
    async fn attempted(&self, stage: &mut Stage, scene: &Scene) -> Result<Attempt, Trouble> {
        let sandbox = match stage.once(&self.second(scene)).await {
            Ok(sandbox) => sandbox,
            Err(error) => return Ok(refusal(&error, &scene.project.join(DATA))),
        };
        let attempt = (self.act)(&sandbox, &scene.private(self.below)).await;
        sandbox.handle().kill().await?;
        Ok(attempt)
    }
}

/// Code of a first sandbox puts a link to the private folder where `data` was; a later sandbox is given the path.
pub async fn in_a_first_run(stage: &mut Stage, used: Use) -> Result<(), Trouble> {
    let swapped = |scene: &Scene, project: &Path| {
        let data = project.join(DATA);
        let call = Call::new(["rearrange", "rename"]).and(&data);
        let call = call.and(project.join("old")).and("link");
        call.and(&scene.private).and(&data)
    };
    let scene = Scene::build(stage, "control")?;
    host::run(&stage.grounds().program(), &swapped(&scene, &scene.project)).await?;
    used.control(stage, &scene).await?;
    if !used.allowed(stage).await? {
        return Ok(());
    }
    let scene = Scene::build(stage, "attack")?;
    let call = swapped(&scene, Path::new(WORKSPACE));
    let attempt = match stage.once(&used.first(&scene)).await {
        Err(error) => stage.not_created(error),
        Ok(first) => {
            let rearranged = ran(&first, &call).await;
            // A cluster's workspace is a copy, which comes back when it is asked for.
            let synced = first.handle().sync().await;
            first.handle().kill().await?;
            match (rearranged, synced) {
                (Attempt::Succeeded { .. }, Ok(_)) => used.attempted(stage, &scene).await?,
                (Attempt::Succeeded { .. }, Err(error)) => Attempt::unclear(error.to_string()),
                (other, _) => Attempt::unclear(format!("the first run: {other:?}")),
            }
        }
    };
    stage.attack_was(Step::new(
        format!("{}, and use the path in a second run", call.text()),
        attempt,
    ));
    stage.oracle(scene.oracle());
    Ok(())
}

/// Sandboxes are created for so long, at most so many times as often as at least.
const WHILE: Duration = Duration::from_secs(2);
const MORE: u32 = 5;

/// The longest that a sandbox renames. The probe ends it before.
const FLIPPING: Duration = Duration::from_secs(1200);

/// More flips than fit into [`FLIPPING`]: a bound all the same.
const FLIPS: &str = "2000000000";

/// The link, next to the folder.
const OTHER: &str = "other";

/// How long the first flip may take to be seen.
const SEEN: Duration = Duration::from_secs(10);

/// How often a plain process of the host tries the path.
const TRIES: u32 = 1000;

fn flip(project: &Path) -> Call {
    let call = Call::new(["flip"]).and(project.join(DATA));
    let call = call.and(project.join(OTHER)).and(FLIPS);
    call.and(FLIPPING.as_millis().to_string())
}

/// A sandbox exchanges `data` and a link to the private folder while others are created that are given the path.
pub async fn meanwhile(stage: &mut Stage, used: Use) -> Result<(), Trouble> {
    controlled(stage, used).await?;
    if !used.allowed(stage).await? {
        return Ok(());
    }
    let scene = Scene::build(stage, "attack")?;
    let step = format!(
        "create {} sandboxes meanwhile, fewer on a slow tier",
        stage.creations()
    );
    let attempt = match Flipper::start(stage, &scene.project, &scene.private).await? {
        Err(attempt) => attempt,
        Ok(flipper) => {
            let attempt = repeated(stage, used, &scene).await;
            flipper.end().await?;
            attempt?
        }
    };
    stage.attack_was(Step::new(step, attempt));
    stage.oracle(scene.oracle());
    Ok(())
}

/// How many sandboxes an attack meets at least, however slow the tier is.
const FEWEST: u32 = 3;

/// The most attempts for each creation that is wanted. On a busy host the renaming process may wait for a processor while
/// the link is in place, and every creation is refused at once.
const ATTEMPTS: u32 = 100;

/// The sign of a creation that found the link in its path.
const LINK_REFUSED: &str = "link_refused";

/// How long an attack goes on for each [`crate::CREATIONS`] that are asked for: well within a probe's time limit, which one creation
/// more must not exceed.
const LONGEST: Duration = Duration::from_secs(30);

async fn repeated(stage: &mut Stage, used: Use, scene: &Scene) -> Result<Attempt, Trouble> {
    let mut signs = Vec::new();
    let start = Instant::now();
    let least = stage.creations();
    // Each has a chance of its own to be hit, so that quick ones are made more often.
    let more = |met: u32| met < least * MORE && start.elapsed() < WHILE;
    let longest = LONGEST * least.div_ceil(crate::CREATIONS).max(1);
    let enough = |met: u32| met >= least || (met >= FEWEST && start.elapsed() > longest);
    let mut met = 0;
    for number in 0..least.saturating_mul(ATTEMPTS) {
        if (enough(met) && !more(met)) || start.elapsed() > longest * 2 {
            break;
        }
        match used.attempted(stage, scene).await? {
            Attempt::Blocked { signature } => {
                // One that met the link was refused before it could be attacked.
                met += u32::from(!signature.iter().any(|sign| sign == LINK_REFUSED));
                signs.extend(signature);
            }
            Attempt::Succeeded { .. } => {
                let value = format!("in creation {number}");
                return Ok(Attempt::Succeeded { value });
            }
            unclear @ Attempt::Unclear { .. } => return Ok(unclear),
        }
    }
    match met {
        0 => Ok(Attempt::unclear("each creation met the link at once")),
        _ => Ok(Attempt::blocked(signs)),
    }
}

/// Without a sandbox, who uses the path while it is flipped is led to the private folder sooner or later.
async fn controlled(stage: &mut Stage, used: Use) -> Result<(), Trouble> {
    let scene = Scene::build(stage, "control")?;
    let _flipper = process(stage, &scene.project, &scene.private)?;
    for _ in 0..TRIES {
        let call = (used.on_host)(&scene.private(used.below));
        if stage.host_control(&call).await?.is_success() {
            break;
        }
    }
    Ok(())
}

/// A process of the host that exchanges the project's `data` and a link to `target`. Dropped, it is killed.
pub fn process(
    stage: &Stage,
    project: &Path,
    target: &Path,
) -> Result<tokio::process::Child, Trouble> {
    std::os::unix::fs::symlink(target, project.join(OTHER))?;
    host::spawn(&stage.grounds().program(), &flip(project))
}

/// Who renames: a sandbox, and on a cluster, whose sandboxes have no folder of this host, a process of the host.
pub enum Flipper {
    /// Dropped, the execution is killed.
    Sandbox(Box<(Sandbox, Execution)>),
    /// Dropped, it is killed.
    Process {
        /// The process.
        _child: tokio::process::Child,
    },
}

impl Flipper {
    /// Exchanges the project's `data` and a link to `target`, from now on until the flipper ends.
    ///
    /// # Errors
    ///
    /// When the suite's own means fail; the attempt says why there is no flipper.
    pub async fn start(
        stage: &mut Stage,
        project: &Path,
        target: &Path,
    ) -> Result<Result<Self, Attempt>, Trouble> {
        let flipper = match stage.is_cluster() {
            true => Self::Process {
                _child: process(stage, project, target)?,
            },
            false => {
                let setting = Setting::with(|policy| policy.timeout = Some(FLIPPING));
                match stage.once(&setting.workspace(project)).await {
                    Err(error) => return Ok(Err(stage.not_created(error))),
                    Ok(sandbox) => {
                        // Code's own, or it could not rename it.
                        let link = Call::new(["rearrange", "link"]).and(target);
                        let link = link.and(Path::new(WORKSPACE).join(OTHER));
                        ran(&sandbox, &link).await;
                        let request = sandbox.request(&flip(Path::new(WORKSPACE)));
                        let execution = sandbox.handle().start(&request, Stdin::Null).await?;
                        Self::Sandbox(Box::new((sandbox, execution)))
                    }
                }
            }
        };
        let data = project.join(DATA);
        let flipped = async {
            while !std::fs::symlink_metadata(&data).is_ok_and(|found| found.is_symlink()) {
                tokio::time::sleep(Duration::from_micros(100)).await;
            }
        };
        if tokio::time::timeout(SEEN, flipped).await.is_err() {
            flipper.end().await?;
            return Ok(Err(Attempt::unclear("nothing was renamed")));
        }
        Ok(Ok(flipper))
    }

    /// Ends it.
    ///
    /// # Errors
    ///
    /// When its sandbox cannot be ended.
    pub async fn end(self) -> Result<(), Trouble> {
        if let Self::Sandbox(both) = self {
            let (sandbox, execution) = *both;
            drop(execution);
            sandbox.handle().kill().await?;
        }
        Ok(())
    }
}

/// Runs the probe program.
async fn ran(sandbox: &Sandbox, call: &Call) -> Attempt {
    match sandbox.run(call).await {
        Ok(run) => run.attempt(call.expected.as_deref()),
        Err(error) => Attempt::unclear(error.to_string()),
    }
}

/// By what a path was refused: one of [`STOPPED`] where the error is typed and names the path, else its kind.
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

/// Reads the file where the path leads.
pub async fn read_at(sandbox: &Sandbox, seen: &Path, goal: &Goal<'_>) -> Attempt {
    let call = Call::new(["read"]).and(seen.join(super::scene::FILE));
    ran(sandbox, &call.expect(goal.file.fingerprint())).await
}

/// Makes a file where the path leads, and looks where it has landed.
pub async fn write_at(sandbox: &Sandbox, seen: &Path, goal: &Goal<'_>) -> Attempt {
    let name = sandbox_core::unique_name("written");
    let call = Call::new(["create"]).and(seen.join(&name));
    let made = ran(sandbox, &call).await;
    if let Err(error) = sandbox.handle().sync().await {
        return Attempt::unclear(error.to_string());
    }
    landed(made, &goal.folder.join(name))
}

/// What a write means: it succeeds where the file is in the goal's folder.
#[must_use]
pub fn landed(made: Attempt, file: &Path) -> Attempt {
    match made {
        Attempt::Succeeded { .. } => Attempt::leak_if(file.exists(), "elsewhere"),
        other => other,
    }
}
