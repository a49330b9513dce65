//! What a text does.

use std::ops::Range;

use tree_sitter::{Language, Node, Tree};

use super::dialect::{Dialect, Shape};
pub(crate) use super::names::Import;
use super::names::{self, Names};
use super::tree::Walk;

/// The longest arguments of a call that patterns see, in bytes.
const MAX_ARGUMENTS: usize = 1000;

/// A text uses something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Use {
    /// What it may stand for, as [`Names::paths`].
    pub(crate) path: String,
    pub(crate) at: Range<usize>,
}

/// All that a text does.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) imports: Vec<Import>,
    pub(crate) uses: Vec<Use>,
    /// Calls as `path(arguments)`, if they are wanted.
    pub(crate) calls: Vec<Use>,
    /// Constant texts that run as code of the same language.
    pub(crate) nested: Vec<Use>,
    pub(crate) comments: Vec<Range<usize>>,
    /// The characters of literals.
    pub(crate) literals: Vec<Range<usize>>,
    /// Places that the language reads differently than the scan, and why.
    pub(crate) unreadable: Vec<(Range<usize>, &'static str)>,
    /// Places where the syntax is wrong, and what is missing there.
    pub(crate) errors: Vec<(Range<usize>, Option<&'static str>)>,
}

impl Found {
    /// Moves everything to one place.
    pub(crate) fn move_to(&mut self, place: &Range<usize>) {
        let imports = self.imports.iter_mut().map(|import| &mut import.at);
        let uses = [&mut self.uses, &mut self.calls, &mut self.nested];
        let uses = uses.into_iter().flatten().map(|one| &mut one.at);
        let unreadable = self.unreadable.iter_mut().map(|(at, _)| at);
        for at in imports.chain(uses).chain(unreadable) {
            at.clone_from(place);
        }
    }
}

/// Receives what the function of a language finds.
pub(crate) struct Sink<'a> {
    found: &'a mut Found,
}

impl Sink<'_> {
    /// The code uses a path.
    pub(crate) fn uses(&mut self, path: impl Into<String>, node: Node<'_>) {
        let at = node.byte_range();
        let path = path.into();
        self.found.uses.push(Use { path, at });
    }

    /// The code loads a module; `None` for a computed name.
    pub(crate) fn imports(&mut self, module: Option<String>, node: Node<'_>) {
        self.found.imports.push(Import {
            module,
            member: None,
            at: node.byte_range(),
        });
    }

    /// The language reads the code differently than the scan.
    pub(crate) fn unreadable(&mut self, why: &'static str, node: Node<'_>) {
        self.found.unreadable.push((node.byte_range(), why));
    }

    /// The code runs this text.
    pub(crate) fn runs(&mut self, code: String, node: Node<'_>) {
        let at = node.byte_range();
        self.found.nested.push(Use { path: code, at });
    }
}

/// What a text does. `wants_calls` adds calls as texts, for patterns.
pub(crate) fn facts(
    dialect: &'static Dialect,
    grammar: &Language,
    tree: &Tree,
    code: &[u8],
    wants_calls: bool,
) -> Found {
    let scope = names::read(dialect, grammar, tree, code);
    let names = scope.names;
    let mut found = Found {
        imports: scope.imports,
        ..Found::default()
    };
    for visit in Walk::new(tree) {
        let node = visit.node;
        if node.is_error() || node.is_missing() {
            let is_inner = visit.parent.is_some_and(|parent| parent.is_error());
            if !is_inner {
                let missing = node.is_missing().then(|| node.kind());
                found.errors.push((node.byte_range(), missing));
            }
        }
        names.renew();
        let shape = names.shape(node);
        match shape {
            Shape::Comment => found.comments.push(node.byte_range()),
            Shape::Content => found.literals.push(node.byte_range()),
            Shape::Name if is_declared(dialect, &names, &visit) => {}
            Shape::Name | Shape::Member(..) | Shape::Pair | Shape::Element(..) => {
                add(&mut found.uses, names.paths(node), node);
            }
            Shape::Call(..) | Shape::Method(..) => {
                let called = names.called(node);
                if wants_calls {
                    let arguments = arguments(&names, node);
                    let calls = called.iter().map(|path| format!("{path}{arguments}"));
                    add(&mut found.calls, calls.collect(), node);
                }
                if matches!(shape, Shape::Method(..)) {
                    add(&mut found.uses, called, node);
                }
                let values = names.value(node);
                add(&mut found.uses, values.unwrap_or_default(), node);
            }
            _ => {}
        }
        names.renew();
        (dialect.visit)(&names, node, &mut Sink { found: &mut found });
    }
    found
}

/// Whether a name declares something or is a label, or is a part of a member that is looked at as a
/// whole.
fn is_declared(dialect: &Dialect, names: &Names<'_>, visit: &super::tree::Visit<'_>) -> bool {
    let Some(parent) = visit.parent else {
        return false;
    };
    match (names.shape(parent), visit.field) {
        (Shape::Member(..) | Shape::Pair, _) => return true,
        (Shape::Method(_, method, _), Some(field)) if field == method => return true,
        _ => {}
    }
    let field = visit.field.unwrap_or_default();
    let matches =
        |(kind, own): &(&str, &str)| *kind == parent.kind() && (*own == field || *own == "*");
    dialect.declared.iter().any(matches)
}

fn add(to: &mut Vec<Use>, paths: Vec<String>, node: Node<'_>) {
    let at = node.byte_range();
    to.extend(paths.into_iter().map(|path| Use {
        path,
        at: at.clone(),
    }));
}

/// The arguments of a call in parentheses, with each run of spaces as one.
fn arguments(names: &Names<'_>, node: Node<'_>) -> String {
    let field = match names.shape(node) {
        Shape::Call(_, arguments) | Shape::Method(_, _, arguments) => arguments,
        _ => return String::new(),
    };
    let Some(arguments) = node.child_by_field_name(field) else {
        return String::new();
    };
    let text = names.beginning(arguments, MAX_ARGUMENTS);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
