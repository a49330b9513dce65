//! Units as types.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::{Error, ErrorKind};

/// A number of bytes. Reads `512MiB`, `512m`, `1.5g` or a plain number of bytes.
///
/// Sizes are read as Docker reads them: each unit is a power of 1,024, in any case and with or
/// without `B` or `iB`. So `512m`, `512MB` and `512MiB` are the same size.
///
/// ```
/// use sandbox_core::ByteSize;
///
/// assert_eq!("512m".parse::<ByteSize>()?, ByteSize::mib(512));
/// assert_eq!("64 kB".parse::<ByteSize>()?, ByteSize::kib(64));
/// # Ok::<(), sandbox_core::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema)]
#[schemars(
    with = "Written<u64>",
    description = "A number of bytes, or text like `512MiB` or `512m`. Units are powers of 1,024."
)]
pub struct ByteSize(u64);

impl ByteSize {
    /// This many bytes.
    #[must_use]
    pub const fn bytes(bytes: u64) -> Self {
        Self(bytes)
    }

    /// This many KiB (1,024 bytes).
    #[must_use]
    pub const fn kib(kib: u64) -> Self {
        Self(kib.saturating_mul(1024))
    }

    /// This many MiB (1,048,576 bytes).
    #[must_use]
    pub const fn mib(mib: u64) -> Self {
        Self::kib(mib.saturating_mul(1024))
    }

    /// As bytes.
    #[must_use]
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    /// In bytes as a `usize`; saturates where that is smaller.
    #[must_use]
    pub fn as_usize(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (unit, size) in [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)] {
            if self.0 >= size && self.0.is_multiple_of(size) {
                return write!(f, "{}{unit}", self.0 / size);
            }
        }
        write!(f, "{}B", self.0)
    }
}

impl FromStr for ByteSize {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        parse_size(text).map(Self).ok_or_else(|| {
            let context = format!("{text:?} is not a size; write it like 512MiB, 512m or 65536");
            Error::new(ErrorKind::InvalidSpec, "read size", context)
        })
    }
}

/// A number with an optional unit, in bytes; `None` for anything else and for what does not fit.
fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (number, unit) = text.split_at(end.unwrap_or(text.len()));
    let unit = unit.trim_start().to_ascii_lowercase();
    let power = match unit
        .strip_suffix("ib")
        .or(unit.strip_suffix('b'))
        .unwrap_or(&unit)
    {
        "" if unit == "ib" => return None,
        "" => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        "p" => 5,
        _ => return None,
    };
    let unit = 1024_u64.pow(power);
    match number.split_once('.') {
        None => number.parse::<u64>().ok()?.checked_mul(unit),
        Some((whole, fraction)) => {
            let digits = u32::try_from(fraction.len()).ok()?;
            let scale = 10_u128.checked_pow(digits)?;
            let fraction = fraction.parse::<u64>().ok()?;
            let whole = whole.parse::<u64>().ok()?.checked_mul(unit)?;
            let part = u128::from(fraction).checked_mul(u128::from(unit))? / scale;
            whole.checked_add(u64::try_from(part).ok()?)
        }
    }
}

/// A number of processors in thousandths: `1.5` is one and a half.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema)]
#[schemars(with = "Written<f64>")]
pub struct Cpus(u32);

impl Cpus {
    /// This many whole processors.
    #[must_use]
    pub const fn whole(count: u32) -> Self {
        Self(count.saturating_mul(1000))
    }

    /// This many thousandths of a processor.
    #[must_use]
    pub const fn milli(milli: u32) -> Self {
        Self(milli)
    }

    /// In thousandths.
    #[must_use]
    pub const fn as_milli(self) -> u32 {
        self.0
    }
}

impl fmt::Display for Cpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", f64::from(self.0) / 1000.0)
    }
}

impl FromStr for Cpus {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let bad = || {
            Error::new(
                ErrorKind::InvalidSpec,
                "read number of processors",
                format!("{text:?} is not a number of processors from 0.01 to 4096, like 1.5"),
            )
        };
        let value: f64 = text.parse().map_err(|_| bad())?;
        if !(0.01..=4096.0).contains(&value) {
            return Err(bad());
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "checked above"
        )]
        Ok(Self((value * 1000.0).round() as u32))
    }
}

impl Serialize for ByteSize {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Serialize for Cpus {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(f64::from(self.0) / 1000.0)
    }
}

/// The form of a value in a file, for the JSON schema.
#[derive(JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
#[expect(dead_code, reason = "only its schema is used")]
enum Written<N> {
    Number(N),
    Text(String),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum NumberOrText {
    Integer(u64),
    Float(f64),
    Text(String),
}

impl<'de> Deserialize<'de> for ByteSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match NumberOrText::deserialize(deserializer)? {
            NumberOrText::Integer(bytes) => Ok(Self(bytes)),
            NumberOrText::Text(text) => text
                .parse()
                .map_err(|e: Error| de::Error::custom(e.context())),
            NumberOrText::Float(_) => Err(de::Error::custom(
                "a size is a whole number of bytes, or text like \"512MiB\"",
            )),
        }
    }
}

impl<'de> Deserialize<'de> for Cpus {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = match NumberOrText::deserialize(deserializer)? {
            NumberOrText::Integer(count) => count.to_string(),
            NumberOrText::Float(count) => count.to_string(),
            NumberOrText::Text(text) => text,
        };
        text.parse()
            .map_err(|e: Error| de::Error::custom(e.context()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_docker_reads_them() {
        for text in [
            "512m",
            "512M",
            "512mb",
            "512MB",
            "512MiB",
            "512 MiB",
            "536870912",
            "0.5g",
        ] {
            assert_eq!(
                text.parse::<ByteSize>().ok(),
                Some(ByteSize::mib(512)),
                "{text}"
            );
        }
        assert_eq!("1.5k".parse::<ByteSize>().ok(), Some(ByteSize::bytes(1536)));
        assert_eq!("7b".parse::<ByteSize>().ok(), Some(ByteSize::bytes(7)));
    }

    #[test]
    fn other_text_is_not_a_size() {
        let too_large = format!("{}t", u64::MAX);
        let bad = [
            "", "m", "ib", "64 megs", "-1m", "1.m", ".5m", "1..2", "1e3", "1mm", "NaN",
        ];
        for text in bad
            .into_iter()
            .chain([too_large.as_str(), "18446744073709551616"])
        {
            assert!(text.parse::<ByteSize>().is_err(), "{text}");
        }
    }
}
