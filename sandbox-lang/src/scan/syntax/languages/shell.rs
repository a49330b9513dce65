//! sh and bash. Their modules are the commands that a script runs.

use tree_sitter::Node;

use super::super::dialect::{CatalogEntry, Dialect, Shape};
use super::super::found::Sink;
use super::super::names::Names;
use super::super::text;
use crate::scan::Category;

pub(super) static SH: Dialect = Dialect {
    name: "sh",
    grammar: || tree_sitter_bash::LANGUAGE.into(),
    shapes: &[
        ("comment", Shape::Comment),
        ("string_content", Shape::Content),
        ("raw_string", Shape::Content),
        ("heredoc_content", Shape::Content),
    ],
    declared: &[],
    global: &[],
    ignored: &[],
    normal: str::to_owned,
    import: |_, _| {},
    evaluated: &[],
    value: |_, _| None,
    visit,
    catalog: CATALOG,
    is_preprocessed: false,
    // To a shell, each byte above ASCII is a part of a word. The grammar's own scanner looks characters up
    // in a table of the C library (`isdigit`, tree-sitter-bash 0.25.1), which ends at U+00FF: `{` and any
    // character far beyond ended the process that scanned.
    is_read_by_bytes: true,
};

pub(super) static BASH: Dialect = Dialect { name: "bash", ..SH };

/// Commands that run the command in their arguments.
const WRAPPERS: &[&str] = &[
    "builtin", "busybox", "chroot", "command", "doas", "env", "exec", "ionice", "nice", "nohup",
    "nsenter", "parallel", "setsid", "stdbuf", "strace", "sudo", "time", "timeout", "unshare",
    "watch", "xargs",
];

/// Commands that run the text after `-c`.
const SHELLS: &[&str] = &["sh", "bash", "dash", "ash", "ksh", "zsh"];

/// How many words of one command are looked at.
const MAX_WORDS: usize = 200;

fn visit(names: &Names<'_>, node: Node<'_>, sink: &mut Sink<'_>) {
    match node.kind() {
        "command" => visit_command(names, node, sink),
        "file_redirect" => {
            let to = node.child_by_field_name("destination");
            let operator = node.child(0).map(|first| first.kind()).unwrap_or_default();
            let operator = match operator {
                "file_descriptor" => node.child(1).map(|next| next.kind()).unwrap_or_default(),
                operator => operator,
            };
            match to.and_then(|to| word(names, to)) {
                Some(path) if path.starts_with("/dev/tcp") || path.starts_with("/dev/udp") => {
                    sink.uses("#a redirection to the network", node);
                }
                Some(path) if path == "/dev/null" => {}
                _ if operator.ends_with("&") => {}
                _ if operator.contains('>') => sink.uses("#a redirection to a file", node),
                _ => {}
            }
        }
        "word" if names.is_spliced(node) => {
            sink.unreadable("a line ends with a backslash within a word", node);
        }
        "variable_assignment" => {
            let name = node.child_by_field_name("name");
            let name = name.map(|name| names.name(name)).unwrap_or_default();
            if name == "PATH" || name == "IFS" || name.starts_with("LD_") || name.contains("_ENV") {
                sink.uses("#setting a variable that others obey", node);
            }
        }
        _ => {}
    }
}

fn visit_command(names: &Names<'_>, node: Node<'_>, sink: &mut Sink<'_>) {
    let Some(name) = node.child_by_field_name("name") else {
        return;
    };
    let mut cursor = node.walk();
    let arguments = node.children_by_field_name("argument", &mut cursor);
    let words = [word(names, name)].into_iter();
    let words = words.chain(arguments.map(|argument| word(names, argument)));
    let words: Vec<Option<String>> = words.take(MAX_WORDS).collect();
    let mut rest = words.as_slice();
    while let Some((first, after)) = rest.split_first() {
        let Some(first) = first else {
            sink.imports(None, node);
            sink.uses("#a computed command", node);
            return;
        };
        let command = first.rsplit('/').next().unwrap_or_default();
        sink.imports(Some(command.to_owned()), node);
        rest = match command {
            "find" => after_word(after, &["-exec", "-execdir", "-ok", "-okdir"]),
            "eval" | "trap" => {
                run(after, sink, node);
                return;
            }
            shell if SHELLS.contains(&shell) => {
                let is_option = |word: &Option<String>| {
                    let word = word.as_deref().unwrap_or_default();
                    word.starts_with('-') && word.ends_with('c')
                };
                if let Some(at) = after.iter().position(is_option) {
                    run(after.get(at + 1..at + 2).unwrap_or_default(), sink, node);
                }
                return;
            }
            wrapper if WRAPPERS.contains(&wrapper) => {
                let is_option = |word: &&Option<String>| {
                    word.as_deref().is_some_and(|word| {
                        let is_number = word.starts_with(|c: char| c.is_ascii_digit());
                        word.starts_with('-') || word.contains('=') || is_number
                    })
                };
                &after[after.iter().take_while(is_option).count()..]
            }
            _ => return,
        };
    }
}

