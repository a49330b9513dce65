//! Writes the files of code and compiles it.

use sandbox_core::spi::unique_name;
use sandbox_core::{Error, ErrorKind, ExecRequest, ExecResult, Result, SandboxHandle, registry};

use super::programs::{ProgramKey, ProgramUse, Programs};
use super::toolchain::{self, FoundToolchain};
use super::{CodeRequest, Compilation, folder, save_plots};
use crate::language::{Language, Places, Source, Step};
use crate::packages::{live_packages, live_variables};

/// What became of the preparation.
#[derive(Debug)]
#[non_exhaustive]
pub enum Preparation {
    /// The code can run.
    Ready(ReadyCode),
    /// The code did not compile: the compiler's result.
    CompileFailed(ExecResult),
}

/// Code that can run.
#[derive(Debug)]
#[non_exhaustive]
pub struct ReadyCode {
    /// Runs it.
    pub command: ExecRequest,
    /// Whether it was compiled.
    pub compilation: Compilation,
    /// The folder to remove after the run.
    temporary: Option<String>,
    /// The program, which is kept as long as this exists.
    program: Option<ProgramUse>,
}

impl ReadyCode {
    /// Removes the folder of the code, unless it holds a compiled program that is kept. What cannot
    /// be removed is logged.
    pub async fn clean_up(self, sandbox: &SandboxHandle) {
        if let Some(temporary) = &self.temporary {
            folder::remove(sandbox, temporary).await;
        }
    }

    /// The program is missing: the next run compiles it again.
    pub(super) fn forget_program(&self, sandbox: &SandboxHandle) {
        if let Some(program) = &self.program {
            sandbox.extension::<Programs>().forget(program);
        }
    }
}

pub(super) async fn prepare(sandbox: &SandboxHandle, request: &CodeRequest) -> Result<Preparation> {
    let mut language = request.language()?;
    request.run_checks(&language)?;
    check_libraries(sandbox, &language, request)?;
    if language.compile.is_none() && !request.compiler_arguments.is_empty() {
        let context = format!(
            "{} is not compiled, and there are arguments for the compiler",
            language.name
        );
        return Err(Error::new(ErrorKind::InvalidRequest, "run code", context)
            .with_fix("pass them to the program, with arg"));
    }
    let mut sources = request.sources(&language)?;
    enter_project(sandbox, &mut language, &mut sources)?;
    let found = toolchain::find(sandbox, &language, &request.env).await?;
    for (path, content) in &request.files {
        sandbox.write(path, content.clone()).await?;
    }
    let code = Code {
        sandbox,
        request,
        language: &language,
        sources: &sources,
        found: &found,
    };
    match &language.compile {
        Some(compile) => code.compiled(compile).await,
        None => code.interpreted().await.map(Preparation::Ready),
    }
}

/// Libraries are packages, which were installed when the sandbox was created or while it ran.
fn check_libraries(
    sandbox: &SandboxHandle,
    language: &Language,
    request: &CodeRequest,
) -> Result<()> {
    for library in &request.libraries {
        let wanted = language.library(library)?;
        let live = live_packages(sandbox);
        let mut own = sandbox.plan().packages.iter().chain(&live);
        if !own.any(|own| own.provides(&wanted)) {
            let context = format!("{wanted} was not installed when the sandbox was created");
            return Err(
                Error::new(ErrorKind::Unsupported, "install libraries", context)
                    .on(sandbox.tier())
                    .with_fix("name it in SandboxSpec::packages, install it with LiveSandbox::install, or run the code in a new sandbox with SandboxClient::run_code"),
            );
        }
    }
    Ok(())
}

/// Lets a build tool compile code in a sandbox that has libraries of the language.
fn enter_project(
    sandbox: &SandboxHandle,
    language: &mut Language,
    sources: &mut Vec<Source>,
) -> Result<()> {
    let Some(project) = language.project else {
        return Ok(());
    };
    let live = live_packages(sandbox);
    // What is installed into a running sandbox begins with what it had.
    let all = match live.is_empty() {
        true => &sandbox.plan().packages,
        false => &live,
    };
    let libraries = all.iter();
    let libraries = libraries.filter(|own| Some(own.installer()) == language.installer);
    let libraries = libraries.cloned().collect::<Vec<_>>();
    if libraries.is_empty() {
        return Ok(());
    }
    let own = |source: &&Source| {
        let first = source.name.split('/').next().unwrap_or_default();
        project.names().contains(&first)
    };
    if let Some(source) = sources.iter().find(own) {
        let context = format!(
            "the file {:?} beside the code has a name that its libraries need",
            source.name
        );
        return Err(Error::new(ErrorKind::InvalidRequest, "run code", context));
    }
    language.compile = Some(project.compile());
    language.run = project.run();
    sources.push(project.file(&libraries));
    Ok(())
}

struct Code<'a> {
    sandbox: &'a SandboxHandle,
    request: &'a CodeRequest,
    language: &'a Language,
    sources: &'a [Source],
    found: &'a FoundToolchain,
}

