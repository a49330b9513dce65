//! A progress bar on one line of a terminal.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use sandbox_conformance::{ClaimStatus, ProgressCallback, report};

/// The width of the bar, in characters.
const WIDTH: usize = 20;

/// The assumed width of a terminal that does not report it.
const COLUMNS: u16 = 80;

/// A bar for `all` probes. A failed probe gets a line above it.
pub fn bar(tier: &str, all: usize) -> ProgressCallback {
    let done = AtomicUsize::new(0);
    let tier = tier.to_owned();
    Arc::new(move |finding| {
        let done = done.fetch_add(1, Ordering::Relaxed) + 1;
        let full = WIDTH * done / all.max(1);
        let mut text = String::from("\r\x1b[K");
        if matches!(finding.claim_status(), ClaimStatus::Failed(_)) {
            text += &format!("{}\n", report::line(&tier, finding));
        }
        let bar = format!(
            "[{tier}] {}{} {done}/{all} {}",
            "#".repeat(full),
            "-".repeat(WIDTH - full.min(WIDTH)),
            finding.id
        );
        // A longer line would wrap, and the next line would not overwrite it.
        text.extend(bar.chars().take(columns().saturating_sub(1)));
        say(&text);
    })
}

fn columns() -> usize {
    let size = rustix::termios::tcgetwinsize(std::io::stderr()).ok();
    let columns = size.map(|size| size.ws_col).filter(|columns| *columns > 0);
    columns.unwrap_or(COLUMNS).into()
}

/// Removes the bar.
pub fn clear() {
    say("\r\x1b[K");
}

fn say(text: &str) {
    let mut terminal = std::io::stderr().lock();
    // A closed standard error is not a failure.
    let _ = terminal
        .write_all(text.as_bytes())
        .and_then(|()| terminal.flush());
}
