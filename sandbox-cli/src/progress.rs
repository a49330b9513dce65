//! What a person sees while an image is pulled or built: bars on a terminal's standard error, lines where it is none.

use std::collections::HashMap;
use std::io::{self, IsTerminal as _};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use sandbox::{ImageEvent, escape};

use crate::output::Format;
use crate::say;

/// One line for each layer.
const STYLE: &str = "{prefix:12} {bar:30} {bytes:>10}/{total_bytes:10} {msg}";

/// Shows what happens.
#[derive(Debug)]
pub struct Progress {
    /// `None` where nobody wants to see it.
    shown: Option<Shown>,
}

#[derive(Debug)]
struct Shown {
    /// `None` where standard error is no terminal.
    terminal: Option<MultiProgress>,
    layers: HashMap<String, ProgressBar>,
}

impl Progress {
    /// Shows it to people; quietly, and beside JSON, nothing.
    pub fn new(quiet: bool, format: Format) -> Self {
        let shown = Shown {
            terminal: io::stderr().is_terminal().then(MultiProgress::new),
            layers: HashMap::new(),
        };
        Self {
            shown: (!quiet && format == Format::Text).then_some(shown),
        }
    }

    /// Takes one event.
    pub fn take(&mut self, event: &ImageEvent) {
        if let Some(shown) = &mut self.shown {
            shown.take(event);
        }
    }
}

impl Shown {
    fn take(&mut self, event: &ImageEvent) {
        match event {
            ImageEvent::Pulling { reference } => self.line(&format!("pulling {reference}")),
            ImageEvent::Note { text } => self.line(&format!("note: {text}")),
            ImageEvent::Building => self.line("building the image"),
            ImageEvent::Output { text } => {
                for line in text.lines().filter(|line| !line.trim().is_empty()) {
                    self.line(line);
                }
            }
            ImageEvent::Layer {
                id,
                status,
                current,
                total,
            } => self.layer(id, status, *current, *total),
            // What is not known yet is not shown.
            _ => {}
        }
    }

    fn line(&self, line: &str) {
        match &self.terminal {
            // Above the bars.
            Some(terminal) => terminal.suspend(|| say(escape(line))),
            None => say(escape(line)),
        }
    }

    fn layer(&mut self, id: &str, status: &str, current: Option<u64>, total: Option<u64>) {
        let Some(terminal) = &self.terminal else {
            return;
        };
        let bar = self.layers.entry(id.to_owned()).or_insert_with(|| {
            let bar = terminal.add(ProgressBar::new(0));
            if let Ok(style) = ProgressStyle::with_template(STYLE) {
                bar.set_style(style);
            }
            bar.set_prefix(escape(id));
            bar
        });
        if let Some(total) = total {
            bar.set_length(total);
        }
        if let Some(current) = current {
            bar.set_position(current);
        }
        bar.set_message(escape(status));
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        for bar in self.layers.values() {
            bar.finish_and_clear();
        }
    }
}
