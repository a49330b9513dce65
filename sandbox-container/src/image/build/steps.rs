//! Compares the steps that a builder announces with the sent Dockerfile.

use std::collections::{BTreeSet, HashMap};

use super::dockerfile::{Base, Recipe};
use super::lines::KEYWORDS;
use crate::labels;

/// The expected steps.
#[derive(Debug)]
pub(super) struct ExpectedSteps {
    expected: Vec<ExpectedStep>,
    /// Candidates for the next step: several if an optional one looks like its successor.
    next: BTreeSet<usize>,
    difference: Option<String>,
}

/// An expected step.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ExpectedStep {
    keyword: &'static str,
    from: Option<StepBase>,
    /// Whether builders may skip it, or not announce it.
    is_optional: bool,
}

impl ExpectedStep {
    /// Whether it matches an announced step.
    fn matches(&self, keyword: &str, rest: &str) -> bool {
        let named = rest.split_whitespace().find(|word| !word.starts_with("--"));
        let is_from = match (&self.from, named) {
            (Some(from), Some(named)) => from.matches(named),
            (Some(_), None) => false,
            (None, _) => true,
        };
        // The only label that the Dockerfile does not have is the one that marks our builds.
        let is_label = keyword != "LABEL" || !self.is_optional || rest.contains(labels::BUILT);
        self.keyword == keyword && is_from && is_label
    }
}

/// The base in a `FROM` step.
#[derive(Debug, Clone, PartialEq, Eq)]
enum StepBase {
    /// This image, or `scratch`.
    Exactly(String),
    /// The stage with this name; some builders announce the stage's image id.
    Stage(String),
}

impl StepBase {
    fn matches(&self, announced: &str) -> bool {
        match self {
            Self::Exactly(name) => announced == name,
            Self::Stage(name) => {
                let id = announced.strip_prefix("sha256:").unwrap_or(announced);
                let is_id = id.len() == 64 && id.bytes().all(|b| b.is_ascii_hexdigit());
                announced == name || is_id
            }
        }
    }
}

impl ExpectedSteps {
    /// The steps up to stage `target`. `triggers` has the keywords of base images' `ONBUILD`
    /// triggers, by image name.
    pub(super) fn of(
        recipe: &Recipe,
        target: Option<usize>,
        ids: &HashMap<String, String>,
        triggers: &HashMap<String, Vec<&'static str>>,
    ) -> Self {
        let count = recipe
            .instructions
            .iter()
            .filter(|instruction| instruction.keyword == "FROM");
        let last = target.unwrap_or_else(|| count.count().saturating_sub(1));
        let needed = needed(recipe, last);
        let optional = |keyword| ExpectedStep {
            keyword,
            from: None,
            is_optional: true,
        };
        let mut expected = Vec::new();
        let mut stage = None;
        for instruction in &recipe.instructions {
            if instruction.keyword != "FROM" {
                let Some(stage) = stage else {
                    // A global argument: some builders do not announce it.
                    expected.push(optional(instruction.keyword));
                    continue;
                };
                expected.push(ExpectedStep {
                    is_optional: !needed.contains(&stage),
                    ..optional(instruction.keyword)
                });
                continue;
            }
            if stage.is_some() {
                expected.push(optional("LABEL"));
            }
            let number = stage.map_or(0, |stage| stage + 1);
            if number > last {
                return Self::new(expected);
            }
            stage = Some(number);
            let from = match &instruction.base {
                Some(Base::Image(name)) => StepBase::Exactly(ids.get(name).unwrap_or(name).clone()),
                Some(Base::Stage(_, name)) => StepBase::Stage(name.clone()),
                Some(Base::Nothing) | None => StepBase::Exactly("scratch".to_owned()),
            };
            expected.push(ExpectedStep {
                keyword: "FROM",
                from: Some(from),
                is_optional: !needed.contains(&number),
            });
            if let Some(Base::Image(name)) = &instruction.base {
                expected.extend(
                    triggers
                        .get(name)
                        .into_iter()
                        .flatten()
                        .map(|instruction| optional(instruction)),
                );
            }
        }
        expected.push(optional("LABEL"));
        Self::new(expected)
    }

