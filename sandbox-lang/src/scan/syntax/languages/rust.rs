//! Rust.

use tree_sitter::Node;

use super::super::dialect::{CatalogEntry, Dialect, Shape};
use super::super::found::Sink;
use super::super::names::{Names, Scope};
use crate::scan::Category;

pub(super) static DIALECT: Dialect = Dialect {
    name: "rust",
    grammar: || tree_sitter_rust::LANGUAGE.into(),
    shapes: &[
        ("line_comment", Shape::Comment),
        ("block_comment", Shape::Comment),
        ("string_literal", Shape::Text),
        ("raw_string_literal", Shape::Text),
        ("string_content", Shape::Content),
        ("identifier", Shape::Name),
        ("type_identifier", Shape::Name),
        ("scoped_identifier", Shape::Member("path", "name")),
        ("scoped_type_identifier", Shape::Member("path", "name")),
        ("field_expression", Shape::Member("value", "field")),
        ("call_expression", Shape::Call("function", "arguments")),
        ("generic_function", Shape::Value("function")),
        ("parenthesized_expression", Shape::Last),
        ("let_declaration", Shape::Assignment("pattern", "value")),
    ],
    declared: &[
        ("function_item", "name"),
        ("function_signature_item", "name"),
        ("struct_item", "name"),
        ("enum_item", "name"),
        ("mod_item", "name"),
        ("type_item", "name"),
        ("let_declaration", "pattern"),
        ("parameter", "pattern"),
        ("use_as_clause", "alias"),
        ("extern_crate_declaration", "*"),
    ],
    global: &[".", "r#"],
    ignored: &["r#"],
    normal: str::to_owned,
    import,
    evaluated: &[],
    value: |_, _| None,
    visit,
    catalog: CATALOG,
    is_preprocessed: false,
    is_read_by_bytes: false,
};

/// How deeply lists of `use` are nested.
const MAX_DEPTH: u8 = 16;

fn import(scope: &mut Scope<'_>, node: Node<'_>) {
    match node.kind() {
        "use_declaration" => {
            if let Some(argument) = node.child_by_field_name("argument") {
                bind(scope, argument, "", MAX_DEPTH);
            }
        }
        "extern_crate_declaration" => {
            if let Some(name) = node.child_by_field_name("name") {
                let module = scope.names.name(name);
                scope.import(&module, None, name);
                if let Some(alias) = node.child_by_field_name("alias") {
                    let alias = scope.names.name(alias);
                    scope.bind(&alias, &module);
                }
            }
        }
        _ => {}
    }
}

/// Enters a tree of `use`, below a path.
fn bind(scope: &mut Scope<'_>, node: Node<'_>, above: &str, depth: u8) {
    let Some(depth) = depth.checked_sub(1) else {
        scope.computed_import(node);
        return;
    };
    let full = |scope: &Scope<'_>, node: Node<'_>| {
        let own = scope.names.dotted(node).replace("::", ".");
        let own = own.replace("r#", "");
        match (above, own.as_str()) {
            ("", _) => own.trim_start_matches('.').to_owned(),
            (_, "self") => above.to_owned(),
            _ => format!("{above}.{own}"),
        }
    };
    match node.kind() {
        "use_list" => {
            for child in scope.names.children(node) {
                bind(scope, child, above, depth);
            }
        }
        "scoped_use_list" => {
            let path = node.child_by_field_name("path");
            let path = path.map_or_else(|| above.to_owned(), |path| full(scope, path));
            if let Some(list) = node.child_by_field_name("list") {
                bind(scope, list, &path, depth);
            }
        }
        "use_wildcard" => {
            let path = scope.names.children(node).first().copied();
            let path = path.map_or_else(|| above.to_owned(), |path| full(scope, path));
            enter(scope, &path, node);
            scope.star(&path);
        }
        "use_as_clause" => {
            let path = node.child_by_field_name("path").unwrap_or(node);
            let path = full(scope, path);
            enter(scope, &path, node);
            if let Some(alias) = node.child_by_field_name("alias") {
                let alias = scope.names.name(alias);
                scope.bind(&alias, &path);
            }
        }
        _ => {
            let path = full(scope, node);
            enter(scope, &path, node);
            let last = path.rsplit('.').next().unwrap_or_default().to_owned();
            scope.bind(&last, &path);
        }
    }
}

