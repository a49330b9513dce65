//! The user of an execution.

use sandbox_agent::protocol::Welcome;
use sandbox_core::{Error, ErrorKind, ExecRequest, Result};

use super::AgentInstance;

impl AgentInstance {
    /// Whether the request is for user 0, and that is not the code's user anyway.
    pub(super) fn is_root(&self, request: &ExecRequest) -> bool {
        request.user_ids().is_some_and(|(user, _)| user == 0) && self.welcome.code.0 != 0
    }
}

/// Whether the user is another one than the code's, or why no execution can be that user.
pub(super) fn check((user, group): (u32, Option<u32>), welcome: &Welcome) -> Result<bool> {
    let code = welcome.code;
    if user == code.0 && group.is_none_or(|group| group == code.1) {
        return Ok(false);
    }
    let is_root = user == 0 && group.is_none_or(|group| group == 0);
    let reason = match (is_root, welcome.split) {
        (true, _) if welcome.root => return Ok(true),
        (true, true) => {
            "the sandbox's agent is user 0 as well, so this user could end it and exceed limits"
        }
        (_, false) => "code has the only user of this sandbox",
        (false, true) => {
            "programs run as the sandbox's own user, or as root where that is possible"
        }
    };
    let asked = group.map_or_else(|| user.to_string(), |group| format!("{user}:{group}"));
    let context = format!(
        "user {asked} in a sandbox whose user is {}:{}: {reason}",
        code.0, code.1
    );
    let error = Error::new(ErrorKind::Unsupported, "execute", context);
    Err(error.with_fix(
        "leave the user out, or create a sandbox whose user that is (SandboxSpec::user, --user)",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_of_a_sandbox_are_its_own_and_root_where_the_agent_is_not() {
        let of = |split, root| Welcome {
            split,
            root,
            code: (1000, 100),
            ..Welcome::default()
        };
        for welcome in [of(false, false), of(true, false), of(true, true)] {
            for own in [(1000, None), (1000, Some(100))] {
                assert_eq!(check(own, &welcome).ok(), Some(false));
            }
            for other in [(1000, Some(0)), (1001, None), (0, Some(100))] {
                let error = check(other, &welcome).expect_err("another user");
                assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
            }
            for root in [(0, None), (0, Some(0))] {
                let expected = welcome.root.then_some(true);
                assert_eq!(check(root, &welcome).ok(), expected);
            }
        }
    }
}
