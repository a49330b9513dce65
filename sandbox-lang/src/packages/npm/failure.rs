//! Classifies a failed installation by npm's output.

use sandbox_core::ErrorKind;

use super::super::interpreter::Home;
use super::super::recipe::{Recipe as _, RecipeFailure};
use super::Npm;

/// Codes of npm and Node.js that mean that the registry cannot be reached.
const UNREACHABLE: [(&str, &str); 14] = [
    ("ENOTFOUND", "its name is not known"),
    ("EAI_AGAIN", "its name is not known"),
    ("ECONNREFUSED", "connection refused"),
    ("ECONNRESET", "the connection broke"),
    ("EPIPE", "the connection broke"),
    ("ENETUNREACH", "no network"),
    ("EHOSTUNREACH", "no network"),
    ("ETIMEDOUT", "no answer in time"),
    ("ESOCKETTIMEDOUT", "no answer in time"),
    ("ERR_SOCKET_TIMEOUT", "no answer in time"),
    ("FETCH_ERROR", "its answer is not one of a registry"),
    ("EINVALIDRESPONSE", "its answer is not one of a registry"),
    ("EPROTO", "it does not speak TLS"),
    ("ERR_INVALID_URL", "its address is not valid"),
];

pub(super) fn classify(stderr: &str, home: Home) -> RecipeFailure {
    if RecipeFailure::is_no_space(stderr) {
        return RecipeFailure::no_space();
    }
    let code = code(stderr).unwrap_or_default();
    let failed = |what: &str| RecipeFailure::new(ErrorKind::InstallFailed, what);
    match code {
        "E404" => RecipeFailure::new(
            ErrorKind::PackageNotFound,
            "the registry does not have a package",
        ),
        "ETARGET" | "ENOVERSIONS" => RecipeFailure::new(
            ErrorKind::PackageNotFound,
            "the registry has no such version of a package",
        ),
        "EBADPLATFORM" => RecipeFailure::new(
            ErrorKind::PackageNotFound,
            "a package is not made for this platform",
        ),
        "ERESOLVE" => failed("the packages contradict each other"),
        "EINTEGRITY" => failed("an archive is not the one that the registry describes"),
        "EALLOWGIT" => no_git(),
        _ if stderr.contains("/bin/false") => no_git(),
        _ if stderr.contains("'node'") || stderr.contains("node: not found") => {
            failed("sandboxes have npm without Node.js").fix(Npm.provide_program(home))
        }
        _ => match unreachable_reason(code) {
            Some(why) => RecipeFailure::unreachable(&why, home),
            None => failed("npm failed"),
        },
    }
}

fn no_git() -> RecipeFailure {
    let what = "a package comes from a Git repository, whose own files could make npm run code";
    RecipeFailure::new(ErrorKind::PackageNeedsBuild, what).fix("name a version that needs none")
}

/// Why the registry is unreachable.
fn unreachable_reason(code: &str) -> Option<String> {
    let known = UNREACHABLE.iter().find(|(known, _)| *known == code);
    if let Some((_, why)) = known {
        return Some((*why).to_owned());
    }
    if code.contains("CERT") || code.starts_with("UNABLE_TO_") {
        return Some("its certificate is not trusted".to_owned());
    }
    let status = code.strip_prefix('E').filter(|status| status.len() == 3)?;
    let is_status = status.starts_with(['4', '5']) && status.bytes().all(|c| c.is_ascii_digit());
    is_status.then(|| format!("it answered {status}"))
}

/// The lines of errors.
pub(super) fn errors(stderr: &str) -> impl Iterator<Item = &str> {
    stderr.lines().filter_map(|line| {
        let line = line.strip_prefix("npm ")?;
        line.strip_prefix("error ")
            .or_else(|| line.strip_prefix("ERR! "))
    })
}

/// The error's code, which npm writes in a line of its own.
fn code(stderr: &str) -> Option<&str> {
    errors(stderr)
        .find_map(|line| line.strip_prefix("code "))
        .map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_of_npm_determines_the_error_kind() {
        use ErrorKind::*;
        for (code, kind) in [
            ("E404", PackageNotFound),
            ("ETARGET", PackageNotFound),
            ("EBADPLATFORM", PackageNotFound),
            ("E403", RegistryUnreachable),
            ("E503", RegistryUnreachable),
            ("ECONNREFUSED", RegistryUnreachable),
            ("EAI_AGAIN", RegistryUnreachable),
            ("SELF_SIGNED_CERT_IN_CHAIN", RegistryUnreachable),
            ("UNABLE_TO_VERIFY_LEAF_SIGNATURE", RegistryUnreachable),
            ("ERESOLVE", InstallFailed),
            ("EALLOWGIT", PackageNeedsBuild),
            ("ENOSPC", StorageFull),
            ("EWHATEVER", InstallFailed),
            ("E4O4", InstallFailed),
        ] {
            for start in ["npm error", "npm ERR!"] {
                let stderr = format!("npm warn x\n{start} code {code}\n{start} more\n");
                assert_eq!(classify(&stderr, Home::Host).kind, kind, "{stderr}");
            }
        }
        assert_eq!(classify("", Home::Host).kind, InstallFailed);
        let no_node = "env: 'node': No such file or directory";
        assert!(classify(no_node, Home::Image).fix.is_some());
    }
}
