//! Requirements of Python, without URLs and conditions.

use super::{Installer, Requirement, comparisons, is_name_char};

/// The version operators.
const OPERATORS: [&str; 8] = ["===", "==", "!=", "<=", ">=", "~=", "<", ">"];

pub(super) fn parse(text: &str) -> Option<Requirement> {
    let end = text.find(|c: char| !is_name_char(c)).unwrap_or(text.len());
    let name = normalized(&text[..end])?;
    let mut rest = text[end..].trim_start();
    let mut extras = Vec::new();
    if let Some(inner) = rest.strip_prefix('[') {
        let (inside, after) = inner.split_once(']')?;
        for extra in inside.split(',') {
            extras.push(normalized(extra.trim())?);
        }
        rest = after.trim_start();
    }
    extras.sort();
    extras.dedup();
    let mut versions = comparisons(rest, &OPERATORS, is_version)?;
    for (_, version) in &mut versions {
        version.make_ascii_lowercase();
    }
    Some(Requirement {
        installer: Installer::Pip,
        name,
        extras,
        versions,
        hashes: Vec::new(),
    })
}

/// The name as registries compare it; `None` unless it begins and ends with a letter or digit.
fn normalized(name: &str) -> Option<String> {
    let is_end = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    if !is_end(name.chars().next()) || !is_end(name.chars().last()) {
        return None;
    }
    let mut normalized = String::with_capacity(name.len());
    for c in name.chars() {
        match c {
            c if c.is_ascii_alphanumeric() => normalized.push(c.to_ascii_lowercase()),
            '-' | '_' | '.' if normalized.ends_with('-') => {}
            '-' | '_' | '.' => normalized.push('-'),
            _ => return None,
        }
    }
    Some(normalized)
}

fn is_version(version: &str) -> bool {
    let is_version_char = |c: char| is_name_char(c) || matches!(c, '*' | '+' | '!');
    version.starts_with(|c: char| c.is_ascii_alphanumeric()) && version.chars().all(is_version_char)
}
