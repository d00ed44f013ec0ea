//! Prometheus' text exposition format, version 0.0.4, written from the table.

use std::fmt::Write as _;

use super::rows::ROWS;
use super::scrape::Scrape;
use super::table::{Kind, MONITOR_ONLY, Metric, Samples, Unit, Value};

/// All metrics as they are now.
pub(crate) fn exposition(scrape: &Scrape<'_>) -> String {
    let mut out = String::with_capacity(SIZE_EXPECTED_BYTES);
    for metric in ROWS.iter().filter(|metric| metric.name != MONITOR_ONLY) {
        family(&mut out, scrape, metric);
    }
    out
}

fn family(out: &mut String, scrape: &Scrape<'_>, metric: &Metric) {
    let mut samples = Samples::default();
    (metric.values)(scrape, &mut samples);
    if samples.0.is_empty() {
        return;
    }
    let kind = match metric.kind() {
        Kind::Counter => "counter",
        Kind::Gauge | Kind::Info => "gauge",
        Kind::Histogram => "histogram",
    };
    let (Metric { name, help, .. }, unit) = (metric, metric.unit());
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
    for sample in &samples.0 {
        let labels = labels(metric.labels, &sample.labels);
        match &sample.value {
            Value::Number(number) => line(out, name, "", &labels, "", &in_unit(*number, unit)),
            Value::Times(times) => {
                for (end_us, below) in times.below() {
                    let end = format!("le=\"{}\"", seconds(end_us.cast_signed()));
                    line(out, name, "_bucket", &labels, &end, &below.to_string());
                }
                let count = times.count().to_string();
                line(out, name, "_bucket", &labels, "le=\"+Inf\"", &count);
                let sum = seconds(times.sum_us().cast_signed());
                line(out, name, "_sum", &labels, "", &sum);
                line(out, name, "_count", &labels, "", &count);
            }
        }
    }
}

fn line(out: &mut String, name: &str, end: &str, labels: &str, more: &str, value: &str) {
    let comma = if labels.is_empty() || more.is_empty() { "" } else { "," };
    let _ = if labels.is_empty() && more.is_empty() {
        writeln!(out, "{name}{end} {value}")
    } else {
        writeln!(out, "{name}{end}{{{labels}{comma}{more}}} {value}")
    };
}

fn labels(names: &[&str], values: &[String]) -> String {
    let mut text = String::new();
    for (name, value) in names.iter().zip(values) {
        let comma = if text.is_empty() { "" } else { "," };
        let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let _ = write!(text, "{comma}{name}=\"{value}\"");
    }
    text
}

fn in_unit(number: i64, unit: Unit) -> String {
    match unit {
        Unit::None | Unit::Bytes | Unit::Days => number.to_string(),
        Unit::Seconds => seconds(number),
    }
}

/// Microseconds as seconds, exactly.
fn seconds(us: i64) -> String {
    let sign = if us < 0 { "-" } else { "" };
    let us = us.unsigned_abs();
    let text = format!("{sign}{}.{:06}", us / 1_000_000, us % 1_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// What there is of it usually.
const SIZE_EXPECTED_BYTES: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_exact() {
        let texts = [0, 1, 1_000_000, 1_500_000, 67_108_864, -20].map(seconds);
        assert_eq!(texts, ["0", "0.000001", "1", "1.5", "67.108864", "-0.00002"]);
    }

    #[test]
    fn values_of_labels_are_escaped() {
        assert_eq!(labels(&["a", "b"], &["x\"y\\".into(), "z\n".into()]), r#"a="x\"y\\",b="z\n""#);
    }
}
