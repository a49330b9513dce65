//! The output of a build.

use std::collections::VecDeque;

use bollard::models::BuildInfo;
use sandbox_core::{ImageEvent, ImageProgress, escape};

use super::steps::Steps;

/// Number of lines of a failed step in its error.
const TOLD_LINES: usize = 20;

/// Character limit of each line.
const TOLD_LENGTH: usize = 400;

/// The output of a build so far.
#[derive(Debug)]
pub(super) struct Output {
    pub id: Option<String>,
    pub told: Told,
    pub steps: Steps,
}

/// The last lines of the current step.
#[derive(Debug, Default)]
pub(super) struct Told {
    lines: VecDeque<String>,
    /// An incomplete line.
    rest: String,
}

impl Output {
    pub(super) fn new(steps: Steps) -> Self {
        Self {
            id: None,
            told: Told::default(),
            steps,
        }
    }

    pub(super) fn take(&mut self, event: BuildInfo, progress: &mut ImageProgress<'_>) {
        if let Some(id) = event.aux.and_then(|aux| aux.id) {
            self.id = Some(id);
        }
        if let Some(text) = event.stream {
            let steps = &mut self.steps;
            self.told.take(&text, &mut |line| steps.take(line));
            progress(&ImageEvent::Output { text });
        }
    }
}

impl Told {
    fn take(&mut self, text: &str, whole: &mut dyn FnMut(&str)) {
        self.rest.push_str(text);
        while let Some(end) = self.rest.find('\n') {
            let line = self.rest.drain(..=end).collect::<String>();
            whole(line.trim_end());
            self.line(line.trim_end());
        }
        // Bounds output without line ends.
        if self.rest.len() > 16 * TOLD_LENGTH {
            let line = std::mem::take(&mut self.rest);
            whole(&line);
            self.line(&line);
        }
    }

    fn line(&mut self, line: &str) {
        let step = line
            .strip_prefix("Step ")
            .or_else(|| line.strip_prefix("STEP "));
        if step.is_some_and(|step| step.starts_with(|c: char| c.is_ascii_digit())) {
            self.lines.clear();
        }
        self.lines
            .push_back(line.chars().take(TOLD_LENGTH).collect());
        if self.lines.len() > TOLD_LINES {
            self.lines.pop_front();
        }
    }
}

impl std::fmt::Display for Told {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let rest = [self.rest.clone()];
        let lines = self.lines.iter().chain(&rest).map(|line| line.trim());
        let lines = lines.filter(|line| !line.is_empty()).map(escape);
        let lines = lines.collect::<Vec<_>>().join(" | ");
        match lines.is_empty() {
            true => Ok(()),
            false => write!(f, "; the step's last lines: {lines}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_those_of_the_step_that_failed() {
        let mut told = Told::default();
        for text in [
            "Step 1/2 : RUN a",
            "\n",
            "old\n",
            "Step 2/2 : RUN b\nnew \x1b[31m",
            "er\n",
            "end",
        ] {
            told.take(text, &mut |_| {});
        }
        let text = told.to_string();
        assert!(
            text.contains("Step 2/2 : RUN b | new") && text.ends_with("| end"),
            "{text}"
        );
        assert!(!text.contains("old") && !text.contains('\x1b'), "{text}");
        let many = "line\n".repeat(1000) + &"x".repeat(1 << 20);
        told.take(&many, &mut |_| {});
        assert!(told.to_string().len() < TOLD_LINES * (TOLD_LENGTH + 10) + 16 * TOLD_LENGTH + 100);
    }
}
