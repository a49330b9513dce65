//! Identifiers of the rules that are no [`crate::scan::Category`] and no [`crate::scan::Pattern`].

/// A module that the policy restricts.
pub const RESTRICTED_MODULE: &str = "restricted-module";
/// A module that the policy does not allow.
pub const MODULE_NOT_ALLOWED: &str = "module-not-allowed";
/// A module with a computed name, under a policy that restricts or allows modules.
pub const UNKNOWN_MODULE: &str = "unknown-module";
/// The syntax is wrong: the scan may have misunderstood the rest.
pub const SYNTAX_ERROR: &str = "syntax-error";
/// The code has bytes that the language reads differently than the scan.
pub const UNREADABLE: &str = "unreadable";
/// The code is larger than [`crate::scan::MAX_CODE`], or took too long to scan.
pub const UNFINISHED: &str = "unfinished";

/// All of them, with what they mean.
pub const ALL: [(&str, &str); 6] = [
    (
        RESTRICTED_MODULE,
        "loads a module that the policy restricts",
    ),
    (
        MODULE_NOT_ALLOWED,
        "loads a module that the policy does not allow",
    ),
    (
        UNKNOWN_MODULE,
        "loads a module whose name the program computes",
    ),
    (SYNTAX_ERROR, "has wrong syntax"),
    (
        UNREADABLE,
        "has bytes that the language may read differently",
    ),
    (UNFINISHED, "is too large or took too long to scan"),
];
