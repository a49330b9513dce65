//! Reads the words of reports back.

use std::sync::LazyLock;

use super::list::separator;
use super::{CgroupLimit, Mechanism};

const SEPARATORS: [&str; 3] = [", ", "; ", " "];

/// Every limit with its words. A report has dozens of mechanisms, and each is compared with all.
static LIMITS: LazyLock<Vec<(CgroupLimit, String)>> = LazyLock::new(|| {
    let limits = CgroupLimit::all();
    limits.map(|limit| (limit, limit.to_string())).collect()
});

/// The mechanisms of a text. Words of no known mechanism reach up to the next comma.
pub(super) fn list(mut text: &str) -> Vec<Mechanism> {
    let mut found = Vec::new();
    while !text.is_empty() {
        let (mechanism, rest) = known(text).unwrap_or_else(|| other(text));
        let mut separators = SEPARATORS.iter();
        let next = separators.find_map(|separator| rest.strip_prefix(separator));
        text = next.unwrap_or("");
        found.push(mechanism);
    }
    found
}

fn other(text: &str) -> (Mechanism, &str) {
    let end = text.find(SEPARATORS[0]).unwrap_or(text.len());
    let (words, rest) = text.split_at(end);
    (Mechanism::Other(words.to_owned().into()), rest)
}

/// The known mechanism that takes most of the start of a text, and the text after it.
fn known(text: &str) -> Option<(Mechanism, &str)> {
    let known = starts(text).into_iter();
    let known = known.filter(|(mechanism, rest)| ends(mechanism, rest));
    known.min_by_key(|(_, rest)| rest.len())
}

/// Whether a mechanism's words end before this text.
fn ends(mechanism: &Mechanism, rest: &str) -> bool {
    let follows = |next: &str| {
        let mut remarks = starts(next).into_iter();
        remarks.any(|(remark, _)| separator(mechanism, &remark) == " ")
    };
    match rest.strip_prefix(' ') {
        Some(next) => follows(next),
        None => rest.is_empty() || rest.starts_with(", ") || rest.starts_with("; "),
    }
}

/// The mechanisms with whose words a text starts, and the text after them.
fn starts(text: &str) -> Vec<(Mechanism, &str)> {
    let fixed = Mechanism::FIXED.iter().filter_map(|(mechanism, words)| {
        let rest = text.strip_prefix(words)?;
        Some((mechanism.clone(), rest))
    });
    let named = Mechanism::NAMED
        .iter()
        .filter_map(|(named, before, after)| {
            let rest = text.strip_prefix(before)?;
            let (name, rest) = match after.is_empty() {
                true => (rest, ""),
                false => rest.split_once(after)?,
            };
            Some((named(name.to_owned()), rest))
        });
    let limits = LIMITS.iter().filter_map(|(limit, words)| {
        let rest = text.strip_prefix(words.as_str())?;
        Some((Mechanism::Cgroup(*limit), rest))
    });
    fixed.chain(named).chain(limits).collect()
}