impl Code<'_> {
    async fn interpreted(&self) -> Result<ReadyCode> {
        let folder = self.new_folder();
        let command = match self.written(&folder).await {
            Ok(command) => command,
            Err(error) => {
                folder::remove(self.sandbox, &folder).await;
                return Err(error);
            }
        };
        Ok(ReadyCode {
            command,
            compilation: Compilation::None,
            temporary: Some(folder),
            program: None,
        })
    }

    /// The command that runs the code, whose files it writes.
    async fn written(&self, folder: &str) -> Result<ExecRequest> {
        self.write(folder).await?;
        let mut command = self.command(folder);
        if let Some(plots) = &self.request.plot_files {
            // In a folder of its own, so that the code's folder has only the code.
            let folder = format!("{folder}/.plots");
            let variables =
                save_plots(self.sandbox, self.language, plots, &folder, &command.env).await?;
            command.env.extend(variables);
        }
        Ok(command)
    }

    async fn compiled(&self, compile: &Step) -> Result<Preparation> {
        let programs = self.sandbox.extension::<Programs>();
        let program = programs.take(self.key(compile));
        let mut known = program.lock().await;
        if let Some(folder) = &*known {
            return Ok(Preparation::Ready(ReadyCode {
                command: self.command(folder),
                compilation: Compilation::Cached,
                temporary: None,
                program: Some(program),
            }));
        }
        let folder = self.new_folder();
        let compiler = self.compile(compile, &folder).await;
        let compiler = match compiler {
            Ok(compiler) if compiler.success() => compiler,
            failed => {
                programs.forget(&program);
                drop(known);
                folder::remove(self.sandbox, &folder).await;
                return failed.map(Preparation::CompileFailed);
            }
        };
        let is_kept = self.request.keep_program && ends_with(self.sandbox);
        if is_kept {
            *known = Some(folder.clone());
        } else {
            programs.forget(&program);
        }
        drop(known);
        programs.shrink(self.sandbox).await;
        Ok(Preparation::Ready(ReadyCode {
            command: self.command(&folder),
            compilation: Compilation::Compiled(Box::new(compiler)),
            temporary: (!is_kept).then_some(folder),
            program: Some(program),
        }))
    }

    async fn compile(&self, compile: &Step, folder: &str) -> Result<ExecResult> {
        self.write(folder).await?;
        let places = self.places(folder);
        let mut request = self
            .step(compile, self.found.compile.as_deref(), &places)
            .workdir(folder)
            .log(false);
        request.timeout = self.request.compile_timeout;
        self.sandbox.exec(&request).await
    }

    fn new_folder(&self) -> String {
        let own = self.request.folder.as_deref();
        let folder = own.unwrap_or(self.sandbox.temporary_folder());
        format!("{folder}/{}", unique_name("sandbox-code"))
    }

    async fn write(&self, folder: &str) -> Result<()> {
        for Source { name, content } in self.sources {
            let path = format!("{folder}/{name}");
            self.sandbox.write(&path, content.clone()).await?;
        }
        Ok(())
    }

    /// What determines the compiled program.
    fn key(&self, compile: &Step) -> ProgramKey {
        let compiler = self.found.compile.as_deref().unwrap_or_default();
        let mut parts = vec![self.language.name.as_bytes(), compiler.as_bytes()];
        let arguments = compile
            .arguments
            .iter()
            .chain(&self.request.compiler_arguments);
        parts.extend(arguments.map(|argument| argument.as_bytes()));
        for (name, value) in compile.env.iter().chain(&self.request.env) {
            parts.extend([&b"variable"[..], name.as_bytes(), value.as_bytes()]);
        }
        for Source { name, content } in self.sources {
            parts.extend([&b"file"[..], name.as_bytes(), content]);
        }
        ProgramKey::of(parts)
    }

    /// When compiling: the working folder is the code's.
    fn places(&self, folder: &str) -> Places {
        let extension = format!(".{}", self.language.extensions[0]);
        let names = self.sources.iter().map(|source| source.name.clone());
        Places {
            folder: folder.to_owned(),
            file: self.sources[0].name.clone(),
            sources: names.filter(|name| name.ends_with(&extension)).collect(),
            options: self.request.compiler_arguments.clone(),
            class: self.language.class_of(&self.request.code),
            cache: match ends_with(self.sandbox) {
                true => format!("{}/sandbox-code-cache", self.sandbox.temporary_folder()),
                false => format!("{folder}/cache"),
            },
        }
    }

    /// The command that runs the code in `folder`.
    fn command(&self, folder: &str) -> ExecRequest {
        let mut places = self.places(folder);
        places.file = format!("{folder}/{}", places.file);
        let run = &self.language.run;
        let mut command = self.step(run, self.found.run.as_deref(), &places);
        command.argv.extend(self.request.arguments.iter().cloned());
        command.workdir.clone_from(&self.request.workdir);
        command.timeout = self.request.timeout;
        command.secrets.clone_from(&self.request.secrets);
        command
    }

    fn step(&self, step: &Step, program: Option<&str>, places: &Places) -> ExecRequest {
        let compiled = step.programs.first().map(|program| places.fill(program));
        let compiled = compiled.unwrap_or_default();
        let mut request =
            ExecRequest::new(program.unwrap_or(&compiled)).args(step.arguments(places));
        let specified = &self.sandbox.plan().env;
        for (name, value) in &step.env {
            if !specified.contains_key(name) {
                request.env.insert(name.clone(), places.fill(value));
            }
        }
        request.env.extend(live_variables(self.sandbox));
        request.env.extend(self.request.env.clone());
        request
    }
}

/// Whether the temporary folder ends with the sandbox. Without isolation it is the host's, which
/// other users share.
fn ends_with(sandbox: &SandboxHandle) -> bool {
    registry::tier(sandbox.tier()).map_or(true, |tier| tier.applies_policy)
}
