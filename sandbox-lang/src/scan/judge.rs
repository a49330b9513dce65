//! Compares what code does with a policy.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::ops::Range;
use std::time::Duration;

use crate::Languages;
use regex::bytes::Regex;
use sandbox_core::{Error, ErrorKind, Result};

use crate::scan::report::positions;
use crate::scan::syntax::{self, Deadline, Dialect, Found, Import, Wanted};
use crate::scan::{
    Category, MAX_CODE, MAX_VIOLATIONS, ScanPolicy, ScanReport, Severity, Violation, rules,
};

/// When a scan stops parsing. Code of the largest size needs about a second.
const TIME_LIMIT: Duration = Duration::from_secs(30);
/// How deeply code is nested that other code runs.
const MAX_NESTED: u8 = 3;
/// How many matches of a pattern may start in a literal.
const MAX_MATCHES: usize = 10_000;

/// How many characters of a name in code a description has.
const MAX_NAME: usize = 100;

/// Scans code.
pub(crate) fn scan(policy: &ScanPolicy, language: &str, code: &[u8]) -> Result<ScanReport> {
    let languages = Languages::new();
    let name = &languages.get(language)?.name;
    let dialect = syntax::dialect(name).ok_or_else(|| {
        let context = format!("code in {name} cannot be scanned");
        Error::new(ErrorKind::LanguageNotSupported, "scan code", context)
    })?;
    let mut judge = Judge {
        policy,
        dialect,
        wanted: wanted(policy, dialect),
        found: Vec::new(),
        seen: HashSet::new(),
        counts: [0; 3],
        omitted: 0,
        end: Deadline::after(TIME_LIMIT),
    };
    if code.len() > MAX_CODE {
        let text = format!("the code is larger than {MAX_CODE} bytes");
        judge.add(rules::UNFINISHED, "", Severity::High, text, 0..0);
    } else {
        judge.bytes(code);
        judge.text(dialect, code, None, MAX_NESTED);
    }
    Ok(judge.report(code))
}

/// What the policy looks for in a language.
fn wanted<'p>(policy: &'p ScanPolicy, dialect: &Dialect) -> Wanted<'p> {
    let mut catalog: HashMap<_, Vec<_>> = HashMap::new();
    for (category, paths) in dialect.catalog {
        if policy.categories.contains_key(category) {
            for path in *paths {
                catalog.entry(*path).or_default().push(*category);
            }
        }
    }
    let patterns = policy.patterns.iter();
    let patterns = patterns.filter(|own| own.is_for(dialect.name)).collect();
    Wanted { catalog, patterns }
}

struct Judge<'p> {
    policy: &'p ScanPolicy,
    dialect: &'static Dialect,
    wanted: Wanted<'p>,
    found: Vec<Place>,
    seen: HashSet<(usize, u64)>,
    /// How many were found of each severity.
    counts: [usize; 3],
    omitted: usize,
    end: Deadline,
}

/// A violation with its place in bytes.
pub(crate) struct Place {
    pub(crate) at: Range<usize>,
    pub(crate) rule: String,
    pub(crate) severity: Severity,
    pub(crate) description: String,
}

