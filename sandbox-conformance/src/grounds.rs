//! The part of the host on which probes play: folders that become roots, folders that stay outside, and the probe program.

use std::fs;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use sandbox_core::CapabilityPolicy;
use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::host_remains::{self, own_name};
use crate::probe::{Setting, Trouble};
use crate::{program, wheel};

/// Where the folders are made: on disk, on no path that a sandbox has a file system of its own at, and never part of the
/// platform's roots.
const PARENT: &str = "/var/tmp";

/// The folder with the suite's own package, and the cache of packages of this process' backends. Installers are told of it by
/// variables, which have to be set before the process starts: [`package_variables`].
fn package_folder() -> PathBuf {
    Path::new(PARENT).join(own_name(host_remains::GROUNDS, "packages"))
}

/// The variables by which installers of this process, after it has become another program, find the suite's package and
/// nothing else.
#[must_use]
pub fn package_variables() -> [(&'static str, PathBuf); 4] {
    let folder = package_folder();
    [
        ("PIP_CONFIG_FILE", "/dev/null".into()),
        ("PIP_NO_INDEX", "1".into()),
        ("PIP_FIND_LINKS", folder.join("wheels")),
        ("XDG_CACHE_HOME", folder.join("cache")),
    ]
}

/// The grounds of one run. Dropping them removes everything.
#[derive(Debug)]
pub struct Grounds {
    folder: PathBuf,
    nonce: String,
    secret: String,
    /// Open across `exec` for as long as the run lasts, so that a sandbox could inherit it.
    inheritable: OwnedFd,
    _packages: Packages,
}

/// The folder of packages, which all grounds of a process share: there as long as one of them is.
#[derive(Debug)]
struct Packages;

static GROUNDS_WITH_PACKAGES: Mutex<usize> = Mutex::new(0);

impl Packages {
    fn prepare() -> Result<Self, Trouble> {
        let mut count = GROUNDS_WITH_PACKAGES
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let wheels = package_folder().join("wheels");
        make_folder(&package_folder())?;
        make_folder(&wheels)?;
        wheel::write(&wheels, &package_token())?;
        *count += 1;
        Ok(Self)
    }
}

impl Drop for Packages {
    fn drop(&mut self) {
        let mut count = GROUNDS_WITH_PACKAGES
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *count -= 1;
        let folder = package_folder();
        if *count == 0 {
            remove(&folder);
        }
    }
}

/// The cache of packages of this process' backends, as long as no other probe uses it.
static CACHE: RwLock<()> = RwLock::const_new(());

/// Keeps the cache of packages as it is for as long as the guard lives.
pub async fn with_packages() -> RwLockReadGuard<'static, ()> {
    CACHE.read().await
}

/// The folder of the cache of packages, for one who changes it: no other probe uses it for as long as the guard lives.
pub async fn package_cache() -> (PathBuf, RwLockWriteGuard<'static, ()>) {
    (package_folder().join("cache"), CACHE.write().await)
}

/// What the suite's package says in this process.
#[must_use]
pub fn package_token() -> String {
    format!("package-{}", std::process::id())
}

/// The variable that holds a secret of the host, which no sandbox may see.
pub const SECRET_VARIABLE: &str = "SANDBOX_CONFORMANCE_SECRET";

impl Grounds {
    /// Makes the folders and the program, and leaves a descriptor inheritable.
    ///
    /// # Errors
    ///
    /// When the host's disk refuses.
    pub fn prepare() -> Result<Self, Trouble> {
        host_remains::remove_of_killed();
        let nonce = random_name();
        let folder = Path::new(PARENT).join(own_name(host_remains::GROUNDS, &nonce));
        make_folder(&folder)?;
        let secret = std::env::var(SECRET_VARIABLE).unwrap_or_default();
        let canary = folder.join("descriptor");
        fs::write(&canary, &nonce)?;
        // `dup` leaves close-on-exec off: this is the descriptor that a careless backend lets in.
        let inheritable = rustix::io::dup(fs::File::open(&canary)?)?;
        let grounds = Self {
            folder,
            nonce,
            secret,
            inheritable,
            _packages: Packages::prepare()?,
        };
        for folder in [grounds.read_root(), grounds.write_root(), grounds.outside()] {
            make_folder(&folder)?;
        }
        give_away(&grounds.write_root())?;
        program::install(&grounds.program())?;
        Ok(grounds)
    }

