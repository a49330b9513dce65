//! A volume of the engine.

use std::time::Duration;

use sandbox_core::spi::unique_name;
use sandbox_core::{
    Capability, Enforcement, ErrorKind, ExecRequest, SandboxClient, SandboxHandle, SandboxSpec,
    Storage, StorageMount,
};

use super::{DATA, KEPT};
use crate::engine_api::EngineApi;
use crate::probes::prelude::*;
use crate::probes::swap::WORKSPACE;

/// Such an end removes the sandbox of a killed suite.
const LIFETIME: Duration = Duration::from_secs(60);

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    context.host_control(&Call::new(["alive"])).await?;
    context.allow_control(&Call::new(["alive"])).await;
    let clients = context.client_and_spec().await;
    let deviation = match (clients, EngineApi::of(context.tier()).await?) {
        (Err(declined), _) => Err(declined),
        // A tier without volumes refuses them.
        (Ok((client, spec)), None) => {
            let user = User::of(context, client, spec, "lab")?;
            let spec = user.spec([StorageMount::read_write(DATA, WORKSPACE)]);
            let created = user.client.create(&spec).await.map(drop);
            let kind = created.map_err(|error| error.kind());
            let is_refused = kind == Err(ErrorKind::Unsupported);
            Ok((!is_refused).then(|| format!("a volume without an engine: {kind:?}")))
        }
        (Ok((client, spec)), Some(engine)) => {
            let volume = engine.create_volume().await?;
            let user = User::of(context, client, spec, &volume)?;
            let mut found = refused(&user, &engine).await;
            if found.as_ref().is_ok_and(Option::is_none) {
                found = used(&user).await;
            }
            let is_left = engine.has_volume(&volume).await;
            engine.remove_volume(&volume).await?;
            let is_left = is_left?;
            let found = found.map(|it| it.or((!is_left).then(|| "the volume is gone".to_owned())));
            found.map_err(|error| Attempt::unclear(error.to_string()))
        }
    };
    context.record_attack(behavior("use a volume", deviation));
    context.no_host_effect("the volume is the engine's");
    Ok(())
}

/// Lets all users write to the volume. Even its root cannot write to the one that all sandboxes
/// have their agent from.
const OPEN: &str = "chmod 777 /in && printf first > /in/first && ! touch /.sandbox-agent/file";

/// Who uses the volume.
struct User<'a> {
    context: &'a ProbeContext,
    /// A client that requires a limit of storage, and one that accepts less.
    strict: SandboxClient,
    client: SandboxClient,
    /// One more such client.
    other: SandboxClient,
    spec: SandboxSpec,
}

impl<'a> User<'a> {
    fn of(
        context: &'a ProbeContext,
        client: SandboxClient,
        spec: SandboxSpec,
        volume: &str,
    ) -> sandbox_core::Result<Self> {
        let mut policy = client.policy().clone();
        policy.disk = Some(ByteSize::mib(64));
        policy.storage.insert(DATA.into(), Storage::volume(volume));
        let kept = Storage::volume(volume).read_only();
        policy.storage.insert(KEPT.into(), kept);
        let mut accepting = policy.clone();
        accepting.allow_partial.push(Capability::Disk);
        Ok(Self {
            context,
            strict: context.client_under(policy)?,
            client: context.client_under(accepting.clone())?,
            other: context.client_under(accepting)?,
            spec,
        })
    }

    fn spec(&self, mounts: impl IntoIterator<Item = StorageMount>) -> SandboxSpec {
        let mut spec = self.spec.clone();
        spec.name = unique_name("conformance-storage");
        spec.storage = mounts.into_iter().collect();
        spec
    }
}