impl Judge<'_> {
    /// Adds a violation, unless the same subject broke the same rule here already.
    fn add(
        &mut self,
        rule: &str,
        subject: &str,
        severity: Severity,
        description: impl Into<String>,
        at: Range<usize>,
    ) {
        let mut hasher = DefaultHasher::new();
        (rule, subject).hash(&mut hasher);
        if !self.seen.insert((at.start, hasher.finish())) {
            return;
        }
        let count = &mut self.counts[severity as usize];
        *count += 1;
        if *count > MAX_VIOLATIONS {
            self.omitted += 1;
            return;
        }
        self.found.push(Place {
            at,
            rule: rule.to_owned(),
            severity,
            description: description.into(),
        });
    }

    fn add_category(&mut self, category: Category, subject: &str, at: &Range<usize>) {
        let Some(severity) = self.policy.categories.get(&category).copied() else {
            return;
        };
        let does = category.description();
        let description = match subject.strip_prefix('#') {
            Some(subject) => format!("{subject} {does}"),
            None => format!("`{}` {does}", subject.trim_start_matches("*.")),
        };
        self.add(
            category.as_str(),
            subject,
            severity,
            description,
            at.clone(),
        );
    }

    /// What the bytes say before anything is parsed.
    fn bytes(&mut self, code: &[u8]) {
        if let Err(error) = std::str::from_utf8(code) {
            let at = error.valid_up_to();
            let text = "the code is not UTF-8";
            self.add(rules::UNREADABLE, "utf-8", Severity::High, text, at..at + 1);
        }
        if let Some(at) = code.iter().position(|byte| *byte == 0) {
            let text = "the code has a NUL byte";
            self.add(rules::UNREADABLE, "nul", Severity::High, text, at..at + 1);
        }
        if self.policy.categories.contains_key(&Category::HiddenText) {
            let text = String::from_utf8_lossy(code);
            // The byte order mark at the start is none.
            if std::str::from_utf8(code).is_ok() {
                for (at, hidden) in text.char_indices().filter(|(at, c)| is_hidden(*at, *c)) {
                    let subject = format!("#the invisible character U+{:04X}", u32::from(hidden));
                    let end = at + hidden.len_utf8();
                    self.add_category(Category::HiddenText, &subject, &(at..end));
                }
            }
        }
    }

    /// Judges a text, and what it runs as code. Everything in a nested text is at one place.
    fn text(
        &mut self,
        dialect: &'static Dialect,
        code: &[u8],
        place: Option<&Range<usize>>,
        depth: u8,
    ) {
        let grammar = (dialect.grammar)();
        let Ok(tree) = syntax::parse(dialect, &grammar, code, self.end) else {
            let text = "the code took too long to parse";
            self.add(rules::UNFINISHED, "", Severity::High, text, 0..0);
            return;
        };
        let mut found = syntax::facts(dialect, &grammar, &tree, code, &self.wanted);
        drop(tree);
        if let Some(place) = place {
            found.move_to(place);
        }
        self.syntax(&found, place.is_some());
        for import in &found.imports {
            self.import(import);
        }
        for (path, at) in &found.uses {
            self.uses(path, at);
        }
        self.patterns(code, &found, place);
        for nested in &found.nested {
            match depth.checked_sub(1) {
                Some(depth) => self.text(dialect, nested.code.as_bytes(), Some(&nested.at), depth),
                None => {
                    let text = "code runs code that runs code, too deeply to follow";
                    self.add(
                        rules::UNFINISHED,
                        "",
                        Severity::High,
                        text,
                        nested.at.clone(),
                    );
                }
            }
        }
    }

    fn syntax(&mut self, found: &Found, is_nested: bool) {
        for (at, why) in &found.unreadable {
            self.add(rules::UNREADABLE, why, Severity::High, *why, at.clone());
        }
        // Nested text that is no code does not run either.
        let errors = found.errors.iter().filter(|_| !is_nested);
        let severity = match self.dialect.is_preprocessed {
            true => Severity::Low,
            false => Severity::High,
        };
        for (at, missing) in errors {
            let text = match missing {
                Some(what) => format!("syntax error: `{what}` is missing"),
                None => "syntax error".to_owned(),
            };
            self.add(rules::SYNTAX_ERROR, "", severity, text, at.clone());
        }
    }

    fn import(&mut self, import: &Import) {
        let Some(module) = &import.module else {
            if self.policy.judges_modules() {
                let text = "loads a module whose name the program computes";
                let at = import.at.clone();
                self.add(rules::UNKNOWN_MODULE, "", Severity::High, text, at);
            } else {
                let subject = "#the computed name";
                self.add_category(Category::DynamicImport, subject, &import.at);
            }
            return;
        };
        let member = import.member.as_ref();
        let full = member.map(|member| join(module, member));
        let names = [Some(module), full.as_ref()];
        let is_in = |of: &str| names.iter().flatten().any(|name| is_below(name, of));
        let policy = self.policy;
        for restricted in policy.restricted.iter().filter(|own| is_in(&own.name)) {
            let name = &restricted.name;
            let text = match &restricted.description {
                Some(why) => format!("loads the restricted module `{name}`: {why}"),
                None => format!("loads the restricted module `{name}`"),
            };
            let at = import.at.clone();
            self.add(
                rules::RESTRICTED_MODULE,
                name,
                restricted.severity,
                text,
                at,
            );
        }
        if let Some(allowed) = &policy.allowed
            && !allowed.iter().any(|own| is_in(own))
        {
            let end = module.char_indices().nth(MAX_NAME).map(|(at, _)| at);
            let name = &module[..end.unwrap_or(module.len())];
            let text = format!("loads the module `{name}`, which is not allowed");
            let at = import.at.clone();
            self.add(rules::MODULE_NOT_ALLOWED, module, Severity::High, text, at);
        }
        for path in self.wanted.matching(full.as_ref().unwrap_or(module)) {
            self.uses(path, &import.at);
        }
    }

    /// The code uses a path of the catalog.
    fn uses(&mut self, path: &'static str, at: &Range<usize>) {
        let categories = self.wanted.catalog.get(path).cloned();
        for category in categories.into_iter().flatten() {
            self.add_category(category, path, at);
        }
    }

    fn patterns(&mut self, code: &[u8], found: &Found, place: Option<&Range<usize>>) {
        if self.wanted.patterns.is_empty() {
            return;
        }
        let mut text = code.to_vec();
        if place.is_none() {
            for comment in &found.comments {
                let bytes = text[comment.clone()].iter_mut();
                bytes
                    .filter(|byte| **byte != b'\n')
                    .for_each(|byte| *byte = b' ');
            }
        }
        for (index, pattern) in self.wanted.patterns.clone().into_iter().enumerate() {
            let description = match &pattern.description {
                Some(description) => description.clone(),
                None => format!("matches `{}`", pattern.regex),
            };
            let literals: &[_] = match place {
                Some(_) => &[],
                None => &found.literals,
            };
            let (matches, is_all) = matches(&pattern.regex, &text, literals);
            for at in matches {
                let at = place.cloned().unwrap_or(at);
                self.add(&pattern.id, "", pattern.severity, &description, at);
            }
            if !is_all {
                let text = format!("the pattern {} matches too often to judge", pattern.id);
                self.add(rules::UNFINISHED, &pattern.id, Severity::High, text, 0..0);
            }
            for (_, at) in found.calls.iter().filter(|(own, _)| *own == index) {
                self.add(&pattern.id, "", pattern.severity, &description, at.clone());
            }
        }
    }

    fn report(mut self, code: &[u8]) -> ScanReport {
        self.found
            .sort_by_key(|place| std::cmp::Reverse(place.severity));
        self.omitted += self.found.len().saturating_sub(MAX_VIOLATIONS);
        self.found.truncate(MAX_VIOLATIONS);
        self.found
            .sort_by(|a, b| (a.at.start, &a.rule).cmp(&(b.at.start, &b.rule)));
        let ends = self
            .found
            .iter()
            .flat_map(|place| [place.at.start, place.at.end]);
        let positions = positions(code, ends.collect());
        let violation = |place: Place| {
            let (line, column) = positions[&place.at.start];
            let (end_line, end_column) = positions[&place.at.end];
            Violation {
                line,
                column,
                end_line,
                end_column,
                rule: place.rule,
                severity: place.severity,
                description: place.description,
            }
        };
        ScanReport {
            language: self.dialect.name,
            threshold: self.policy.threshold,
            violations: self.found.into_iter().map(violation).collect(),
            omitted: self.omitted,
        }
    }
}

