//! Classifies a failed installation by pip's output.

use sandbox_core::ErrorKind;

use super::super::interpreter::Home;
use super::super::recipe::RecipeFailure;

pub(super) fn classify(stderr: &str, log: &str, home: Home) -> RecipeFailure {
    let any = |words: &[&str]| words.iter().any(|word| stderr.contains(word));
    if RecipeFailure::is_no_space(stderr) {
        return RecipeFailure::no_space();
    }
    if any(&["No module named pip"]) {
        let what = "the Python that sandboxes see has no pip";
        return RecipeFailure::new(ErrorKind::InstallFailed, what).fix(home.provide_pip());
    }
    if any(&["DO NOT MATCH THE HASHES"]) {
        let what = "a file of the registry is not one that the hashes name";
        return RecipeFailure::new(ErrorKind::InstallFailed, what)
            .fix("make the lock file again, if the registry is the one that you trust");
    }
    if any(&["In --require-hashes mode"]) {
        let what = "a package needs another one that has no hashes";
        return RecipeFailure::new(ErrorKind::InstallFailed, what)
            .fix("name all packages that are needed, each with a version and hashes");
    }
    let Some(missing) = missing_requirement(stderr) else {
        if let Some(why) = unreachable_reason(stderr) {
            return RecipeFailure::unreachable(&why, home);
        }
        let what = match any(&["ResolutionImpossible", "conflicting dependencies"]) {
            true => "the packages contradict each other",
            false => "pip failed",
        };
        return RecipeFailure::new(ErrorKind::InstallFailed, what);
    };
    // Versions were found, so the index answered, but none matches.
    if !stderr.contains("(from versions: none)") {
        let what = format!("no version of {missing} will do for this Python");
        return RecipeFailure::new(ErrorKind::PackageNotFound, what);
    }
    if has_source(log, package_name(&missing)) {
        let what = format!(
            "{missing} is there only as source, and building it would run its code with the network"
        );
        return RecipeFailure::new(ErrorKind::PackageNeedsBuild, what)
            .fix("name a version that has wheels, or build a wheel elsewhere");
    }
    // pip also reports an unreachable index as a missing package.
    if let Some(why) = unreachable_reason(stderr).or_else(|| refusal_reason(log)) {
        return RecipeFailure::unreachable(&why, home);
    }
    let what = format!("the registry has no {missing} with a wheel for this Python and machine");
    RecipeFailure::new(ErrorKind::PackageNotFound, what)
}

/// The requirement for which pip found nothing.
fn missing_requirement(stderr: &str) -> Option<String> {
    let (_, rest) = stderr.rsplit_once("No matching distribution found for ")?;
    let word = rest.split_whitespace().next()?;
    Some(word.trim_end_matches(';').chars().take(80).collect())
}

/// Whether pip skipped a source of this package. It writes the same about the sources of other
/// packages in a folder.
fn has_source(log: &str, package: &str) -> bool {
    let before = format!("No sources permitted for {package}:");
    let package = normalized(package);
    let links = log.lines().filter_map(|line| line.split_once(&before));
    links.map(|(_, link)| link).any(|link| {
        // The page with the link follows in parentheses.
        let path = link.trim_start().split(['#', '?', ' ']).next();
        let path = path.unwrap_or(link);
        let file = normalized(path.rsplit('/').next().unwrap_or(path));
        let version = file
            .strip_prefix(&*package)
            .and_then(|rest| rest.strip_prefix('-'));
        version.is_some_and(|version| version.starts_with(|first: char| first.is_ascii_digit()))
    })
}

/// A name in the form in which Python's packages are compared.
fn normalized(name: &str) -> String {
    let words = name.split(['-', '_', '.']).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-").to_ascii_lowercase()
}

/// The name in a requirement, as pip writes it.
fn package_name(requirement: &str) -> &str {
    let end = requirement.find(['=', '<', '>', '!', '~', '[', ';', '(', ' ']);
    &requirement[..end.unwrap_or(requirement.len())]
}

