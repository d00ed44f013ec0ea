//! Runs as a page: one HTML file that holds all it needs, without a script.
//!
//! Start at [`page`]. `html!` escapes all text and closes every tag, `plot` draws, `number` writes
//! numbers; `charts`, `results`, `parts`, `setting`, `beside` are the parts of the page, and
//! `style.css` is how it looks.
//!
//! Invariant: the page is the same for the same records, loads nothing, and runs nothing.

mod beside;
mod charts;
mod figure;
mod number;
mod parts;
mod plot;
mod points;
mod published;
mod results;
mod run;
mod setting;
mod words;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use self::run::{Group, Run};
use super::record::BenchRecord;
use crate::table::shortened;

/// The page of these runs. Ratios are to the first run of each job.
pub fn page(records: &[BenchRecord], title: Option<&str>) -> String {
    let groups = grouped(records);
    let title = title.map_or_else(|| words::title(&groups), str::to_owned);
    let page = html! {
        (DOCTYPE) "\n"
        html lang="en" {
            (head(&title))
            body {
                // What the system's part of a bar is filled with, on top of its server's colour.
                svg class="hidden" width="0" height="0" aria-hidden="true" {
                    defs {
                        pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse"
                            patternTransform="rotate(45)" { path class="hatch" d="M0 0V6" {} }
                    }
                }
                header {
                    h1 { (title) }
                    p class="sub" { (words::subtitle(&groups)) }
                }
                main {
                    (results::glance(&groups))
                    @for (number, group) in groups.iter().enumerate() { (job(group, number)) }
                    (setting::common(&groups))
                    (beside::section(&groups))
                    (words::reading(&groups))
                    (setting::commands(&groups))
                }
                footer { p { "Made by roster " (env!("CARGO_PKG_VERSION")) "." } }
            }
        }
    };
    legible(page.into_string())
}

fn head(title: &str) -> Markup {
    // Nothing is loaded and nothing runs, whatever the page holds.
    let policy = "default-src 'none'; style-src 'unsafe-inline'";
    html! {
        head {
            meta charset="utf-8";
            meta http-equiv="Content-Security-Policy" content=(policy);
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            title { (title) }
            style { (PreEscaped(include_str!("page/style.css"))) }
        }
    }
}

/// All about one job.
fn job(group: &Group<'_>, number: usize) -> Markup {
    let id = format!("job-{number}");
    html! {
        section aria-labelledby=(id) {
            h2 id=(id) { (group.name) }
            @if let Some(about) = words::about(group.name) { p { (about) } }
            (results::table(group))
            (parts::servers(group))
            (parts::steps(group))
            (setting::differences(group))
            div class="charts" { (charts::draw(group, number)) }
        }
    }
}

/// The page with line ends for those who read its source. Characters that are invisible or change
/// the order of others are shown as U+FFFD, wherever they come from.
fn legible(mut page: String) -> String {
    for tag in BLOCKS {
        let end = format!("</{tag}>");
        page = page.replace(&end, &format!("{end}\n"));
    }
    let shown = |letter| match letter {
        '\n' | '\t' => letter,
        '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' => {
            char::REPLACEMENT_CHARACTER
        }
        letter if letter.is_control() => char::REPLACEMENT_CHARACTER,
        letter => letter,
    };
    page.chars().map(shown).collect()
}

/// Runs by job, and servers with their colours, both in the order of their first appearance.
fn grouped(records: &[BenchRecord]) -> Vec<Group<'_>> {
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
            let floor = |other: &&BenchRecord| is_floor(other) && other.name == record.name;
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
fn label(record: &BenchRecord, others: &[Run<'_>]) -> String {
    let plain = if record.label.trim().is_empty() { "a server" } else { record.label.trim() };
    let name = shortened(plain, LABEL_CHARACTERS_MAX);
    let numbered = |number: usize| match number {
        1 => name.clone(),
        number => format!("{name} ({number})"),
    };
    let is_free = |label: &String| others.iter().all(|run| run.label != *label);
    (1..).map(numbered).find(is_free).unwrap_or(name)
}

/// Whether a run is one against the echo server.
fn is_floor(record: &BenchRecord) -> bool {
    record.label.to_ascii_lowercase().starts_with("echo")
        || record.server.settings.get("role").is_some_and(|role| role == "floor")
}

const LABEL_CHARACTERS_MAX: usize = 40;

/// Elements after which a line ends.
const BLOCKS: [&str; 16] = [
    "head", "title", "style", "header", "section", "h1", "h2", "h3", "p", "tr", "table", "ul",
    "li", "figure", "svg", "details",
];

#[cfg(test)]
mod tests;
