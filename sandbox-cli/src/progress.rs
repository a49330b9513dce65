//! Progress of pulls and builds on standard error: bars on a terminal, otherwise lines.

use std::collections::HashMap;
use std::io::{self, IsTerminal as _};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use sandbox::ImageEvent;
use sandbox::spi::escape;

use crate::output::Format;
use crate::print_status;

/// One line for each layer.
const STYLE: &str = "{prefix:12} {bar:30} {bytes:>10}/{total_bytes:10} {msg}";

/// Shows what happens.
#[derive(Debug)]
pub struct Progress {
    /// `None` if progress is not shown.
    shown: Option<Shown>,
}

#[derive(Debug)]
struct Shown {
    /// `None` if standard error is not a terminal.
    terminal: Option<MultiProgress>,
    layers: HashMap<String, ProgressBar>,
}

impl Progress {
    /// Shows progress, except with `--quiet` or JSON output.
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
            // Events of later versions.
            _ => {}
        }
    }

    fn line(&self, line: &str) {
        match &self.terminal {
            // Above the bars.
            Some(terminal) => terminal.suspend(|| print_status(escape(line))),
            None => print_status(escape(line)),
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
