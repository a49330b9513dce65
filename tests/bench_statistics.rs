//! The statistics of the benchmark, which has no test harness of its own.

#[path = "../benches/backends/statistics.rs"]
mod statistics;

use statistics::Median;

fn median(count: u32) -> Option<Median> {
    let descending: Vec<f64> = (1..=count).rev().map(f64::from).collect();
    Median::of(&descending)
}

#[test]
fn median_is_the_middle_value_or_the_mean_of_the_two_middle_values() {
    assert_eq!(median(0), None);
    assert_eq!(median(5).map(|median| median.value), Some(3.0));
    assert_eq!(median(6).map(|median| median.value), Some(3.5));
}

#[test]
fn interval_covers_95_percent_of_the_binomial_distribution() {
    // From tables of the sign test.
    let interval = |count| median(count).and_then(|median| median.interval);
    assert_eq!(interval(5), None);
    assert_eq!(interval(6), Some((1.0, 6.0)));
    assert_eq!(interval(20), Some((6.0, 15.0)));
    assert_eq!(interval(100), Some((40.0, 61.0)));
    // A count whose probabilities underflow.
    assert!(interval(5000).is_some_and(|(low, high)| low > 2400.0 && high < 2600.0));
}
