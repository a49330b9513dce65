//! Order statistics of a few hundred samples.

use serde::Serialize;

/// What is reported of a sample, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Statistics {
    /// How many values there are.
    pub runs: usize,
    /// The smallest.
    pub min: u64,
    /// Half of the values are at most this.
    pub p50: u64,
    /// 95 of 100 values are at most this; with fewer than 20 values, the largest.
    pub p95: u64,
    /// The largest.
    pub max: u64,
}

impl Statistics {
    /// Of at least one value, in any order.
    pub fn of(values: &[u64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_unstable();
        Some(Self {
            runs: sorted.len(),
            min: *sorted.first()?,
            p50: percentile(&sorted, 50)?,
            p95: percentile(&sorted, 95)?,
            max: *sorted.last()?,
        })
    }
}

/// The nearest rank: the smallest value that at least `percent` of 100 values do not exceed.
fn percentile(sorted: &[u64], percent: usize) -> Option<u64> {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_nearest_ranks() {
        let values: Vec<u64> = (1..=200).rev().collect();
        let statistics = Statistics::of(&values).expect("values");
        let expected = Statistics {
            runs: 200,
            min: 1,
            p50: 100,
            p95: 190,
            max: 200,
        };
        assert_eq!(statistics, expected);
        let few = Statistics::of(&[7, 3, 5]).expect("values");
        assert_eq!((few.p50, few.p95), (5, 7));
        assert_eq!(Statistics::of(&[]), None);
    }
}