fn after_word<'w>(words: &'w [Option<String>], of: &[&str]) -> &'w [Option<String>] {
    let is = |word: &Option<String>| word.as_deref().is_some_and(|word| of.contains(&word));
    match words.iter().position(is) {
        Some(at) => &words[at + 1..],
        None => &[],
    }
}

/// The words run as code.
fn run(words: &[Option<String>], sink: &mut Sink<'_>, node: Node<'_>) {
    let text: Option<Vec<&str>> = words.iter().map(Option::as_deref).collect();
    match text {
        Some(text) => sink.runs(text.join(" "), node),
        None => {
            sink.imports(None, node);
            sink.uses("#a computed command", node);
        }
    }
}

/// The value of a word, unless the shell computes it.
fn word(names: &Names<'_>, node: Node<'_>) -> Option<String> {
    let mut value = String::new();
    append(names, node, &mut value, 8)?;
    Some(value)
}

fn append(names: &Names<'_>, node: Node<'_>, to: &mut String, depth: u8) -> Option<()> {
    let depth = depth.checked_sub(1)?;
    let own = names.text(node);
    match node.kind() {
        "word" | "number" => {
            // A pattern may match any name.
            if own.contains(['*', '?', '[', '{']) && !["[", "{}"].contains(&&*own) {
                return None;
            }
            let mut characters = own.chars();
            while let Some(c) = characters.next() {
                to.extend(match c {
                    '\\' => characters.next().filter(|next| *next != '\n'),
                    c => Some(c),
                });
            }
            Some(())
        }
        "raw_string" => {
            to.push_str(own.trim_matches('\''));
            Some(())
        }
        "ansi_c_string" => {
            text::unescape(own.strip_prefix("$'")?.strip_suffix('\'')?, to);
            Some(())
        }
        "string" | "concatenation" | "command_name" | "string_content" => {
            let children = names.children(node);
            if children.is_empty() {
                to.push_str(&own.trim_matches('"').replace("\\\n", ""));
                return Some(());
            }
            for child in children {
                append(names, child, to, depth)?;
            }
            Some(())
        }
        _ => None,
    }
}

const CATALOG: &[CatalogEntry] = &[
    (
        Category::Process,
        &[
            "kill",
            "killall",
            "pkill",
            "nohup",
            "setsid",
            "sudo",
            "su",
            "doas",
            "at",
            "batch",
            "crontab",
            "systemctl",
            "service",
            "systemd-run",
            "docker",
            "podman",
            "kubectl",
            "chroot",
            "nsenter",
            "unshare",
            "reboot",
            "shutdown",
        ],
    ),
    (
        Category::DynamicCode,
        &[
            "#a computed command",
            "eval",
            "source",
            ".",
            "sh",
            "bash",
            "dash",
            "ash",
            "ksh",
            "zsh",
            "python",
            "python3",
            "perl",
            "ruby",
            "node",
            "php",
            "awk",
            "gawk",
            "lua",
        ],
    ),
    (
        Category::DynamicImport,
        &[
            "enable", "apt", "apt-get", "dnf", "yum", "apk", "pip", "pip3", "npm", "gem", "cargo",
            "go",
        ],
    ),
    (
        Category::Internals,
        &[
            "gdb", "strace", "ltrace", "insmod", "modprobe", "rmmod", "sysctl",
        ],
    ),
    (
        Category::Native,
        &["gcc", "cc", "clang", "ld", "as", "make"],
    ),
    (
        Category::FileWrite,
        &[
            "#a redirection to a file",
            "rm",
            "rmdir",
            "mv",
            "cp",
            "dd",
            "tee",
            "touch",
            "mkdir",
            "mktemp",
            "ln",
            "chmod",
            "chown",
            "chgrp",
            "truncate",
            "shred",
            "install",
            "rsync",
            "tar",
            "unzip",
            "mkfs",
            "mount",
            "umount",
            "fdisk",
        ],
    ),
    (
        Category::FileRead,
        &[
            "cat", "less", "more", "head", "tail", "find", "ls", "grep", "od", "xxd", "strings",
            "base64", "stat", "locate",
        ],
    ),
    (
        Category::Network,
        &[
            "#a redirection to the network",
            "curl",
            "wget",
            "nc",
            "ncat",
            "netcat",
            "socat",
            "telnet",
            "ssh",
            "scp",
            "sftp",
            "ftp",
            "ping",
            "nmap",
            "dig",
            "nslookup",
            "host",
            "openssl",
            "git",
            "ip",
            "ifconfig",
            "iptables",
        ],
    ),
    (
        Category::Environment,
        &[
            "#setting a variable that others obey",
            "env",
            "printenv",
            "export",
            "unset",
            "uname",
            "hostname",
            "whoami",
            "id",
            "useradd",
            "usermod",
            "passwd",
            "ulimit",
        ],
    ),
];
