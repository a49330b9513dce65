//! The account as which rootless Podman runs.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::geteuid;

use crate::engines::daemon::Owner;
use crate::engines::sockets::variable;
use crate::failure::{Context, Failure, Result};
use crate::programs;

/// Root runs rootless Podman as this account of the machine, which `up` makes where there is none.
const NAME: &str = "sandbox-podman";
const HOME: &str = "/var/lib/sandbox-podman";
/// Who may use which subordinate numbers, by user and by group.
const SUBORDINATE: [&str; 2] = ["/etc/subuid", "/etc/subgid"];
/// Where a login makes each user's runtime folder, and root does here in its place.
const RUNTIME: &str = "/run/user";
/// What an ordinary user's service keeps of the environment besides what is set for it.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// An entry of the machine's list of users.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// The name.
    pub name: String,
    /// The user's number.
    pub user: u32,
    /// The number of its group.
    pub group: u32,
    /// Its home.
    pub home: PathBuf,
}

impl Account {
    /// The account that is meant: root's own one for this purpose, else whoever calls this.
    ///
    /// # Errors
    /// When the list of users cannot be read, or the caller is not in it.
    pub fn find() -> Result<Option<Self>> {
        if programs::is_root() {
            return entry(NAME);
        }
        let user = geteuid().as_raw();
        entry(&user.to_string())?.map(Some).ok_or_else(|| {
            Failure::new(format!("user {user} has no entry in the list of users"))
                .with_fix("call this as a user who has one: newuidmap demands it")
        })
    }

    /// As [`Account::find`], but makes what is missing where root calls this.
    ///
    /// # Errors
    /// As [`Account::find`], or when useradd fails.
    pub fn find_or_make() -> Result<Self> {
        if let Some(account) = Self::find()? {
            return Ok(account);
        }
        eprintln!("podman-rootless: making the account {NAME} with the home {HOME}");
        let mut useradd = Command::new("useradd");
        useradd
            .args(["--no-create-home", "--home-dir", HOME])
            .args(["--shell", "/usr/sbin/nologin"])
            .args(["--comment", "rootless Podman for tests", NAME]);
        programs::run_with_progress(&mut useradd)?;
        entry(NAME)?.ok_or_else(|| {
            Failure::new(format!("useradd succeeded, but there is no account {NAME}"))
        })
    }

    /// Makes sure that the account has subordinate users and groups; root adds what is missing.
    ///
    /// # Errors
    /// When it has none and the caller is not root, or when usermod fails.
    pub fn ensure_subordinates(&self) -> Result<()> {
        let mut texts = [String::new(), String::new()];
        for (file, text) in SUBORDINATE.iter().zip(&mut texts) {
            match fs::read_to_string(file) {
                Ok(read) => *text = read,
                // Nobody has any yet.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                // A range chosen without it might be another account's.
                Err(error) => return Err(error).context(|| format!("cannot read {file}")),
            }
        }
        if texts.iter().all(|text| self.has_subordinates(text)) {
            return Ok(());
        }
        let first = texts
            .iter()
            .map(|text| first_free(text))
            .max()
            .unwrap_or(FIRST);
        let range = format!("{first}-{}", first + COUNT - 1);
        if !programs::is_root() {
            return Err(
                Failure::new(format!("{} has no subordinate users or groups", self.name)).with_fix(
                    format!(
                        "as root: usermod --add-subuids {range} --add-subgids {range} {}",
                        self.name
                    ),
                ),
            );
        }
        eprintln!(
            "podman-rootless: giving {} the subordinate users and groups {range}",
            self.name
        );
        let mut usermod = Command::new("usermod");
        for (text, option) in texts.iter().zip(["--add-subuids", "--add-subgids"]) {
            if !self.has_subordinates(text) {
                usermod.args([option, &range]);
            }
        }
        programs::run_with_progress(usermod.arg(&self.name))
    }

    fn has_subordinates(&self, text: &str) -> bool {
        let number = self.user.to_string();
        ranges(text).any(|(owner, _, count)| {
            (owner == self.name || owner == number) && count >= COUNT.into()
        })
    }

    /// The account's folder for sockets: `XDG_RUNTIME_DIR` for the caller, else the one in
    /// `/run/user`.
    pub fn runtime_folder(&self) -> PathBuf {
        if programs::is_root() {
            return self.login_folder();
        }
        variable("XDG_RUNTIME_DIR").map_or_else(|| self.login_folder(), PathBuf::from)
    }

    fn login_folder(&self) -> PathBuf {
        Path::new(RUNTIME).join(self.user.to_string())
    }

