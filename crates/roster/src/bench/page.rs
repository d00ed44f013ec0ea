//! Runs as a page: one HTML file that holds all it needs, without a script.
//!
//! Start at [`page`]. `markup` escapes, `plot` draws, `number` writes numbers; `charts`, `results`,
//! `setting`, `beside` are the parts of the page, and `style.css` is how it looks.
//!
//! Invariant: the page is the same for the same records, loads nothing, and runs nothing.

mod beside;
mod charts;
mod figure;
mod markup;
mod number;
mod plot;
mod points;
mod published;
mod results;
mod run;
mod setting;
mod words;

use self::markup::Markup;
use self::run::{Group, Run};
use super::record::Record;

/// The page of these runs. Ratios are to the first run of each job.
pub fn page(records: &[Record], title: Option<&str>) -> String {
    let groups = grouped(records);
    let title = title.map_or_else(|| words::title(&groups), str::to_owned);
    let mut out = Markup::default();
    out.source("<!DOCTYPE html>\n");
    out.open("html", &[("lang", "en")]);
    head(&mut out, &title);
    out.open("body", &[]);
    out.source(PATTERNS);
    out.open("header", &[]);
    out.element("h1", &[], &title);
    out.element("p", &[("class", "sub")], &words::subtitle(&groups));
    out.close();
    out.open("main", &[]);
    results::glance(&mut out, &groups);
    for (number, group) in groups.iter().enumerate() {
        job(&mut out, group, number);
    }
    setting::common(&mut out, &groups);
    beside::section(&mut out, &groups);
    words::reading(&mut out, &groups);
    setting::commands(&mut out, &groups);
    out.close();
    out.open("footer", &[]);
    out.element("p", &[], &format!("Made by roster {}.", env!("CARGO_PKG_VERSION")));
    out.finish()
}

fn head(out: &mut Markup, title: &str) {
    out.open("head", &[]);
    out.single("meta", &[("charset", "utf-8")]);
    // Nothing is loaded and nothing runs, whatever the page holds.
    let policy = "default-src 'none'; style-src 'unsafe-inline'";
    out.single("meta", &[("http-equiv", "Content-Security-Policy"), ("content", policy)]);
    out.single("meta", &[("name", "viewport"), ("content", "width=device-width, initial-scale=1")]);
    out.single("meta", &[("name", "color-scheme"), ("content", "light dark")]);
    out.element("title", &[], title);
    out.open("style", &[]);
    out.source(include_str!("page/style.css"));
    out.close();
    out.close();
}

/// All about one job.
fn job(out: &mut Markup, group: &Group<'_>, number: usize) {
    let id = format!("job-{number}");
    out.open("section", &[("aria-labelledby", &id)]);
    out.element("h2", &[("id", &id)], group.name);
    if let Some(about) = words::about(group.name) {
        out.element("p", &[], &about);
    }
    results::table(out, group);
    setting::differences(out, group);
    out.open("div", &[("class", "charts")]);
    charts::draw(out, group, number);
    out.close();
    out.close();
}

/// Runs by job, and servers with their colours, both in the order of their first appearance.
fn grouped(records: &[Record]) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    let mut servers: Vec<&str> = Vec::new();
    for record in records.iter().filter(|record| !is_floor(record)) {
        let series = servers.iter().position(|label| *label == record.label);
        let series = series.unwrap_or_else(|| {
            servers.push(&record.label);
            servers.len() - 1
        });
        let place = groups.iter().position(|group| group.name == record.name);
        let place = place.unwrap_or_else(|| {
            let floor = |other: &&Record| is_floor(other) && other.name == record.name;
            let floor = records.iter().find(floor);
            groups.push(Group { name: &record.name, runs: Vec::new(), floor });
            groups.len() - 1
        });
        if let Some(group) = groups.get_mut(place) {
            let label = label(record, &group.runs);
            group.runs.push(Run { record, label, series });
        }
    }
    groups
}

/// What a run is called beside the others of its group.
fn label(record: &Record, others: &[Run<'_>]) -> String {
    let plain = if record.label.trim().is_empty() { "a server" } else { record.label.trim() };
    let name = markup::shortened(plain, LABEL_CHARACTERS_MAX);
    let numbered = |number: usize| match number {
        1 => name.clone(),
        number => format!("{name} ({number})"),
    };
    let is_free = |label: &String| others.iter().all(|run| run.label != *label);
    (1..).map(numbered).find(is_free).unwrap_or(name)
}

/// Whether a run is one against the echo server.
fn is_floor(record: &Record) -> bool {
    record.label.to_ascii_lowercase().starts_with("echo")
        || record.server.settings.get("role").is_some_and(|role| role == "floor")
}

const LABEL_CHARACTERS_MAX: usize = 40;

/// What the system's part of a bar is filled with, on top of the colour of its server.
const PATTERNS: &str = "<svg class=\"hidden\" width=\"0\" height=\"0\" aria-hidden=\"true\"><defs>\
<pattern id=\"hatch\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" \
patternTransform=\"rotate(45)\"><path class=\"hatch\" d=\"M0 0V6\"/></pattern></defs></svg>\n";

#[cfg(test)]
mod tests;
