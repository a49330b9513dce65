//! The packages of a plan: the policy's, and those that the specification adds.

use super::exceeded;
use crate::policy::{Requirement, requirements};
use crate::{Capability, CapabilityPolicy, ErrorKind, Result, SandboxSpec};

/// The packages to install, sorted by name. A package that the policy names has the policy's
/// versions; others need `package_installation = true`.
pub(super) fn packages(spec: &SandboxSpec, policy: &CapabilityPolicy) -> Result<Vec<Requirement>> {
    let mut packages = policy.requirements()?;
    let asked = requirements(ErrorKind::InvalidSpec, "read specification", &spec.packages)?;
    for package in asked {
        let named = packages.iter().find(|own| own.is_same_package(&package));
        let allowed = match (named, policy.package_installation) {
            (_, Some(false)) => "package_installation = false".to_owned(),
            (Some(own), _) if own.provides(&package) => continue,
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
    Ok(packages)
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
        let none = CapabilityPolicy::new().package_installation(false);
        assert_eq!(kind(&none, &["a"]), ErrorKind::PolicyExceeded);
        assert_eq!(kind(&any, &["--index-url=x"]), ErrorKind::InvalidSpec);
    }
}
