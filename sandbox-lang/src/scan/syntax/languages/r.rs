//! R.

use tree_sitter::Node;

use super::super::dialect::{CatalogEntry, Dialect, Shape};
use super::super::found::Sink;
use super::super::names::{Names, Scope};
use crate::scan::Category;

pub(super) static DIALECT: Dialect = Dialect {
    name: "r",
    grammar: || tree_sitter_r::LANGUAGE.into(),
    shapes: &[
        ("comment", Shape::Comment),
        ("string", Shape::Text),
        ("string_content", Shape::Content),
        ("identifier", Shape::Name),
        ("namespace_operator", Shape::Member("lhs", "rhs")),
        ("extract_operator", Shape::Member("lhs", "rhs")),
        ("call", Shape::Call("function", "arguments")),
        ("parenthesized_expression", Shape::Value("body")),
        ("argument", Shape::Value("value")),
        ("binary_operator", Shape::Assignment("lhs", "rhs")),
    ],
    declared: &[("argument", "name"), ("parameter", "name")],
    global: &["base.", "utils."],
    ignored: &[],
    // A name may be quoted.
    normal: |name| name.trim_matches(['`', '"', '\'']).to_owned(),
    import,
    evaluated: &["get", "match.fun", "getFunction", "get0"],
    value,
    visit,
    catalog: CATALOG,
    is_preprocessed: false,
    is_read_by_bytes: false,
};

const LOADERS: &[&str] = &[
    "library",
    "require",
    "requireNamespace",
    "loadNamespace",
    "attachNamespace",
];

/// A name as text or as itself.
fn named(names: &Names<'_>, node: Node<'_>) -> Option<String> {
    let value = node.child_by_field_name("value").unwrap_or(node);
    match value.kind() {
        "identifier" => Some(names.name(value)),
        _ => names.constant(value),
    }
}

fn import(scope: &mut Scope<'_>, node: Node<'_>) {
    if node.kind() == "binary_operator"
        && let (Some(left), Some(operator), Some(right)) = (
            node.child_by_field_name("lhs"),
            node.child_by_field_name("operator"),
            node.child_by_field_name("rhs"),
        )
        && operator.kind().ends_with('>')
    {
        scope.bind_value(right, left);
    }
    if node.kind() != "call" {
        return;
    }
    let called = scope.names.called(node);
    if !called.iter().any(|path| LOADERS.contains(&path.as_str())) {
        return;
    }
    let arguments = scope.names.arguments(node);
    let is_computed = arguments.iter().any(|argument| {
        let name = argument.child_by_field_name("name");
        name.is_some_and(|name| scope.names.name(name) == "character.only")
    });
    let names = &scope.names;
    let name = arguments.first().and_then(|first| match is_computed {
        true => names.constant(first.child_by_field_name("value")?),
        false => named(names, *first),
    });
    match name {
        Some(module) => {
            scope.import(&module, None, node);
            scope.star(&module);
        }
        None => scope.computed_import(node),
    }
}

fn value(names: &Names<'_>, node: Node<'_>) -> Option<Vec<String>> {
    let getters = ["get", "match.fun", "getFunction", "get0"];
    if !names
        .called(node)
        .iter()
        .any(|path| getters.contains(&path.as_str()))
    {
        return None;
    }
    let arguments = names.arguments(node);
    let first = arguments.first()?;
    let name = names.constant(first.child_by_field_name("value").unwrap_or(*first))?;
    Some(vec![names.simple(name)])
}

fn visit(names: &Names<'_>, node: Node<'_>, sink: &mut Sink<'_>) {
    match node.kind() {
        "namespace_operator" => {
            let package = node.child_by_field_name("lhs");
            sink.imports(package.map(|package| names.name(package)), node);
        }
        "call" => {
            let called = names.called(node);
            let is = |of: &[&str]| called.iter().any(|path| of.contains(&path.as_str()));
            let arguments = names.arguments(node);
            let first = arguments.first().and_then(|first| named(names, *first));
            // The function may be text.
            if let Some(function) = node.child_by_field_name("function")
                && let Some(name) = names.constant(function)
            {
                sink.uses(name, node);
            }
            if is(&[
                "do.call", "Reduce", "Map", "Filter", "lapply", "sapply", "vapply",
            ]) {
                for argument in &arguments {
                    let value = argument.child_by_field_name("value");
                    if let Some(name) = value.and_then(|value| names.constant(value)) {
                        sink.uses(name, node);
                    }
                }
            }
            if is(&["parse", "str2lang", "str2expression"]) {
                for argument in &arguments {
                    let value = argument.child_by_field_name("value");
                    if let Some(code) = value.and_then(|value| names.constant(value)) {
                        sink.runs(code, node);
                    }
                }
            }
            if is(&["get", "match.fun", "getFunction"]) && first.is_none() {
                sink.uses("#getting a function by a computed name", node);
            }
        }
        _ => {}
    }
}

const CATALOG: &[CatalogEntry] = &[
    (
        Category::Process,
        &[
            "system",
            "system2",
            "shell",
            "shell.exec",
            "pipe",
            "processx",
            "callr",
            "sys",
            "parallel",
            "tools.pskill",
        ],
    ),
    (
        Category::DynamicCode,
        &[
            "eval",
            "evalq",
            "parse",
            "str2lang",
            "str2expression",
            "source",
            "sys.source",
        ],
    ),
    (
        Category::DynamicImport,
        &[
            "install.packages",
            "remotes",
            "devtools",
            "pak",
            "loadNamespace",
        ],
    ),
    (
        Category::Internals,
        &[
            "#getting a function by a computed name",
            "assignInNamespace",
            "getFromNamespace",
            "unlockBinding",
            "asNamespace",
            "getNamespace",
            "*.__enclos_env__",
            ".Internal",
        ],
    ),
    (
        Category::Native,
        &[
            "dyn.load",
            ".C",
            ".Call",
            ".Fortran",
            ".External",
            "Rcpp",
            "reticulate",
            "inline",
            "rJava",
        ],
    ),
    (
        Category::Deserialization,
        &["load", "readRDS", "unserialize", "attach"],
    ),
    (
        Category::FileWrite,
        &[
            "unlink",
            "file.remove",
            "file.rename",
            "file.create",
            "file.copy",
            "file.append",
            "file.symlink",
            "dir.create",
            "Sys.chmod",
            "writeLines",
            "write",
            "write.csv",
            "write.table",
            "saveRDS",
            "save",
            "sink",
            "dump",
            "dput",
            "file",
        ],
    ),
    (
        Category::FileRead,
        &[
            "readLines",
            "readline",
            "scan",
            "read.csv",
            "read.table",
            "readBin",
            "list.files",
            "dir",
            "file.info",
            "file.exists",
        ],
    ),
    (
        Category::Network,
        &[
            "url",
            "download.file",
            "curl",
            "httr",
            "httr2",
            "RCurl",
            "socketConnection",
            "serverSocket",
            "make.socket",
            "plumber",
            "shiny",
            "browseURL",
        ],
    ),
    (
        Category::Environment,
        &[
            "Sys.getenv",
            "Sys.setenv",
            "Sys.info",
            "setwd",
            "Sys.unsetenv",
        ],
    ),
];
