//! Plots of programs, as files.

use std::collections::BTreeMap;

use sandbox_core::{Result, SandboxHandle};

use crate::Language;

/// Makes the plots of a program files in `plots`, a folder of the sandbox: `plot-001.png`,
/// `plot-002.png` and so on. Nothing is added to the code; see
/// [`crate::CodeRequest::plot_files`].
///
/// Writes a file into `folder`, which the caller removes after the run, and returns the environment
/// variables that the program needs besides `env`. There are none for a language without such
/// plots, and where the program or the specification sets `MPLBACKEND` (Python) or `R_PROFILE_USER`
/// (R) itself.
///
/// # Errors
///
/// As [`SandboxHandle::write`].
pub async fn save_plots(
    sandbox: &SandboxHandle,
    language: &Language,
    plots: &str,
    folder: &str,
    env: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>> {
    let set = |name| env.get(name).or_else(|| sandbox.plan().env.get(name));
    let mut variables = BTreeMap::new();
    match language.name.as_str() {
        "python" if set("MPLBACKEND").is_none() => {
            let helper = include_str!("sandbox_plots.py");
            sandbox
                .write(&format!("{folder}/sandbox_plots.py"), helper)
                .await?;
            let modules = match set("PYTHONPATH") {
                Some(modules) => format!("{modules}:{folder}"),
                None => folder.to_owned(),
            };
            variables.insert("PYTHONPATH".to_owned(), modules);
            variables.insert("MPLBACKEND".to_owned(), "module://sandbox_plots".to_owned());
        }
        "r" if set("R_PROFILE_USER").is_none() => {
            let path = format!("{folder}/sandbox_plots.R");
            sandbox
                .write(&path, include_str!("sandbox_plots.R"))
                .await?;
            variables.insert("R_PROFILE_USER".to_owned(), path);
        }
        _ => return Ok(variables),
    }
    variables.insert("SANDBOX_PLOTS".to_owned(), plots.to_owned());
    Ok(variables)
}
