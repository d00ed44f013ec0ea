//! Tables, and pictures with their title, legend and figures as a table.
//!
//! Invariant: what a picture shows is there as text too.

use super::markup::Markup;
use super::plot::{SERIES, SIZE};
use super::run::Group;

/// A table; the first cell of each row is its head.
#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) caption: String,
    pub(super) columns: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
}

impl Table {
    pub(super) fn draw(&self, out: &mut Markup, class: &'static str) {
        let head = Head { class, name: &self.caption, caption: &self.caption };
        head.open(out, self.columns.iter().map(String::as_str));
        out.open("tbody", &[]);
        for row in &self.rows {
            out.open("tr", &[]);
            for (place, cell) in row.iter().enumerate() {
                if place == 0 {
                    out.element("th", &[("scope", "row")], cell);
                } else {
                    out.element("td", &[], cell);
                }
            }
            out.close();
        }
        out.close();
        Head::close(out);
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
    /// Opens a table that scrolls by itself where the page is narrow, with its row of heads. Its
    /// rows follow, in `tbody`; [`Head::close`] ends it.
    pub(super) fn open<'c>(&self, out: &mut Markup, columns: impl IntoIterator<Item = &'c str>) {
        let region = [("class", "scroll"), ("role", "region"), ("tabindex", "0")];
        out.open("div", &[&region[..], &[("aria-label", self.name)]].concat());
        out.open("table", &[("class", self.class)]);
        out.element("caption", &[], self.caption);
        out.open("thead", &[]);
        out.open("tr", &[]);
        for column in columns {
            // What has no name heads nothing.
            match column {
                "" => out.element("td", &[], ""),
                column => out.element("th", &[("scope", "col")], column),
            }
        }
        out.close();
        out.close();
    }

    pub(super) fn close(out: &mut Markup) {
        out.close();
        out.close();
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
    /// The picture; `draw` fills it.
    pub(super) fn draw(&self, out: &mut Markup, draw: impl FnOnce(&mut Markup)) {
        out.open("figure", &[]);
        out.open("figcaption", &[]);
        out.element("h3", &[], &self.title);
        if !self.note.is_empty() {
            out.element("p", &[], &self.note);
        }
        out.close();
        if !self.legend.is_empty() {
            self.draw_legend(out);
        }
        let (title, desc) = (format!("{}-t", self.id), format!("{}-d", self.id));
        let view = format!("0 0 {} {}", SIZE.0, self.height);
        let named = format!("{title} {desc}");
        out.open("svg", &[("viewBox", &view), ("role", "img"), ("aria-labelledby", &named)]);
        out.element("title", &[("id", &title)], &self.title);
        out.element("desc", &[("id", &desc)], &self.says);
        draw(out);
        out.close();
        out.open("details", &[]);
        out.element("summary", &[], "The figures as a table");
        self.table.draw(out, "figures");
        out.close();
        out.close();
    }

    fn draw_legend(&self, out: &mut Markup) {
        out.open("ul", &[("class", "legend")]);
        for key in &self.legend {
            out.open("li", &[]);
            let box_ = [("viewBox", "0 0 30 12"), ("aria-hidden", "true")];
            out.open("svg", &box_);
            match key.mark {
                Mark::Line => {
                    let class = format!("line {}", key.class);
                    out.single("path", &[("class", &class), ("d", "M1 6H29")]);
                }
                Mark::Dot => {
                    let class = format!("dot {}", key.class);
                    let place = [("cx", "15"), ("cy", "6"), ("r", "2.6")];
                    out.open("g", &[("class", &class)]);
                    out.single("circle", &place);
                    out.close();
                }
                Mark::Box => draw_box(out, &key.class, (4.0, 0.5), (22.0, 11.0)),
            }
            out.close();
            out.text(key.label);
            out.close();
        }
        out.close();
    }
}

/// A filled rectangle; hatched when its class says `system`.
pub(super) fn draw_box(
    out: &mut Markup,
    class: &str,
    (x, y): (f64, f64),
    (width, height): (f64, f64),
) {
    let place = [x, y, width.max(0.0), height].map(|number| format!("{number:.1}"));
    let [x, y, width, height] = place.each_ref().map(String::as_str);
    let place = [("x", x), ("y", y), ("width", width), ("height", height)];
    let class_of_box = format!("bar {class}");
    out.single("rect", &[&[("class", class_of_box.as_str())][..], &place].concat());
    if class.contains("system") {
        let fill = [("fill", "url(#hatch)")];
        out.single("rect", &[&place[..], &fill].concat());
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
