//! The generated block in a document.

/// The line that starts the generated block.
pub const BEGIN: &str = "<!-- matrix:begin -->";
/// The line that ends it.
pub const END: &str = "<!-- matrix:end -->";

/// Why a block cannot be written into a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BlockError {
    /// One of the two lines is missing.
    #[error("the document has no lines '{BEGIN}' and '{END}' in this order")]
    Missing,
    /// One of the two lines occurs more than once.
    #[error("the document has more than one '{BEGIN}' or '{END}'")]
    Repeated,
}

/// Returns the document with `content` between the two lines, which stay.
///
/// # Errors
///
/// [`BlockError`] if the document does not have each line exactly once, in order.
pub fn replace_block(document: &str, content: &str) -> Result<String, BlockError> {
    let (before, rest) = document.split_once(BEGIN).ok_or(BlockError::Missing)?;
    let (_, after) = rest.split_once(END).ok_or(BlockError::Missing)?;
    if before.contains(END) {
        return Err(BlockError::Missing);
    }
    if rest.contains(BEGIN) || after.contains(END) {
        return Err(BlockError::Repeated);
    }
    let content = content.trim_matches('\n');
    Ok(format!("{before}{BEGIN}\n\n{content}\n\n{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_written_between_the_lines_and_a_second_write_changes_nothing() {
        let document = format!("# Title\n{BEGIN}\nold\n{END}\ntail\n");
        let once = replace_block(&document, "new\n").unwrap();
        assert_eq!(once, format!("# Title\n{BEGIN}\n\nnew\n\n{END}\ntail\n"));
        assert_eq!(replace_block(&once, "new\n").unwrap(), once);
    }

    #[test]
    fn document_must_have_each_line_once_and_in_order() {
        assert_eq!(replace_block("nothing", "x"), Err(BlockError::Missing));
        assert_eq!(
            replace_block(&format!("{END} {BEGIN}"), "x"),
            Err(BlockError::Missing)
        );
        let twice = format!("{BEGIN} {BEGIN} {END}");
        assert_eq!(replace_block(&twice, "x"), Err(BlockError::Repeated));
    }
}