    /// A folder of the host that settings of [`Grounds::rooted`] can read.
    #[must_use]
    pub fn read_root(&self) -> PathBuf {
        self.folder.join("read")
    }

    /// A folder of the host that settings of [`Grounds::rooted`] can read and write.
    #[must_use]
    pub fn write_root(&self) -> PathBuf {
        self.folder.join("write")
    }

    /// A folder of the host that no setting grants.
    #[must_use]
    pub fn outside(&self) -> PathBuf {
        self.folder.join("outside")
    }

    /// The probe program on the host.
    #[must_use]
    pub fn program(&self) -> PathBuf {
        self.folder.join("probe")
    }

    /// The suite's folder inside of every sandbox.
    #[must_use]
    pub fn inside(&self) -> String {
        format!("/tmp/{}", own_name(host_remains::INSIDE, &self.nonce))
    }

    /// The folder inside of a sandbox out of which artifacts come.
    #[must_use]
    pub fn export_folder(&self) -> String {
        format!("{}-export", self.inside())
    }

    /// A word that no other run knows.
    #[must_use]
    pub fn nonce(&self) -> &str {
        &self.nonce
    }

    /// The value of [`SECRET_VARIABLE`] in this process; empty where it is not set.
    #[must_use]
    pub fn secret(&self) -> &str {
        &self.secret
    }

    /// The number of the descriptor that children of this process inherit.
    #[must_use]
    pub fn inheritable(&self) -> i32 {
        std::os::fd::AsRawFd::as_raw_fd(&self.inheritable)
    }

    /// A setting that grants the read root and the write root and nothing else of the host.
    #[must_use]
    pub fn rooted(&self) -> Setting {
        Setting::with(|policy: &mut CapabilityPolicy| {
            policy.filesystem_read_roots = Some(vec![self.read_root()]);
            policy.filesystem_write_roots = Some(vec![self.write_root()]);
        })
    }
}

impl Drop for Grounds {
    fn drop(&mut self) {
        remove(&self.folder);
        // A tier without files of its own put the suite's folders of its sandboxes where they are called so on the host.
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

/// Sixteen hexadecimal digits that no other process guesses by accident.
#[must_use]
pub fn random_name() -> String {
    // A fresh `RandomState` is seeded by the operating system.
    format!("{:016x}", RandomState::new().build_hasher().finish())
}

/// Gives a folder, where this process is root, to an ordinary user: an engine that mounts it as it is must be able to let
/// code write there that is not root.
///
/// # Errors
///
/// When the host's disk refuses.
pub fn give_away(folder: &Path) -> Result<(), Trouble> {
    const ORDINARY: u32 = 1000;
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(folder, Some(ORDINARY), Some(ORDINARY))?;
    }
    Ok(())
}

/// Makes a folder that every user may enter, whatever the umask says: what keeps a sandbox out must be the sandbox.
///
/// # Errors
///
/// When the host's disk refuses.
pub fn make_folder(folder: &Path) -> Result<(), Trouble> {
    fs::create_dir_all(folder)?;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_sandbox_without_files_of_its_own_left_on_the_host_goes_too() {
        let grounds = Grounds::prepare().expect("grounds");
        let folders = [grounds.inside(), grounds.export_folder()];
        for folder in &folders {
            fs::create_dir_all(Path::new(folder).join("deep")).expect("a folder");
        }
        let bystander = format!("{}-of-another", grounds.inside());
        fs::create_dir(&bystander).expect("a folder");
        let own = grounds.folder.clone();
        drop(grounds);
        assert!(!own.exists());
        for folder in folders {
            assert!(!Path::new(&folder).exists(), "{folder}");
        }
        fs::remove_dir(&bystander).expect("somebody else's folder stays");
    }
}
