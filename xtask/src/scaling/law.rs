//! The universal scalability law, and what two cores allow to say of it.

use std::fmt::Write as _;

use crate::figures::{ends, half, median};

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

const UNTOLD: &str = "\
What two cores cannot tell: how much of it is σ, waiting in line, and how much κ, keeping each
other's caches right; what comes with caches, memory and interconnects that more cores share; and
what the load generators take from the servers beside them on the same two cores, which is in the
figures of both cases. So the columns are a prediction, and the bounds of one.";

/// How many times the work of one core `cores` do.
fn capacity(cores: f64, sigma: f64, kappa: f64) -> f64 {
    cores / (1.0 + sigma * (cores - 1.0) + kappa * cores * (cores - 1.0))
}

/// The share σ + 2κ, measured on two cores, read in both ways: all of it waiting in line (σ), or
/// all of it making the others' caches right (κ).
pub(super) fn told(shared: &[f64]) -> String {
    let middle = median(shared).max(0.0);
    let ((least, most), (low, high)) = (ends(shared), half(shared));
    let mut text = format!(
        "σ + 2κ, by turns: median {:.2} %, half of them between {:.2} and {:.2}, minimum {:.2} %, \
         maximum {:.2} %.\n\n{UNTOLD}\n\n\
         | cores | if all of it is σ | if all of it is κ | with the largest turn, all σ · all κ \
         | Oracle, published |\n|---:|---:|---:|---:|---:|\n",
        100.0 * median(shared),
        100.0 * low,
        100.0 * high,
        100.0 * least,
        100.0 * most
    );
    let most = most.max(0.0);
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
}
