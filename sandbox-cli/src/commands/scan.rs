//! `sandbox scan`: what code seems to do, without running it.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;
use sandbox::Language;
use sandbox::scan::{MAX_CODE, ScanReport, sarif};
use sandbox::spi::escape;
use serde::Serialize;

use super::run::language;
use crate::command_error::{CommandError, Outcome};
use crate::exit::Exit;
use crate::options::ScanOptions;
use crate::output::{Format, print, print_json};
use crate::print_status;

const NOTES: &str = "\
A scan is advisory: it isolates nothing, and code that wants to hide something from it can. Only a
sandbox limits what code does.

Exit codes: 0 no violation reaches the threshold; 1 one does; 125 wrong usage, a file that cannot be
read, or a language that cannot be scanned. Code that cannot be parsed is a violation.";

/// The options of `scan`.
#[derive(Debug, Args)]
#[command(after_help = NOTES)]
pub struct ScanArguments {
    /// Files to scan; - is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Language [default: that of the file's extension; Python for standard input]
    #[arg(short, long, visible_alias = "lang", value_parser = language::parse)]
    language: Option<Language>,

    #[command(flatten)]
    options: ScanOptions,

    /// Output format
    #[arg(
        short = 'o',
        long = "output",
        value_enum,
        default_value_t,
        value_name = "FORMAT"
    )]
    pub format: ScanFormat,
}

/// The output format of `scan`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum ScanFormat {
    /// One line for each violation: FILE:LINE:COLUMN: SEVERITY: DESCRIPTION [RULE]
    #[default]
    Text,
    /// One JSON object
    Json,
    /// A SARIF 2.1.0 log
    Sarif,
}

impl ScanFormat {
    /// The format of errors.
    pub fn document(self) -> Format {
        match self {
            Self::Text => Format::Text,
            Self::Json | Self::Sarif => Format::Json,
        }
    }
}

#[derive(Serialize)]
struct ScanDocument {
    /// No violation reaches the threshold.
    safe: bool,
    files: Vec<FileReport>,
}

#[derive(Serialize)]
struct FileReport {
    file: String,
    safe: bool,
    #[serde(flatten)]
    report: ScanReport,
}

/// Runs the subcommand.
pub fn run(arguments: &ScanArguments) -> Outcome {
    let policy = arguments.options.policy()?;
    let mut files = Vec::new();
    for path in &arguments.files {
        // A missing file is the first thing to say, whatever its name.
        let code = read(path)?;
        let report = policy.scan(&arguments.language_of(path)?.name, code)?;
        files.push(FileReport {
            file: path.to_string_lossy().into_owned(),
            safe: report.is_safe(),
            report,
        });
    }
    let document = ScanDocument {
        safe: files.iter().all(|file| file.safe),
        files,
    };
    match arguments.format {
        ScanFormat::Json => print_json(&document)?,
        ScanFormat::Sarif => {
            let files = document.files.iter();
            print_json(&sarif(files.map(|one| (one.file.as_str(), &one.report))))?;
        }
        ScanFormat::Text => print_text(&document)?,
    }
    Ok(match document.safe {
        true => Exit::SUCCESS,
        false => Exit::UNSAFE,
    })
}

impl ScanArguments {
    fn language_of(&self, path: &Path) -> Result<Language, CommandError> {
        if let Some(language) = &self.language {
            return Ok(language.clone());
        }
        if path == Path::new("-") {
            return Ok(language::default());
        }
        language::of_path(path).ok_or_else(|| {
            let path = path.display();
            CommandError::argument(format!("{path}: the extension is of no known language"))
                .with_fix("say its --language: `sandbox languages` lists them")
        })
    }
}

/// Reads at most one byte more than is scanned: larger code is refused.
fn read(path: &Path) -> Result<Vec<u8>, CommandError> {
    let limited = |source: &mut dyn Read| {
        let mut code = Vec::new();
        source
            .take(MAX_CODE as u64 + 1)
            .read_to_end(&mut code)
            .map(|_| code)
    };
    if path == Path::new("-") {
        return limited(&mut std::io::stdin())
            .map_err(|error| CommandError::io("reading code from standard input", &error));
    }
    File::open(path)
        .and_then(|mut file| limited(&mut file))
        .map_err(|error| CommandError::io(path.display().to_string(), &error))
}

fn print_text(document: &ScanDocument) -> Result<(), CommandError> {
    let mut text = String::new();
    for one in &document.files {
        for violation in &one.report.violations {
            text += &escape(&format!("{}:{violation}", one.file));
            text.push('\n');
        }
        if one.report.omitted > 0 {
            text += &escape(&format!("{}: {} more", one.file, one.report.omitted));
            text.push('\n');
        }
    }
    print(&text)?;
    let reports = document.files.iter().map(|one| &one.report);
    let (mut all, mut refused) = (0, 0);
    for report in reports {
        all += report.violations.len() + report.omitted;
        refused += report.refused().count();
    }
    let threshold = document.files.first().map(|one| one.report.threshold);
    if let Some(threshold) = threshold {
        let noun = if all == 1 { "violation" } else { "violations" };
        print_status(format_args!(
            "scan: {all} {noun}, {refused} of them at least {threshold}; a scan is advisory and isolates nothing"
        ));
    }
    Ok(())
}
