//! A set of languages.

use std::path::Path;

use sandbox_core::{Error, ErrorKind, Result};

use super::{Language, c, cpp, go, java, javascript, python, r, ruby, rust, shell, typescript};

/// A set of languages: those of this library, and those that a program registers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Languages {
    all: Vec<Language>,
}

impl Default for Languages {
    fn default() -> Self {
        Self::new()
    }
}

impl Languages {
    /// The languages of this library.
    #[must_use]
    pub fn new() -> Self {
        let all = vec![
            python::language(),
            javascript::language(),
            typescript::language(),
            java::language(),
            c::language(),
            cpp::language(),
            go::language(),
            rust::language(),
            ruby::language(),
            r::language(),
            shell::sh(),
            shell::bash(),
        ];
        Self { all }
    }

    /// Adds a language. One with the same name is replaced.
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::InvalidRequest`] for an invalid name or extension, a step without a program,
    ///   a compiled program without a compile step, and an unknown placeholder.
    /// - [`ErrorKind::AlreadyExists`] if another language has one of its names or extensions.
    pub fn register(&mut self, language: Language) -> Result<()> {
        check(&language)?;
        let others = || self.all.iter().filter(|other| other.name != language.name);
        let taken = |what: String, other: &Language| {
            let context = format!("{}: {what} belongs to {}", language.name, other.name);
            Error::new(ErrorKind::AlreadyExists, "register language", context)
                .with_fix("choose another one, or replace that language under its own name")
        };
        for name in std::iter::once(&language.name).chain(&language.aliases) {
            if let Some(other) = others().find(|other| other.is_named(name)) {
                return Err(taken(format!("the name {name}"), other));
            }
        }
        for extension in &language.extensions {
            if let Some(other) = others().find(|other| other.extensions.contains(extension)) {
                return Err(taken(format!("the extension .{extension}"), other));
            }
        }
        match self.all.iter_mut().find(|own| own.name == language.name) {
            Some(own) => *own = language,
            None => self.all.push(language),
        }
        Ok(())
    }

    /// The language with this name or alias, in any case of letters.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::LanguageNotSupported`] with the known names.
    pub fn get(&self, name: &str) -> Result<&Language> {
        let found = self.all.iter().find(|language| language.is_named(name));
        found.ok_or_else(|| {
            let known = self.all.iter().map(|language| language.name.as_str());
            let fix = format!("use one of {}", known.collect::<Vec<_>>().join(", "));
            let context = format!("unknown language {name:?}");
            Error::new(ErrorKind::LanguageNotSupported, "choose language", context).with_fix(fix)
        })
    }

    /// The language of a file's extension.
    #[must_use]
    pub fn of_path(&self, path: impl AsRef<Path>) -> Option<&Language> {
        let extension = path.as_ref().extension()?.to_str()?;
        let has = |language: &&Language| language.extensions.iter().any(|own| own == extension);
        self.all.iter().find(has)
    }

    /// All languages, the library's first.
    pub fn iter(&self) -> impl Iterator<Item = &Language> {
        self.all.iter()
    }
}

