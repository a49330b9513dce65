//! Java.

use tree_sitter::Node;

use super::super::dialect::{CatalogEntry, Dialect, Shape};
use super::super::found::Sink;
use super::super::names::{Names, Scope};
use crate::scan::Category;

pub(super) static DIALECT: Dialect = Dialect {
    name: "java",
    grammar: || tree_sitter_java::LANGUAGE.into(),
    shapes: &[
        ("line_comment", Shape::Comment),
        ("block_comment", Shape::Comment),
        ("string_literal", Shape::Text),
        ("string_fragment", Shape::Content),
        ("binary_expression", Shape::Operator),
        ("identifier", Shape::Name),
        ("type_identifier", Shape::Name),
        ("field_access", Shape::Member("object", "field")),
        ("scoped_identifier", Shape::Member("scope", "name")),
        ("scoped_type_identifier", Shape::Pair),
        ("method_reference", Shape::Pair),
        (
            "method_invocation",
            Shape::Method("object", "name", "arguments"),
        ),
        (
            "object_creation_expression",
            Shape::Call("type", "arguments"),
        ),
        ("generic_type", Shape::First),
        ("parenthesized_expression", Shape::Last),
        ("cast_expression", Shape::Value("value")),
        ("variable_declarator", Shape::Assignment("name", "value")),
        ("assignment_expression", Shape::Assignment("left", "right")),
    ],
    declared: &[
        ("class_declaration", "name"),
        ("interface_declaration", "name"),
        ("enum_declaration", "name"),
        ("record_declaration", "name"),
        ("method_declaration", "name"),
        ("constructor_declaration", "name"),
        ("formal_parameter", "name"),
        ("variable_declarator", "name"),
        ("inferred_parameters", "*"),
        ("package_declaration", "*"),
        ("labeled_statement", "*"),
    ],
    global: &["java.lang."],
    ignored: &[],
    normal: str::to_owned,
    import,
    evaluated: &["forName", "loadClass"],
    value,
    visit,
    catalog: CATALOG,
    is_preprocessed: false,
    is_read_by_bytes: false,
};

fn import(scope: &mut Scope<'_>, node: Node<'_>) {
    if node.kind() != "import_declaration" {
        return;
    }
    let children = scope.names.children(node);
    let Some(name) = children.first().copied() else {
        return;
    };
    let is_whole = children.iter().any(|child| child.kind() == "asterisk");
    // Between its parts may be spaces and comments.
    let module = scope.names.dotted(name);
    scope.import(&module, None, name);
    let path = scope.names.simple(module.clone());
    match is_whole {
        true => scope.star(&path),
        false => {
            let last = module.rsplit('.').next().unwrap_or_default();
            scope.bind(last, &path);
        }
    }
}

fn value(names: &Names<'_>, node: Node<'_>) -> Option<Vec<String>> {
    let loads = |path: &String| path.ends_with(".forName") || path.ends_with(".loadClass");
    if !names.called(node).iter().any(loads) {
        return None;
    }
    let class = names.constant(*names.arguments(node).first()?)?;
    Some(vec![names.simple(class)])
}

fn visit(names: &Names<'_>, node: Node<'_>, sink: &mut Sink<'_>) {
    match node.kind() {
        "method_invocation" => {
            let called = names.called(node);
            let is_loader = |path: &String| path == "Class.forName" || path.ends_with(".loadClass");
            if called.iter().any(is_loader) {
                let arguments = names.arguments(node);
                let class = arguments.first().and_then(|first| names.constant(*first));
                sink.imports(class, node);
            }
        }
        // A class by its whole name needs no import.
        "scoped_type_identifier" | "field_access" => {
            // The beginning is enough, and a chain has as many of these nodes as members.
            let name = names.dotted(node);
            if name.starts_with("java.") || name.starts_with("javax.") || name.starts_with("sun.") {
                sink.imports(Some(name), node);
            }
        }
        // The compiler replaces `\u0041` everywhere, before it reads the code.
        "program" if has_needless_escape(names.bytes(node)) => {
            let first = node.child(0).unwrap_or(node);
            sink.unreadable("the code has Unicode escapes of plain characters", first);
        }
        _ => {}
    }
}

/// Whether a Unicode escape stands for an ASCII character, which needs none: it may end a text.
fn has_needless_escape(code: &[u8]) -> bool {
    let mut rest = code;
    while let Some(at) = rest.iter().position(|byte| *byte == b'\\') {
        rest = &rest[at + 1..];
        if rest.first() == Some(&b'u') {
            let marks = rest.iter().take_while(|byte| **byte == b'u').count();
            if rest[marks..].starts_with(b"00")
                && rest.get(marks + 2).is_some_and(|byte| *byte < b'8')
            {
                return true;
            }
        } else {
            rest = rest.get(1..).unwrap_or_default();
        }
    }
    false
}

const CATALOG: &[CatalogEntry] = &[
    (
        Category::Process,
        &[
            "Runtime.getRuntime",
            "Runtime.exec",
            "ProcessBuilder",
            "ProcessHandle",
        ],
    ),
    (
        Category::DynamicCode,
        &[
            "javax.script",
            "javax.tools",
            "jdk.jshell",
            "groovy",
            "bsh",
            "org.mozilla.javascript",
        ],
    ),
    (
        Category::DynamicImport,
        &[
            "Class.forName",
            "ClassLoader",
            "java.net.URLClassLoader",
            "ServiceLoader",
            "*.loadClass",
            "*.defineClass",
        ],
    ),
    (
        Category::Internals,
        &[
            "java.lang.reflect",
            "reflect",
            "invoke",
            "java.lang.invoke",
            "*.setAccessible",
            "*.getDeclaredMethod",
            "*.getDeclaredField",
            "*.getDeclaredMethods",
            "*.getDeclaredFields",
            "sun",
            "jdk.internal",
        ],
    ),
    (
        Category::Native,
        &[
            "System.load",
            "System.loadLibrary",
            "Runtime.load",
            "sun.misc.Unsafe",
            "foreign",
            "com.sun.jna",
        ],
    ),
    (
        Category::Deserialization,
        &[
            "java.io.ObjectInputStream",
            "java.beans.XMLDecoder",
            "com.thoughtworks.xstream",
            "*.readObject",
            "javax.naming",
        ],
    ),
    (
        Category::FileWrite,
        &[
            "java.io.FileOutputStream",
            "java.io.FileWriter",
            "java.io.RandomAccessFile",
            "java.io.PrintWriter",
            "java.io.PrintStream",
            "java.nio.file.Files.write",
            "java.nio.file.Files.writeString",
            "java.nio.file.Files.delete",
            "java.nio.file.Files.deleteIfExists",
            "java.nio.file.Files.move",
            "java.nio.file.Files.copy",
            "java.nio.file.Files.createFile",
            "java.nio.file.Files.newOutputStream",
            "java.nio.file.Files.newBufferedWriter",
        ],
    ),
    (
        Category::FileRead,
        &[
            "java.io.File",
            "java.io.FileInputStream",
            "java.io.FileReader",
            "java.nio.file",
        ],
    ),
    (
        Category::Network,
        &[
            "java.net",
            "javax.net",
            "java.nio.channels",
            "java.rmi",
            "javax.mail",
            "okhttp3",
            "org.apache.http",
        ],
    ),
    (
        Category::Environment,
        &[
            "System.getenv",
            "System.getProperty",
            "System.getProperties",
            "System.setProperty",
            "java.lang.management",
            "management",
        ],
    ),
];
