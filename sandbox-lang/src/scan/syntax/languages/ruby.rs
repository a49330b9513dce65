//! Ruby.

use tree_sitter::Node;

use super::super::dialect::{CatalogEntry, Dialect, Shape};
use super::super::found::Sink;
use super::super::names::Names;
use crate::scan::Category;

pub(super) static DIALECT: Dialect = Dialect {
    name: "ruby",
    grammar: || tree_sitter_ruby::LANGUAGE.into(),
    shapes: &[
        ("comment", Shape::Comment),
        ("string", Shape::Text),
        ("simple_symbol", Shape::Text),
        ("delimited_symbol", Shape::Text),
        ("string_content", Shape::Content),
        ("heredoc_content", Shape::Content),
        ("chained_string", Shape::Joined),
        ("binary", Shape::Operator),
        ("identifier", Shape::Name),
        ("constant", Shape::Name),
        ("scope_resolution", Shape::Member("scope", "name")),
        ("element_reference", Shape::Other),
        ("call", Shape::Method("receiver", "method", "arguments")),
        ("parenthesized_statements", Shape::Last),
        ("assignment", Shape::Assignment("left", "right")),
    ],
    declared: &[
        ("method", "name"),
        ("class", "name"),
        ("module", "name"),
        ("method_parameters", "*"),
        ("block_parameters", "*"),
        ("lambda_parameters", "*"),
        ("optional_parameter", "name"),
        ("keyword_parameter", "name"),
        ("assignment", "left"),
    ],
    global: &[".", "Kernel.", "Object.", "self."],
    ignored: &[],
    normal: str::to_owned,
    import: |_, _| {},
    evaluated: &[
        "const_get",
        "method",
        "public_method",
        "send",
        "__send__",
        "public_send",
    ],
    value,
    visit,
    catalog: CATALOG,
    is_preprocessed: false,
    is_read_by_bytes: false,
};

const LOADERS: &[&str] = &["require", "load", "require_relative", "autoload"];
const EVALUATORS: &[&str] = &["eval", "instance_eval", "class_eval", "module_eval"];
const SENDERS: &[&str] = &[
    "send",
    "__send__",
    "public_send",
    "method",
    "public_method",
    "const_get",
    "instance_method",
];

/// The object and the member of `object.send(:member)`.
fn sent(names: &Names<'_>, node: Node<'_>) -> Option<(Option<Vec<String>>, Option<String>)> {
    let method = names.name(node.child_by_field_name("method")?);
    if !SENDERS.contains(&method.as_str()) {
        return None;
    }
    let object = node.child_by_field_name("receiver");
    let member = names
        .arguments(node)
        .first()
        .and_then(|first| names.constant(*first));
    Some((object.map(|object| names.paths(object)), member))
}

fn value(names: &Names<'_>, node: Node<'_>) -> Option<Vec<String>> {
    let (object, member) = sent(names, node)?;
    let member = member?;
    let Some(object) = object else {
        return Some(vec![member]);
    };
    let mut paths: Vec<_> = object
        .into_iter()
        .map(|path| names.simple(format!("{path}.{member}")))
        .collect();
    // Every object has the methods of Kernel.
    paths.push(member);
    Some(paths)
}

fn visit(names: &Names<'_>, node: Node<'_>, sink: &mut Sink<'_>) {
    match node.kind() {
        "subshell" => sink.uses("#a command in backquotes", node),
        "call" => {
            let called = names.called(node);
            let is = |of: &[&str]| called.iter().any(|path| of.contains(&path.as_str()));
            let arguments = names.arguments(node);
            let first = arguments.first().and_then(|first| names.constant(*first));
            if is(LOADERS) {
                let last = arguments.last().and_then(|last| names.constant(*last));
                sink.imports(
                    if is(&["autoload"]) {
                        last
                    } else {
                        first.clone()
                    },
                    node,
                );
            }
            let method = node.child_by_field_name("method");
            let method = method.map(|method| names.name(method)).unwrap_or_default();
            if EVALUATORS.contains(&method.as_str())
                && let Some(code) = first.clone()
            {
                sink.runs(code, node);
            }
            // `open("|ls")` runs a program.
            if is(&["open", "IO.read", "IO.readlines", "IO.write", "File.open"])
                && first.as_ref().is_none_or(|path| path.starts_with('|'))
            {
                sink.uses("#open with a computed name or a command", node);
            }
            match sent(names, node) {
                Some((_, None)) => sink.uses("#calling a method by a computed name", node),
                Some((_, Some(member))) if LOADERS.contains(&member.as_str()) => {
                    let module = arguments.get(1).and_then(|second| names.constant(*second));
                    sink.imports(module, node);
                }
                _ => {}
            }
        }
        _ => {}
    }
}

const CATALOG: &[CatalogEntry] = &[
    (
        Category::Process,
        &[
            "#a command in backquotes",
            "#open with a computed name or a command",
            "system",
            "exec",
            "spawn",
            "fork",
            "syscall",
            "IO.popen",
            "Process",
            "open3",
            "Open3",
            "pty",
            "PTY",
            "popen",
        ],
    ),
    (
        Category::DynamicCode,
        &[
            "eval",
            "instance_eval",
            "class_eval",
            "module_eval",
            "*.instance_eval",
            "*.class_eval",
            "*.module_eval",
            "*.define_method",
            "binding",
            "RubyVM",
            "ERB",
        ],
    ),
    (Category::DynamicImport, &["load", "autoload"]),
    (
        Category::Internals,
        &[
            "#calling a method by a computed name",
            "ObjectSpace",
            "TracePoint",
            "set_trace_func",
            "*.instance_variable_set",
            "*.remove_const",
            "*.const_missing",
        ],
    ),
    (
        Category::Native,
        &["fiddle", "Fiddle", "ffi", "FFI", "win32ole", "dl"],
    ),
    (
        Category::Deserialization,
        &[
            "Marshal",
            "YAML.load",
            "YAML.unsafe_load",
            "Psych.load",
            "PStore",
        ],
    ),
    (
        Category::FileWrite,
        &[
            "File.write",
            "File.delete",
            "File.unlink",
            "File.rename",
            "File.chmod",
            "File.chown",
            "File.symlink",
            "File.truncate",
            "IO.write",
            "IO.binwrite",
            "Dir.mkdir",
            "Dir.rmdir",
            "Dir.delete",
            "FileUtils",
            "fileutils",
            "tempfile",
            "Tempfile",
        ],
    ),
    (
        Category::FileRead,
        &[
            "File",
            "IO.read",
            "IO.readlines",
            "IO.binread",
            "IO.foreach",
            "Dir",
            "Pathname",
            "open",
            "find",
        ],
    ),
    (
        Category::Network,
        &[
            "socket",
            "TCPSocket",
            "UDPSocket",
            "TCPServer",
            "UNIXSocket",
            "Socket",
            "net",
            "Net",
            "open-uri",
            "URI.open",
            "httparty",
            "faraday",
            "resolv",
            "drb",
            "webrick",
        ],
    ),
    (Category::Environment, &["ENV", "etc", "Etc"]),
];