    /// Makes `folder` with its parents where they are missing; what is made is the account's alone.
    ///
    /// # Errors
    /// When it cannot be made, or is there and belongs to another.
    pub fn make_folder(&self, folder: &Path) -> Result<()> {
        let doing = || format!("cannot create {} for {}", folder.display(), self.name);
        if !folder.exists() {
            if let Some(parent) = folder.parent().filter(|parent| !parent.exists()) {
                if parent == Path::new(RUNTIME) {
                    DirBuilder::new()
                        .mode(0o755)
                        .create(parent)
                        .context(doing)?;
                } else {
                    self.make_folder(parent)?;
                }
            }
            DirBuilder::new()
                .mode(0o700)
                .create(folder)
                .context(doing)?;
            chown(folder, Some(self.user), Some(self.group)).context(doing)?;
        }
        let owner = folder.metadata().context(doing)?.uid();
        if owner == self.user {
            return Ok(());
        }
        Err(
            Failure::new(format!("{}: it belongs to user {owner}", doing()))
                .with_fix("set XDG_RUNTIME_DIR to a folder of your own with mode 0700"),
        )
    }

    /// As whom a daemon runs that has this account.
    pub fn owner(&self) -> Owner {
        let home = self.home.display().to_string();
        let runtime = self.runtime_folder().display().to_string();
        let environment = [
            ("HOME", home.as_str()),
            ("USER", &self.name),
            ("LOGNAME", &self.name),
            ("PATH", PATH),
            ("XDG_RUNTIME_DIR", &runtime),
        ];
        Owner {
            user: self.user,
            group: self.group,
            environment: environment
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
        }
    }
}

/// The first number that distributions hand out, and how many each account gets.
const FIRST: u32 = 100_000;
const COUNT: u32 = 65_536;

/// Owner, first number and count of each line of `/etc/subuid` or `/etc/subgid`.
fn ranges(text: &str) -> impl Iterator<Item = (&str, u64, u64)> {
    text.lines().filter_map(|line| {
        let mut fields = line.trim().splitn(3, ':');
        Some((
            fields.next()?,
            fields.next()?.parse().ok()?,
            fields.next()?.parse().ok()?,
        ))
    })
}

/// The first number above everything that is taken.
fn first_free(text: &str) -> u32 {
    let end = ranges(text).map(|(_, first, count)| first.saturating_add(count));
    let end = end.max().and_then(|end| u32::try_from(end).ok());
    end.unwrap_or(FIRST).max(FIRST)
}

/// The entry of a name or number, wherever this machine keeps its users.
fn entry(key: &str) -> Result<Option<Account>> {
    let output = Command::new("getent")
        .args(["passwd", key])
        .output()
        .context(|| "cannot start getent".to_owned())?;
    // 2 is "not found", and says nothing.
    if output.status.code() == Some(2) {
        return Ok(None);
    }
    let text = String::from_utf8_lossy(&output.stdout);
    parse(text.trim())
        .map(Some)
        .ok_or_else(|| Failure::new(format!("getent passwd {key}: {} '{text}'", output.status)))
}

fn parse(line: &str) -> Option<Account> {
    let fields: Vec<_> = line.split(':').collect();
    let [name, _, user, group, _, home, _] = fields.as_slice() else {
        return None;
    };
    Some(Account {
        name: (*name).to_owned(),
        user: user.parse().ok()?,
        group: group.parse().ok()?,
        home: home.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account() -> Account {
        parse("name:x:1001:1002:a comment:/home/name:/bin/sh").expect("an entry")
    }

    #[test]
    fn an_entry_has_seven_fields() {
        let account = account();
        assert_eq!((account.user, account.group), (1001, 1002));
        assert_eq!(account.home, Path::new("/home/name"));
        assert_eq!(parse("name:x:1001"), None);
        assert_eq!(parse(""), None);
    }

    #[test]
    fn root_is_found_and_nobody_else_of_that_name() {
        let root = entry("0").expect("getent").expect("root");
        assert_eq!(root.user, 0);
        assert_eq!(entry("no-such-account"), Ok(None));
    }

    #[test]
    fn subordinates_are_found_by_name_or_number_and_never_too_few() {
        let has = |text: &str| account().has_subordinates(text);
        assert!(has("other:1:1\nname:100000:65536\n"));
        assert!(has("1001:100000:65536"));
        assert!(!has("name:100000:1"));
        assert!(!has("othername:100000:65536"));
        assert!(!has(""));
    }

    #[test]
    fn a_new_range_begins_above_all_others() {
        assert_eq!(first_free(""), FIRST);
        assert_eq!(first_free("a:100000:65536\nb:300000:10\nbroken\n"), 300_010);
        assert_eq!(first_free("a:1:1"), FIRST);
    }
}
