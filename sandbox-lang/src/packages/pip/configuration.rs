//! pip's configuration files, limited to the options about package sources.

use std::collections::BTreeMap;

/// Sections that apply to an installation; later ones override earlier ones.
const SECTIONS: [&str; 2] = ["global", "install"];

/// The values of pip's `[global]` and `[install]` sections by option name (`index-url`). Lines of a
/// multi-line value are joined by line feeds. Unparsable lines are skipped: pip reports them
/// itself.
pub(super) fn options(text: &str) -> BTreeMap<String, String> {
    let mut found: [BTreeMap<String, String>; 2] = Default::default();
    let mut section = None;
    let mut last: Option<String> = None;
    for line in text.lines() {
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with(['#', ';']) {
            continue;
        }
        if let Some(name) = trimmed
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
        {
            section = SECTIONS.iter().position(|known| *known == name.trim());
            last = None;
            continue;
        }
        let Some(section) = section else { continue };
        let options = &mut found[section];
        if line.starts_with([' ', '\t'])
            && let Some(value) = last.as_ref().and_then(|name| options.get_mut(name))
        {
            if !value.is_empty() {
                value.push('\n');
            }
            value.push_str(trimmed);
            continue;
        }
        let Some((name, value)) = trimmed.split_once(['=', ':']) else {
            last = None;
            continue;
        };
        let name = name.trim().to_lowercase().replace('_', "-");
        options.insert(name.clone(), value.trim().to_owned());
        last = Some(name);
    }
    let [mut options, stronger] = found;
    options.extend(stronger);
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_parsed_like_pip() {
        let text = "# comment\n\
            [global]\n\
            index-url = https://a.example/simple\n\
            extra_index_url =\n    https://b.example/simple\n    https://c.example/simple\n\
            ; another\n\
            cert: /etc/ca.pem\n\
            [list]\n\
            format = columns\n\
            [install]\n\
            index-url=https://d.example/simple?a=b\n\
            nonsense\n   continued\n";
        let options = options(text);
        let value = |name: &str| options.get(name).map(String::as_str);
        assert_eq!(value("index-url"), Some("https://d.example/simple?a=b"));
        assert_eq!(
            value("extra-index-url"),
            Some("https://b.example/simple\nhttps://c.example/simple")
        );
        assert_eq!(value("cert"), Some("/etc/ca.pem"));
        assert_eq!(value("format"), None);
        assert_eq!(options.len(), 3);
    }

    #[test]
    fn any_text_is_parsed_without_panic() {
        for text in [
            "",
            "=",
            "[",
            "[global",
            "a = b",
            "[global]\n = x\n y",
            "[global]\n\tx",
        ] {
            options(text);
        }
    }
}