/// Whether a module is another one or below it.
fn is_below(module: &str, of: &str) -> bool {
    match module.strip_prefix(of) {
        Some("") => true,
        Some(rest) => !of.is_empty() && rest.starts_with(['.', '/', ':']),
        None => false,
    }
}

fn join(module: &str, member: &str) -> String {
    match module.ends_with('.') {
        true => format!("{module}{member}"),
        false => format!("{module}.{member}"),
    }
}

/// Whether a character changes how others look, or takes no space. A byte order mark at the start
/// does not count.
fn is_hidden(at: usize, c: char) -> bool {
    match c {
        '\u{feff}' => at != 0,
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2060}' | '\u{e0000}'..='\u{e007f}' => true,
        _ => false,
    }
}

/// The matches that do not start in a literal, and whether these are all.
fn matches(regex: &Regex, text: &[u8], literals: &[Range<usize>]) -> (Vec<Range<usize>>, bool) {
    let mut all = Vec::new();
    let mut skipped = 0;
    let mut from = 0;
    while let Some(found) = regex.find_at(text, from) {
        let (start, end) = (found.start(), found.end());
        let before = literals.partition_point(|literal| literal.start <= start);
        let literal = before.checked_sub(1).map(|index| &literals[index]);
        match literal.filter(|literal| literal.contains(&start)) {
            Some(literal) => {
                skipped += 1;
                from = literal.end;
            }
            None => {
                if start < end {
                    all.push(start..end);
                }
                from = end.max(start + 1);
            }
        }
        if from > text.len() {
            break;
        }
        if skipped > MAX_MATCHES || all.len() > MAX_VIOLATIONS {
            return (all, false);
        }
    }
    (all, true)
}
