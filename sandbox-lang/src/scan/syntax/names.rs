//! What names in code stand for. A name may stand for several things; none is left out.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

use tree_sitter::{Language, Node, Tree};

use super::dialect::{Dialect, Shape};
use super::tree::Walk;

/// How many things a name may stand for.
const MAX_MEANINGS: usize = 8;
/// How many bytes of a name or path count. Names in rules are shorter, and a policy's modules too.
pub(crate) const MAX_NAME: usize = 200;
/// How many members of members a path has. Every rule is much shorter, and each part of a longer
/// chain is looked at by itself.
const MAX_LINKS: usize = 24;
/// How many calls are evaluated for one path, so that nested ones do not multiply.
const MAX_CALLS: u8 = 32;

/// A module that code loads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Import {
    /// `None` if the program computes the name.
    pub(crate) module: Option<String>,
    /// The part that is imported, which may be a module as well.
    pub(crate) member: Option<String>,
    pub(crate) at: Range<usize>,
}

/// The names of one text.
pub(crate) struct Names<'c> {
    pub(crate) dialect: &'static Dialect,
    code: &'c [u8],
    shapes: Vec<Shape>,
    meanings: HashMap<String, Vec<String>>,
    /// Modules of which all names are imported.
    stars: Vec<String>,
    /// First parts of paths that a rule may know.
    roots: HashSet<String>,
    /// How many calls may still be evaluated.
    calls: Cell<u8>,
}

/// Enters what a text imports into its names.
pub(crate) struct Scope<'c> {
    pub(crate) names: Names<'c>,
    pub(crate) imports: Vec<Import>,
}

impl Scope<'_> {
    /// The code loads a module, or a member of it.
    pub(crate) fn import(&mut self, module: &str, member: Option<&str>, node: Node<'_>) {
        self.names.roots.insert(first_part(module).to_owned());
        self.imports.push(Import {
            module: Some(shortened(module).to_owned()),
            member: member.map(|member| shortened(member).to_owned()),
            at: node.byte_range(),
        });
    }

    /// A rule may know paths that begin like this one.
    pub(crate) fn know(&mut self, path: &str) {
        self.names.roots.insert(first_part(path).to_owned());
    }

    /// The code loads a module with a name that it computes.
    pub(crate) fn computed_import(&mut self, node: Node<'_>) {
        self.imports.push(Import {
            module: None,
            member: None,
            at: node.byte_range(),
        });
    }

    /// A name stands for a path.
    pub(crate) fn bind(&mut self, name: &str, path: &str) {
        let path = shortened(path);
        if self.names.roots.contains(first_part(path)) {
            let meanings = self.names.meanings.entry(name.to_owned()).or_default();
            if meanings.len() < MAX_MEANINGS && !meanings.iter().any(|known| known == path) {
                meanings.push(path.to_owned());
            }
        }
    }

    /// A name stands for a value.
    pub(crate) fn bind_value(&mut self, name: Node<'_>, value: Node<'_>) {
        if self.names.shape(name) != Shape::Name || self.names.shape(value) == Shape::Other {
            return;
        }
        let name = self.names.name(name);
        for path in self.names.paths(value) {
            if path != name {
                self.bind(&name, &path);
            }
        }
    }

    /// All names of a module are imported.
    pub(crate) fn star(&mut self, module: &str) {
        if self.names.stars.len() < MAX_MEANINGS
            && !self.names.stars.iter().any(|own| own == module)
        {
            self.names.stars.push(shortened(module).to_owned());
        }
    }

    /// Enters assignments of a name, and of several at once.
    fn assign(&mut self, node: Node<'_>) {
        let Shape::Assignment(left, right) = self.names.shape(node) else {
            return;
        };
        let (Some(left), Some(right)) = (
            node.child_by_field_name(left),
            node.child_by_field_name(right),
        ) else {
            return;
        };
        if self.names.shape(left) == Shape::Name {
            self.bind_value(left, right);
            return;
        }
        let (left, right) = (self.names.children(left), self.names.children(right));
        if left.len() == right.len() {
            for (name, value) in left.into_iter().zip(right) {
                self.bind_value(name, value);
            }
        }
    }
}

/// The names and imports of a text.
pub(crate) fn read<'c>(
    dialect: &'static Dialect,
    grammar: &Language,
    tree: &Tree,
    code: &'c [u8],
) -> Scope<'c> {
    let mut shapes = vec![Shape::Other; grammar.node_kind_count()];
    for (id, shape) in shapes.iter_mut().enumerate() {
        let kind = u16::try_from(id)
            .ok()
            .and_then(|id| grammar.node_kind_for_id(id));
        let known = dialect.shapes.iter().find(|(own, _)| Some(*own) == kind);
        *shape = known.map_or(Shape::Other, |(_, shape)| *shape);
    }
    let paths = dialect.catalog.iter().flat_map(|(_, paths)| *paths);
    let names = Names {
        dialect,
        code,
        shapes,
        meanings: HashMap::new(),
        stars: Vec::new(),
        roots: paths.map(|path| first_part(path).to_owned()).collect(),
        calls: Cell::new(MAX_CALLS),
    };
    let mut scope = Scope {
        names,
        imports: Vec::new(),
    };
    for visit in Walk::new(tree) {
        (dialect.import)(&mut scope, visit.node);
    }
    for visit in Walk::new(tree) {
        scope.names.renew();
        scope.assign(visit.node);
    }
    scope
}

