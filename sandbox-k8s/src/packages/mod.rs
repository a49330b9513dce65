//! Installs a plan's packages in a pod of the same image, on this host's cache, and copies them
//! into a volume of the plan's pod.

mod fill;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use async_trait::async_trait;
use sandbox_core::spi::{Backend, Instance, unique_name};
use sandbox_core::{
    ByteSize, CapabilityPolicy, EnforcementReport, Error, ErrorKind, Plan, ProvidedFolder, Result,
    SandboxSpec,
};
use sandbox_host::egress::ENDS_TLS;
use sandbox_host::{PATH, lock, state};
use sandbox_lang::packages::{
    FailedPackages, Interpreter, PackageProvider, ProvisionNetwork, disk_usage,
};

use crate::TIER;
use crate::cluster::Cluster;
use crate::egress;
use crate::identity::PodIdentity;
use crate::launcher::PodLauncher;
use crate::lowering::PodFolder;
use crate::started_pod::StartedPod;

pub(crate) use fill::FillTarget;
use fill::check_image;

/// What a volume may have beside what the files take on this host: a node's file system has blocks
/// of another size, and counts folders.
const ROOM: u64 = 16 * 1024 * 1024;

/// The home folder of root, which images close to other users.
const CLOSED: &str = "/root";

/// What a client knows of packages.
#[derive(Debug, Default)]
pub(crate) struct KnownPackages {
    failed: FailedPackages,
    /// The ids of images, as a node reported them last.
    images: Mutex<BTreeMap<String, String>>,
}

impl KnownPackages {
    /// Forgets the id of an image that has another one now.
    fn forget(&self, image: &str) {
        lock(&self.images).remove(image);
    }
}

/// A plan with its packages.
struct WithPackages {
    plan: Plan,
    folders: Vec<PodFolder>,
    /// Notes for the report.
    notes: Vec<String>,
    /// The id of the image that the packages are for.
    image: String,
}

/// Installs the packages of a plan, or finds them in the cache.
///
/// # Errors
///
/// See [`PackageProvider::provide`].
async fn provide(launcher: &PodLauncher, cluster: &Cluster, plan: &Plan) -> Result<WithPackages> {
    let image = launcher.image(plan)?;
    let known = lock(&launcher.packages.images).get(image).cloned();
    let id = match known {
        Some(id) => id,
        None => look_up(launcher, cluster, image, plan).await?,
    };
    let provisioner = Provisioner {
        launcher,
        cluster,
        image,
        id: &id,
        of: plan,
    };
    let folder = state::folder(None, state::user());
    state::prepare(TIER, &folder, state::user())?;
    let provider = PackageProvider {
        settings: &launcher.config.packages,
        state: &state::resolved(folder),
        failed: &launcher.packages.failed,
        find: &|installer| Some(Interpreter::of_image(installer, &id)),
        path: PATH,
        own_root: true,
        carries_rules: egress::obstacle(launcher.egress_facts()).is_none(),
        ends_tls: ENDS_TLS,
        sees_host: false,
    };
    let (plan, notes) = provider.provide(&provisioner, plan).await?;
    let provided = plan.provided_folders.clone();
    let folders = tokio::task::spawn_blocking(move || filled(&provided)).await;
    let folders = folders.map_err(|error| failed(error.to_string()))?;
    Ok(WithPackages {
        folders,
        plan,
        notes,
        image: id,
    })
}

impl PodLauncher {
    /// Starts a pod with the packages of its plan.
    pub(crate) async fn start_with_packages(
        &self,
        plan: &Plan,
        cluster: Cluster,
    ) -> Result<StartedPod> {
        let with = provide(self, &cluster, plan).await?;
        let image = Some(with.image.as_str());
        let started = self.start(&with.plan, cluster, true, with.folders, image);
        let mut started = started.await?;
        let mut report = started.instance.enforcement().clone();
        for note in with.notes {
            report.note(note);
        }
        started.instance.set_enforcement(report);
        Ok(started)
    }

    /// The network that installs a plan's packages.
    pub(crate) fn provision(&self, plan: &Plan) -> ProvisionNetwork<'_> {
        match plan.packages.is_empty() || egress::obstacle(self.egress_facts()).is_some() {
            true => ProvisionNetwork::Full,
            false => ProvisionNetwork::by_rules(plan, &self.config.packages, ENDS_TLS),
        }
    }
}

/// Refuses folders that are filled while code runs: nothing writes to a pod's folders then.
pub(crate) fn check_folders(plan: &Plan) -> Result<()> {
    if plan.provided_folders.is_empty() {
        return Ok(());
    }
    let context = "a pod gets its packages before its code runs, and nothing writes to them later";
    Err(
        Error::new(ErrorKind::Unsupported, "install packages into a running sandbox", context)
            .on(TIER)
            .with_fix("name the packages when the sandbox is created (SandboxSpec::packages), or use an image that has them"),
    )
}

/// The folders of packages.
fn filled(provided: &[ProvidedFolder]) -> Vec<PodFolder> {
    let folder = |provided: &ProvidedFolder| {
        let used = disk_usage(&provided.source);
        PodFolder {
            target: provided.target.to_string_lossy().into_owned(),
            size: used.saturating_add(used / 4).saturating_add(ROOM),
            source: Some(provided.source.clone()),
        }
    };
    provided.iter().map(folder).collect()
}

