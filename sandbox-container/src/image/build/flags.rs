//! Parses the options of instructions.
//!
//! Builders unquote options, expand variables in them and split `--mount` at commas, each
//! differently. So options may only have characters that all builders leave unchanged.

use super::lines::Line;

/// An option: `--name` or `--name=value`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Flag<'a> {
    pub text: &'a str,
    pub name: &'a str,
    pub value: Option<&'a str>,
}

/// Splits the options from the arguments of an instruction.
///
/// # Errors
///
/// Options that are unknown, repeated, quoted, or contain a variable that affects what is fetched.
pub(super) fn flags(line: &Line) -> Result<(Vec<Flag<'_>>, &str), String> {
    let mut flags = Vec::<Flag<'_>>::new();
    let mut rest = line.rest.as_str();
    while rest.starts_with("--") {
        let (text, after) = rest.split_once([' ', '\t']).unwrap_or((rest, ""));
        rest = after.trim_start_matches([' ', '\t']);
        let keyword = line.keyword;
        let plain = |c: char| c.is_ascii_graphic() && !matches!(c, '"' | '\'' | '\\');
        if !text.chars().all(plain) {
            return Err(format!(
                "{keyword} {text}: write options without quotes, backslashes and letters other than ASCII"
            ));
        }
        let flag = match text[2..].split_once('=') {
            Some((name, value)) => Flag {
                text,
                name,
                value: Some(value),
            },
            None => Flag {
                text,
                name: &text[2..],
                value: None,
            },
        };
        if !known(keyword).contains(&flag.name) {
            return Err(format!("{keyword} {text}: this option is not supported"));
        }
        if text.contains('$') && !matches!(flag.name, "platform" | "chown" | "chmod") {
            return Err(format!(
                "{keyword} {text}: write the value itself: variables in this option are not supported"
            ));
        }
        if flag.name != "mount" && flags.iter().any(|earlier| earlier.name == flag.name) {
            return Err(format!("{keyword} {text}: this option is given twice"));
        }
        flags.push(flag);
    }
    Ok((flags, rest))
}

/// The options of an instruction that grant the build no extra rights.
fn known(keyword: &str) -> &'static [&'static str] {
    match keyword {
        "FROM" => &["platform"],
        "COPY" => &["from", "chown", "chmod", "link"],
        "ADD" => &["chown", "chmod", "link", "checksum", "keep-git-dir"],
        "RUN" => &["mount", "network"],
        "HEALTHCHECK" => &[
            "interval",
            "timeout",
            "start-period",
            "start-interval",
            "retries",
        ],
        _ => &[],
    }
}

/// Checks an option of `RUN`, which could grant the code more than the request does.
///
/// # Errors
///
/// A network that the request does not grant, and mounts other than `tmpfs`. Some builders resolve
/// links in a bind's source and in a cache's id on the host, so the build could access the host's
/// files.
pub(super) fn check_run(flag: &Flag<'_>, network: bool) -> Result<(), String> {
    let text = flag.text;
    let value = flag.value.unwrap_or_default();
    match flag.name {
        "network" if network || matches!(value, "none" | "default") => Ok(()),
        "network" => Err(format!("RUN {text}: the build has no network")),
        _ => {
            let mut is_tmpfs = false;
            for part in value.split(',') {
                let (key, value) = part.split_once('=').unwrap_or((part, ""));
                match key.to_ascii_lowercase().as_str() {
                    "type" if value == "tmpfs" && !is_tmpfs => is_tmpfs = true,
                    "target" | "dst" | "destination" | "size" => {}
                    "type" | "from" | "source" | "src" => {
                        return Err(format!(
                            "RUN {text}: only mounts of type tmpfs are supported; use COPY, or COPY --from"
                        ));
                    }
                    _ => {
                        return Err(format!("RUN {text}: {key:?} is not supported in a mount"));
                    }
                }
            }
            match is_tmpfs {
                true => Ok(()),
                false => Err(format!(
                    "RUN {text}: only mounts of type tmpfs are supported; use COPY, or COPY --from"
                )),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::lines::lines;
    use super::*;

    fn check(instruction: &str) -> Result<(), String> {
        let lines = lines(instruction).expect(instruction).lines;
        let (flags, _) = flags(&lines[0])?;
        match lines[0].keyword {
            "RUN" => flags.iter().try_for_each(|flag| check_run(flag, false)),
            _ => Ok(()),
        }
    }

    #[test]
    fn harmless_options_are_split_off() {
        let lines = lines("COPY --from=x\t --chown=$U:$G  a --b /c").expect("lines");
        let (found, rest) = flags(&lines.lines[0]).expect("flags");
        let texts = found.iter().map(|flag| flag.text).collect::<Vec<_>>();
        assert_eq!(texts, ["--from=x", "--chown=$U:$G"]);
        assert_eq!(rest, "a --b /c");
        for good in [
            "RUN --network=none --mount=type=tmpfs,target=/a --mount=dst=/b,type=tmpfs,size=1m true",
            "FROM --platform=$BUILDPLATFORM x",
            "HEALTHCHECK --interval=1s CMD true",
            "COPY --link a b",
            "CMD [\"--x\"]",
        ] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
    }

    #[test]
    fn options_that_builders_interpret_differently_are_refused() {
        let mut reasons = String::new();
        for bad in [
            "RUN --mount=type=bind,FROM=evil,target=/x true",
            "RUN --mount=type=bind,\"from=evil\",target=/x true",
            "RUN --mount=type=bind,fr\\om=evil,target=/x true",
            "RUN --mount=type=tmpfs,target=$X true",
            "RUN --mount=type=tmpfs,target=/x,type=bind true",
            "RUN --mount=type=tmpfs,Source=/x true",
            "RUN --mount=type=tmpfs,bind-propagation=shared,target=/x true",
            "RUN --mount=Type=Bind,target=/x true",
            "RUN --mount=target=/x true",
            "RUN --mount true",
            "RUN --mount=type=cache,id=../../etc,target=/x true",
            "RUN --mount=type=secret,id=x true",
            "RUN --network=host true",
            "RUN --network=NONE true",
            "RUN --network true",
            "RUN --security=insecure true",
            "RUN --device=x true",
            "COPY --from=a --from=b /a /a",
            "COPY --From=a /a /a",
            "COPY '--from=a' --from=b /a",
            "COPY --chown=1 '--from=a' /a",
            "COPY --chown=1\u{a0}--from=b /a /a",
            "COPY --from=$X /a /a",
            "COPY -- --from=x /a",
            "COPY --$X a b",
            "ADD --chown=\u{e0}--x a b",
            "ADD --unpack=true a b",
            "ENV --from=x",
            "CMD --help",
        ] {
            match check(bad) {
                Err(why) => reasons.push_str(&format!("{}\n    {why}\n", bad.escape_debug())),
                // Not an option: the word is quoted, so builders take it as a path.
                Ok(()) => reasons.push_str(&format!("{}\n    a path\n", bad.escape_debug())),
            }
        }
        insta::assert_snapshot!(reasons);
    }
}