    fn new(expected: Vec<ExpectedStep>) -> Self {
        Self {
            expected,
            next: BTreeSet::from([0]),
            difference: None,
        }
    }

    /// Processes a line of the builder's output.
    pub(super) fn observe(&mut self, line: &str) {
        let Some((keyword, rest)) = announced(line) else {
            return;
        };
        if self.difference.is_some() {
            return;
        }
        let next = self
            .next
            .iter()
            .flat_map(|start| self.reachable(*start))
            .filter(|at| self.expected[*at].matches(keyword, rest))
            .map(|at| at + 1)
            .collect::<BTreeSet<_>>();
        match next.is_empty() {
            false => self.next = next,
            true => {
                let expectation = self.expectation();
                self.difference = Some(format!("the builder announced {line:?}, {expectation}"));
            }
        }
    }

    /// The steps that may come next after step `start - 1`.
    fn reachable(&self, start: usize) -> impl Iterator<Item = usize> {
        let rest = &self.expected[start..];
        let missing = rest.iter().take_while(|expected| expected.is_optional);
        start..(start + missing.count() + 1).min(self.expected.len())
    }

    /// The next step that must come, from the furthest candidate on.
    fn required(&self) -> Option<&ExpectedStep> {
        let start = self.next.last().copied().unwrap_or_default();
        let mut rest = self.expected[start..].iter();
        rest.find(|expected| !expected.is_optional)
    }

    /// Describes the next step that must come.
    fn expectation(&self) -> String {
        match self.required() {
            Some(expected) => format!("where the Dockerfile goes on with {}", expected.keyword),
            None => "where the Dockerfile ends".into(),
        }
    }

    /// How the announced steps deviate from the Dockerfile, if they do.
    pub(super) fn difference(&self) -> Option<&str> {
        self.difference.as_deref()
    }

    /// How the complete build deviates from the Dockerfile, if it does.
    pub(super) fn finish(&self) -> Option<String> {
        match &self.difference {
            Some(difference) => Some(difference.clone()),
            None => self
                .required()
                .map(|_| format!("the builder ended {}", self.expectation())),
        }
    }
}

/// The stages that stage `last` needs, including itself: builders may skip the others.
fn needed(recipe: &Recipe, last: usize) -> Vec<usize> {
    let mut uses = Vec::<Vec<usize>>::new();
    for instruction in &recipe.instructions {
        if instruction.keyword == "FROM" {
            uses.push(Vec::new());
        }
        if let (Some(Base::Stage(number, _)), Some(uses)) = (&instruction.base, uses.last_mut()) {
            uses.push(*number);
        }
    }
    let mut needed = vec![last];
    let mut at = 0;
    while let Some(stage) = needed.get(at).copied() {
        at += 1;
        for number in uses.get(stage).into_iter().flatten() {
            if !needed.contains(number) {
                needed.push(*number);
            }
        }
    }
    needed
}

/// Keyword and arguments of a line that announces a step: `Step 1/2 : FROM x`, `STEP 1/2: FROM x`,
/// `[1/3] STEP 1/2: FROM x`.
fn announced(line: &str) -> Option<(&'static str, &str)> {
    let is_count = |text: &str| {
        let numbers = text.split_once('/');
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        numbers.is_some_and(|(at, of)| is_number(at) && is_number(of))
    };
    let line = match line
        .strip_prefix('[')
        .and_then(|line| line.split_once("] "))
    {
        Some((stage, line)) if is_count(stage) => line,
        _ => line,
    };
    let step = line
        .strip_prefix("Step ")
        .or_else(|| line.strip_prefix("STEP "))?;
    let (count, text) = step.split_once(':')?;
    if !is_count(count.trim_end()) {
        return None;
    }
    let text = text.trim_start();
    let (word, rest) = text.split_once([' ', '\t']).unwrap_or((text, ""));
    let capital = word.to_ascii_uppercase();
    let keyword = KEYWORDS.into_iter().find(|keyword| *keyword == capital)?;
    Some((keyword, rest))
}

#[cfg(test)]
#[path = "steps_tests.rs"]
mod tests;
