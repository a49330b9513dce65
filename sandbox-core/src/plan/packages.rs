//! The packages of a plan: the policy's, and those that the specification adds.

use super::exceeded;
use crate::policy::{Installer, Requirement, requirements};
use crate::{Capability, CapabilityPolicy, Error, ErrorKind, Result, SandboxSpec};

/// The packages to install, sorted by name. A package that the policy names has the policy's
/// versions; others need `package_installation = true`.
pub(super) fn packages(spec: &SandboxSpec, policy: &CapabilityPolicy) -> Result<Vec<Requirement>> {
    let mut packages = policy.requirements()?;
    let asked = requirements(ErrorKind::InvalidSpec, "read specification", &spec.packages)?;
    for package in asked {
        let mut own = packages.iter_mut();
        let named = own.find(|own| own.is_same_package(&package));
        let allowed = match (named, policy.package_installation) {
            (_, Some(false)) => "package_installation = false".to_owned(),
            (Some(own), _) if own.provides(&package) => continue,
            (Some(own), _) if own.allows(&package) => {
                *own = package;
                continue;
            }
            (Some(own), _) => own.to_string(),
            (None, Some(true)) => {
                packages.push(package);
                continue;
            }
            (None, None) => {
                let names = packages.iter().map(ToString::to_string);
                format!("packages = [{}]", names.collect::<Vec<_>>().join(", "))
            }
        };
        let context = format!("packages: asked for {package}, the policy has {allowed}");
        let package = package.to_string();
        return Err(exceeded(
            Capability::PackageInstallation,
            &package,
            &allowed,
            context,
        ));
    }
    packages.sort();
    check_hashes(&packages)?;
    Ok(packages)
}

/// pip checks all files or none: a dependency that is not in the lock file would be any file.
fn check_hashes(packages: &[Requirement]) -> Result<()> {
    let own = || {
        packages
            .iter()
            .filter(|own| own.installer() == Installer::Pip)
    };
    let missing = own().find(|own| own.hashes().next().is_none());
    match (own().find(|own| own.hashes().next().is_some()), missing) {
        (Some(locked), Some(missing)) => {
            let locked = locked.without_hashes();
            let context = format!("packages: {locked} has hashes, and {missing} has none");
            let error = Error::new(ErrorKind::InvalidSpec, "read specification", context);
            Err(error.with_fix("name all packages of pip with hashes, or none"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(policy: &CapabilityPolicy, asked: &[&str]) -> Result<Vec<String>> {
        let mut spec = SandboxSpec::new("test");
        spec.packages = asked.iter().map(ToString::to_string).collect();
        let packages = packages(&spec, policy)?;
        Ok(packages.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn policy_is_the_ceiling_of_packages() {
        let named = CapabilityPolicy::new().package("numpy==1.26.4");
        let kind = |policy: &_, asked| planned(policy, asked).expect_err("refused").kind();
        assert_eq!(
            planned(&named, &["NumPy"]).expect("named"),
            ["numpy==1.26.4"]
        );
        assert_eq!(
            planned(&named, &["numpy==1.26.4"]).expect("named"),
            ["numpy==1.26.4"]
        );
        assert_eq!(kind(&named, &["numpy==2"]), ErrorKind::PolicyExceeded);
        assert_eq!(kind(&named, &["pandas"]), ErrorKind::PolicyExceeded);
        let any = named.package_installation(true);
        assert_eq!(planned(&any, &["a"]).expect("any"), ["a", "numpy==1.26.4"]);
        assert_eq!(kind(&any, &["numpy==2"]), ErrorKind::PolicyExceeded);
        let npm = CapabilityPolicy::new().package("npm:a@^1");
        assert_eq!(planned(&npm, &["npm:a"]).expect("named"), ["npm:a@^1"]);
        assert_eq!(kind(&npm, &["a"]), ErrorKind::PolicyExceeded);
        assert_eq!(kind(&npm, &["gem:a"]), ErrorKind::PolicyExceeded);
        assert_eq!(kind(&npm, &["npm:a@1"]), ErrorKind::PolicyExceeded);
        let locked = format!("numpy==1.26.4#sha256:{}", "a".repeat(64));
        let pinned = CapabilityPolicy::new().package("numpy==1.26.4");
        let one = [locked.as_str()];
        assert_eq!(planned(&pinned, &one).expect("narrower"), one);
        let strict = CapabilityPolicy::new().package(&locked);
        assert_eq!(planned(&strict, &["numpy==1.26.4"]).expect("named"), one);
        let mixed = pinned.package("pandas");
        assert_eq!(kind(&mixed, &one), ErrorKind::InvalidSpec);
        let none = CapabilityPolicy::new().package_installation(false);
        assert_eq!(kind(&none, &["a"]), ErrorKind::PolicyExceeded);
        assert_eq!(kind(&any, &["--index-url=x"]), ErrorKind::InvalidSpec);
    }
}
