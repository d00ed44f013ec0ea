//! Pictures: axes with sensible ticks, lines and bars as SVG.
//!
//! A picture is drawn 480 units wide, so that its text can be read on a phone; the style sheet
//! gives it its colours.
//!
//! Invariant: what is drawn lies within the frame, whatever the numbers are.

use maud::{Markup, html};

use super::number::length;

/// Where the axes of a picture are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub(super) left: f64,
    pub(super) right: f64,
    pub(super) top: f64,
    pub(super) bottom: f64,
}

/// The frame of all plots.
pub(super) const FRAME: Frame = Frame { left: 70.0, right: 468.0, top: 12.0, bottom: 246.0 };
/// Width and height of a plot.
pub(super) const SIZE: (f64, f64) = (480.0, 290.0);

/// From numbers to places.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    is_log: bool,
    from: f64,
    to: f64,
    /// Numbers with a label.
    pub(super) ticks: Vec<(f64, String)>,
}

impl Axis {
    /// From 0 to at least `max`; labels are made from the ticks and the step between them.
    pub(super) fn from_zero(max: f64, label: impl Fn(f64, f64) -> String) -> Self {
        let max = if max.is_finite() && max > 0.0 { max } else { 1.0 };
        let step = nice_step(max / 5.0);
        let count = (max / step - 1e-9).ceil().clamp(1.0, 12.0);
        let ticks = (0..=count as u32).map(|number| f64::from(number) * step);
        Self {
            is_log: false,
            from: 0.0,
            to: count * step,
            ticks: ticks.map(|tick| (tick, label(tick, step))).collect(),
        }
    }

    /// From 0 to `max` seconds, with ticks at whole units.
    pub(super) fn of_time(max_s: f64) -> Self {
        let max = if max_s.is_finite() && max_s > 0.0 { max_s } else { 1.0 };
        let step = TIME_STEPS_S.into_iter().find(|step| max / step <= 6.5).unwrap_or(max / 6.0);
        let count = (max / step + 1e-9).floor().clamp(0.0, 12.0) as u32;
        let ticks = (0..=count).map(|number| f64::from(number) * step);
        let ticks = ticks.map(|tick| (tick, length(tick))).collect();
        Self { is_log: false, from: 0.0, to: max, ticks }
    }

    /// Over powers of ten, from `min` to `max`.
    pub(super) fn log(min: f64, max: f64, label: impl Fn(f64) -> String) -> Self {
        let usable = |value: f64| value.is_finite() && value > 0.0;
        let (min, max) = if usable(min) && usable(max) && min <= max {
            (min.clamp(1e-6, 1e18), max.clamp(1e-6, 1e18))
        } else {
            (1.0, 10.0)
        };
        // Ends at 1, 2 or 5 times a power of ten: whole powers waste half of the picture.
        let steps: Vec<f64> = (-7..=19)
            .flat_map(|power| [1.0, 2.0, 5.0].map(|digit| digit * 10_f64.powi(power)))
            .collect();
        let from = steps.iter().rev().find(|step| **step <= min * 1.0001).copied();
        let from = from.unwrap_or(min);
        let to = steps.iter().find(|step| **step >= max * 0.9999 && **step > from).copied();
        let to = to.unwrap_or(max * 10.0);
        let all = steps.iter().copied().filter(|step| (from..=to).contains(step));
        let decades = (to / from).log10();
        let is_power = |value: f64| (value.log10() - value.log10().round()).abs() < 1e-6;
        let every = (decades / 6.0).ceil().max(1.0) as i64;
        let is_wanted = |step: &f64| {
            decades <= 2.4 || is_power(*step) && (step.log10().round() as i64) % every == 0
        };
        let ticks = all.filter(is_wanted).map(|tick| (tick, label(tick))).collect();
        Self { is_log: true, from, to, ticks }
    }

    /// As [`Axis::log`], with ticks of one's own.
    pub(super) fn log_with(from: f64, to: f64, ticks: Vec<(f64, String)>) -> Self {
        Self { is_log: true, from, to, ticks }
    }

    /// Where a number lies between the ends of the axis.
    pub(super) fn place(&self, value: f64, start: f64, end: f64) -> f64 {
        let part = if self.is_log {
            (value.max(1e-9).ln() - self.from.ln()) / (self.to.ln() - self.from.ln())
        } else {
            (value - self.from) / (self.to - self.from)
        };
        let part = if part.is_finite() { part.clamp(0.0, 1.0) } else { 0.0 };
        start + (end - start) * part
    }
}

