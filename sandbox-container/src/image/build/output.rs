//! The output of a build.

use std::collections::VecDeque;

use bollard::models::BuildInfo;
use sandbox_core::spi::escape;
use sandbox_core::{ImageEvent, ImageProgress};

use super::steps::ExpectedSteps;

/// Number of lines of a failed step in its error.
const STEP_OUTPUT_LINES: usize = 20;

/// Character limit of each line.
const STEP_OUTPUT_LINE_LENGTH: usize = 400;

/// The output of a build so far.
#[derive(Debug)]
pub(super) struct BuildOutput {
    pub id: Option<String>,
    pub step_output: StepOutput,
    pub steps: ExpectedSteps,
}

/// The last lines of the current step.
#[derive(Debug, Default)]
pub(super) struct StepOutput {
    lines: VecDeque<String>,
    /// An incomplete line.
    rest: String,
}

impl BuildOutput {
    pub(super) fn new(steps: ExpectedSteps) -> Self {
        Self {
            id: None,
            step_output: StepOutput::default(),
            steps,
        }
    }

    pub(super) fn observe(&mut self, event: BuildInfo, progress: &mut ImageProgress<'_>) {
        if let Some(id) = event.aux.and_then(|aux| aux.id) {
            self.id = Some(id);
        }
        if let Some(text) = event.stream {
            let steps = &mut self.steps;
            self.step_output
                .push(&text, &mut |line| steps.observe(line));
            progress(&ImageEvent::Output { text });
        }
    }
}

impl StepOutput {
    fn push(&mut self, text: &str, on_line: &mut dyn FnMut(&str)) {
        self.rest.push_str(text);
        while let Some(end) = self.rest.find('\n') {
            let line = self.rest.drain(..=end).collect::<String>();
            on_line(line.trim_end());
            self.line(line.trim_end());
        }
        // Bounds output without line ends.
        if self.rest.len() > 16 * STEP_OUTPUT_LINE_LENGTH {
            let line = std::mem::take(&mut self.rest);
            on_line(&line);
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
            .push_back(line.chars().take(STEP_OUTPUT_LINE_LENGTH).collect());
        if self.lines.len() > STEP_OUTPUT_LINES {
            self.lines.pop_front();
        }
    }
}

impl std::fmt::Display for StepOutput {
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
    fn error_has_the_last_lines_of_the_failed_step() {
        let mut step_output = StepOutput::default();
        for text in [
            "Step 1/2 : RUN a",
            "\n",
            "old\n",
            "Step 2/2 : RUN b\nnew \x1b[31m",
            "er\n",
            "end",
        ] {
            step_output.push(text, &mut |_| {});
        }
        let text = step_output.to_string();
        assert!(
            text.contains("Step 2/2 : RUN b | new") && text.ends_with("| end"),
            "{text}"
        );
        assert!(!text.contains("old") && !text.contains('\x1b'), "{text}");
        let many = "line\n".repeat(1000) + &"x".repeat(1 << 20);
        step_output.push(&many, &mut |_| {});
        assert!(
            step_output.to_string().len()
                < STEP_OUTPUT_LINES * (STEP_OUTPUT_LINE_LENGTH + 10)
                    + 16 * STEP_OUTPUT_LINE_LENGTH
                    + 100
        );
    }
}
