//! Columns of text.

/// Aligns the columns of the rows, two spaces apart.
pub fn table(rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = Vec::new();
    for row in rows {
        for (column, cell) in row.iter().enumerate() {
            let width = cell.chars().count();
            match widths.get_mut(column) {
                Some(widest) => *widest = width.max(*widest),
                None => widths.push(width),
            }
        }
    }
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line += &format!("{cell:<width$}  ");
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::table;

    #[test]
    fn columns_are_aligned_by_character_count() {
        let rows = [
            vec!["ä".to_owned(), "b".to_owned()],
            vec!["long".to_owned(), "c".to_owned()],
        ];
        assert_eq!(table(&rows), "ä     b\nlong  c\n");
        let rows = [vec!["a".to_owned()], vec![String::new(), "b".to_owned()]];
        assert_eq!(table(&rows), "a\n   b\n");
        assert_eq!(table(&[]), "");
    }
}
