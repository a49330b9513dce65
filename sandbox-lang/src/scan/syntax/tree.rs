//! Parses code, and walks through its syntax tree without recursion: code may be nested deeply.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use tree_sitter::{Decode, Language, Node, ParseOptions, ParseState, Parser, Tree, TreeCursor};

use super::Dialect;

/// When a scan gives up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline(Instant);

impl Deadline {
    pub(crate) fn after(time: Duration) -> Self {
        Self(Instant::now() + time)
    }

    pub(crate) fn is_over(self) -> bool {
        Instant::now() >= self.0
    }
}

/// The parser gave up at the deadline.
#[derive(Debug)]
pub(crate) struct Unparsed;

/// Decodes each byte as a character, so that the parser sees none above U+00FF.
struct Bytes;

impl Decode for Bytes {
    fn decode(bytes: &[u8]) -> (i32, u32) {
        match bytes.first() {
            // Some locales call U+0085 a space; UTF-8 has no byte 0xFF.
            Some(0x85) => (0xff, 1),
            Some(byte) => (i32::from(*byte), 1),
            None => (0, 0),
        }
    }
}

pub(crate) fn parse(
    dialect: &Dialect,
    language: &Language,
    code: &[u8],
    end: Deadline,
) -> Result<Tree, Unparsed> {
    let mut parser = Parser::new();
    parser
        .set_language(language)
        .expect("the grammars have the version of the parser");
    let mut progress = |_: &ParseState| match end.is_over() {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    };
    let options = ParseOptions::new().progress_callback(&mut progress);
    let mut read = |offset: usize, _| code.get(offset..).unwrap_or_default();
    let tree = if dialect.is_read_by_bytes {
        parser.parse_custom_encoding::<Bytes, _, _>(&mut read, None, Some(options))
    } else {
        parser.parse_with_options(&mut read, None, Some(options))
    };
    tree.ok_or(Unparsed)
}

/// All nodes of a tree, each before its children.
pub(crate) struct Walk<'t> {
    cursor: TreeCursor<'t>,
    ancestors: Vec<Node<'t>>,
    is_started: bool,
    is_over: bool,
}

/// A node with its place.
pub(crate) struct Visit<'t> {
    pub(crate) node: Node<'t>,
    pub(crate) parent: Option<Node<'t>>,
    /// Its field in the parent.
    pub(crate) field: Option<&'static str>,
}

impl<'t> Walk<'t> {
    pub(crate) fn new(tree: &'t Tree) -> Self {
        Self {
            cursor: tree.walk(),
            ancestors: Vec::new(),
            is_started: false,
            is_over: false,
        }
    }

    fn visit(&self) -> Visit<'t> {
        Visit {
            node: self.cursor.node(),
            parent: self.ancestors.last().copied(),
            field: self.cursor.field_name(),
        }
    }
}

impl<'t> Iterator for Walk<'t> {
    type Item = Visit<'t>;

    fn next(&mut self) -> Option<Visit<'t>> {
        if self.is_over {
            return None;
        }
        if !self.is_started {
            self.is_started = true;
            return Some(self.visit());
        }
        let node = self.cursor.node();
        if self.cursor.goto_first_child() {
            self.ancestors.push(node);
            return Some(self.visit());
        }
        loop {
            if self.cursor.goto_next_sibling() {
                return Some(self.visit());
            }
            if !self.cursor.goto_parent() {
                self.is_over = true;
                return None;
            }
            self.ancestors.pop();
        }
    }
}
