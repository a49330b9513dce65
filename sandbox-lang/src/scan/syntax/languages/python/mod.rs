//! Python.

mod catalog;

use tree_sitter::Node;
use unicode_normalization::UnicodeNormalization as _;

use super::super::dialect::{Dialect, Shape};
use super::super::found::Sink;
use super::super::names::{Names, Scope};
use catalog::CATALOG;

pub(super) static DIALECT: Dialect = Dialect {
    name: "python",
    grammar: || tree_sitter_python::LANGUAGE.into(),
    shapes: &[
        ("comment", Shape::Comment),
        ("string", Shape::Text),
        ("string_content", Shape::Content),
        ("concatenated_string", Shape::Joined),
        ("binary_operator", Shape::Operator),
        ("identifier", Shape::Name),
        ("attribute", Shape::Member("object", "attribute")),
        ("subscript", Shape::Element("value", "subscript")),
        ("call", Shape::Call("function", "arguments")),
        ("parenthesized_expression", Shape::First),
        ("await", Shape::First),
        ("named_expression", Shape::Assignment("name", "value")),
        ("assignment", Shape::Assignment("left", "right")),
        ("default_parameter", Shape::Assignment("name", "value")),
        (
            "typed_default_parameter",
            Shape::Assignment("name", "value"),
        ),
    ],
    declared: &[
        ("function_definition", "name"),
        ("class_definition", "name"),
        ("keyword_argument", "name"),
        ("parameters", "*"),
        ("lambda_parameters", "*"),
        ("default_parameter", "name"),
        ("typed_default_parameter", "name"),
        ("typed_parameter", ""),
        ("assignment", "left"),
        ("named_expression", "name"),
        ("dotted_name", "*"),
        ("aliased_import", "alias"),
    ],
    global: &["builtins.", "__builtins__.", "__builtin__.", "sys.modules."],
    ignored: &[".__dict__"],
    // Names are equal if their normal forms are.
    normal: |name| match name.is_ascii() {
        true => name.to_owned(),
        false => name.nfkc().collect(),
    },
    import,
    evaluated: &[
        "import_module",
        "__import__",
        "find_spec",
        "find_loader",
        "find_module",
        "load_module",
        "load_source",
        "run_module",
        "get_loader",
        "resolve_name",
        "getattr",
        "globals",
        "locals",
        "vars",
        "get",
        "pop",
        "setdefault",
        "__getitem__",
        "__getattribute__",
    ],
    value,
    visit,
    catalog: CATALOG,
    is_preprocessed: false,
    is_read_by_bytes: false,
};

/// Calls that load a module with the name in their first argument.
const LOADERS: &[&str] = &[
    "__import__",
    "importlib.import_module",
    "importlib.__import__",
    "importlib.util.find_spec",
    "importlib.find_loader",
    "imp.find_module",
    "imp.load_module",
    "imp.load_source",
    "runpy.run_module",
    "pkgutil.get_loader",
    "pkgutil.resolve_name",
    "pkgutil.find_loader",
];

/// Calls that run the text in their first argument.
const EVALUATORS: &[&str] = &["eval", "exec", "compile"];

/// Methods that get an entry or an attribute by its name.
const GETTERS: &[&str] = &[
    "get",
    "pop",
    "setdefault",
    "__getitem__",
    "__getattribute__",
];

fn import(scope: &mut Scope<'_>, node: Node<'_>) {
    match node.kind() {
        "import_statement" => {
            for (name, alias) in imported(scope, node) {
                let module = scope.names.dotted(name);
                scope.import(&module, None, name);
                match alias {
                    Some(alias) => scope.bind(&alias, &module),
                    None => {
                        let first = module.split('.').next().unwrap_or_default();
                        scope.bind(first, first);
                    }
                }
            }
        }
        "import_from_statement" => {
            let Some(from) = node.child_by_field_name("module_name") else {
                return;
            };
            let module = scope.names.dotted(from);
            let mut is_whole = true;
            for (name, alias) in imported(scope, node) {
                is_whole = false;
                let member = scope.names.dotted(name);
                scope.import(&module, Some(&member), from);
                let alias = alias.unwrap_or_else(|| member.clone());
                let path = scope.names.simple(format!("{module}.{member}"));
                scope.bind(&alias, &path);
            }
            if is_whole {
                scope.import(&module, None, from);
                scope.star(&module);
            }
        }
        _ => {}
    }
}

/// The names that a statement imports, with their other names.
fn imported<'t>(scope: &Scope<'_>, node: Node<'t>) -> Vec<(Node<'t>, Option<String>)> {
    let mut cursor = node.walk();
    let names = node.children_by_field_name("name", &mut cursor);
    let name = |node: Node<'t>| match node.kind() {
        "aliased_import" => {
            let alias = node.child_by_field_name("alias");
            let name = node.child_by_field_name("name").unwrap_or(node);
            (name, alias.map(|alias| scope.names.name(alias)))
        }
        _ => (node, None),
    };
    names.filter(Node::is_named).map(name).collect()
}