/// A name without what does not count, so that code cannot multiply a long one.
pub(crate) fn shortened(name: &str) -> &str {
    let mut end = name.len().min(MAX_NAME);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    &name[..end]
}

fn first_part(path: &str) -> &str {
    path.split(['.', '(', '/']).next().unwrap_or_default()
}

impl<'c> Names<'c> {
    /// What a node is.
    pub(crate) fn shape(&self, node: Node<'_>) -> Shape {
        let shape = self.shapes.get(usize::from(node.kind_id()));
        match node.is_named() {
            true => shape.copied().unwrap_or(Shape::Other),
            false => Shape::Other,
        }
    }

    /// The text of a node; bytes that are no text are replaced.
    pub(crate) fn text(&self, node: Node<'_>) -> Cow<'c, str> {
        String::from_utf8_lossy(self.code.get(node.byte_range()).unwrap_or_default())
    }

    /// The first bytes of a node's text.
    pub(crate) fn beginning(&self, node: Node<'_>, most: usize) -> Cow<'c, str> {
        let range = node.byte_range();
        let end = range.end.min(range.start + most);
        String::from_utf8_lossy(self.code.get(range.start..end).unwrap_or_default())
    }

    /// The bytes of a node.
    pub(crate) fn bytes(&self, node: Node<'_>) -> &'c [u8] {
        self.code.get(node.byte_range()).unwrap_or_default()
    }

    /// The text of a dotted name, without what may be between its parts.
    pub(crate) fn dotted(&self, node: Node<'_>) -> String {
        let text = self.name(node);
        let mut dotted = String::new();
        let mut rest = text.as_str();
        while let Some(at) = rest.find("/*") {
            dotted.push_str(&rest[..at]);
            let comment = &rest[at..];
            rest = comment.find("*/").map_or("", |end| &comment[end + 2..]);
        }
        dotted.push_str(rest);
        dotted.retain(|c| !c.is_whitespace() && c != '\\');
        dotted
    }

    /// Whether a line ends within the word of a node: the compiler joins them to another word.
    pub(crate) fn is_spliced(&self, node: Node<'_>) -> bool {
        let after = self.code.get(node.end_byte()..).unwrap_or_default();
        let rest = after
            .strip_prefix(b"\\\n")
            .or_else(|| after.strip_prefix(b"\\\r\n"));
        let next = rest.and_then(|rest| rest.first());
        next.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
    }

    /// The text of a name, as the language compares it.
    pub(crate) fn name(&self, node: Node<'_>) -> String {
        (self.dialect.normal)(&self.beginning(node, MAX_NAME))
    }

    /// The named children without comments.
    pub(crate) fn children<'t>(&self, node: Node<'t>) -> Vec<Node<'t>> {
        let mut cursor = node.walk();
        let children = node.named_children(&mut cursor);
        children
            .filter(|child| !child.is_extra() && self.shape(*child) != Shape::Comment)
            .collect()
    }

    /// The paths that an expression may stand for, such as `os.system` and `open().read`. An unknown
    /// beginning is `?`.
    pub(crate) fn paths(&self, node: Node<'_>) -> Vec<String> {
        let unknown = || vec!["?".to_owned()];
        let mut links: Vec<String> = Vec::new();
        let mut next = Some(node);
        let mut bases = None;
        for _ in 0..MAX_LINKS {
            let Some(node) = next else {
                // A member of nothing is global: `::system`.
                bases = Some(vec![String::new()]);
                break;
            };
            match self.shape(node) {
                Shape::Name => bases = Some(self.meanings_of(&self.name(node))),
                Shape::Member(whole, part) => {
                    let part = node.child_by_field_name(part);
                    links.push(part.map(|part| self.name(part)).unwrap_or_default());
                    next = node.child_by_field_name(whole);
                }
                Shape::Pair => {
                    let children = self.children(node);
                    let last = children.last().filter(|_| children.len() > 1);
                    links.push(last.map(|part| self.name(*part)).unwrap_or_default());
                    next = children.first().copied();
                }
                Shape::Element(whole, index) => {
                    let index = node.child_by_field_name(index);
                    let constant = index.and_then(|index| self.constant(index));
                    links.push(constant.unwrap_or_else(|| "[]".to_owned()));
                    next = node.child_by_field_name(whole);
                }
                Shape::Call(function, _) => match self.value(node) {
                    Some(values) => bases = Some(values),
                    None => {
                        links.push("()".to_owned());
                        next = Some(node.child_by_field_name(function).unwrap_or(node));
                    }
                },
                Shape::Method(object, method, _) => match self.value(node) {
                    Some(values) => bases = Some(values),
                    None => {
                        links.push("()".to_owned());
                        let method = node.child_by_field_name(method);
                        let object = node.child_by_field_name(object);
                        let method = method.map(|method| self.name(method));
                        match object {
                            Some(object) => {
                                links.push(method.unwrap_or_default());
                                next = Some(object);
                            }
                            None => {
                                let meanings = self.meanings_of(&method.unwrap_or_default());
                                bases = Some(meanings);
                            }
                        }
                    }
                },
                Shape::First => next = self.children(node).first().copied().or(Some(node)),
                Shape::Last => next = self.children(node).last().copied().or(Some(node)),
                Shape::Assignment(_, field) | Shape::Value(field) => {
                    next = node.child_by_field_name(field).or(Some(node))
                }
                _ => bases = Some(unknown()),
            }
            if bases.is_some() {
                break;
            }
        }
        let bases = bases.unwrap_or_else(unknown);
        let joined = bases.into_iter().map(|base| self.join(base, &links));
        joined.collect()
    }

    /// What a call returns, if that is known.
    pub(crate) fn value(&self, node: Node<'_>) -> Option<Vec<String>> {
        let (method, name) = match self.shape(node) {
            Shape::Call(function, _) => {
                let function = node.child_by_field_name(function)?;
                match self.shape(function) {
                    Shape::Member(_, name) => (function, name),
                    _ => (node, ""),
                }
            }
            Shape::Method(_, name, _) => (node, name),
            _ => return None,
        };
        let name = method.child_by_field_name(name);
        if let Some(name) = name
            && !self.dialect.evaluated.contains(&self.name(name).as_str())
        {
            return None;
        }
        let left = self.calls.get().checked_sub(1)?;
        self.calls.set(left);
        (self.dialect.value)(self, node)
    }

    /// Lets calls be evaluated again, for another part of the text.
    pub(crate) fn renew(&self) {
        self.calls.set(MAX_CALLS);
    }

    /// The path of what a call calls.
    pub(crate) fn called(&self, node: Node<'_>) -> Vec<String> {
        match self.shape(node) {
            Shape::Call(function, _) => match node.child_by_field_name(function) {
                Some(function) => self.paths(function),
                None => Vec::new(),
            },
            Shape::Method(object, method, _) => {
                let Some(method) = node.child_by_field_name(method) else {
                    return Vec::new();
                };
                let method = self.name(method);
                match node.child_by_field_name(object) {
                    None => self.meanings_of(&method),
                    Some(object) => {
                        let bases = self.paths(object).into_iter();
                        bases
                            .map(|base| self.join(base, std::slice::from_ref(&method)))
                            .collect()
                    }
                }
            }
            _ => Vec::new(),
        }
    }

    /// The arguments of a call.
    pub(crate) fn arguments<'t>(&self, node: Node<'t>) -> Vec<Node<'t>> {
        let field = match self.shape(node) {
            Shape::Call(_, arguments) | Shape::Method(_, _, arguments) => arguments,
            _ => return Vec::new(),
        };
        let arguments = node.child_by_field_name(field);
        arguments
            .map(|node| self.children(node))
            .unwrap_or_default()
    }

    /// Whether a rule may know the path.
    pub(crate) fn is_known(&self, path: &str) -> bool {
        self.roots.contains(first_part(path))
    }

    /// What a name may stand for: itself too, because another scope may mean something else.
    fn meanings_of(&self, name: &str) -> Vec<String> {
        let mut all = vec![name.to_owned()];
        let meanings = self.meanings.get(name).into_iter().flatten();
        all.extend(meanings.filter(|path| *path != name).cloned());
        all.extend(self.stars.iter().map(|module| format!("{module}.{name}")));
        all
    }

    /// A path with members, the last of which is the first link.
    fn join(&self, mut path: String, links: &[String]) -> String {
        for link in links.iter().rev() {
            if link != "()" && !path.is_empty() {
                path.push('.');
            }
            path.push_str(link);
        }
        self.simple(path)
    }

    /// A path without what means nothing.
    pub(crate) fn simple(&self, mut path: String) -> String {
        for ignored in self.dialect.ignored {
            while path.contains(ignored) {
                path = path.replace(ignored, "");
            }
        }
        let mut short = path.as_str();
        while let Some(rest) = self
            .dialect
            .global
            .iter()
            .find_map(|prefix| short.strip_prefix(prefix))
        {
            short = rest;
        }
        short.to_owned()
    }
}
