//! The table is whole, and the page and the schema say what it says.

use std::collections::BTreeSet;
use std::path::Path;

use schema::Schema;

use super::page;
use super::rows::{BRANCHES, ROWS};
use super::table::{Kind, MONITOR_ONLY, Unit};

#[test]
fn names_are_those_prometheus_expects() {
    let mut names = BTreeSet::new();
    for metric in ROWS {
        let name = metric.name;
        if name == MONITOR_ONLY {
            continue;
        }
        assert!(names.insert(name), "{name} is there twice");
        assert!(name.starts_with("roster_") || name.starts_with("process_"), "{name}");
        // The other name says the same.
        let (attribute, is_times) = (metric.path.attribute, metric.kind() == Kind::Histogram);
        let is_us = attribute.ends_with("-us") || is_times;
        assert_eq!(metric.unit() == Unit::Seconds, is_us, "{name}");
        assert_eq!(metric.unit() == Unit::Bytes, attribute.ends_with("-bytes"), "{name}");
        assert!(
            metric.help.ends_with('.') && !metric.help.contains('\n'),
            "{name}: {}",
            metric.help
        );
        assert!(BRANCHES.iter().any(|(branch, _)| *branch == metric.path.branch), "{name}");
    }
}

#[test]
fn every_attribute_is_in_the_schema_and_is_a_number_or_a_text() {
    let schema = Schema::builtin();
    let mut names = BTreeSet::new();
    for (name, is_number) in ROWS.iter().flat_map(|metric| metric.attributes()) {
        assert!(names.insert(name.clone()), "{name} is there twice");
        let described = schema.describe(&name);
        let Ok(description) = described else { panic!("{name} is not in the schema") };
        let kind = &description.kind;
        let integer = "1.3.6.1.4.1.1466.115.121.1.27";
        assert_eq!(kind.syntax.oid == integer, is_number, "{name}");
        let texts = ["roster-process-version", "roster-cluster-role"];
        let is_one = texts.contains(&name.as_str()) || name.starts_with("roster-sink-");
        assert_eq!(kind.single_value, is_number || is_one, "{name}");
    }
}

/// Every metric and label that dashboard and rules ask for is exposed by a server.
#[test]
fn dashboard_and_rules_ask_for_what_there_is() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let read = |name: &str| std::fs::read_to_string(examples.join(name)).unwrap();
    let dashboard: serde_json::Value =
        serde_json::from_str(&read("grafana-dashboard.json")).unwrap();
    let mut asked = Vec::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        let targets = panel["targets"].as_array().into_iter().flatten();
        asked.extend(targets.map(|target| target["expr"].as_str().unwrap().to_owned()));
    }
    assert!(asked.len() > 50, "{}", asked.len());
    let rules = read("prometheus-rules.yml");
    let expressions = rules.lines().filter_map(|line| line.trim().strip_prefix("expr: "));
    asked.extend(expressions.map(str::to_owned));
    let mut used = BTreeSet::new();
    for expression in asked {
        for (name, labels) in selectors(&expression) {
            let metric = ROWS.iter().find(|metric| match metric.kind() {
                Kind::Histogram => name == format!("{}_bucket", metric.name),
                Kind::Counter | Kind::Gauge | Kind::Info => name == metric.name,
            });
            let Some(metric) = metric else { panic!("there is no {name}: {expression}") };
            for label in labels {
                let is_of_scrape = ["job", "instance"].contains(&label.as_str());
                let is_known = is_of_scrape || metric.labels.contains(&label.as_str());
                assert!(is_known, "{name} has no {label}: {expression}");
            }
            used.insert(name);
        }
    }
    assert!(used.len() > 40, "{used:?}");
}

/// The metrics of an expression, each with the labels in the braces behind it.
fn selectors(expression: &str) -> Vec<(String, Vec<String>)> {
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let mut found = Vec::new();
    let mut rest = expression;
    while let Some(start) = rest.find(is_name) {
        let word = &rest[start..];
        let end = word.find(|letter| !is_name(letter)).unwrap_or(word.len());
        let (name, behind) = word.split_at(end);
        rest = behind;
        if !name.starts_with("roster_") && !name.starts_with("process_") {
            continue;
        }
        let braces = behind.strip_prefix('{').and_then(|braces| braces.split_once('}'));
        let braces = braces.map_or("", |(inside, after)| {
            rest = after;
            inside
        });
        let labels = braces
            .split("\",")
            .filter(|one| !one.is_empty())
            .map(|one| one.split(['=', '!']).next().unwrap().to_owned());
        found.push((name.to_owned(), labels.collect()));
    }
    found
}

#[test]
fn the_reference_page_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/metrics.md");
    let want = page::reference();
    if std::env::var_os("ROSTER_WRITE_REFERENCE").is_some() {
        std::fs::write(&path, &want).unwrap();
    }
    assert!(std::fs::read_to_string(&path).unwrap_or_default() == want, "{HOW}");
}

const HOW: &str = "docs/reference/metrics.md: ROSTER_WRITE_REFERENCE=1 cargo test -p server \
                   reference";
