//! How far a compilation is, over interruptions.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::failure::{Context, Result};

/// Between two lines where nobody sees a line change.
const INTERVAL: Duration = Duration::from_secs(30);
/// Between two changes of a terminal's line.
const CHANGE: Duration = Duration::from_millis(200);
/// How much of what else is said is kept for an error.
const MOST: usize = 40;

/// Counts packages by the names that the compiler says.
#[derive(Debug)]
pub struct Progress {
    what: &'static str,
    total: usize,
    begun: BTreeSet<String>,
    record: File,
    said: Vec<String>,
    begin: Instant,
    shown: Instant,
    terminal: bool,
}

impl Progress {
    /// Goes on with what stands in `record`, which an earlier run has left.
    ///
    /// # Errors
    /// When it cannot be read or written.
    pub fn new(what: &'static str, record: &Path, total: usize) -> Result<Self> {
        let doing = || format!("cannot open {}", record.display());
        let earlier = match fs::read_to_string(record) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(error).context(doing),
        };
        let mut options = OpenOptions::new();
        let progress = Self {
            what,
            total,
            begun: earlier.lines().map(ToOwned::to_owned).collect(),
            record: options
                .create(true)
                .append(true)
                .open(record)
                .context(doing)?,
            said: Vec::new(),
            begin: Instant::now(),
            shown: Instant::now(),
            terminal: io::stderr().is_terminal(),
        };
        progress.show();
        Ok(progress)
    }

    /// Takes a line of the compiler's.
    ///
    /// # Errors
    /// When it cannot be recorded.
    pub fn line(&mut self, line: &str) -> Result<()> {
        if !is_package(line) {
            self.said.push(line.to_owned());
            return Ok(());
        }
        if is_counted(line) && self.begun.insert(line.to_owned()) {
            writeln!(self.record, "{line}")
                .context(|| "cannot record what was compiled".to_owned())?;
        }
        let interval = if self.terminal { CHANGE } else { INTERVAL };
        if self.shown.elapsed() >= interval {
            self.shown = Instant::now();
            self.show();
        }
        Ok(())
    }

    /// Ends the display, and gives the end of what was said beside names.
    pub fn finish(mut self) -> Vec<String> {
        self.show();
        if self.terminal {
            eprintln!();
        }
        let surplus = self.said.len().saturating_sub(MOST);
        self.said.split_off(surplus)
    }

    fn show(&self) {
        let line = self.text(self.begin.elapsed());
        if self.terminal {
            // What is left of a longer line is erased. A terminal that has gone is no reason to stop.
            let _ = write!(io::stderr(), "\r{line}\x1b[K");
        } else {
            eprintln!("{line}");
        }
    }

    fn text(&self, elapsed: Duration) -> String {
        let (begun, total) = (self.begun.len(), self.total.max(self.begun.len()));
        let seconds = elapsed.as_secs();
        format!(
            "{}, package {begun} of {total} ({}:{:02} min)",
            self.what,
            seconds / 60,
            seconds % 60
        )
    }
}

/// Whether a line is the name of a package, as `go build -v` says it.
fn is_package(line: &str) -> bool {
    !line.is_empty()
        && line
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"/.-_~+".contains(&byte))
}

/// Whether a package is one of those that were counted before: those of Go's own library have no dot in front of their first slash.
fn is_counted(package: &str) -> bool {
    package.split('/').next().unwrap_or_default().contains('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupted_count_goes_on() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let record = folder.path().join("compiled");
        let mut first = Progress::new("it", &record, 3).expect("made");
        for line in ["net/http", "k8s.io/a", "gopkg.in/yaml.v2"] {
            first.line(line).expect("taken");
        }
        first.line("# k8s.io/a").expect("taken");
        first.line("a.go:3:1: undefined: x").expect("taken");
        assert_eq!(first.finish(), ["# k8s.io/a", "a.go:3:1: undefined: x"]);
        let mut second = Progress::new("it", &record, 3).expect("made");
        // The one that was being compiled is begun again.
        second.line("gopkg.in/yaml.v2").expect("taken");
        let text = second.text(Duration::from_secs(61));
        assert_eq!(text, "it, package 2 of 3 (1:01 min)");
    }
}
