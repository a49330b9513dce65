//! Runs code of a language in a sandbox.
//!
//! The code gets a new folder in the sandbox's temporary folder, with only its own files. Nothing
//! is added to the code, so line numbers in its errors are the user's. The folder is removed after
//! the run. A compiled program stays: the same code of the same language is not compiled again in
//! the same sandbox.

mod check;
mod folder;
mod one_shot;
mod plots;
mod prepare;
mod programs;
mod request;
mod result;
mod toolchain;

use async_trait::async_trait;
use sandbox_core::{ErrorKind, OutputSink, Result, SandboxHandle};

pub use check::CodeCheck;
pub use one_shot::{OneShotCode, RunCodeOnce};
pub use plots::save_plots;
pub use prepare::{Preparation, ReadyCode};
pub use request::{CodeRequest, LanguageChoice};
pub use result::{CodeResult, Compilation};

/// Runs code of a language in a sandbox.
///
/// ```no_run
/// use sandbox_core::SandboxHandle;
/// use sandbox_lang::{CodeRequest, RunCode};
///
/// # async fn example(sandbox: SandboxHandle) -> sandbox_core::Result<()> {
/// let code = "package main\nimport \"fmt\"\nfunc main() { fmt.Println(6 * 7) }\n";
/// let result = sandbox.run_code(CodeRequest::new("go", code)).await?;
/// assert_eq!(result.check()?.stdout_text(), "42\n");
/// # Ok(()) }
/// ```
#[async_trait]
pub trait RunCode {
    /// Compiles the code if its language is compiled, and runs it to its end.
    ///
    /// # Errors
    ///
    /// If the sandbox failed. Code that does not compile and programs that fail are results: see
    /// [`CodeResult::check`].
    ///
    /// - [`ErrorKind::LanguageNotSupported`] for an unknown language, and if the sandbox's version
    ///   of it is too old.
    /// - [`ErrorKind::ProgramNotFound`] if the sandbox does not have the language.
    /// - [`ErrorKind::LibrariesNotSupported`] if no libraries can be installed for it, and
    ///   [`ErrorKind::Unsupported`] for those that were not installed when the sandbox was created.
    /// - Those of the request's checks, such as [`ErrorKind::CodeRefused`].
    async fn run_code(&self, request: CodeRequest) -> Result<CodeResult>;

    /// As [`RunCode::run_code`]. The program's output also goes to `output` as it arrives; the
    /// compiler's does not.
    ///
    /// # Errors
    ///
    /// As [`RunCode::run_code`].
    async fn run_code_to(
        &self,
        request: CodeRequest,
        output: &mut dyn OutputSink,
    ) -> Result<CodeResult>;

    /// Writes the code's files and compiles it. The caller runs [`ReadyCode::command`] with a
    /// standard input of its own, and then calls [`ReadyCode::clean_up`].
    ///
    /// # Errors
    ///
    /// As [`RunCode::run_code`].
    async fn prepare_code(&self, request: &CodeRequest) -> Result<Preparation>;

    /// The programs that would compile and run the language in this sandbox, as paths.
    ///
    /// # Errors
    ///
    /// Those of [`RunCode::run_code`] about the language.
    async fn find_language(&self, language: &crate::Language) -> Result<Vec<String>>;
}

#[async_trait]
impl RunCode for SandboxHandle {
    async fn run_code(&self, request: CodeRequest) -> Result<CodeResult> {
        run(self, request, None).await
    }

    async fn run_code_to(
        &self,
        request: CodeRequest,
        output: &mut dyn OutputSink,
    ) -> Result<CodeResult> {
        run(self, request, Some(output)).await
    }

    async fn prepare_code(&self, request: &CodeRequest) -> Result<Preparation> {
        prepare::prepare(self, request).await
    }

    async fn find_language(&self, language: &crate::Language) -> Result<Vec<String>> {
        let found = toolchain::find(self, language, &Default::default()).await?;
        Ok(found.compile.into_iter().chain(found.run).collect())
    }
}

/// The path of the program that runs the language in this sandbox.
pub(crate) async fn program_of(
    sandbox: &SandboxHandle,
    language: &crate::Language,
    env: &std::collections::BTreeMap<String, String>,
) -> Result<String> {
    let found = toolchain::find(sandbox, language, env).await?;
    found.run.ok_or_else(|| language.missing(&[]))
}

async fn run(
    sandbox: &SandboxHandle,
    request: CodeRequest,
    output: Option<&mut dyn OutputSink>,
) -> Result<CodeResult> {
    let stdin = request.take_stdin();
    let ready = match prepare::prepare(sandbox, &request).await? {
        Preparation::CompileFailed(compiler) => return Ok(CodeResult::CompileFailed { compiler }),
        Preparation::Ready(ready) => ready,
    };
    let result = match output {
        Some(output) => sandbox.exec_to(&ready.command, stdin, output).await,
        None => sandbox.exec_with(&ready.command, stdin, |_, _| {}).await,
    };
    if result
        .as_ref()
        .is_err_and(|error| error.kind() == ErrorKind::ProgramNotFound)
    {
        ready.forget_program(sandbox);
    }
    let compilation = ready.compilation.clone();
    ready.clean_up(sandbox).await;
    let result = result?;
    Ok(CodeResult::Ran {
        result,
        compilation,
    })
}