/// The value of an argument, which may have a name.
fn argument(node: Node<'_>) -> Node<'_> {
    match node.kind() {
        "keyword_argument" => node.child_by_field_name("value").unwrap_or(node),
        _ => node,
    }
}

fn constant(names: &Names<'_>, call: Node<'_>, index: usize) -> Option<String> {
    let arguments = names.arguments(call);
    arguments
        .get(index)
        .and_then(|node| names.constant(argument(*node)))
}

fn is_one_of(paths: &[String], of: &[&str]) -> bool {
    paths.iter().any(|path| of.contains(&path.as_str()))
}

fn value(names: &Names<'_>, node: Node<'_>) -> Option<Vec<String>> {
    let called = names.called(node);
    let first = || constant(names, node, 0);
    let of_argument = || {
        let arguments = names.arguments(node);
        let node = arguments.first().map(|node| argument(*node));
        node.map(|node| names.paths(node))
    };
    let members = |of: Vec<String>, name: &str| {
        let paths = of.into_iter().map(|path| match path.is_empty() {
            true => name.to_owned(),
            false => names.simple(format!("{path}.{name}")),
        });
        paths.collect::<Vec<_>>()
    };
    if is_one_of(&called, LOADERS) {
        let module = first()?;
        let package = module.split('.').next().unwrap_or_default().to_owned();
        return Some(vec![module, package]);
    }
    if is_one_of(&called, &["globals", "locals"]) {
        return Some(vec![String::new()]);
    }
    if is_one_of(&called, &["vars"]) {
        return Some(of_argument().unwrap_or_else(|| vec![String::new()]));
    }
    if is_one_of(&called, &["getattr"]) {
        return Some(members(of_argument()?, &constant(names, node, 1)?));
    }
    let function = node.child_by_field_name("function")?;
    if function.kind() == "attribute" {
        let method = names.name(function.child_by_field_name("attribute")?);
        if GETTERS.contains(&method.as_str()) {
            let of = names.paths(function.child_by_field_name("object")?);
            let is_table = |path: &String| path.is_empty() || names.is_known(path);
            if of.iter().any(is_table) {
                return Some(members(of, &first()?));
            }
        }
    }
    None
}

fn visit(names: &Names<'_>, node: Node<'_>, sink: &mut Sink<'_>) {
    match node.kind() {
        "call" => visit_call(names, node, sink),
        "subscript" => {
            let of = node.child_by_field_name("value");
            if of.is_some_and(|of| is_one_of(&names.paths(of), &["sys.modules"])) {
                let index = node.child_by_field_name("subscript");
                sink.imports(index.and_then(|index| names.constant(index)), node);
            }
        }
        "comment" if node.start_position().row < 2 && !is_readable(&names.text(node)) => {
            sink.unreadable("the file has another encoding than UTF-8", node);
        }
        _ => {}
    }
}

fn visit_call(names: &Names<'_>, node: Node<'_>, sink: &mut Sink<'_>) {
    let called = names.called(node);
    if is_one_of(&called, LOADERS) {
        sink.imports(constant(names, node, 0), node);
    }
    if is_module_table(names, node) {
        sink.imports(constant(names, node, 0), node);
    }
    if is_one_of(&called, EVALUATORS)
        && let Some(code) = constant(names, node, 0)
    {
        sink.runs(code, node);
    }
    if is_one_of(&called, &["getattr", "setattr"]) && constant(names, node, 1).is_none() {
        let arguments = names.arguments(node);
        let of = arguments.first().map(|of| names.paths(argument(*of)));
        if of.is_some_and(|of| of.iter().any(|path| names.is_known(path))) {
            sink.uses("#getting a computed member of a module", node);
        }
    }
    if is_one_of(&called, &["open", "io.open", "codecs.open", "os.fdopen"]) && writes(names, node) {
        sink.uses("#opening a file to change it", node);
    }
}

/// Whether it is a method of the table of modules that gets one.
fn is_module_table(names: &Names<'_>, call: Node<'_>) -> bool {
    let function = call.child_by_field_name("function");
    let object = function.and_then(|function| {
        let method = names.name(function.child_by_field_name("attribute")?);
        GETTERS.contains(&method.as_str()).then_some(())?;
        function.child_by_field_name("object")
    });
    object.is_some_and(|object| is_one_of(&names.paths(object), &["sys.modules"]))
}

/// Whether a call opens a file to change it; a computed mode may.
fn writes(names: &Names<'_>, call: Node<'_>) -> bool {
    let arguments = names.arguments(call);
    let named = arguments.iter().find(|node| {
        let name = node.child_by_field_name("name");
        name.is_some_and(|name| names.name(name) == "mode")
    });
    let second = arguments
        .get(1)
        .filter(|node| node.kind() != "keyword_argument");
    match named.or(second) {
        Some(mode) => names
            .constant(argument(*mode))
            .is_none_or(|mode| mode.contains(['w', 'a', 'x', '+'])),
        None => false,
    }
}

/// Whether a comment in the first two lines leaves the file's encoding to be one that the scan
/// reads as well.
fn is_readable(comment: &str) -> bool {
    let Some((_, rest)) = comment.split_once("coding") else {
        return true;
    };
    let Some(rest) = rest.strip_prefix([':', '=']) else {
        return true;
    };
    let name = rest.trim_start_matches([' ', '\t']);
    let end = name
        .find(|c: char| !c.is_ascii_alphanumeric() && !"-_.".contains(c))
        .unwrap_or(name.len());
    let name = name[..end].to_ascii_lowercase().replace('_', "-");
    [
        "utf-8",
        "utf8",
        "utf-8-sig",
        "ascii",
        "us-ascii",
        "latin-1",
        "iso-8859-1",
    ]
    .contains(&name.as_str())
}
