//! Go.

use tree_sitter::Node;

use super::super::dialect::{CatalogEntry, Dialect, Shape};
use super::super::found::Sink;
use super::super::names::{Names, Scope};
use crate::scan::Category;

pub(super) static DIALECT: Dialect = Dialect {
    name: "go",
    grammar: || tree_sitter_go::LANGUAGE.into(),
    shapes: &[
        ("comment", Shape::Comment),
        ("interpreted_string_literal", Shape::Text),
        ("raw_string_literal", Shape::Text),
        ("interpreted_string_literal_content", Shape::Content),
        ("raw_string_literal_content", Shape::Content),
        ("binary_expression", Shape::Operator),
        ("identifier", Shape::Name),
        ("package_identifier", Shape::Name),
        ("type_identifier", Shape::Name),
        ("selector_expression", Shape::Member("operand", "field")),
        ("qualified_type", Shape::Member("package", "name")),
        ("call_expression", Shape::Call("function", "arguments")),
        ("parenthesized_expression", Shape::Last),
        ("short_var_declaration", Shape::Assignment("left", "right")),
        ("assignment_statement", Shape::Assignment("left", "right")),
        ("var_spec", Shape::Assignment("name", "value")),
    ],
    declared: &[
        ("function_declaration", "name"),
        ("method_declaration", "name"),
        ("parameter_declaration", "name"),
        ("package_clause", "*"),
        ("import_spec", "*"),
        ("type_spec", "name"),
        ("var_spec", "name"),
    ],
    global: &[],
    ignored: &[],
    normal: str::to_owned,
    import,
    evaluated: &[],
    value: |_, _| None,
    visit,
    catalog: CATALOG,
    is_preprocessed: false,
    is_read_by_bytes: false,
};

fn import(scope: &mut Scope<'_>, node: Node<'_>) {
    if node.kind() != "import_spec" {
        return;
    }
    let Some(path) = node.child_by_field_name("path") else {
        return;
    };
    let Some(module) = scope.names.constant(path) else {
        return;
    };
    scope.import(&module, None, path);
    let name = node.child_by_field_name("name");
    match name {
        Some(name) if name.kind() == "dot" => scope.star(&module),
        Some(name) => {
            let name = scope.names.name(name);
            scope.bind(&name, &module);
        }
        None => {
            let last = module.rsplit('/').next().unwrap_or_default();
            scope.bind(last, &module);
        }
    }
}

fn visit(names: &Names<'_>, node: Node<'_>, sink: &mut Sink<'_>) {
    // The compiler takes what is private elsewhere.
    if node.kind() == "comment" && names.beginning(node, 20).starts_with("//go:linkname") {
        sink.uses("#go:linkname", node);
    }
}

const CATALOG: &[CatalogEntry] = &[
    (
        Category::Process,
        &[
            "os/exec",
            "os.StartProcess",
            "os.FindProcess",
            "syscall.Exec",
            "syscall.ForkExec",
            "syscall.Kill",
            "golang.org/x/sys",
        ],
    ),
    (
        Category::DynamicCode,
        &["go/types", "github.com/traefik/yaegi", "text/template"],
    ),
    (Category::DynamicImport, &["plugin"]),
    (
        Category::Internals,
        &["reflect", "#go:linkname", "runtime/debug"],
    ),
    (Category::Native, &["C", "unsafe", "syscall", "runtime/cgo"]),
    (Category::Deserialization, &["encoding/gob"]),
    (
        Category::FileWrite,
        &[
            "os.Create",
            "os.CreateTemp",
            "os.OpenFile",
            "os.WriteFile",
            "os.Remove",
            "os.RemoveAll",
            "os.Rename",
            "os.Mkdir",
            "os.MkdirAll",
            "os.MkdirTemp",
            "os.Chmod",
            "os.Chown",
            "os.Symlink",
            "os.Link",
            "os.Truncate",
            "io/ioutil.WriteFile",
        ],
    ),
    (
        Category::FileRead,
        &[
            "os.Open",
            "os.ReadFile",
            "os.ReadDir",
            "os.Stat",
            "os.Lstat",
            "os.DirFS",
            "io/ioutil",
            "path/filepath.Walk",
            "path/filepath.WalkDir",
            "path/filepath.Glob",
            "embed",
        ],
    ),
    (
        Category::Network,
        &["net", "golang.org/x/net", "google.golang.org/grpc"],
    ),
    (
        Category::Environment,
        &[
            "os.Getenv",
            "os.LookupEnv",
            "os.Environ",
            "os.Setenv",
            "os.Unsetenv",
            "os.Clearenv",
            "os.ExpandEnv",
            "os.Hostname",
            "os.Chdir",
            "os/user",
        ],
    ),
];