/// Asks a node for the id of an image. It is not known before a container of it has started.
async fn look_up(
    launcher: &PodLauncher,
    cluster: &Cluster,
    image: &str,
    of: &Plan,
) -> Result<String> {
    let mut policy = CapabilityPolicy::new();
    // Nothing runs there, so nothing has to be enforced.
    policy.memory = Some(ByteSize::mib(32));
    let plan = Plan::resolve(&SandboxSpec::new(unique_name("image")), &policy)?;
    let plan = with_image(plan, image, of);
    let started = launcher
        .start(&plan, cluster.clone(), true, Vec::new(), None)
        .await?;
    let id = launcher.image_id(cluster, &started.identity.pod).await;
    started.instance.kill().await?;
    let id = id?;
    lock(&launcher.packages.images).insert(image.to_owned(), id.clone());
    Ok(id)
}

fn with_image(mut plan: Plan, image: &str, of: &Plan) -> Plan {
    plan.image = Some(image.to_owned());
    plan.pull = of.pull;
    plan
}

/// Makes provision sandboxes: pods with empty folders in place of the host's.
struct Provisioner<'a> {
    launcher: &'a PodLauncher,
    cluster: &'a Cluster,
    image: &'a str,
    id: &'a str,
    /// The plan of the sandbox that the packages are for.
    of: &'a Plan,
}

impl Provisioner<'_> {
    /// The plan without folders of this host, which a pod does not see.
    fn plan(&self, plan: &Plan) -> Plan {
        let mut plan = with_image(plan.clone(), self.image, self.of);
        plan.read_roots.clear();
        plan.write_roots.clear();
        plan
    }
}

#[async_trait]
impl Backend for Provisioner<'_> {
    fn name(&self) -> &str {
        TIER
    }

    async fn assess(&self, plan: &Plan) -> Result<EnforcementReport> {
        let plan = self.plan(plan);
        let identity = PodIdentity::new(&plan)?;
        let planned = self.launcher.plan_pod(&plan, self.cluster, identity).await;
        Ok(planned?.report)
    }

    async fn create(&self, plan: &Plan) -> Result<Box<dyn Instance>> {
        let folders = empty_folders(plan)?;
        let plan = self.plan(plan);
        let started = self
            .launcher
            .start(&plan, self.cluster.clone(), true, folders, None)
            .await?;
        let id = self.launcher.image_id(self.cluster, &started.identity.pod);
        check_image(self.launcher, self.image, self.id, &id.await?)?;
        Ok(Box::new(started.instance))
    }

    async fn diagnose(&self) -> Vec<sandbox_core::spi::Finding> {
        Vec::new()
    }

    async fn profile(&self) -> Result<Vec<(String, String)>> {
        Ok(Vec::new())
    }
}

/// The folders in which an installer reads and writes, at their paths on this host.
fn empty_folders(plan: &Plan) -> Result<Vec<PodFolder>> {
    let mut targets: Vec<PathBuf> = Vec::new();
    for root in plan.write_roots.iter().chain(&plan.read_roots) {
        // A volume is a folder.
        let folder = match root.is_dir() {
            true => root.as_path(),
            false => root.parent().unwrap_or(root),
        };
        if folder.starts_with(CLOSED) && folder != Path::new(CLOSED) {
            targets.push(CLOSED.into());
        }
        targets.push(folder.to_owned());
    }
    targets.sort();
    targets.dedup();
    let folder = |target: PathBuf| {
        let text = target.to_str().filter(|text| !text.contains(':'));
        match text {
            Some("/") | None => Err(failed(format!(
                "a pod cannot have a volume at {}",
                target.display()
            ))),
            Some(text) => Ok(PodFolder {
                target: text.to_owned(),
                size: plan.disk.as_u64(),
                source: None,
            }),
        }
    };
    targets.into_iter().map(folder).collect()
}

fn failed(context: String) -> Error {
    Error::new(ErrorKind::InstallFailed, "install packages", context).on(TIER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn installers_have_volumes_at_their_paths() {
        let mut policy = CapabilityPolicy::new();
        policy.disk = Some(ByteSize::mib(8));
        let plan = Plan::resolve(&SandboxSpec::new("sb"), &policy).expect("a plan");
        let of = |roots: &[&str]| {
            let mut plan = plan.clone();
            plan.read_roots = roots.iter().map(PathBuf::from).collect();
            let folders = empty_folders(&plan)?.into_iter();
            let targets = folders.map(|folder| folder.target).collect::<Vec<_>>();
            Ok::<_, Error>(targets)
        };
        let wheels = of(&["/root/wheels/missing.pem", "/srv/wheels/missing.pem"]);
        assert_eq!(
            wheels.expect("folders"),
            ["/root", "/root/wheels", "/srv/wheels"]
        );
        for bad in ["/missing.pem", "/a:b/missing.pem"] {
            let error = of(&[bad]).expect_err(bad);
            assert_eq!(error.kind(), ErrorKind::InstallFailed, "{error}");
        }
    }
}
