//! Parses Kubernetes quantities: `500m`, `1.5`, `64Mi`, `1e3`.

/// A quantity in thousandths, rounded up; `None` if invalid or negative.
pub(crate) fn thousandths(text: &str) -> Option<u128> {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (times, divided): (u128, u128) = match suffix {
        "n" => (1, 1_000_000),
        "u" => (1, 1000),
        "m" => (1, 1),
        "" => (1000, 1),
        "k" => (1000 * 1000, 1),
        "M" => (1000 * 1000_u128.pow(2), 1),
        "G" => (1000 * 1000_u128.pow(3), 1),
        "T" => (1000 * 1000_u128.pow(4), 1),
        "P" => (1000 * 1000_u128.pow(5), 1),
        "E" => (1000 * 1000_u128.pow(6), 1),
        "Ki" => (1000 << 10, 1),
        "Mi" => (1000 << 20, 1),
        "Gi" => (1000 << 30, 1),
        "Ti" => (1000 << 40, 1),
        "Pi" => (1000 << 50, 1),
        "Ei" => (1000 << 60, 1),
        power => {
            let exponent: u32 = power.strip_prefix(['e', 'E'])?.parse().ok()?;
            (1000_u128.checked_mul(10_u128.checked_pow(exponent)?)?, 1)
        }
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let digits = format!("{whole}{fraction}").parse::<u128>().ok()?;
    let scale = 10_u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let divided = divided.checked_mul(scale)?;
    Some(digits.checked_mul(times)?.div_ceil(divided))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_notations_are_parsed() {
        for (text, expected) in [
            ("500m", 500),
            ("1", 1000),
            ("1.5", 1500),
            (".5", 500),
            ("100n", 1),
            ("64Mi", 64_000 << 20),
            ("1.5Gi", 1_500 << 30),
            ("128974848", 128_974_848_000),
            ("129e6", 129_000_000_000),
            ("129M", 129_000_000_000),
            ("2k", 2_000_000),
        ] {
            assert_eq!(thousandths(text), Some(expected), "{text}");
        }
        for wrong in ["", "m", "-1", "1x", "1..5", "1e", "1e99", "x"] {
            assert_eq!(thousandths(wrong), None, "{wrong}");
        }
    }
}
