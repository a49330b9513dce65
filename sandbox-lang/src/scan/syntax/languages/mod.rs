//! The languages that can be scanned. Each has a table of its syntax, and of what its standard
//! library does.

mod c;
mod go;
mod java;
mod javascript;
mod python;
mod r;
mod ruby;
mod rust;
mod shell;

use super::Dialect;

/// How to scan a language, by its name in [`Languages`](crate::Languages).
pub(crate) fn dialect(name: &str) -> Option<&'static Dialect> {
    let all = [
        &python::DIALECT,
        &javascript::JAVASCRIPT,
        &javascript::TYPESCRIPT,
        &java::DIALECT,
        &c::C,
        &c::CPP,
        &go::DIALECT,
        &rust::DIALECT,
        &ruby::DIALECT,
        &r::DIALECT,
        &shell::SH,
        &shell::BASH,
    ];
    all.into_iter().find(|dialect| dialect.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_language_can_be_scanned() {
        for language in crate::Languages::new().iter() {
            assert!(dialect(&language.name).is_some(), "{}", language.name);
        }
    }

    /// Kinds and fields that a grammar does not have would never match.
    #[test]
    fn grammars_have_the_kinds_and_fields_of_their_tables() {
        use super::super::dialect::Shape;
        for language in crate::Languages::new().iter() {
            let dialect = dialect(&language.name).expect("all can be scanned");
            let grammar = (dialect.grammar)();
            for (kind, shape) in dialect.shapes {
                // C++ and TypeScript add kinds to the tables that they share with C and JavaScript.
                if ["c", "javascript"].contains(&dialect.name)
                    && grammar.id_for_node_kind(kind, true) == 0
                {
                    continue;
                }
                let name = &language.name;
                assert_ne!(grammar.id_for_node_kind(kind, true), 0, "{name}: {kind}");
                let fields = match *shape {
                    Shape::Member(a, b) | Shape::Element(a, b) | Shape::Assignment(a, b) => {
                        vec![a, b]
                    }
                    Shape::Call(a, b) => vec![a, b],
                    Shape::Method(a, b, c) => vec![a, b, c],
                    Shape::Value(a) => vec![a],
                    _ => Vec::new(),
                };
                for field in fields {
                    assert!(
                        grammar.field_id_for_name(field).is_some(),
                        "{name}: {field}"
                    );
                }
            }
        }
    }
}
