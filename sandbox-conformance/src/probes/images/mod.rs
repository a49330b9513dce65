//! Images: which ones sandboxes may have, and what becomes part of them.

use sandbox_core::spi::unique_name;
use sandbox_core::{ErrorKind, SandboxClient, SandboxHandle, SandboxSpec};

use crate::engine_api::EngineApi;
use crate::pool::request;
use crate::probes::confined::{answers, compare};
use crate::probes::prelude::*;
use crate::program::{PROGRAM, Run};

mod committed;
mod dockerfiles;
mod refused;
mod retention;

/// The probes of this area.
pub static PROBES: &[Probe] = &[
    Probe::behavior(
        "images::committed",
        IMAGES,
        "commits a sandbox, and compares what a sandbox of that image has with what it must have",
        |context| Box::pin(behaves(context, "commit", true, committed::kept)),
    )
    .version(3),
    // Builders parse these in different ways, or do more than the request allows.
    Probe::behavior(
        "images::dockerfiles",
        IMAGES,
        "builds from Dockerfiles of each kind that is refused, and expects the number of the line",
        |context| {
            Box::pin(async {
                let folder = context.outside()?;
                let build = async |maker: &Maker| dockerfiles::run(maker, &folder).await;
                behaves(context, "build from them", true, build).await
            })
        },
    ),
    Probe::behavior(
        "images::hostile",
        IMAGES,
        "attacks from an image with a set-user-ID program and wrong users' names as from the usual \
         one",
        |context| Box::pin(hostile(context)),
    ),
    Probe::behavior(
        "images::names",
        IMAGES,
        "commits under names that are taken, that the policy does not allow, and of digests",
        |context| {
            Box::pin(behaves(
                context,
                "commit under others' names",
                true,
                committed::named,
            ))
        },
    ),
    Probe::behavior(
        "images::refused",
        IMAGES,
        "asks for images that are missing, that the policy does not allow, and that are no names, and \
         for Dockerfiles that name such images",
        |context| {
            Box::pin(async {
                let folder = context.outside()?;
                let ask = async |maker: &Maker| refused::run(maker, &folder).await;
                behaves(context, "ask for images", false, ask).await
            })
        },
    )
    .version(2),
    Probe::behavior(
        "images::retention",
        IMAGES,
        "builds images that are to be removed after their sandbox, and ends it as its creator and as \
         a second client",
        |context| {
            Box::pin(async {
                let folder = context.outside()?;
                let tag = tag_of(context.token());
                std::fs::write(folder.join("Dockerfile"), format!("FROM {tag}\nUSER 0\n"))?;
                let build = async |maker: &Maker| retention::run(maker, &folder).await;
                behaves(context, "end the sandbox of an image", true, build).await
            })
        },
    ),
];

/// Where an image has a copy of the probe program with the set-user-ID bit.
const SET_USER_ID: &str = "/usr/local/bin/conformance";

/// Where the probes' images are named.
const REPOSITORY: &str = "docker.io/sandbox-conformance";

fn tag_of(token: &str) -> String {
    format!("{REPOSITORY}/{token}:1")
}

/// What a probe needs to make images.
struct Maker {
    client: SandboxClient,
    /// A client whose policy allows the probe's images only.
    limited: SandboxClient,
    /// One more client.
    other: SandboxClient,
    spec: SandboxSpec,
    token: String,
    /// Where sandboxes get the probe program.
    program: String,
    /// The complete names of the probe's images: the one that is committed, and one that is built
    /// on it.
    tag: String,
    built: String,
    /// The engine, where the tier has one.
    engine: Option<EngineApi>,
}

impl Maker {
    async fn of(context: &mut ProbeContext) -> Result<Self, Attempt> {
        let (client, spec) = context.client_and_spec().await?;
        let token = context.token();
        let mut policy = client.policy().clone();
        policy.images = Some(vec![format!("{REPOSITORY}/*:*")]);
        let open = |policy| {
            let client = context.client_under(policy);
            client.map_err(|error| Attempt::unclear(error.to_string()))
        };
        let (limited, other) = (open(policy)?, open(client.policy().clone())?);
        let engine = EngineApi::of(context.tier()).await;
        Ok(Self {
            client,
            limited,
            other,
            spec,
            token: token.to_owned(),
            program: context.inside("probe"),
            tag: tag_of(token),
            built: format!("{REPOSITORY}/{token}:built"),
            engine: engine.map_err(|error| Attempt::unclear(error.to_string()))?,
        })
    }

