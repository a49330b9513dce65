//! What the tests expect of a scan.

use sandbox_lang::scan::{Category, Preset, ScanPolicy, ScanReport, Severity, rules};

pub fn scan(policy: &ScanPolicy, language: &str, code: &str) -> ScanReport {
    policy.scan(language, code).expect("a language to scan")
}

/// Asserts that each text loads a module that the policy restricts.
#[track_caller]
pub fn restricted(language: &str, module: &str, codes: &[&str]) {
    let policy = ScanPolicy::new().restrict(module);
    for code in codes {
        let report = scan(&policy, language, code);
        let is = |rule: &str| report.violations.iter().any(|one| one.rule == rule);
        assert!(
            is(rules::RESTRICTED_MODULE),
            "{code}: {:?}",
            report.violations
        );
    }
}

/// Asserts that each text loads a module that it does not name.
#[track_caller]
pub fn unknown(language: &str, codes: &[&str]) {
    let policy = ScanPolicy::new().restrict("x-y");
    for code in codes {
        let report = scan(&policy, language, code);
        let is = |rule: &str| report.violations.iter().any(|one| one.rule == rule);
        assert!(is(rules::UNKNOWN_MODULE), "{code}: {:?}", report.violations);
    }
}

/// Asserts that each text does something of this category.
#[track_caller]
pub fn does(language: &str, category: Category, codes: &[&str]) {
    let policy = ScanPolicy::new().category(category, Severity::High);
    for code in codes {
        let report = scan(&policy, language, code);
        let is = |rule: &str| report.violations.iter().any(|one| one.rule == rule);
        assert!(is(category.as_str()), "{code}: {:?}", report.violations);
        assert!(!is(rules::SYNTAX_ERROR), "{code}: {:?}", report.violations);
    }
}

/// Asserts that nothing at all is found, in every category and with the module restricted.
#[track_caller]
pub fn clean(language: &str, module: &str, codes: &[&str]) {
    let policy = Preset::Strict
        .policy()
        .threshold(Severity::Low)
        .restrict(module);
    for code in codes {
        let report = scan(&policy, language, code);
        assert!(
            report.violations.is_empty(),
            "{code}: {:?}",
            report.violations
        );
    }
}