/// Why the index is unreachable, from pip's messages.
fn unreachable_reason(stderr: &str) -> Option<String> {
    const REASONS: [(&str, &str); 9] = [
        ("name resolution", "its name is not known"),
        ("Name or service not known", "its name is not known"),
        ("Network is unreachable", "no network"),
        ("Connection refused", "connection refused"),
        (
            "CERTIFICATE_VERIFY_FAILED",
            "its certificate is not trusted",
        ),
        ("ProxyError", "the proxy refuses"),
        ("timed out", "no answer in time"),
        ("connection broken by", "the connection broke"),
        (
            "problem confirming the ssl certificate",
            "its certificate is not trusted",
        ),
    ];
    REASONS
        .into_iter()
        .find(|(word, _)| stderr.contains(word))
        .map(|(_, reason)| reason.to_owned())
        .or_else(|| refusal_reason(stderr))
}

/// A response of the index that is neither a page nor "not found".
fn refusal_reason(text: &str) -> Option<String> {
    const CODES: [&str; 9] = [
        "401 Client Error",
        "403 Client Error",
        "407 Client Error",
        "429 Client Error",
        "500 Server Error",
        "502 Server Error",
        "503 Server Error",
        "504 Server Error",
        "HTTP error 403",
    ];
    let code = CODES.into_iter().find(|code| text.contains(code))?;
    Some(format!("it answered {code}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MISSING: &str = "ERROR: Could not find a version that satisfies the requirement docopt (from versions: none)\n\
                           ERROR: No matching distribution found for docopt\n";

    fn kind(stderr: &str, log: &str) -> ErrorKind {
        classify(stderr, log, Home::Host).kind
    }

    #[test]
    fn pip_output_determines_the_error_kind() {
        let log = "Skipping link: No sources permitted for docopt: \
                   https://r.example/files/docopt-0.1.tar.gz (from https://r.example/simple/docopt/)";
        assert_eq!(kind(MISSING, log), ErrorKind::PackageNeedsBuild);
        assert_eq!(kind(MISSING, ""), ErrorKind::PackageNotFound);
        let other = "No sources permitted for docopt-ng: https://r.example/x.tar.gz";
        assert_eq!(kind(MISSING, other), ErrorKind::PackageNotFound);
        for others in ["other-1.0.tar.gz", "docopt-ng-1.0.tar.gz", "docopt.py"] {
            let other = format!("No sources permitted for docopt: file:///wheels/{others}");
            assert_eq!(
                kind(MISSING, &other),
                ErrorKind::PackageNotFound,
                "{others}"
            );
        }
        let spelled = "No sources permitted for docopt: https://r.example/Docopt-2.0.zip#sha256=0";
        assert_eq!(kind(MISSING, spelled), ErrorKind::PackageNeedsBuild);
        let retried = format!(
            "WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError: [Errno -3] Temporary failure in name resolution'\n{MISSING}"
        );
        assert_eq!(kind(&retried, ""), ErrorKind::RegistryUnreachable);
        let denied = "Could not fetch URL https://r.example/simple/docopt/: 403 Client Error: Forbidden - skipping";
        assert_eq!(kind(MISSING, denied), ErrorKind::RegistryUnreachable);
        let old = "ERROR: Could not find a version that satisfies the requirement six==99 (from versions: 1.16.0, 1.17.0)\n\
                   ERROR: No matching distribution found for six==99";
        assert_eq!(kind(old, ""), ErrorKind::PackageNotFound);
        let full = "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device";
        assert_eq!(kind(full, ""), ErrorKind::StorageFull);
        let contradiction = "ERROR: Cannot install a==1 and b==2 because these package versions have conflicting dependencies.\n\
                             ERROR: ResolutionImpossible: for help visit …";
        assert_eq!(kind(contradiction, ""), ErrorKind::InstallFailed);
        let none = "/usr/bin/python3: No module named pip";
        assert_eq!(kind(none, ""), ErrorKind::InstallFailed);
        let fixes = [Home::Host, Home::Image].map(|home| classify(none, "", home).fix);
        assert!(fixes.iter().all(Option::is_some) && fixes[0] != fixes[1]);
    }
}