/// A plot: two axes, and what is drawn between them.
#[derive(Debug)]
pub(super) struct Plot {
    pub(super) x: Axis,
    pub(super) y: Axis,
    /// What the x axis is about.
    pub(super) x_title: &'static str,
}

/// A line of a plot.
#[derive(Clone, Debug)]
pub(super) struct Line {
    /// Which colour and dashes: the number of the server.
    pub(super) series: usize,
    /// More classes of the style sheet.
    pub(super) class: &'static str,
    /// Where nothing is known, the line is broken.
    pub(super) points: Vec<(f64, Option<f64>)>,
}

impl Plot {
    pub(super) fn x_at(&self, value: f64) -> f64 {
        self.x.place(value, FRAME.left, FRAME.right)
    }

    pub(super) fn y_at(&self, value: f64) -> f64 {
        self.y.place(value, FRAME.bottom, FRAME.top)
    }

    /// Grid, ticks and labels.
    pub(super) fn draw_axes(&self) -> Markup {
        let Frame { left, right, top, bottom } = FRAME;
        let across =
            |(tick, _): &(f64, String)| format!("M{left:.1} {:.1}H{right:.1}", self.y_at(*tick));
        let down =
            |(tick, _): &(f64, String)| format!("M{:.1} {top:.1}V{bottom:.1}", self.x_at(*tick));
        let grid = self.y.ticks.iter().map(across).chain(self.x.ticks.iter().map(down));
        html! {
            path class="grid" d=(grid.collect::<String>()) {}
            path class="base" d=(format!("M{left:.1} {bottom:.1}H{right:.1}")) {}
            @for (tick, label) in &self.y.ticks {
                text class="end" x=(place(left - 7.0)) y=(place(self.y_at(*tick) + 4.5)) { (label) }
            }
            (self.draw_x_labels())
            text class="mid soft" x=(place((left + right) / 2.0)) y=(place(SIZE.1 - 6.0)) {
                (self.x_title)
            }
        }
    }

    /// As many labels of the x axis as there is room for.
    fn draw_x_labels(&self) -> Markup {
        let mut taken = 0.0;
        let mut middle = |(tick, label): &(f64, String)| {
            let half = label.chars().count() as f64 * LETTER / 2.0;
            let middle = self.x_at(*tick).min(SIZE.0 - half);
            let is_free = middle - half >= taken;
            if is_free {
                taken = middle + half + LETTER;
            }
            is_free.then_some(middle)
        };
        html! {
            @for tick in &self.x.ticks {
                @if let Some(middle) = middle(tick) {
                    text class="mid" x=(place(middle)) y=(place(FRAME.bottom + 19.0)) { (tick.1) }
                }
            }
        }
    }

    /// A line; points that are alike in the picture are one.
    pub(super) fn draw_line(&self, line: &Line) -> Markup {
        let mut path = String::new();
        let mut last: Option<(f64, f64)> = None;
        for (x, y) in &line.points {
            let Some(y) = y else {
                last = None;
                continue;
            };
            let (x, y) = (self.x_at(*x), self.y_at(*y));
            match last {
                None => path.push_str(&format!("M{x:.1} {y:.1}")),
                Some((x0, y0)) if (x - x0).abs() < 0.5 && (y - y0).abs() < 0.5 => continue,
                Some(_) => path.push_str(&format!("L{x:.1} {y:.1}")),
            }
            last = Some((x, y));
        }
        let class = format!("line s{} {}", line.series % SERIES, line.class);
        html! { path class=(class.trim_end()) d=(path) {} }
    }

    /// Dots without a line.
    pub(super) fn draw_dots(&self, line: &Line) -> Markup {
        let known = line.points.iter().filter_map(|(x, y)| Some((self.x_at(*x), self.y_at((*y)?))));
        html! {
            g class={ "dot s" (line.series % SERIES) } {
                @for (x, y) in known { circle cx=(place(x)) cy=(place(y)) r="2.2" {} }
            }
        }
    }

