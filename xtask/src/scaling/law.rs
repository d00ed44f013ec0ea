//! The universal scalability law, and what two cores allow to say of it.

use std::fmt::Write as _;

/// Cores that are predicted, and what Oracle published for its server (T7, searches by uid) there,
/// as a multiple of its rate on two cores.
const PUBLISHED: [(f64, f64); 6] = [
    (2.0, 79_300.0),
    (4.0, 156_114.0),
    (8.0, 280_029.0),
    (16.0, 615_563.0),
    (24.0, 863_343.0),
    (32.0, 1_177_947.0),
];

/// How many times the work of one core `cores` do.
fn capacity(cores: f64, sigma: f64, kappa: f64) -> f64 {
    cores / (1.0 + sigma * (cores - 1.0) + kappa * cores * (cores - 1.0))
}

/// The share σ + 2κ, measured on two cores, read in both ways: all of it waiting in line (σ), or
/// all of it making the others' caches right (κ).
pub(super) fn told(shared: &mut [f64]) -> String {
    let middle = median(shared).max(0.0);
    let most = shared.last().copied().unwrap_or_default().max(0.0);
    let least = shared.first().copied().unwrap_or_default();
    let mut text = format!(
        "σ + 2κ, by turns: median {:.2} %, least {:.2} %, most {:.2} %.\n\n\
         | cores | if all of it is σ | if all of it is κ | with the largest turn, all σ · all κ \
         | Oracle, published |\n|---:|---:|---:|---:|---:|\n",
        100.0 * median(shared),
        100.0 * least,
        100.0 * most
    );
    let (_, first) = PUBLISHED.first().copied().unwrap_or((2.0, 1.0));
    for (cores, published) in PUBLISHED {
        let as_two =
            |sigma: f64, kappa: f64| capacity(cores, sigma, kappa) / capacity(2.0, sigma, kappa);
        let _ = writeln!(
            text,
            "| {cores:.0} | {:.1} | {:.1} | {:.1} · {:.1} | {:.1} |",
            as_two(middle, 0.0),
            as_two(0.0, middle / 2.0),
            as_two(most, 0.0),
            as_two(0.0, most / 2.0),
            published / first
        );
    }
    text
}

/// The middle one, or between the two in the middle; sorts them.
pub(super) fn median(figures: &mut [f64]) -> f64 {
    figures.sort_by(f64::total_cmp);
    let at = |place: usize| figures.get(place).copied().unwrap_or_default();
    match figures.len() {
        0 => 0.0,
        count => f64::midpoint(at((count - 1) / 2), at(count / 2)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_shared_is_linear() {
        assert_eq!(capacity(32.0, 0.0, 0.0), 32.0);
        // What is measured on two cores is the same in both readings.
        assert!((capacity(2.0, 0.04, 0.0) - capacity(2.0, 0.0, 0.02)).abs() < 1e-12);
        assert!(capacity(32.0, 0.0, 0.02) < capacity(32.0, 0.04, 0.0));
    }

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(&mut [3.0, 1.0]), 2.0);
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), 2.0);
    }
}
