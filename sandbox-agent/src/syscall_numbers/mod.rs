//! The names and numbers of system calls on every supported architecture, on any target: for code
//! that prepares something for another machine's kernel. `runtime::syscall::nr` has the numbers of
//! the target alone.

macro_rules! numbers {
    ($($name:ident = $number:literal, $text:literal;)*) => {
        pub(super) const TABLE: &[(&str, u32)] = &[$(($text, $number)),*];
    };
}

include!("common.rs");

mod x86_64 {
    include!("x86_64.rs");
}

mod aarch64 {
    include!("aarch64.rs");
}

/// Name and number of each system call on x86_64, by number.
pub const X86_64: &[(&str, u32)] = x86_64::TABLE;

/// Name and number of each system call on aarch64, by number.
pub const AARCH64: &[(&str, u32)] = aarch64::TABLE;

/// The number of a system call in a table; `None` where the table lacks it.
#[must_use]
pub const fn number_in(table: &[(&str, u32)], name: &str) -> Option<u32> {
    let mut index = 0;
    while index < table.len() {
        let (entry, number) = table[index];
        if equal(entry.as_bytes(), name.as_bytes()) {
            return Some(number);
        }
        index += 1;
    }
    None
}

/// `==` of slices, which is not available in a `const fn`.
const fn equal(left: &[u8], right: &[u8]) -> bool {
    if left.len() != right.len() {
        return false;
    }
    let mut index = 0;
    while index < left.len() {
        if left[index] != right[index] {
            return false;
        }
        index += 1;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_sorted_and_every_name_is_found() {
        for table in [X86_64, AARCH64] {
            assert!(table.is_sorted_by(|left, right| left.1 < right.1));
            for (name, number) in table {
                assert_eq!(number_in(table, name), Some(*number));
            }
            assert_eq!(number_in(table, "mou"), None);
        }
        assert_eq!(number_in(AARCH64, "fork"), None);
    }
}
