//! JavaScript and TypeScript, with the modules of Node.

mod catalog;

use tree_sitter::Node;

use super::super::dialect::{Dialect, Shape};
use super::super::found::Sink;
use super::super::names::{Names, Scope};
use super::super::text;
use catalog::CATALOG;

pub(super) static JAVASCRIPT: Dialect = Dialect {
    name: "javascript",
    grammar: || tree_sitter_javascript::LANGUAGE.into(),
    shapes: &[
        ("comment", Shape::Comment),
        ("hash_bang_line", Shape::Comment),
        ("string", Shape::Text),
        ("template_string", Shape::Text),
        ("string_fragment", Shape::Content),
        ("binary_expression", Shape::Operator),
        ("identifier", Shape::Name),
        ("shorthand_property_identifier", Shape::Name),
        ("member_expression", Shape::Member("object", "property")),
        ("subscript_expression", Shape::Element("object", "index")),
        ("call_expression", Shape::Call("function", "arguments")),
        ("new_expression", Shape::Call("constructor", "arguments")),
        ("parenthesized_expression", Shape::Last),
        ("sequence_expression", Shape::Last),
        ("await_expression", Shape::Last),
        ("non_null_expression", Shape::First),
        ("as_expression", Shape::First),
        ("satisfies_expression", Shape::First),
        ("type_assertion", Shape::Last),
        ("variable_declarator", Shape::Assignment("name", "value")),
        ("assignment_expression", Shape::Assignment("left", "right")),
        ("assignment_pattern", Shape::Assignment("left", "right")),
    ],
    declared: &[
        ("function_declaration", "name"),
        ("function_expression", "name"),
        ("generator_function_declaration", "name"),
        ("class_declaration", "name"),
        ("class", "name"),
        ("formal_parameters", "*"),
        ("arrow_function", "parameter"),
        ("required_parameter", "pattern"),
        ("optional_parameter", "pattern"),
        ("variable_declarator", "name"),
        ("assignment_pattern", "left"),
        ("import_clause", "*"),
        ("import_specifier", "*"),
        ("namespace_import", "*"),
        ("import_require_clause", "*"),
        ("export_specifier", "alias"),
        ("labeled_statement", "*"),
    ],
    global: &[
        "globalThis.",
        "window.",
        "global.",
        "self.",
        "node:",
        "frames.",
        "top.",
    ],
    ignored: &[".default"],
    normal,
    import,
    evaluated: &[
        "require",
        "get",
        "createRequire",
        "import",
        "getBuiltinModule",
    ],
    value,
    visit,
    catalog: CATALOG,
    is_preprocessed: false,
    is_read_by_bytes: false,
};

pub(super) static TYPESCRIPT: Dialect = Dialect {
    name: "typescript",
    grammar: || tree_sitter_typescript::LANGUAGE_TYPESCRIPT.into(),
    ..JAVASCRIPT
};

/// Calls that load the module in their first argument.
const LOADERS: &[&str] = &[
    "require",
    "import",
    "module.require",
    "process.binding",
    "process.getBuiltinModule",
    "require.resolve",
    "importScripts",
    "module.createRequire()",
    "process.mainModule.require",
];

/// Calls that run the text in their first argument.
const EVALUATORS: &[&str] = &[
    "eval",
    "vm.runInThisContext",
    "vm.runInNewContext",
    "setTimeout",
    "setInterval",
];

/// Names may have escapes.
fn normal(name: &str) -> String {
    let mut plain = String::new();
    text::unescape(name, &mut plain);
    plain
}

fn import(scope: &mut Scope<'_>, node: Node<'_>) {
    match node.kind() {
        "import_statement" | "export_statement" | "import_require_clause" => {
            if let Some(source) = node.child_by_field_name("source")
                && let Some(module) = scope.names.constant(source)
            {
                let module = scope.names.simple(module);
                scope.import(&module, None, source);
                if node.kind() == "import_require_clause" {
                    let children = scope.names.children(node);
                    bind_pattern(scope, children.first().copied(), &module);
                } else if let Some(clause) = scope
                    .names
                    .children(node)
                    .into_iter()
                    .find(|child| child.kind() == "import_clause")
                {
                    bind_clause(scope, clause, &module);
                }
            }
        }
        "variable_declarator" | "assignment_expression" => {
            let fields = match node.kind() {
                "variable_declarator" => ("name", "value"),
                _ => ("left", "right"),
            };
            let (name, value) = (
                node.child_by_field_name(fields.0),
                node.child_by_field_name(fields.1),
            );
            if let (Some(name), Some(value)) = (name, value)
                && scope.names.shape(value) != Shape::Other
            {
                for path in scope.names.paths(value) {
                    bind_pattern(scope, Some(name), &path);
                }
            }
        }
        _ => {}
    }
}

