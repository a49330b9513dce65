//! Secrets: `--secret`.

use std::convert::Infallible;

use clap::Args;
use sandbox::{ExecRequest, Secret, SecretForm, SecretSource};

use crate::command_error::CommandError;

/// The secrets of a program.
#[derive(Debug, Clone, Default, Args)]
pub struct SecretOptions {
    /// Secret that the program gets as the variable NAME (repeatable). Its value is in this
    /// command's variable NAME, or where ,env=VARIABLE ,src=FILE or ,command=COMMAND says; ,as=file
    /// puts it into a file, whose path is in NAME_FILE; ,host=HOST (repeatable) gives the program a
    /// placeholder, which becomes the value in requests to HOST under a rule at level http
    #[arg(
        long,
        value_name = "NAME[,OPTION...]",
        value_parser = SecretOption::parse,
        help_heading = "Policy"
    )]
    secret: Vec<ParsedSecret>,
}

/// An option, or what is wrong with it. The parser of the command line would show it, and it may
/// hold a value.
type ParsedSecret = Result<SecretOption, String>;

/// One secret as an option names it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct SecretOption {
    name: String,
    source: Option<SecretSource>,
    form: Option<SecretForm>,
}

/// Secrets with their values.
#[derive(Debug, Clone, Default)]
pub struct Secrets(Vec<(String, Secret)>);

impl SecretOptions {
    /// The names.
    pub fn names(&self) -> Result<Vec<String>, CommandError> {
        Ok(self.all()?.map(|secret| secret.name.clone()).collect())
    }

    fn all(&self) -> Result<impl Iterator<Item = &SecretOption>, CommandError> {
        match self.secret.iter().find_map(|secret| secret.as_ref().err()) {
            None => Ok(self.secret.iter().flatten()),
            Some(why) => Err(CommandError::argument(format!("--secret: {why}"))),
        }
    }

    /// Refuses anything but names, for a command that runs no program.
    pub fn check_only_names(&self) -> Result<(), CommandError> {
        let is_more = |secret: &&SecretOption| secret.source.is_some() || secret.form.is_some();
        match self.all()?.find(is_more) {
            None => Ok(()),
            Some(SecretOption { name, .. }) => Err(CommandError::argument(format!(
                "--secret {name}: a sandbox has only the name, and no value"
            ))
            .with_fix("say where the value is when a program runs: sandbox exec --secret …")),
        }
    }

    /// Reads the values.
    pub fn read(&self) -> Result<Secrets, CommandError> {
        let read = |secret: &SecretOption| {
            let own = || SecretSource::Env((&secret.name).into());
            let value = secret.source.clone().unwrap_or_else(own);
            let value = value.read(&secret.name)?;
            let form = secret.form.clone().unwrap_or(SecretForm::Variable);
            Ok((secret.name.clone(), Secret { value, form }))
        };
        self.all()?.map(read).collect::<Result<_, _>>().map(Secrets)
    }
}

impl Secrets {
    /// Gives them to an execution.
    pub fn give(&self, request: &mut ExecRequest) {
        request.secrets.extend(self.0.iter().cloned());
    }
}

impl SecretOption {
    fn parse(text: &str) -> Result<ParsedSecret, Infallible> {
        Ok(secret(text))
    }
}

const AS_AND_HOST: &str = "with host=HOST, the program gets no value, so as= says nothing";

/// `NAME[,env=VARIABLE|,src=FILE|,command=COMMAND][,as=variable|file|,host=HOST...]`. A command is
/// last, since it may contain commas.
fn secret(text: &str) -> Result<SecretOption, String> {
    let (name, mut rest) = text.split_once(',').unwrap_or((text, ""));
    if name.contains('=') {
        return Err(
            "write NAME, and where the value is: a value on the command line would be \
                    seen in the list of processes"
                .into(),
        );
    }
    let mut option = SecretOption {
        name: name.to_owned(),
        source: None,
        form: None,
    };
    while !rest.is_empty() {
        let (part, others) = match rest.starts_with("command=") {
            true => (rest, ""),
            false => rest.split_once(',').unwrap_or((rest, "")),
        };
        rest = others;
        let source = match part.split_once('=') {
            Some((_, "")) => return Err(format!("{part}: nothing follows the =")),
            Some(("env", variable)) => SecretSource::Env(variable.into()),
            Some(("src", file)) => SecretSource::File(file.into()),
            Some(("command", command)) => SecretSource::Command(command.into()),
            Some(("as", form)) => {
                let form = match form {
                    "variable" => SecretForm::Variable,
                    "file" => SecretForm::File,
                    _ => return Err(format!("as={form}: write as=variable or as=file")),
                };
                match option.form.replace(form) {
                    None => {}
                    Some(SecretForm::Placeholder { .. }) => return Err(AS_AND_HOST.into()),
                    Some(_) => return Err("it has two forms".into()),
                }
                continue;
            }
            Some(("host", host)) => {
                match &mut option.form {
                    None => {
                        let hosts = vec![host.to_owned()];
                        option.form = Some(SecretForm::Placeholder { hosts });
                    }
                    Some(SecretForm::Placeholder { hosts }) => hosts.push(host.to_owned()),
                    Some(_) => return Err(AS_AND_HOST.into()),
                }
                continue;
            }
            _ => {
                return Err(format!(
                    "after {name}, write env=VARIABLE, src=FILE, command=COMMAND, as=variable, \
                     as=file or host=HOST"
                ));
            }
        };
        if option.source.replace(source).is_some() {
            return Err("its value is in two places".into());
        }
    }
    Ok(option)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_has_a_source_and_a_form() {
        let parsed = |text: &str| secret(text).unwrap();
        let option = |source, form| SecretOption {
            name: "T".into(),
            source,
            form,
        };
        assert_eq!(parsed("T"), option(None, None));
        let file = Some(SecretForm::File);
        let from = |path: &str| Some(SecretSource::File(path.into()));
        assert_eq!(
            parsed("T,src=/a b,as=file"),
            option(from("/a b"), file.clone())
        );
        assert_eq!(parsed("T,as=file,src=x"), option(from("x"), file));
        let hosts = vec!["a.org".into(), "*.b.org:8443".into()];
        assert_eq!(
            parsed("T,host=a.org,env=X,host=*.b.org:8443"),
            option(
                Some(SecretSource::Env("X".into())),
                Some(SecretForm::Placeholder { hosts })
            )
        );
        let command = "pass show a,b=c";
        let source = Some(SecretSource::Command(command.into()));
        assert_eq!(
            parsed(&format!("T,command={command}")),
            option(source, None)
        );
    }

    #[test]
    fn values_and_unknown_parts_are_refused() {
        for (text, shown) in [
            ("T=hunter2", "list of processes"),
            ("T,hunter2", "after T, write env"),
            ("T,env=", "nothing follows"),
            ("T,as=pipe", "as=variable or as=file"),
            ("T,host=", "nothing follows"),
            ("T,as=file,host=a.org", "no value"),
            ("T,host=a.org,as=file", "no value"),
            ("T,env=A,src=B", "two places"),
            ("T,as=file,as=file", "two forms"),
        ] {
            let error = secret(text).unwrap_err();
            assert!(error.contains(shown), "{text}: {error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn a_sandbox_has_names_alone() {
        let options = |text| SecretOptions {
            secret: vec![secret(text)],
        };
        options("T").check_only_names().unwrap();
        assert!(options("T,env=A").check_only_names().is_err());
        assert!(options("T,as=file").check_only_names().is_err());
    }
}
