//! `sandbox languages`: the languages of code, and whether a tier has them.

use clap::Args;
use sandbox::{
    CapabilityPolicy, ErrorKind, Language, Languages, RunCode as _, SandboxClient, SandboxHandle,
    SandboxSpec,
};
use serde::Serialize;

use crate::command_error::{CommandError, Outcome};
use crate::exit::Exit;
use crate::output::{Format, FormatOption, print, print_json};
use crate::table::table;

/// The options of `languages`.
#[derive(Debug, Args)]
pub struct LanguagesArguments {
    /// Look in a new sandbox of this tier which languages it has
    #[arg(short, long, value_name = "TIER")]
    backend: Option<String>,

    /// Image of that sandbox
    #[arg(long, value_name = "IMAGE", requires = "backend")]
    image: Option<String>,

    #[command(flatten)]
    pub format: FormatOption,
}

#[derive(Serialize)]
struct LanguagesDocument<'a> {
    /// The tier that was searched.
    tier: Option<&'a str>,
    languages: Vec<LanguageRow<'a>>,
}

#[derive(Serialize)]
struct LanguageRow<'a> {
    name: &'a str,
    aliases: &'a [String],
    extensions: &'a [String],
    /// The image that `run` uses by default; `null` for the tier's own.
    image: Option<&'a str>,
    compiled: bool,
    /// What installs libraries.
    libraries: Option<&'static str>,
    /// Libraries that draw plots.
    plots: &'a [String],
    /// The programs that were found on the tier.
    found: Option<Vec<String>>,
    /// Why the tier cannot run it.
    problem: Option<String>,
}

/// Runs the subcommand.
pub fn run(arguments: &LanguagesArguments) -> Outcome {
    let languages = Languages::new();
    let mut rows = languages.iter().map(row).collect::<Vec<_>>();
    let tier = arguments.backend.as_deref();
    if let Some(tier) = tier {
        let client = SandboxClient::open(tier, CapabilityPolicy::new())?;
        super::block_on(async {
            let searched = search(&client, arguments, &languages, &mut rows).await;
            super::settle(&client).await;
            searched
        })??;
    }
    let document = LanguagesDocument {
        tier,
        languages: rows,
    };
    match arguments.format.format {
        Format::Json => print_json(&document)?,
        Format::Text => print(&text(&document))?,
    }
    Ok(Exit::SUCCESS)
}

fn row(language: &Language) -> LanguageRow<'_> {
    LanguageRow {
        name: &language.name,
        aliases: &language.aliases,
        extensions: &language.extensions,
        image: language.image.as_deref(),
        compiled: language.compile.is_some(),
        libraries: language.installer.map(|installer| installer.as_str()),
        plots: &language.plots,
        found: None,
        problem: None,
    }
}

async fn search(
    client: &SandboxClient,
    arguments: &LanguagesArguments,
    languages: &Languages,
    rows: &mut [LanguageRow<'_>],
) -> Result<(), CommandError> {
    let mut spec = SandboxSpec::new("languages");
    spec.image.clone_from(&arguments.image);
    let sandbox = client.create(&spec).await?;
    let searched = search_in(&sandbox, languages, rows).await;
    sandbox.kill().await?;
    searched
}

async fn search_in(
    sandbox: &SandboxHandle,
    languages: &Languages,
    rows: &mut [LanguageRow<'_>],
) -> Result<(), CommandError> {
    for (language, row) in languages.iter().zip(rows) {
        match sandbox.find_language(language).await {
            Ok(found) => row.found = Some(found),
            Err(error) => match error.kind() {
                ErrorKind::ProgramNotFound | ErrorKind::LanguageNotSupported => {
                    row.problem = Some(error.to_string());
                }
                _ => return Err(error.into()),
            },
        }
    }
    Ok(())
}

fn text(document: &LanguagesDocument<'_>) -> String {
    let list = |texts: &[String], separator: &str| match texts {
        [] => "-".to_owned(),
        texts => texts.join(separator),
    };
    let mut titles = vec![
        "LANGUAGE",
        "ALIASES",
        "FILES",
        "LIBRARIES",
        "PLOTS",
        "IMAGE",
    ];
    titles.extend(document.tier.map(|_| "FOUND"));
    let mut rows = vec![titles.into_iter().map(str::to_owned).collect::<Vec<_>>()];
    for row in &document.languages {
        let files = row
            .extensions
            .iter()
            .map(|extension| format!(".{extension}"));
        let mut cells = vec![
            row.name.to_owned(),
            list(row.aliases, ", "),
            files.collect::<Vec<_>>().join(" "),
            row.libraries.unwrap_or("-").to_owned(),
            list(row.plots, ", "),
            row.image.unwrap_or("the default").to_owned(),
        ];
        if document.tier.is_some() {
            cells.push(match (&row.found, &row.problem) {
                (Some(found), _) => sandbox::spi::escape(&found.join(", ")),
                (None, Some(_)) => "no".to_owned(),
                (None, None) => "-".to_owned(),
            });
        }
        rows.push(cells);
    }
    table(&rows)
}
