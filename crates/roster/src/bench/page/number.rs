//! Numbers as people read them: grouped digits, as many as matter, with the unit.

pub(super) use crate::table::number as count;

/// Three digits or more: `0.123`, `1.23`, `12.3`, `123`, `12,345`.
pub(super) fn figure(value: f64) -> String {
    let size = value.abs();
    match size {
        _ if !value.is_finite() => "–".to_owned(),
        _ if size >= 99.95 => grouped(value),
        _ if size >= 9.995 => format!("{value:.1}"),
        _ if size >= 0.9995 || size == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// Whole, with grouped digits.
pub(super) fn grouped(value: f64) -> String {
    if value >= 1e18 { format!("{value:.3e}") } else { count(value.round().max(0.0) as u64) }
}

/// A time in µs with the unit that makes it short: `85 µs`, `1.2 ms`, `3 s`.
pub(super) fn short_time(us: f64) -> String {
    let (value, unit) = match us {
        us if us < 1_000.0 => (us, "µs"),
        us if us < 1_000_000.0 => (us / 1_000.0, "ms"),
        us => (us / 1_000_000.0, "s"),
    };
    format!("{} {unit}", trimmed(value))
}

/// A length of time in s: `10 s`, `5 min`, `2 h`.
pub(super) fn length(seconds: f64) -> String {
    let whole = |unit: f64| seconds >= unit && (seconds / unit).fract() == 0.0;
    if whole(3_600.0) {
        format!("{} h", trimmed(seconds / 3_600.0))
    } else if whole(60.0) {
        format!("{} min", trimmed(seconds / 60.0))
    } else {
        format!("{} s", trimmed(seconds))
    }
}

/// Without zeros behind the point: `2.5`, `10`.
pub(super) fn trimmed(value: f64) -> String {
    if value >= 1000.0 {
        return grouped(value);
    }
    let digits = if value >= 100.0 { 0 } else { 2 };
    let text = format!("{value:.digits$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

/// `1.5 GiB`.
pub(super) fn bytes(bytes: u64) -> String {
    let mut value = bytes as f64;
    let mut unit = "B";
    for next in ["KiB", "MiB", "GiB", "TiB", "PiB"] {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = next;
    }
    let text = if unit == "B" { count(bytes) } else { figure(value) };
    format!("{text} {unit}")
}

/// `4.63 ×`.
pub(super) fn ratio(ratio: f64) -> String {
    format!("{} ×", figure(ratio))
}

/// A part of one: `92.3 %`.
pub(super) fn percent(part: f64) -> String {
    format!("{} %", trimmed((part * 1000.0).round() / 10.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_numbers_are_written_with_powers_of_ten() {
        assert_eq!(grouped(1e300), "1.000e300");
    }

    #[test]
    fn figures_have_the_digits_that_matter() {
        let texts = [0.0, 0.1234, 1.234, 9.999, 12.34, 99.96, 1234.5].map(figure);
        assert_eq!(texts, ["0.00", "0.123", "1.23", "10.0", "12.3", "100", "1,235"]);
        assert_eq!(figure(f64::NAN), "–");
    }

    #[test]
    fn units_follow_the_size() {
        let texts = [0.5, 85.0, 1_200.0, 3_000_000.0].map(short_time);
        assert_eq!(texts, ["0.5 µs", "85 µs", "1.2 ms", "3 s"]);
        assert_eq!([10.0, 90.0, 300.0, 7_200.0].map(length), ["10 s", "90 s", "5 min", "2 h"]);
        assert_eq!([5, 1 << 20, 3 << 29].map(bytes), ["5 B", "1.00 MiB", "1.50 GiB"]);
        assert_eq!((ratio(4.634).as_str(), percent(0.9234).as_str()), ("4.63 ×", "92.3 %"));
    }
}
