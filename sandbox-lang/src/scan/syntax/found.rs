//! What a text does.

use std::collections::HashMap;
use std::ops::Range;

use tree_sitter::{Language, Node, Tree};

use super::dialect::{Dialect, Shape};
pub(crate) use super::names::Import;
use super::names::shortened;
use super::names::{self, Names};
use super::tree::Walk;
use crate::scan::{Category, Pattern};

/// The longest arguments of a call that patterns see, in bytes.
const MAX_ARGUMENTS: usize = 300;

/// What a policy looks for in one language. Only what matches is kept: code may have few names and
/// use each of them very often.
#[derive(Debug)]
pub(crate) struct Wanted<'p> {
    pub(crate) catalog: HashMap<&'static str, Vec<Category>>,
    pub(crate) patterns: Vec<&'p Pattern>,
}

impl Wanted<'_> {
    /// The paths of the catalog that match a path: what it is a part of, and its last members.
    pub(crate) fn matching(&self, path: &str) -> Vec<&'static str> {
        if self.catalog.is_empty() {
            return Vec::new();
        }
        let ends = path.match_indices(['.', '(', '/']).map(|(end, _)| end);
        let ends = ends.chain([path.len()]);
        let mut found: Vec<_> = ends.filter_map(|end| self.key(&path[..end])).collect();
        // `*.name`, and `*.name.name`.
        let starts = path.rmatch_indices('.').map(|(start, _)| start).take(2);
        found.extend(starts.filter_map(|start| self.key(&format!("*{}", &path[start..]))));
        found
    }

    fn key(&self, path: &str) -> Option<&'static str> {
        self.catalog.get_key_value(path).map(|(key, _)| *key)
    }
}

/// Code that runs as a constant text.
#[derive(Debug)]
pub(crate) struct Nested {
    pub(crate) code: String,
    pub(crate) at: Range<usize>,
}

/// All that a text does.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) imports: Vec<Import>,
    /// Paths of the catalog that are used.
    pub(crate) uses: Vec<(&'static str, Range<usize>)>,
    /// Calls that match a pattern, by its index: `path(arguments)`.
    pub(crate) calls: Vec<(usize, Range<usize>)>,
    /// Constant texts that run as code of the same language.
    pub(crate) nested: Vec<Nested>,
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
        let uses = self.uses.iter_mut().map(|(_, at)| at);
        let calls = self.calls.iter_mut().map(|(_, at)| at);
        let nested = self.nested.iter_mut().map(|nested| &mut nested.at);
        let unreadable = self.unreadable.iter_mut().map(|(at, _)| at);
        let all = imports.chain(uses).chain(calls).chain(nested);
        for at in all.chain(unreadable) {
            at.clone_from(place);
        }
    }
}

/// Receives what the function of a language finds.
pub(crate) struct Sink<'a> {
    found: &'a mut Found,
    wanted: &'a Wanted<'a>,
}

impl Sink<'_> {
    /// The code uses a path.
    pub(crate) fn uses(&mut self, path: impl AsRef<str>, node: Node<'_>) {
        add(self.found, self.wanted, &[path], node);
    }

    /// The code loads a module; `None` for a computed name.
    pub(crate) fn imports(&mut self, module: Option<String>, node: Node<'_>) {
        self.found.imports.push(Import {
            module: module.map(|module| shortened(&module).to_owned()),
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
        self.found.nested.push(Nested { code, at });
    }
}

/// What a text does.
pub(crate) fn facts(
    dialect: &'static Dialect,
    grammar: &Language,
    tree: &Tree,
    code: &[u8],
    wanted: &Wanted<'_>,
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
                add(&mut found, wanted, &names.paths(node), node);
            }
            Shape::Call(..) | Shape::Method(..) => {
                let called = names.called(node);
                if !wanted.patterns.is_empty() {
                    let arguments = arguments(&names, node);
                    let calls = called.iter().map(|path| format!("{path}{arguments}"));
                    for call in calls {
                        let all = wanted.patterns.iter().enumerate();
                        let matching = all.filter(|(_, own)| own.regex.is_match(call.as_bytes()));
                        let matching = matching.map(|(index, _)| (index, node.byte_range()));
                        found.calls.extend(matching);
                    }
                }
                if matches!(shape, Shape::Method(..)) {
                    add(&mut found, wanted, &called, node);
                }
                let values = names.value(node);
                add(&mut found, wanted, &values.unwrap_or_default(), node);
            }
            _ => {}
        }
        names.renew();
        let found = &mut found;
        (dialect.visit)(&names, node, &mut Sink { found, wanted });
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

fn add(found: &mut Found, wanted: &Wanted<'_>, paths: &[impl AsRef<str>], node: Node<'_>) {
    for path in paths {
        let matching = wanted.matching(path.as_ref()).into_iter();
        found
            .uses
            .extend(matching.map(|path| (path, node.byte_range())));
    }
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