fn bind_clause(scope: &mut Scope<'_>, clause: Node<'_>, module: &str) {
    for child in scope.names.children(clause) {
        match child.kind() {
            "namespace_import" => {
                let name = scope.names.children(child).first().copied();
                bind_pattern(scope, name, module);
            }
            "named_imports" => {
                for specifier in scope.names.children(child) {
                    let Some(name) = specifier.child_by_field_name("name") else {
                        continue;
                    };
                    let member = match scope.names.shape(name) {
                        Shape::Text => scope.names.constant(name).unwrap_or_default(),
                        _ => scope.names.name(name),
                    };
                    let alias = specifier.child_by_field_name("alias").unwrap_or(name);
                    let path = scope.names.simple(format!("{module}.{member}"));
                    bind_pattern(scope, Some(alias), &path);
                }
            }
            _ => bind_pattern(scope, Some(child), module),
        }
    }
}

/// Binds a name, or the names of `{exec, spawn: start}`.
fn bind_pattern(scope: &mut Scope<'_>, pattern: Option<Node<'_>>, path: &str) {
    let Some(pattern) = pattern else {
        return;
    };
    if pattern.kind() != "object_pattern" {
        if pattern.kind() == "identifier" {
            let name = scope.names.name(pattern);
            scope.bind(&name, path);
        }
        return;
    }
    for part in scope.names.children(pattern) {
        let (key, value) = match part.kind() {
            "pair_pattern" => (
                part.child_by_field_name("key"),
                part.child_by_field_name("value"),
            ),
            "object_assignment_pattern" => (part.child_by_field_name("left"), None),
            _ => (Some(part), None),
        };
        let Some(key) = key else { continue };
        let member = match scope.names.shape(key) {
            Shape::Text => scope.names.constant(key).unwrap_or_default(),
            _ => scope.names.name(key),
        };
        let name = match value {
            Some(value) if value.kind() == "identifier" => scope.names.name(value),
            Some(_) => continue,
            None => member.clone(),
        };
        let path = scope.names.simple(format!("{path}.{member}"));
        scope.bind(&name, &path);
    }
}

fn is_one_of(paths: &[String], of: &[&str]) -> bool {
    paths.iter().any(|path| of.contains(&path.as_str()))
}

/// What a call calls; `import(…)` is a keyword.
fn called(names: &Names<'_>, node: Node<'_>) -> Vec<String> {
    let function = node.child_by_field_name("function");
    match function {
        Some(function) if function.kind() == "import" => vec!["import".to_owned()],
        _ => names.called(node),
    }
}

fn first(names: &Names<'_>, node: Node<'_>) -> Option<String> {
    let arguments = names.arguments(node);
    arguments.first().and_then(|first| names.constant(*first))
}

fn value(names: &Names<'_>, node: Node<'_>) -> Option<Vec<String>> {
    let called = called(names, node);
    if is_one_of(&called, LOADERS) {
        return Some(vec![names.simple(first(names, node)?)]);
    }
    if is_one_of(&called, &["module.createRequire", "createRequire"]) {
        return Some(vec!["require".to_owned()]);
    }
    if is_one_of(&called, &["Reflect.get"]) {
        let arguments = names.arguments(node);
        let member = names.constant(*arguments.get(1)?)?;
        let of = names.paths(*arguments.first()?).into_iter();
        return Some(
            of.map(|path| names.simple(format!("{path}.{member}")))
                .collect(),
        );
    }
    None
}

fn visit(names: &Names<'_>, node: Node<'_>, sink: &mut Sink<'_>) {
    if !matches!(node.kind(), "call_expression" | "new_expression") {
        return;
    }
    let called = called(names, node);
    if is_one_of(&called, LOADERS) {
        let module = first(names, node);
        sink.imports(module.map(|module| names.simple(module)), node);
    }
    if is_one_of(&called, EVALUATORS)
        && let Some(code) = first(names, node)
    {
        sink.uses("#running a text as code", node);
        sink.runs(code, node);
    }
    if is_one_of(&called, &["Function"]) {
        let arguments = names.arguments(node);
        if let Some(code) = arguments.last().and_then(|last| names.constant(*last)) {
            sink.runs(format!("(function() {{{code}\n}})"), node);
        }
    }
}