/// What must be refused, and what the reports must say.
async fn refused(user: &User<'_>, engine: &EngineApi) -> Deviation {
    let gap_of = async |mounts: Option<StorageMount>| {
        let support = user.strict.check(&user.spec(mounts)).await?;
        let mut unmet = support.unmet().iter();
        let is_refused = unmet.any(|unmet| unmet.demand.capability == Capability::Disk);
        sandbox_core::Result::Ok(match support.report.get(Capability::Disk) {
            Some(Enforcement::Partial { gap, .. }) if is_refused => Some(gap.clone()),
            _ => None,
        })
    };
    // On some hosts `disk` has a gap without a volume, too.
    let without = gap_of(None).await?;
    for place in [WORKSPACE, "/in"] {
        for (mount, is_bounded) in [
            (StorageMount::read_write(DATA, place), false),
            (StorageMount::read_only(DATA, place), true),
            (StorageMount::read_only(KEPT, place), true),
        ] {
            let read_only = mount.read_only;
            let gap = gap_of(Some(mount)).await?;
            if (gap == without) != is_bounded {
                return Ok(Some(format!(
                    "a volume at {place}, read-only: {read_only}; disk is refused for {gap:?}"
                )));
            }
        }
    }
    let missing = unique_name("conformance-missing");
    let own = engine.volumes("sandbox.tier").await?;
    let own = own.into_iter().next().map(|(name, _)| name);
    let mut cases = vec![
        (Storage::volume(&missing), ErrorKind::InvalidSpec),
        (Storage::claim("lab"), ErrorKind::Unsupported),
    ];
    cases.extend(own.map(|own| (Storage::volume(own), ErrorKind::InvalidSpec)));
    for (storage, kind) in cases {
        let what = storage.place.to_string();
        let mut policy = user.client.policy().clone();
        policy.storage.insert(DATA.into(), storage);
        let client = user.context.client_under(policy)?;
        let created = client
            .create(&user.spec([StorageMount::read_only(DATA, "/in")]))
            .await;
        let told = created.map(|sandbox| sandbox.name().to_owned());
        if !told.as_ref().is_err_and(|error| error.kind() == kind) {
            return Ok(Some(format!("{what}: {told:?}")));
        }
    }
    let is_made = engine.has_volume(&missing).await?;
    Ok(is_made.then(|| "the engine has made a missing volume".to_owned()))
}

/// Writes as the owner of the volume, as a later client of a detached sandbox, and where the volume
/// is for reading only.
async fn used(user: &User<'_>) -> Deviation {
    // A new volume belongs to the engine's root.
    let spec = user.spec([StorageMount::read_write(DATA, "/in")]).user("0");
    let first = user.client.create(&spec).await?;
    let opened = first.shell(OPEN).await;
    first.kill().await?;
    let opened = opened?;
    if !opened.success() {
        return Ok(Some(format!("as the owner: {}", opened.output())));
    }
    let mut spec = user.spec([StorageMount::read_write(DATA, WORKSPACE)]);
    (spec.detached, spec.lifetime) = (true, Some(LIFETIME));
    drop(user.client.create(&spec).await?);
    let written = later(&user.other, &spec.name).await;
    user.other.remove(&spec.name).await?;
    if let Some(wrong) = written? {
        return Ok(Some(wrong));
    }
    let spec = user.spec([
        StorageMount::read_only(DATA, WORKSPACE),
        StorageMount::read_only(KEPT, "/in"),
    ]);
    let reader = user.client.create(&spec).await?;
    let mut wrong = None;
    for place in [WORKSPACE, "/in"] {
        let read = read_only(&reader, place).await;
        wrong = match read {
            Ok(None) => wrong,
            Ok(read) => wrong.or(read),
            Err(error) => wrong.or(Some(error.to_string())),
        };
    }
    reader.kill().await?;
    Ok(wrong)
}

/// A later client is told the same, and code writes.
async fn later(client: &SandboxClient, name: &str) -> Deviation {
    let found = client.get(name).await?;
    let declared = found.enforcement().get(Capability::Disk);
    if declared.is_some_and(Enforcement::is_enforced) {
        return Ok(Some(
            "disk is told as enforced to a later client".to_owned(),
        ));
    }
    let request = ExecRequest::shell("cat \"$0/first\" && printf second > \"$0/second\"");
    let written = found.exec(&request.arg(WORKSPACE)).await?;
    let is_right = written.success() && written.stdout_text() == "first";
    Ok((!is_right).then(|| format!("detached: {}", written.output())))
}

/// Code reads what is there, and changes nothing.
async fn read_only(sandbox: &SandboxHandle, place: &str) -> Deviation {
    let script = "cat \"$0/first\" \"$0/second\"; printf x > \"$0/third\" || printf '|'
        printf x > \"$0/first\" || printf '|'; rm -f \"$0/first\" || printf '|'; ls \"$0\"";
    let read = sandbox.exec(&ExecRequest::shell(script).arg(place)).await?;
    let text = read.stdout_text();
    let is_right = text == "firstsecond|||first\nsecond\n";
    Ok((!is_right).then(|| format!("read-only at {place}: {text:?}, {}", read.output())))
}
