//! Figures of several turns, and how they are told.

/// The middle one, or between the two in the middle.
pub(crate) fn median(figures: &[f64]) -> f64 {
    quantile(figures, 0.5)
}

/// Between what half of the figures lie.
pub(crate) fn half(figures: &[f64]) -> (f64, f64) {
    (quantile(figures, 0.25), quantile(figures, 0.75))
}

/// The least and the most.
pub(crate) fn ends(figures: &[f64]) -> (f64, f64) {
    (quantile(figures, 0.0), quantile(figures, 1.0))
}

/// What so large a share of the figures does not exceed; between two of them, a part of the way.
pub(crate) fn quantile(figures: &[f64], share: f64) -> f64 {
    let mut figures = figures.to_vec();
    figures.sort_by(f64::total_cmp);
    let place = share * figures.len().saturating_sub(1) as f64;
    let at = |place: f64| figures.get(place as usize).copied().unwrap_or_default();
    let (low, high) = (at(place.floor()), at(place.ceil()));
    low + (high - low) * place.fract()
}

/// A number with as many digits as it is worth.
pub(crate) fn figure(number: f64) -> String {
    match number {
        small if small < 10.0 => format!("{small:.1}"),
        large if large < 1000.0 => format!("{large:.0}"),
        thousands_of => thousands(thousands_of),
    }
}

/// With a comma in front of each three digits.
pub(crate) fn thousands(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(&[3.0, 1.0]), 2.0);
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[]), 0.0);
        assert_eq!(half(&[5.0, 1.0, 2.0, 4.0, 3.0]), (2.0, 4.0));
        assert_eq!(ends(&[5.0, 1.0, 2.0]), (1.0, 5.0));
    }

    #[test]
    fn digits_are_as_many_as_a_number_is_worth() {
        assert_eq!([9.94, 12.3, 4321.0].map(figure), ["9.9", "12", "4,321"]);
        assert_eq!(thousands(1_234_567.0), "1,234,567");
    }
}
