//! How far a run has come, on one line of a terminal.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use sandbox_conformance::{Progress, Standing, report};

/// How wide the bar is, in characters.
const WIDTH: usize = 20;

/// How wide a terminal is that does not say so.
const COLUMNS: u16 = 80;

/// A bar for so many probes; what fails gets a line of its own above it.
pub fn bar(tier: &str, all: usize) -> Progress {
    let done = AtomicUsize::new(0);
    let tier = tier.to_owned();
    Arc::new(move |finding| {
        let done = done.fetch_add(1, Ordering::Relaxed) + 1;
        let full = WIDTH * done / all.max(1);
        let mut text = String::from("\r\x1b[K");
        if matches!(finding.standing(), Standing::Failed(_)) {
            text += &format!("{}\n", report::line(&tier, finding));
        }
        let bar = format!(
            "[{tier}] {}{} {done}/{all} {}",
            "#".repeat(full),
            "-".repeat(WIDTH - full.min(WIDTH)),
            finding.id
        );
        // What is wider goes on in the next line, where the next one does not overwrite it.
        text.extend(bar.chars().take(columns().saturating_sub(1)));
        say(&text);
    })
}

fn columns() -> usize {
    let size = rustix::termios::tcgetwinsize(std::io::stderr()).ok();
    let columns = size.map(|size| size.ws_col).filter(|columns| *columns > 0);
    columns.unwrap_or(COLUMNS).into()
}

/// Takes the bar away.
pub fn clear() {
    say("\r\x1b[K");
}

fn say(text: &str) {
    let mut terminal = std::io::stderr().lock();
    // Where standard error is closed there is nobody left to tell.
    let _ = terminal
        .write_all(text.as_bytes())
        .and_then(|()| terminal.flush());
}