    /// Invisible columns that tell their figures when a pointer rests on them.
    pub(super) fn draw_hints(&self, hints: &[(f64, String)]) -> Markup {
        let places: Vec<f64> = hints.iter().map(|(x, _)| self.x_at(*x)).collect();
        let column = |number: usize| {
            let at = |number: usize| places.get(number).copied();
            let here = at(number).unwrap_or(FRAME.left);
            let middle = |other: Option<f64>, edge: f64| {
                other.map_or(edge, |other| f64::midpoint(here, other))
            };
            let start = middle(number.checked_sub(1).and_then(at), FRAME.left);
            let end = middle(at(number + 1), FRAME.right);
            (place(start), place((end - start).max(0.0)))
        };
        html! {
            @for (number, (_, hint)) in hints.iter().enumerate() {
                @let (x, width) = column(number);
                rect class="hint" x=(x) y=(FRAME.top) width=(width)
                    height=(FRAME.bottom - FRAME.top) { title { (hint) } }
            }
        }
    }
}

/// A place in a picture as text.
pub(super) fn place(at: f64) -> String {
    format!("{at:.1}")
}

/// 1, 2, 2.5 or 5 times a power of ten, at least `least`.
fn nice_step(least: f64) -> f64 {
    let power = 10_f64.powf(least.max(1e-12).log10().floor());
    let digit = [1.0, 2.0, 2.5, 5.0].into_iter().find(|digit| digit * power >= least * 0.999_999);
    digit.map_or(power * 10.0, |digit| digit * power)
}

/// Width of a letter, at most, when the text is as large as on a phone.
const LETTER: f64 = 7.6;

/// Servers that have colours and dashes of their own.
pub(super) const SERIES: usize = 7;

const TIME_STEPS_S: [f64; 20] = [
    0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1_800.0,
    3_600.0, 7_200.0, 14_400.0, 21_600.0, 86_400.0,
];

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|(_, label)| label.as_str()).collect()
    }

    #[test]
    fn ticks_are_round_and_few() {
        let plain = |tick: f64, _: f64| tick.to_string();
        assert_eq!(labels(&Axis::from_zero(9.0, plain)), ["0", "2", "4", "6", "8", "10"]);
        assert_eq!(labels(&Axis::from_zero(0.0, plain)).len(), 6);
        let large = Axis::from_zero(24_100.0, plain);
        assert_eq!(labels(&large), ["0", "5000", "10000", "15000", "20000", "25000"]);
        assert_eq!(labels(&Axis::of_time(10.0)), ["0 s", "2 s", "4 s", "6 s", "8 s", "10 s"]);
        assert_eq!(labels(&Axis::of_time(1_800.0)).last(), Some(&"30 min"));
        for max in [0.001, 1.0, 7.3, 61.0, 3_600.0, 90_000.0, 1e17, f64::INFINITY, f64::NAN] {
            assert!((1..=13).contains(&Axis::of_time(max).ticks.len()), "{max}");
            assert!((2..=13).contains(&Axis::from_zero(max, plain).ticks.len()), "{max}");
        }
    }

    #[test]
    fn powers_of_ten_are_thinned_out() {
        let plain = |tick: f64| tick.to_string();
        assert_eq!(labels(&Axis::log(15.0, 180.0, plain)), ["10", "20", "50", "100", "200"]);
        for (min, max) in [(1.0, 1.0), (0.0, 0.0), (1e-300, 1e300), (f64::NAN, 1.0), (5.0, 1.0)] {
            let axis = Axis::log(min, max, plain);
            assert!((1..=9).contains(&axis.ticks.len()), "{min} {max}: {axis:?}");
        }
        assert!((4..=8).contains(&Axis::log(1.0, 1e9, plain).ticks.len()));
    }

    #[test]
    fn nothing_is_drawn_outside_the_frame() {
        let axis = Axis::from_zero(10.0, |tick, _| tick.to_string());
        let plot = Plot { x: axis.clone(), y: axis, x_title: "" };
        assert_eq!(plot.x_at(-5.0), FRAME.left);
        assert_eq!(plot.y_at(f64::INFINITY), FRAME.bottom);
        assert_eq!(plot.y_at(1e300), FRAME.top);
        assert_eq!(plot.x_at(10.0), FRAME.right);
    }

    #[test]
    fn a_line_is_broken_where_nothing_is_known() {
        let axis = Axis::from_zero(10.0, |tick, _| tick.to_string());
        let plot = Plot { x: axis.clone(), y: axis, x_title: "" };
        let points = vec![(0.0, Some(0.0)), (5.0, None), (10.0, Some(10.0))];
        let line = plot.draw_line(&Line { series: 8, class: "", points }).into_string();
        assert_eq!(line, r#"<path class="line s1" d="M70.0 246.0M468.0 12.0"></path>"#);
    }
}