/// Paths have dots in rules, and colons as names of modules.
fn enter(scope: &mut Scope<'_>, path: &str, node: Node<'_>) {
    scope.import(&path.replace('.', "::"), None, node);
    scope.know(path);
}

fn visit(names: &Names<'_>, node: Node<'_>, sink: &mut Sink<'_>) {
    match node.kind() {
        "unsafe_block" => sink.uses("#unsafe code", node),
        "foreign_mod_item" => sink.uses("#foreign functions", node),
        // A path needs no import.
        "scoped_identifier" | "scoped_type_identifier" => {
            for path in names.paths(node) {
                if !path.starts_with('?') {
                    sink.imports(Some(path.replace('.', "::")), node);
                }
            }
        }
        "macro_invocation" => {
            let name = node.child_by_field_name("macro");
            let name = name.map(|name| names.dotted(name)).unwrap_or_default();
            match name.rsplit("::").next().unwrap_or_default() {
                "include" | "include_str" | "include_bytes" | "env" | "option_env" => {
                    sink.uses("#a macro that reads at compile time", node);
                }
                "asm" | "global_asm" | "naked_asm" => sink.uses("#assembly", node),
                _ => {}
            }
        }
        // A macro gets tokens. Those that could be a path are read as one.
        "token_tree" => {
            for path in token_paths(names, node) {
                sink.imports(Some(path.clone()), node);
                sink.uses(path.replace("::", "."), node);
            }
        }
        _ => {}
    }
}

/// The paths among the tokens of a macro's argument.
fn token_paths(names: &Names<'_>, node: Node<'_>) -> Vec<String> {
    let mut paths = Vec::new();
    let mut path = String::new();
    let mut cursor = node.walk();
    for child in node.children(&mut cursor) {
        match child.kind() {
            "identifier" | "crate" | "self" | "super" => path.push_str(&names.name(child)),
            "::" if !path.is_empty() => path.push_str("::"),
            _ => {
                if path.contains("::") {
                    paths.push(std::mem::take(&mut path));
                }
                path.clear();
            }
        }
    }
    if path.contains("::") {
        paths.push(path);
    }
    paths
}

const CATALOG: &[CatalogEntry] = &[
    (
        Category::Process,
        &[
            "std.process.Command",
            "std.os.unix.process",
            "tokio.process",
            "async_process",
            "duct",
            "nix.unistd",
            "libc.fork",
            "libc.execve",
            "libc.system",
            "libc.kill",
        ],
    ),
    (
        Category::DynamicCode,
        &["rhai", "mlua", "rustpython", "boa_engine"],
    ),
    (
        Category::DynamicImport,
        &["libloading", "dlopen", "libc.dlopen"],
    ),
    (
        Category::Internals,
        &["#a macro that reads at compile time", "std.any"],
    ),
    (
        Category::Native,
        &[
            "#unsafe code",
            "#foreign functions",
            "#assembly",
            "libc",
            "nix",
            "rustix",
            "windows_sys",
            "std.ffi",
            "std.arch",
            "core.arch",
            "std.mem.transmute",
        ],
    ),
    (
        Category::FileWrite,
        &[
            "std.fs.write",
            "std.fs.remove_file",
            "std.fs.remove_dir",
            "std.fs.remove_dir_all",
            "std.fs.rename",
            "std.fs.create_dir",
            "std.fs.create_dir_all",
            "std.fs.copy",
            "std.fs.set_permissions",
            "std.fs.hard_link",
            "std.fs.File.create",
            "std.fs.File.create_new",
            "std.fs.OpenOptions",
            "std.os.unix.fs",
            "tempfile",
        ],
    ),
    (
        Category::FileRead,
        &["std.fs", "tokio.fs", "walkdir", "glob"],
    ),
    (
        Category::Network,
        &[
            "std.net",
            "std.os.unix.net",
            "tokio.net",
            "reqwest",
            "hyper",
            "ureq",
            "curl",
            "socket2",
            "rustls",
        ],
    ),
    (Category::Environment, &["std.env"]),
];
