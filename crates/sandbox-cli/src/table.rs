//! Columns of text.

/// The rows with their columns aligned, two spaces apart; the last column is as long as it is.
pub fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widths = (0..columns)
        .map(|column| {
            rows.iter()
                .filter_map(|row| row.get(column))
                .map(|cell| cell.chars().count())
                .max()
                .unwrap_or(0)
        })
        .collect::<Vec<_>>();
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
    fn columns_are_aligned_by_characters() {
        let rows = [
            vec!["ä".to_owned(), "b".to_owned()],
            vec!["long".to_owned(), "c".to_owned()],
        ];
        assert_eq!(table(&rows), "ä     b\nlong  c\n");
    }
}
