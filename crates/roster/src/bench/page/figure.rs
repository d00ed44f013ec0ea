//! Tables, and pictures with their title, legend and figures as a table.
//!
//! Invariant: what a picture shows is there as text too.

use maud::{Markup, html};

use super::plot::{SERIES, SIZE, place};
use super::run::Group;

/// A table; the first cell of each row is its head.
#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) caption: String,
    pub(super) columns: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
}

impl Table {
    pub(super) fn draw(&self, class: &'static str) -> Markup {
        let head = Head { class, name: &self.caption, caption: &self.caption };
        let row = |row: &[String]| {
            let (name, cells) = row.split_first()?;
            Some(html! { tr { th scope="row" { (name) } @for cell in cells { td { (cell) } } } })
        };
        let rows = self.rows.iter().filter_map(|cells| row(cells));
        let body = html! { tbody { @for row in rows { (row) } } };
        head.table(self.columns.iter().map(String::as_str), &body)
    }
}

/// How a table begins.
pub(super) struct Head<'t> {
    /// How it looks.
    pub(super) class: &'static str,
    /// What the region that scrolls is called for those who cannot see it.
    pub(super) name: &'t str,
    pub(super) caption: &'t str,
}

impl Head<'_> {
    /// A table that scrolls by itself where the page is narrow; `bodies` are its `tbody`.
    pub(super) fn table<'c>(
        &self,
        columns: impl IntoIterator<Item = &'c str>,
        bodies: &Markup,
    ) -> Markup {
        html! {
            div class="scroll" role="region" tabindex="0" aria-label=(self.name) {
                table class=(self.class) {
                    caption { (self.caption) }
                    thead {
                        tr {
                            @for column in columns {
                                // What has no name heads nothing.
                                @if column.is_empty() { td {} }
                                @else { th scope="col" { (column) } }
                            }
                        }
                    }
                    (bodies)
                }
            }
        }
    }
}

/// A picture.
pub(super) struct Figure<'f> {
    /// Not used by another one of the page.
    pub(super) id: String,
    /// What is shown, with its unit.
    pub(super) title: String,
    /// How to read it.
    pub(super) note: String,
    /// What it says, for those who cannot see it.
    pub(super) says: String,
    pub(super) legend: Vec<Key<'f>>,
    pub(super) height: f64,
    pub(super) table: Table,
}

/// An entry of a legend.
pub(super) struct Key<'f> {
    pub(super) class: String,
    pub(super) mark: Mark,
    pub(super) label: &'f str,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Mark {
    Line,
    Dot,
    Box,
}

impl Figure<'_> {
    /// The figure around what `picture` draws.
    pub(super) fn draw(&self, picture: &Markup) -> Markup {
        let (title, desc) = (format!("{}-t", self.id), format!("{}-d", self.id));
        html! {
            figure {
                figcaption {
                    h3 { (self.title) }
                    @if !self.note.is_empty() { p { (self.note) } }
                }
                @if !self.legend.is_empty() { (self.draw_legend()) }
                svg viewBox={ "0 0 " (SIZE.0) " " (self.height) } role="img"
                    aria-labelledby={ (title) " " (desc) } {
                    title id=(title) { (self.title) }
                    desc id=(desc) { (self.says) }
                    (picture)
                }
                details {
                    summary { "The figures as a table" }
                    (self.table.draw("figures"))
                }
            }
        }
    }

    fn draw_legend(&self) -> Markup {
        let mark = |key: &Key<'_>| match key.mark {
            Mark::Line => html! { path class={ "line " (key.class) } d="M1 6H29" {} },
            Mark::Dot => html! {
                g class={ "dot " (key.class) } { circle cx="15" cy="6" r="2.6" {} }
            },
            Mark::Box => draw_box(&key.class, 4.0, 0.5, 22.0, 11.0),
        };
        html! {
            ul class="legend" {
                @for key in &self.legend {
                    li { svg viewBox="0 0 30 12" aria-hidden="true" { (mark(key)) } (key.label) }
                }
            }
        }
    }
}

/// A filled rectangle; hatched when its class says `system`.
pub(super) fn draw_box(class: &str, x: f64, y: f64, width: f64, height: f64) -> Markup {
    let [x, y, width, height] = [x, y, width.max(0.0), height].map(place);
    html! {
        rect class={ "bar " (class) } x=(x) y=(y) width=(width) height=(height) {}
        @if class.contains("system") {
            rect x=(x) y=(y) width=(width) height=(height) fill="url(#hatch)" {}
        }
    }
}

/// The servers of a group.
pub(super) fn legend_of<'g>(group: &'g Group<'_>) -> Vec<Key<'g>> {
    if group.runs.len() < 2 {
        return Vec::new();
    }
    let key = |run: &'g super::Run<'_>| Key {
        class: format!("s{}", run.series % SERIES),
        mark: Mark::Line,
        label: &run.label,
    };
    group.runs.iter().map(key).collect()
}
