//! Medians and their confidence intervals.

/// The median of some values, with its 95 % confidence interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Median {
    /// The median.
    pub value: f64,
    /// The interval from the binomial distribution of order statistics, which assumes nothing
    /// about how the values are distributed. `None` for fewer than six values.
    pub interval: Option<(f64, f64)>,
}

impl Median {
    /// The median of `values`, in any order; `None` without values.
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let upper = *sorted.get(sorted.len() / 2)?;
        let lower = sorted[(sorted.len() - 1) / 2];
        let interval = outer_values(sorted.len())
            .map(|outer| (sorted[outer], sorted[sorted.len() - 1 - outer]));
        Some(Self {
            value: f64::midpoint(lower, upper),
            interval,
        })
    }
}

/// How many of `count` sorted values are below the interval, and as many above it: the largest
/// `k` with P(X ≤ k) ≤ 2.5 %, where X is binomial with `count` trials and probability 1/2.
fn outer_values(count: usize) -> Option<usize> {
    // Logarithms, since 2^-count underflows for large counts.
    let mut ln_probability = -(count as f64) * std::f64::consts::LN_2;
    let mut cumulative = 0.0;
    let mut outer = None;
    for successes in 0..count {
        cumulative += ln_probability.exp();
        if cumulative > 0.025 {
            break;
        }
        outer = Some(successes);
        ln_probability += ((count - successes) as f64 / (successes + 1) as f64).ln();
    }
    outer
}