fn check(language: &Language) -> Result<()> {
    let bad = |why: String| {
        let context = format!("{:?}: {why}", language.name);
        let error = Error::new(ErrorKind::InvalidRequest, "register language", context);
        Err(error)
    };
    let is_name = |name: &str| {
        let good = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || b"+#-_".contains(&c);
        name.bytes().all(good) && name.bytes().next().is_some_and(|c| c != b'-')
    };
    for name in std::iter::once(&language.name).chain(&language.aliases) {
        if !is_name(name) {
            return bad(format!(
                "the name {name:?} is not made of lowercase letters, digits, '+', '#', '-' and '_'"
            ));
        }
    }
    let is_extension = |name: &String| {
        !name.is_empty() && name.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_')
    };
    if language.extensions.is_empty() || !language.extensions.iter().all(is_extension) {
        return bad("an extension is letters and digits without a dot, and there is one".into());
    }
    for step in language.compile.iter().chain([&language.run]) {
        let is_program = |name: &String| !name.is_empty() && !name.starts_with('-');
        if step.programs.is_empty() || !step.programs.iter().all(is_program) {
            return bad("a step has no program, or one whose name is empty or an option".into());
        }
        if let Some(unknown) = step.unknown_placeholder() {
            return bad(format!("unknown placeholder {unknown}"));
        }
    }
    if let Some(compile) = &language.compile
        && compile.candidates().is_empty()
    {
        return bad("the compile step would run the program that it makes".into());
    }
    if language.compile.is_none() && language.run.candidates().is_empty() {
        return bad("it runs a compiled program and has no compile step".into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::{Installer, Step};
    use super::*;

    #[test]
    fn aliases_and_extensions_find_a_language() {
        let languages = Languages::new();
        for (name, found) in [
            ("py", "python"),
            ("js", "javascript"),
            ("node", "javascript"),
            ("ts", "typescript"),
            ("golang", "go"),
            ("rs", "rust"),
            ("rb", "ruby"),
            ("c++", "cpp"),
            ("C", "c"),
            ("R", "r"),
            ("shell", "sh"),
            ("bash", "bash"),
        ] {
            assert_eq!(languages.get(name).expect("known").name, found);
        }
        let of = |path: &str| languages.of_path(path).map(|found| found.name.clone());
        assert_eq!(of("a/b.cc").as_deref(), Some("cpp"));
        assert_eq!(of("plot.R").as_deref(), Some("r"));
        assert_eq!(of("plot.r").as_deref(), Some("r"));
        assert_eq!(of("notes.txt"), None);
        assert_eq!(of("Makefile"), None);
    }

    #[test]
    fn own_languages_pass_the_check_and_have_distinct_names() {
        let mut languages = Languages::new();
        for language in Languages::new().iter() {
            languages.register(language.clone()).expect("valid");
        }
        assert_eq!(languages, Languages::new());
    }

    #[test]
    fn unknown_language_names_the_known_ones() {
        let error = Languages::new().get("cobol").expect_err("unknown");
        assert_eq!(error.kind(), ErrorKind::LanguageNotSupported);
        assert!(
            error
                .fix()
                .is_some_and(|fix| fix.contains("python, javascript"))
        );
    }

    #[test]
    fn languages_without_libraries_or_plots_say_so() {
        let languages = Languages::new();
        let get = |name| languages.get(name).expect("known");
        let python = get("python").require_installer().expect("has one");
        assert_eq!(python, Installer::Pip);
        let error = get("java").require_installer().expect_err("none");
        assert_eq!(error.kind(), ErrorKind::LibrariesNotSupported);
        let plots = get("r").require_plots().expect("has some");
        assert!(plots.contains(&"ggplot2".to_owned()));
        let error = get("java").require_plots().expect_err("none");
        assert_eq!(error.kind(), ErrorKind::PlotsNotSupported);
    }

    #[test]
    fn invalid_languages_are_refused() {
        let kind = |language| {
            Languages::new()
                .register(language)
                .expect_err("refused")
                .kind()
        };
        let lua = || Language::new("lua", "lua", Step::new(["lua"]).args(["{file}"]));
        assert_eq!(kind(lua().alias("py")), ErrorKind::AlreadyExists);
        assert_eq!(kind(lua().extension("py")), ErrorKind::AlreadyExists);
        assert_eq!(kind(lua().alias("L ua")), ErrorKind::InvalidRequest);
        assert_eq!(kind(lua().extension(".l")), ErrorKind::InvalidRequest);
        assert_eq!(
            kind(lua().compile(Step::compiled())),
            ErrorKind::InvalidRequest
        );
        let compiled = Language::new("lua", "lua", Step::compiled());
        assert_eq!(kind(compiled), ErrorKind::InvalidRequest);
        let wrong = Language::new("lua", "lua", Step::new(["lua"]).args(["{files}"]));
        assert_eq!(kind(wrong), ErrorKind::InvalidRequest);
        let mut languages = Languages::new();
        languages.register(lua()).expect("valid");
        languages.register(lua().image("lua")).expect("replaced");
        assert_eq!(
            languages.get("lua").expect("known").image.as_deref(),
            Some("lua")
        );
    }
}
