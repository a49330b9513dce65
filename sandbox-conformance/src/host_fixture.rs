//! The host fixture of a run: folders that become roots, folders that stay outside, and the probe
//! program.

use std::fs;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use sandbox_core::CapabilityPolicy;
use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::egress_server::certificate;
use crate::host_leftovers::{self, name_with_pid};
use crate::probe::{ProbeError, SandboxSetup};
use crate::{program, wheel};

/// The parent of the fixture. It is on disk, no sandbox mounts a file system over it, and it is
/// never one of the platform's roots.
const PARENT: &str = "/var/tmp";

/// The folder with the suite's own Python packages, the package cache and the certificate of this
/// process. Installers find it through variables that must be set before the process starts; see
/// [`package_variables`].
pub(crate) fn package_folder() -> PathBuf {
    Path::new(PARENT).join(name_with_pid(host_leftovers::FIXTURE, "packages"))
}

/// The environment variables by which installers find the suite's package and nothing else. Which
/// folder has it is in a file, which can change while this process runs.
#[must_use]
pub fn package_variables() -> [(&'static str, PathBuf); 4] {
    let folder = package_folder();
    [
        ("PIP_CONFIG_FILE", folder.join("pip.conf")),
        ("PIP_NO_INDEX", "1".into()),
        // That of the caller would win over the file.
        ("PIP_FIND_LINKS", PathBuf::new()),
        ("XDG_CACHE_HOME", folder.join("cache")),
    ]
}

/// The folder of the suite's packages.
pub(crate) fn wheels() -> PathBuf {
    package_folder().join("wheels")
}

/// Lets installers find the packages of this folder alone.
///
/// # Errors
///
/// If the file cannot be written.
pub(crate) fn use_wheels(folder: &Path) -> std::io::Result<()> {
    // A section of the machine's file could win over the first one.
    let text = ["global", "install"]
        .map(|section| format!("[{section}]\nfind-links = {}\n", folder.display()));
    // The file appears with its content: other probes' programs read it, too.
    let file = package_folder().join("pip.conf");
    let new = file.with_extension("new");
    fs::write(&new, text.concat())?;
    fs::rename(&new, &file)
}

/// The archive of the package that only exists as a source.
pub(crate) fn package_source() -> PathBuf {
    wheels().join(format!("{}-1.0.zip", wheel::SOURCE))
}

/// The host fixture of one run. Dropping it removes all files.
#[derive(Debug)]
pub struct HostFixture {
    folder: PathBuf,
    nonce: String,
    secret: String,
    /// Stays open across `exec` for the whole run, so that a careless backend would pass it on.
    inheritable: OwnedFd,
    _packages: Packages,
}

/// The package folder that all fixtures of a process share. The last fixture removes it.
#[derive(Debug)]
struct Packages;

static FIXTURES_WITH_PACKAGES: Mutex<usize> = Mutex::new(0);

impl Packages {
    fn prepare() -> Result<Self, ProbeError> {
        let mut count = FIXTURES_WITH_PACKAGES
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let wheels = wheels();
        make_folder(&package_folder())?;
        make_folder(&wheels)?;
        use_wheels(&wheels)?;
        wheel::write(&wheels, &package_token())?;
        wheel::write_source(&wheels)?;
        certificate::write()?;
        *count += 1;
        Ok(Self)
    }
}

impl Drop for Packages {
    fn drop(&mut self) {
        let mut count = FIXTURES_WITH_PACKAGES
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *count -= 1;
        let folder = package_folder();
        if *count == 0 {
            remove(&folder);
        }
    }
}

/// Guards the package cache of this process.
static CACHE: RwLock<()> = RwLock::const_new(());

/// Keeps the package cache unchanged while the guard lives.
pub async fn with_packages() -> RwLockReadGuard<'static, ()> {
    CACHE.read().await
}

/// The folder of the package cache, for exclusive use while the guard lives.
pub async fn package_cache() -> (PathBuf, RwLockWriteGuard<'static, ()>) {
    (package_folder().join("cache"), CACHE.write().await)
}

/// The token in the suite's package, unique to this process.
#[must_use]
pub fn package_token() -> String {
    format!("package-{}", std::process::id())
}

/// The variable that holds a host secret, which no sandbox may see.
pub const SECRET_VARIABLE: &str = "SANDBOX_CONFORMANCE_SECRET";

