//! Checks of code, before anything of it reaches a sandbox.

use std::fmt;

use sandbox_core::Result;

use super::CodeRequest;
use crate::{Language, Languages};

/// Decides whether code may run. It isolates nothing: the sandbox does that.
///
/// ```
/// use sandbox_core::{Error, ErrorKind, Result};
/// use sandbox_lang::{CodeCheck, CodeRequest, Language};
///
/// #[derive(Debug)]
/// struct Short;
///
/// impl CodeCheck for Short {
///     fn check(&self, file: &str, _: &Language, code: &[u8]) -> Result<()> {
///         match code.len() {
///             0..1000 => Ok(()),
///             size => {
///                 let context = format!("{file} has {size} bytes");
///                 Err(Error::new(ErrorKind::CodeRefused, "check code", context))
///             }
///         }
///     }
/// }
///
/// let request = CodeRequest::new("python", "print(6 * 7)").check(Short);
/// assert_eq!(request.checks.len(), 1);
/// ```
pub trait CodeCheck: fmt::Debug + Send + Sync {
    /// Checks one file.
    ///
    /// # Errors
    ///
    /// Any error refuses the code; [`sandbox_core::ErrorKind::CodeRefused`] if that is what the
    /// check decided.
    fn check(&self, file: &str, language: &Language, code: &[u8]) -> Result<()>;
}

impl CodeRequest {
    /// Checks the code, and each file of the request with the extension of a language.
    pub(crate) fn run_checks(&self, language: &Language) -> Result<()> {
        if self.checks.is_empty() {
            return Ok(());
        }
        let languages = Languages::new();
        let language_of = |path: &str| {
            let is_own = |extension: &String| path.ends_with(&format!(".{extension}"));
            match language.extensions.iter().any(is_own) {
                true => Some(language),
                false => languages.of_path(path),
            }
        };
        let name = language.file_name_of(&self.code);
        let files = self.modules.iter().chain(&self.files);
        let others = files.filter_map(|(path, code)| Some((path, language_of(path)?, code)));
        for (file, language, code) in [(&name, language, &self.code)].into_iter().chain(others) {
            for check in &self.checks {
                check.check(file, language, code)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use sandbox_core::{Error, ErrorKind};

    use super::*;

    /// Refuses the word `no`.
    #[derive(Debug)]
    struct NotNo;

    impl CodeCheck for NotNo {
        fn check(&self, file: &str, language: &Language, code: &[u8]) -> Result<()> {
            if code != b"no" {
                return Ok(());
            }
            let context = format!("{file} in {}", language.name);
            Err(Error::new(ErrorKind::CodeRefused, "check code", context))
        }
    }

    fn refused(request: CodeRequest) -> Option<String> {
        let language = request.language().expect("known");
        let result = request.check(NotNo).run_checks(&language);
        result.err().map(|error| error.context().to_owned())
    }

    #[test]
    fn code_and_its_files_are_checked_and_data_is_not() {
        let python = || CodeRequest::new("python", "yes");
        assert_eq!(refused(python()), None);
        let code = CodeRequest::new("python", "no");
        assert_eq!(refused(code).as_deref(), Some("run-code.py in python"));
        let module = python().module("a/b.py", "no");
        assert_eq!(refused(module).as_deref(), Some("a/b.py in python"));
        let file = python().file("/tmp/x.sh", "no");
        assert_eq!(refused(file).as_deref(), Some("/tmp/x.sh in sh"));
        assert_eq!(refused(python().file("in.csv", "no")), None);
    }
}
