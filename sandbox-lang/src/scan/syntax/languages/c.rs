//! C and C++.

use tree_sitter::Node;

use super::super::dialect::{CatalogEntry, Dialect, Shape};
use super::super::found::Sink;
use super::super::names::{Names, Scope};
use crate::scan::Category;

const SHAPES: &[(&str, Shape)] = &[
    ("comment", Shape::Comment),
    ("string_literal", Shape::Text),
    ("raw_string_literal", Shape::Text),
    ("string_content", Shape::Content),
    ("raw_string_content", Shape::Content),
    ("concatenated_string", Shape::Joined),
    ("identifier", Shape::Name),
    ("type_identifier", Shape::Name),
    ("namespace_identifier", Shape::Name),
    ("field_expression", Shape::Member("argument", "field")),
    ("qualified_identifier", Shape::Member("scope", "name")),
    ("call_expression", Shape::Call("function", "arguments")),
    ("parenthesized_expression", Shape::Last),
    ("pointer_expression", Shape::Value("argument")),
    ("init_declarator", Shape::Assignment("declarator", "value")),
    ("assignment_expression", Shape::Assignment("left", "right")),
];

pub(super) static C: Dialect = Dialect {
    name: "c",
    grammar: || tree_sitter_c::LANGUAGE.into(),
    shapes: SHAPES,
    declared: &[
        ("parameter_declaration", "declarator"),
        ("init_declarator", "declarator"),
        ("struct_specifier", "name"),
        ("field_declaration", "declarator"),
        ("labeled_statement", "label"),
    ],
    global: &["std.", "."],
    ignored: &[],
    normal: str::to_owned,
    import,
    evaluated: &[],
    value: |_, _| None,
    visit,
    catalog: CATALOG,
    is_preprocessed: true,
    is_read_by_bytes: false,
};

pub(super) static CPP: Dialect = Dialect {
    name: "cpp",
    grammar: || tree_sitter_cpp::LANGUAGE.into(),
    ..C
};

fn import(scope: &mut Scope<'_>, node: Node<'_>) {
    match node.kind() {
        "preproc_include" => match node.child_by_field_name("path") {
            Some(path) if ["system_lib_string", "string_literal"].contains(&path.kind()) => {
                let text = scope.names.text(path);
                let name = text.trim_matches(['<', '>', '"', ' ']).to_owned();
                scope.import(&name, None, path);
            }
            other => scope.computed_import(other.unwrap_or(node)),
        },
        "namespace_alias_definition" => {
            let name = node.child_by_field_name("name");
            let of = scope.names.children(node).last().copied();
            if let (Some(name), Some(of)) = (name, of) {
                let path = scope.names.text(of).replace("::", ".");
                let path = scope.names.simple(path);
                let name = scope.names.name(name);
                scope.bind(&name, &path);
            }
        }
        _ => {}
    }
}

fn visit(names: &Names<'_>, node: Node<'_>, sink: &mut Sink<'_>) {
    match node.kind() {
        "gnu_asm_expression" | "asm_statement" => sink.uses("#assembly", node),
        // What a macro stands for is plain text.
        "preproc_arg" => {
            let text = names.text(node);
            let words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
            for word in words.filter(|word| !word.is_empty()) {
                sink.uses(word, node);
            }
            // The preprocessor makes a name of two.
            if text.contains("##") {
                sink.uses("#joining names in a macro", node);
            }
        }
        "identifier" | "field_identifier" | "type_identifier" if names.is_spliced(node) => {
            sink.unreadable("a line ends with a backslash within a word", node);
        }
        _ => {}
    }
}

const CATALOG: &[CatalogEntry] = &[
    (
        Category::Process,
        &[
            "system",
            "popen",
            "fork",
            "vfork",
            "clone",
            "clone3",
            "execl",
            "execlp",
            "execle",
            "execv",
            "execvp",
            "execve",
            "execvpe",
            "fexecve",
            "execveat",
            "posix_spawn",
            "posix_spawnp",
            "kill",
            "killpg",
            "tgkill",
            "ptrace",
            "wordexp",
            "spawn.h",
            "CreateProcess",
            "WinExec",
            "ShellExecute",
        ],
    ),
    (
        Category::DynamicCode,
        &["mprotect", "#joining names in a macro"],
    ),
    (
        Category::DynamicImport,
        &[
            "dlopen",
            "dlmopen",
            "dlsym",
            "dlfcn.h",
            "LoadLibrary",
            "GetProcAddress",
        ],
    ),
    (
        Category::Internals,
        &[
            "process_vm_readv",
            "process_vm_writev",
            "sys/ptrace.h",
            "linux/bpf.h",
        ],
    ),
    (
        Category::Native,
        &["#assembly", "syscall", "sys/syscall.h", "gets", "ioctl"],
    ),
    (
        Category::FileWrite,
        &[
            "remove",
            "unlink",
            "unlinkat",
            "rmdir",
            "rename",
            "renameat",
            "mkdir",
            "mkdirat",
            "chmod",
            "fchmod",
            "chown",
            "symlink",
            "link",
            "truncate",
            "ftruncate",
            "creat",
            "open",
            "openat",
            "mkstemp",
            "mount",
            "umount",
            "chroot",
            "ofstream",
            "fstream",
            "filesystem",
        ],
    ),
    (
        Category::FileRead,
        &[
            "fopen", "freopen", "opendir", "readdir", "scandir", "ifstream", "stat", "lstat",
            "readlink", "dirent.h",
        ],
    ),
    (
        Category::Network,
        &[
            "socket",
            "connect",
            "bind",
            "listen",
            "accept",
            "sendto",
            "recvfrom",
            "getaddrinfo",
            "gethostbyname",
            "sys/socket.h",
            "netdb.h",
            "netinet",
            "arpa",
            "curl",
            "winsock2.h",
            "boost/asio",
        ],
    ),
    (
        Category::Environment,
        &[
            "getenv",
            "secure_getenv",
            "setenv",
            "putenv",
            "unsetenv",
            "clearenv",
            "environ",
            "setuid",
            "setgid",
            "seteuid",
            "prctl",
            "capset",
            "unshare",
            "setns",
            "getpwnam",
            "pwd.h",
        ],
    ),
];