impl HostFixture {
    /// Creates the folders and the program, and leaves a descriptor inheritable.
    ///
    /// # Errors
    ///
    /// If a file cannot be written.
    pub fn prepare() -> Result<Self, ProbeError> {
        host_leftovers::remove_from_dead_runs();
        let nonce = random_name();
        let folder = Path::new(PARENT).join(name_with_pid(host_leftovers::FIXTURE, &nonce));
        make_folder(&folder)?;
        let secret = std::env::var(SECRET_VARIABLE).unwrap_or_default();
        let canary = folder.join("descriptor");
        fs::write(&canary, &nonce)?;
        // `dup` leaves close-on-exec off. A careless backend passes this descriptor on.
        let inheritable = rustix::io::dup(fs::File::open(&canary)?)?;
        let fixture = Self {
            folder,
            nonce,
            secret,
            inheritable,
            _packages: Packages::prepare()?,
        };
        for folder in [fixture.read_root(), fixture.write_root(), fixture.outside()] {
            make_folder(&folder)?;
        }
        chown_to_ordinary_user(&fixture.write_root())?;
        program::install(&fixture.program())?;
        Ok(fixture)
    }

    /// A host folder that [`HostFixture::rooted`] grants for reading.
    #[must_use]
    pub fn read_root(&self) -> PathBuf {
        self.folder.join("read")
    }

    /// A host folder that [`HostFixture::rooted`] grants for reading and writing.
    #[must_use]
    pub fn write_root(&self) -> PathBuf {
        self.folder.join("write")
    }

    /// A host folder that no setup grants.
    #[must_use]
    pub fn outside(&self) -> PathBuf {
        self.folder.join("outside")
    }

    /// The probe program on the host.
    #[must_use]
    pub fn program(&self) -> PathBuf {
        self.folder.join("probe")
    }

    /// The suite's folder inside every sandbox.
    #[must_use]
    pub fn inside(&self) -> String {
        format!(
            "/tmp/{}",
            name_with_pid(host_leftovers::INSIDE, &self.nonce)
        )
    }

    /// The folder inside a sandbox from which artifacts are exported.
    #[must_use]
    pub fn export_folder(&self) -> String {
        format!("{}-export", self.inside())
    }

    /// A random name that no other run has.
    #[must_use]
    pub fn nonce(&self) -> &str {
        &self.nonce
    }

    /// The value of [`SECRET_VARIABLE`] in this process; empty if it is not set.
    #[must_use]
    pub fn secret(&self) -> &str {
        &self.secret
    }

    /// The descriptor number that children of this process inherit.
    #[must_use]
    pub fn inheritable(&self) -> i32 {
        std::os::fd::AsRawFd::as_raw_fd(&self.inheritable)
    }

    /// A setup that grants the read root and the write root, and no other host folder.
    #[must_use]
    pub fn rooted(&self) -> SandboxSetup {
        SandboxSetup::with(|policy: &mut CapabilityPolicy| {
            policy.filesystem_read_roots = Some(vec![self.read_root()]);
            policy.filesystem_write_roots = Some(vec![self.write_root()]);
        })
    }
}

impl Drop for HostFixture {
    fn drop(&mut self) {
        remove(&self.folder);
        // On a tier without its own file system, the suite's folders of its sandboxes are on the
        // host.
        for folder in [self.inside(), self.export_folder()] {
            let folder = Path::new(&folder);
            if folder.symlink_metadata().is_ok() {
                remove(folder);
            }
        }
    }
}

fn remove(folder: &Path) {
    if let Err(error) = fs::remove_dir_all(folder) {
        eprintln!("cannot remove {}: {error}", folder.display());
    }
}

/// Sixteen random hexadecimal digits.
#[must_use]
pub fn random_name() -> String {
    // A fresh `RandomState` is seeded by the operating system.
    format!("{:016x}", RandomState::new().build_hasher().finish())
}

/// If this process is root, gives a folder to an ordinary user. Code that is not root must be able
/// to write there, even if the engine mounts the folder as it is.
///
/// # Errors
///
/// If changing the owner fails.
pub fn chown_to_ordinary_user(folder: &Path) -> Result<(), ProbeError> {
    const ORDINARY: u32 = 1000;
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(folder, Some(ORDINARY), Some(ORDINARY))?;
    }
    Ok(())
}

/// Creates a folder that every user may enter, whatever the umask is. Only the sandbox may deny
/// access.
///
/// # Errors
///
/// If creating it or changing its mode fails.
pub fn make_folder(folder: &Path) -> Result<(), ProbeError> {
    fs::create_dir_all(folder)?;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drop_removes_host_folders_of_unisolated_sandboxes() {
        let fixture = HostFixture::prepare().expect("a fixture");
        let folders = [fixture.inside(), fixture.export_folder()];
        for folder in &folders {
            fs::create_dir_all(Path::new(folder).join("deep")).expect("a folder");
        }
        let bystander = format!("{}-of-another", fixture.inside());
        fs::create_dir(&bystander).expect("a folder");
        let own = fixture.folder.clone();
        drop(fixture);
        assert!(!own.exists());
        for folder in folders {
            assert!(!Path::new(&folder).exists(), "{folder}");
        }
        fs::remove_dir(&bystander).expect("another folder stays");
    }
}
