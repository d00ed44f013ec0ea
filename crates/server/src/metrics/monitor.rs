//! The metrics as entries of `cn=monitor`, written from the table.

use std::collections::BTreeMap;

use directory::FigureEntry;

use super::histogram::Histogram;
use super::rows::ROWS;
use super::scrape::Scrape;
use super::table::{HISTOGRAM_BUCKETS, HISTOGRAM_NUMBERS, Kind, Metric, Samples, Value};

/// The entries of a branch such as `cn=store,cn=monitor`, the topmost first.
pub(crate) fn entries(scrape: &Scrape<'_>, branch: &str) -> Vec<FigureEntry> {
    let name = branch.strip_suffix(",cn=monitor").unwrap_or(branch);
    let mut top = Vec::new();
    let mut below: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    for metric in ROWS.iter().filter(|metric| metric.path.branch == name) {
        let mut samples = Samples::default();
        (metric.values)(scrape, &mut samples);
        put(metric, samples, &mut top, &mut below);
    }
    let mut made = vec![FigureEntry { name: branch.to_owned(), values: top }];
    made.extend(below.into_iter().map(|(label, values)| {
        // Labels that name entries are words of this program: nothing in them is to be escaped.
        FigureEntry { name: format!("cn={label},{branch}"), values }
    }));
    made
}

fn put(
    metric: &Metric,
    samples: Samples,
    top: &mut Vec<(String, String)>,
    below: &mut BTreeMap<String, Vec<(String, String)>>,
) {
    let path = metric.path;
    let mut sums: BTreeMap<Option<String>, i64> = BTreeMap::new();
    for sample in samples.0 {
        let mut labels = sample.labels.into_iter();
        let entry = if path.has_entries { labels.next() } else { None };
        let values = match &entry {
            Some(entry) => below.entry(entry.clone()).or_default(),
            None => &mut *top,
        };
        match sample.value {
            Value::Times(times) => put_times(path.attribute, &times, values),
            Value::Number(_) if metric.kind() == Kind::Info => {
                values.extend(labels.map(|label| (path.attribute.to_owned(), label)));
            }
            Value::Number(number) => {
                *sums.entry(entry).or_default() += number;
                let words = labels.map(|label| label + " ").collect::<String>();
                values.push((path.attribute.to_owned(), format!("{words}{number}")));
            }
        }
    }
    let all: i64 = sums.values().sum();
    match path.total {
        Some(total) => {
            for (entry, sum) in sums {
                let values = match entry {
                    Some(entry) => below.entry(entry).or_default(),
                    None => &mut *top,
                };
                values.push((total.to_owned(), sum.to_string()));
            }
            if path.has_entries {
                top.push((total.to_owned(), all.to_string()));
            }
        }
        // A number of each entry: the entry above them has them together.
        None if path.has_entries && !matches!(metric.kind(), Kind::Histogram | Kind::Info) => {
            top.push((path.attribute.to_owned(), all.to_string()));
        }
        None => {}
    }
}

fn put_times(attribute: &str, times: &Histogram, values: &mut Vec<(String, String)>) {
    let percentile = |share| times.percentile_us(share);
    let numbers = [
        Some(times.count()),
        Some(times.sum_us()),
        percentile(0.5),
        percentile(0.9),
        percentile(0.99),
        percentile(0.999),
    ];
    for (end, number) in HISTOGRAM_NUMBERS.iter().zip(numbers) {
        values.extend(number.map(|number| (format!("{attribute}-{end}"), number.to_string())));
    }
    let buckets = times.filled().map(|(end, count)| format!("{end} {count}"));
    values.extend(buckets.map(|text| (format!("{attribute}-{HISTOGRAM_BUCKETS}"), text)));
}
