//! What a metric is: one row of the table in `rows.rs`. Prometheus' text, `cn=monitor` and the
//! reference page are made from the rows.
//!
//! Invariant: values are whole numbers; times are microseconds, which Prometheus is shown as
//! seconds.
//!
//! Invariant: a name has the words that Prometheus wants for the kind and the unit, since both are
//! taken from it.

use super::histogram::Histogram;
use super::scrape::Scrape;

/// A row of the table.
#[derive(Clone, Copy)]
pub(crate) struct Metric {
    /// In Prometheus; or [`MONITOR_ONLY`].
    pub(crate) name: &'static str,
    /// Other than the name says.
    special: Option<Kind>,
    /// What distinguishes its values.
    pub(crate) labels: &'static [&'static str],
    /// Where it is in `cn=monitor`.
    pub(crate) path: MonitorPath,
    /// A sentence.
    pub(crate) help: &'static str,
    pub(crate) values: fn(&Scrape<'_>, &mut Samples),
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Kind {
    /// It only grows while the server runs.
    Counter,
    Gauge,
    Histogram,
    /// Its labels say it all; the value is 1.
    Info,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Unit {
    None,
    Bytes,
    /// Counted in microseconds.
    Seconds,
    Days,
}

/// Where a metric is in `cn=monitor`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct MonitorPath {
    /// The branch, without `,cn=monitor`.
    pub(crate) branch: &'static str,
    pub(crate) attribute: &'static str,
    /// The first label names an entry of the branch. Other labels, and all where this is not so,
    /// stand before the number in values that are texts.
    pub(crate) has_entries: bool,
    /// The attribute with the sum, where values are texts.
    pub(crate) total: Option<&'static str>,
}

impl Metric {
    /// One of a single value.
    pub(super) const fn new(
        name: &'static str,
        branch: &'static str,
        attribute: &'static str,
        help: &'static str,
        values: fn(&Scrape<'_>, &mut Samples),
    ) -> Self {
        let path = MonitorPath { branch, attribute, has_entries: false, total: None };
        Self { name, special: None, labels: &[], path, help, values }
    }

    /// Neither a counter nor a gauge.
    pub(super) const fn of_kind(self, kind: Kind) -> Self {
        Self { special: Some(kind), ..self }
    }

    /// Its values are distinguished by labels, the first of which names an entry of `cn=monitor`.
    pub(super) const fn by_entry(self, labels: &'static [&'static str]) -> Self {
        let path = MonitorPath { has_entries: true, ..self.path };
        Self { labels, path, ..self }
    }

    /// Its values are distinguished by labels.
    pub(super) const fn by(self, labels: &'static [&'static str]) -> Self {
        Self { labels, ..self }
    }

    /// With the sum in an attribute of its own.
    pub(super) const fn total(self, attribute: &'static str) -> Self {
        let path = MonitorPath { total: Some(attribute), ..self.path };
        Self { path, ..self }
    }

    /// By the end of its name, where it is not special.
    pub(crate) fn kind(&self) -> Kind {
        let by_name = if self.name.ends_with("_total") { Kind::Counter } else { Kind::Gauge };
        self.special.unwrap_or(by_name)
    }

    /// By a word of its name; days are not shown to Prometheus.
    pub(crate) fn unit(&self) -> Unit {
        let has = |unit| self.name.split('_').any(|word| word == unit);
        if has("bytes") {
            Unit::Bytes
        } else if has("seconds") {
            Unit::Seconds
        } else if self.path.attribute.ends_with("-days") {
            Unit::Days
        } else {
            Unit::None
        }
    }

    /// Whether its values in `cn=monitor` are texts, with a word before the number.
    #[cfg(test)]
    pub(crate) fn is_text(&self) -> bool {
        self.kind() == Kind::Info || self.labels.len() > if self.path.has_entries { 1 } else { 0 }
    }

    /// The attributes it has in `cn=monitor`, each with whether it is a number.
    #[cfg(test)]
    pub(crate) fn attributes(&self) -> Vec<(String, bool)> {
        let attribute = self.path.attribute;
        if self.kind() == Kind::Histogram {
            let numbers = HISTOGRAM_NUMBERS.iter().map(|end| (format!("{attribute}-{end}"), true));
            let buckets = (format!("{attribute}-{HISTOGRAM_BUCKETS}"), false);
            return numbers.chain([buckets]).collect();
        }
        let own = (attribute.to_owned(), !self.is_text());
        let total = self.path.total.map(|total| (total.to_owned(), true));
        std::iter::once(own).chain(total).collect()
    }
}

/// What a metric is now.
#[derive(Debug, Default)]
pub(crate) struct Samples(pub(crate) Vec<Sample>);

#[derive(Debug)]
pub(crate) struct Sample {
    /// A value for each label.
    pub(crate) labels: Vec<String>,
    pub(crate) value: Value,
}

#[derive(Debug)]
pub(crate) enum Value {
    Number(i64),
    Times(Histogram),
}

impl Samples {
    /// The one value of a metric without labels.
    pub(super) fn one(&mut self, number: u64) {
        self.labelled(&[], number);
    }

    /// The one value of a metric without labels, where it may not be known.
    pub(super) fn known(&mut self, number: Option<u64>) {
        if let Some(number) = number {
            self.one(number);
        }
    }

    /// The one value of a metric without labels, where it may be negative.
    pub(super) fn signed(&mut self, number: i64) {
        self.0.push(Sample { labels: Vec::new(), value: Value::Number(number) });
    }

    pub(super) fn labelled(&mut self, labels: &[&str], number: u64) {
        let value = Value::Number(i64::try_from(number).unwrap_or(i64::MAX));
        self.0.push(Sample { labels: owned(labels), value });
    }

    pub(super) fn times(&mut self, labels: &[&str], times: &Histogram) {
        self.0.push(Sample { labels: owned(labels), value: Value::Times(times.clone()) });
    }
}

fn owned(labels: &[&str]) -> Vec<String> {
    labels.iter().map(|&label| label.to_owned()).collect()
}

/// The name of what Prometheus can work out itself.
pub(crate) const MONITOR_ONLY: &str = "";

/// The ends of the attributes that a histogram has in `cn=monitor`: how many, all of them together,
/// percentiles.
pub(crate) const HISTOGRAM_NUMBERS: [&str; 6] =
    ["answered", "time-us", "p50-us", "p90-us", "p99-us", "p999-us"];
/// The end of the attribute with the buckets of a histogram: values `END COUNT`, the buckets that
/// hold something with their upper ends in µs.
pub(crate) const HISTOGRAM_BUCKETS: &str = "times";
