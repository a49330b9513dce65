//! What the scan must know of a language's syntax: a table, and functions for its imports and calls.

use tree_sitter::{Language, Node};

use super::found::Sink;
use super::names::{Names, Scope};
use crate::scan::Category;

/// A language's syntax. Kinds and fields are those of its grammar.
pub(crate) struct Dialect {
    /// As in [`Languages`](crate::Languages).
    pub(crate) name: &'static str,
    pub(crate) grammar: fn() -> Language,
    pub(crate) shapes: &'static [(&'static str, Shape)],
    /// Where a name is declared or is a label: kinds of parents and their fields, or any field.
    pub(crate) declared: &'static [(&'static str, &'static str)],
    /// Beginnings of paths that mean nothing, such as `builtins.`.
    pub(crate) global: &'static [&'static str],
    /// Parts of paths that mean nothing, such as `.__dict__`.
    pub(crate) ignored: &'static [&'static str],
    /// How a name is written is not how it is compared.
    pub(crate) normal: fn(&str) -> String,
    /// Enters what a node imports.
    pub(crate) import: fn(&mut Scope<'_>, Node<'_>),
    /// Members whose calls have a known value.
    pub(crate) evaluated: &'static [&'static str],
    /// What the value of a call is, if that is known.
    pub(crate) value: fn(&Names<'_>, Node<'_>) -> Option<Vec<String>>,
    /// Reports what a node does by itself.
    pub(crate) visit: fn(&Names<'_>, Node<'_>, &mut Sink<'_>),
    pub(crate) catalog: &'static [CatalogEntry],
    /// Whether the grammar also fails on correct code, because a preprocessor changes it.
    pub(crate) is_preprocessed: bool,
    /// Whether the parser reads bytes instead of characters.
    pub(crate) is_read_by_bytes: bool,
}

/// What a category looks for: paths, `*.name` for a member of anything, and `#word` for what only
/// the language's function reports.
pub(crate) type CatalogEntry = (Category, &'static [&'static str]);

/// What a kind of node is for the scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Other,
    Comment,
    /// A literal; its value may be constant.
    Text,
    /// The characters of a literal.
    Content,
    /// Literals side by side.
    Joined,
    /// An operator, whose operands are `left` and `right`.
    Operator,
    Name,
    /// A part of something: fields of the whole and of the part.
    Member(&'static str, &'static str),
    /// As `Member`; both have no field and are the first and the last child.
    Pair,
    /// An element: fields of the whole and of the index.
    Element(&'static str, &'static str),
    /// A call: fields of the function and the arguments.
    Call(&'static str, &'static str),
    /// A call of a method: fields of the object and the method.
    Method(&'static str, &'static str, &'static str),
    /// The value of its first child.
    First,
    /// The value of its last child.
    Last,
    /// The value of this field.
    Value(&'static str),
    /// An assignment: fields of the name and the value.
    Assignment(&'static str, &'static str),
}