    /// The specification of one more sandbox.
    fn spec(&self) -> SandboxSpec {
        let mut spec = self.spec.clone();
        spec.name = unique_name("conformance-image");
        spec
    }

    /// Creates a sandbox with the probe program.
    async fn create(&self, spec: &SandboxSpec) -> sandbox_core::Result<SandboxHandle> {
        let sandbox = self.client.create(spec).await?;
        sandbox.upload(&self.program, 0o755, PROGRAM).await?;
        Ok(sandbox)
    }

    /// A sandbox whose code may change the files of its image.
    async fn changeable(&self) -> sandbox_core::Result<SandboxHandle> {
        let spec = self.spec().writable_root(true).user("0");
        self.create(&spec).await
    }

    async fn run(&self, sandbox: &SandboxHandle, call: &Call) -> sandbox_core::Result<Attempt> {
        let result = sandbox.exec(&request(&self.program, call)).await?;
        Ok(Run::from(result).attempt(None))
    }

    /// The id of an image of the probe, if the engine has it.
    async fn id(&self, name: &str) -> sandbox_core::Result<Option<String>> {
        let mut images = self.client.images().await?.into_iter();
        let own = images.find(|image| image.names.iter().any(|own| own == name));
        Ok(own.map(|image| image.id))
    }

    /// Removes the probe's images that are there.
    async fn clean_up(&self) -> sandbox_core::Result<()> {
        for name in [&self.built, &self.tag] {
            if self.id(name).await?.is_some() {
                self.client.remove_image(name).await?;
            }
        }
        Ok(())
    }
}

/// Tests a behavior on tiers that run images. With `commits`, only on those that make them, too.
async fn behaves(
    context: &mut ProbeContext,
    action: &str,
    commits: bool,
    act: impl AsyncFnOnce(&Maker) -> Deviation,
) -> Result<(), ProbeError> {
    context.host_control(&Call::new(["alive"])).await?;
    context.allow_control(&Call::new(["alive"])).await;
    let deviation = match offered(context).await {
        Err(declined) => Err(declined),
        Ok(false) => Ok(None),
        Ok(true) => {
            let acted = match Maker::of(context).await {
                Err(declined) => Err(declined),
                Ok(maker) => {
                    let deviation = act(&maker).await;
                    let removed = match commits {
                        true => maker.clean_up().await,
                        false => Ok(()),
                    };
                    Ok(deviation.and_then(|deviation| removed.map(|()| deviation)))
                }
            };
            if_offered(context, acted)
        }
    };
    context.record_attack(behavior(action, deviation));
    context.no_host_effect("the attack is on an image of its own");
    Ok(())
}

/// Whether the tier runs images.
async fn offered(context: &mut ProbeContext) -> Result<bool, Attempt> {
    let (client, _) = context.client_and_spec().await?;
    if !client.runs_images() {
        context.not_offered(format!("{} runs no images", client.tier()));
    }
    Ok(client.runs_images())
}

async fn hostile(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let (folder, tag) = (context.outside()?, tag_of(context.token()));
    let text = format!("FROM {tag}\nUSER 0\nRUN chmod 6755 {SET_USER_ID}\n");
    std::fs::write(folder.join("Dockerfile"), text)?;
    compare(context, "attack from an image", async |context, calls| {
        match offered(context).await {
            Err(declined) => return Ok(Err(declined)),
            // As if it had answered: it is refused.
            Ok(false) => return Ok(Ok(Vec::new())),
            Ok(true) => {}
        }
        let maker = match Maker::of(context).await {
            Err(declined) => return Ok(Err(declined)),
            Ok(maker) => maker,
        };
        let runs = match committed::prepare(&maker, &folder).await {
            Ok(()) => committed::attack(&maker, calls).await,
            Err(error) if error.kind() == ErrorKind::Unsupported => Err(error),
            Err(error) => {
                maker.clean_up().await?;
                // Without such an image the attack shows nothing.
                return Err(ProbeError::new(format!("the image is not made: {error}")));
            }
        };
        let removed = maker.clean_up().await;
        let runs = runs.and_then(|runs| removed.map(|()| runs));
        Ok(if_offered(context, Ok(runs)))
    })
    .await
}
