//! Shapes become jobs: names and values of drawn entries are put into them.
//!
//! Invariant: the values of one request are those of one entry as far as it has them, so that a
//! filter of several terms finds something.

use std::collections::BTreeSet;

use ldap::message::OperationKind;

use super::recorded::{Recorded, Timeline};
use super::sample::{Sample, SampleEntry};
use super::shape::{FilterShape, NameShape, SearchShape, Shape};
use crate::bench::answer::Expected;
use crate::bench::jobs;
use crate::bench::keys::Order;
use crate::bench::pace::Pace;
use crate::bench::pattern::{Pattern, Variables};
use crate::bench::plan::{Ask, JOBS_MAX, Job, People, Step, Stream};
use crate::bench::request::{Blueprint, ScopeName};
use crate::chance::{Chance, mix};
use crate::failure::Failure;

/// What of a log is repeated, and how.
#[derive(Debug)]
pub(crate) struct Wishes {
    /// The password of everybody; without, binds are left out.
    pub(crate) password: Option<String>,
    /// Without, updates are left out.
    pub(crate) writes: Option<Writes>,
    /// How many times as fast.
    pub(crate) speed: f64,
    pub(crate) connections: usize,
    pub(crate) seed: u64,
}

/// What stands for the updates of a log.
#[derive(Debug)]
pub(crate) struct Writes {
    /// The attribute that is replaced, and its values.
    pub(crate) attribute: String,
    pub(crate) value: String,
    /// Who is added; what was added is deleted.
    pub(crate) people: People,
}

impl Wishes {
    /// Leaves out what is not wished, and shapes that are too many.
    pub(crate) fn choose(&self, recorded: &mut Recorded) {
        let adds = recorded.shapes.iter().any(|(shape, _)| *shape == Shape::Add);
        for number in 0..recorded.shapes.len() {
            let Some((shape, _)) = recorded.shapes.get(number) else { continue };
            let reason = match shape {
                Shape::Search(_) | Shape::Compare { .. } => None,
                // Of nobody.
                Shape::Bind(NameShape::Own(name)) if name.is_empty() => None,
                Shape::Bind(NameShape::Own(_)) => Some("binds as the server's own entries"),
                Shape::Bind(_) => self.password.is_none().then_some("binds, without --password"),
                Shape::Modify(_) | Shape::Add | Shape::Delete if self.writes.is_none() => {
                    Some("updates, without --writes")
                }
                Shape::Delete if !adds => Some("deletes, where nothing is added"),
                Shape::Modify(_) | Shape::Add | Shape::Delete => None,
            };
            if let Some(reason) = reason {
                recorded.drop_shape(number, reason);
            }
        }
        recorded.keep(JOBS_MAX);
    }

    /// The attributes whose values are drawn.
    pub(crate) fn attributes(recorded: &Recorded) -> BTreeSet<String> {
        let kept = recorded.shapes.iter().filter(|(_, count)| *count > 0);
        let names = kept.flat_map(|(shape, _)| shape.attributes());
        names.map(str::to_ascii_lowercase).take(ATTRIBUTES_MAX).collect()
    }

    /// The load; shapes for which the directory has no values are left out.
    pub(crate) fn stream(
        &self,
        recorded: &mut Recorded,
        sample: &Sample,
    ) -> Result<Stream, Failure> {
        let kept = recorded.shapes.iter().filter(|(_, count)| *count > 0).count();
        let rows = (ROWS_MAX / kept.max(1)).clamp(ROWS_OF_SHAPE_MIN, ROWS_OF_SHAPE_MAX);
        let mut jobs = Vec::new();
        // Where each shape went.
        let mut places = Vec::new();
        for number in 0..recorded.shapes.len() {
            let mut place = None;
            if let Some((shape, count)) =
                recorded.shapes.get(number).filter(|(_, count)| *count > 0)
            {
                let chance = Chance::new(self.seed ^ mix(REPLAY), number as u64);
                let weight = u32::try_from(*count).unwrap_or(u32::MAX);
                match (Draw { sample, chance, rows }).job(shape, self)? {
                    Ok(job) => {
                        place = Some(jobs.len());
                        jobs.push((weight, job));
                    }
                    Err(reason) => recorded.drop_shape(number, reason),
                }
            }
            places.push(place);
        }
        let Some((_, first)) = jobs.first().cloned() else {
            return Err(Failure::local("the log has nothing that could be repeated here"));
        };
        let pace = self.pace(&recorded.timeline(), &places, jobs.len())?;
        Ok(Stream {
            rate: Some(pace.mean()),
            pace: Some(pace),
            jobs,
            ..Stream::of(first, self.connections)
        })
    }

    fn pace(
        &self,
        timeline: &Timeline,
        places: &[Option<usize>],
        jobs: usize,
    ) -> Result<Pace, Failure> {
        let seconds = &timeline.seconds;
        let spans_of_mix = (seconds.len() * jobs).div_ceil(MIX_CELLS_MAX).max(MIX_SPANS_MIN);
        let mut counts = Vec::new();
        let mut mixes = vec![vec![0_u32; jobs]; seconds.len().div_ceil(spans_of_mix)];
        for (second, cells) in seconds.iter().enumerate() {
            let mut all = 0_u32;
            for (shape, count) in cells {
                let place = places.get(*shape as usize).copied().flatten();
                let mix = mixes.get_mut(second / spans_of_mix);
                let weight = place.zip(mix).and_then(|(place, mix)| mix.get_mut(place));
                if let Some(weight) = weight {
                    *weight = weight.saturating_add(*count);
                    all = all.saturating_add(*count);
                }
            }
            counts.push(all);
        }
        let pace =
            Pace { span_us: (1e6 / self.speed) as u64, counts, share: 1.0, spans_of_mix, mixes };
        if pace.mean() > 0.0 {
            return Ok(pace);
        }
        Err(Failure::local("the log has nothing that could be repeated here"))
    }
}

/// Draws the values of one shape.
struct Draw<'s> {
    sample: &'s Sample,
    chance: Chance,
    /// Requests that differ.
    rows: usize,
}

/// The job of a shape, or why there is none.
type Made = Result<Job, &'static str>;

impl Draw<'_> {
    fn job(mut self, shape: &Shape, wishes: &Wishes) -> Result<Made, Failure> {
        match shape {
            Shape::Search(search) => self.search(search),
            Shape::Compare { name, attribute } => self.compare(name, attribute),
            Shape::Bind(name) => self.bind(name, wishes.password.as_deref().unwrap_or_default()),
            Shape::Modify(name) => match &wishes.writes {
                Some(writes) => self.modify(name, writes),
                None => Ok(Err(NO_WRITES)),
            },
            Shape::Add => Ok(match &wishes.writes {
                Some(writes) => Ok(jobs::add(writes.people.clone())),
                None => Err(NO_WRITES),
            }),
            Shape::Delete => Ok(Ok(jobs::delete_added())),
        }
    }

    fn search(&mut self, shape: &SearchShape) -> Result<Made, Failure> {
        let wanted = shape.filter.attributes();
        let Some(fitting) = self.fitting(&shape.base, Some(shape.scope), &wanted) else {
            return Ok(Err(NO_NAME));
        };
        let rows = self.rows(&fitting, |draw, entry, row| {
            row.extend(base_of(entry, &shape.base)?);
            draw.values(&shape.filter, entry, row)
        });
        let Some(rows) = rows else { return Ok(Err(NO_VALUE)) };
        let mut base = Pattern::default();
        let mut next = 0;
        put_name(&shape.base, &mut base, &mut next);
        let mut filter = Pattern::default();
        put_filter(&shape.filter, &mut filter, &mut next);
        let attributes = shape.attributes.iter().filter(|name| !name.is_empty());
        let attributes = attributes.cloned().collect();
        let ask = Blueprint::Search { base, scope: shape.scope, filter, attributes };
        job(&rows, ask, Expected::Replayed(OperationKind::Search), false).map(Ok)
    }

    fn compare(&mut self, name: &NameShape, attribute: &str) -> Result<Made, Failure> {
        let Some(fitting) = self.fitting(name, Some(ScopeName::Base), &[attribute]) else {
            return Ok(Err(NO_NAME));
        };
        let rows = self.rows(&fitting, |draw, entry, row| {
            row.extend(base_of(entry, name)?);
            row.push(draw.value(attribute, entry)?);
            Some(())
        });
        let Some(rows) = rows else { return Ok(Err(NO_VALUE)) };
        let (mut dn, mut value, mut next) = (Pattern::default(), Pattern::default(), 0);
        put_name(name, &mut dn, &mut next);
        value.push_value(next);
        let ask = Blueprint::Compare { dn, attribute: attribute.to_owned(), value };
        job(&rows, ask, Expected::Replayed(OperationKind::Compare), false).map(Ok)
    }

    fn bind(&mut self, name: &NameShape, password: &str) -> Result<Made, Failure> {
        let Some((rows, dn)) = self.names(name) else { return Ok(Err(NO_NAME)) };
        let mut text = Pattern::default();
        // Nobody has no password.
        if matches!(name, NameShape::Types(_)) {
            text.push_text(password);
        }
        let ask = Blueprint::Bind { dn, password: text };
        job(&rows, ask, Expected::Code(OperationKind::Bind, 0), true).map(Ok)
    }

    fn modify(&mut self, name: &NameShape, writes: &Writes) -> Result<Made, Failure> {
        if matches!(name, NameShape::Own(_)) {
            return Ok(Err("updates of the server's own entries"));
        }
        let Some((rows, dn)) = self.names(name) else { return Ok(Err(NO_NAME)) };
        let mut variables = lists(&rows)?;
        let value = Pattern::parse(&writes.value, &mut variables)?;
        let ask = Blueprint::Modify { dn, attribute: writes.attribute.clone(), value };
        let step = Step::succeeds(Ask::Prepared(ask), OperationKind::Modify);
        let order = Order::Sequential;
        Ok(Ok(Job { variables, order, steps: vec![step], binds_apart: false }))
    }

    /// Names of entries alone.
    fn names(&mut self, name: &NameShape) -> Option<(Vec<Vec<String>>, Pattern)> {
        let fitting = self.fitting(name, Some(ScopeName::Base), &[])?;
        let rows = self.rows(&fitting, |_, entry, row| {
            row.extend(base_of(entry, name)?);
            Some(())
        })?;
        let (mut dn, mut next) = (Pattern::default(), 0);
        put_name(name, &mut dn, &mut next);
        Some((rows, dn))
    }

    /// Entries whose names and values fit; those whose names do where none has all values; those
    /// that are anywhere below a fitting name where none is in scope.
    fn fitting(
        &self,
        name: &NameShape,
        scope: Option<ScopeName>,
        attributes: &[&str],
    ) -> Option<Vec<usize>> {
        let all = || self.sample.entries.iter().enumerate();
        let has_all =
            |entry: &SampleEntry| attributes.iter().all(|it| !entry.values(it).is_empty());
        let numbers = |fits: &dyn Fn(&SampleEntry) -> bool| {
            let fitting = all().filter(|(_, entry)| fits(entry));
            let fitting: Vec<usize> = fitting.map(|(number, _)| number).collect();
            (!fitting.is_empty()).then_some(fitting)
        };
        numbers(&|entry| is_below(entry, name, scope) && has_all(entry))
            .or_else(|| numbers(&|entry| is_below(entry, name, scope)))
            .or_else(|| numbers(&|entry| is_below(entry, name, None)))
    }

    /// Rows of values, each of a drawn entry.
    fn rows(
        &mut self,
        fitting: &[usize],
        mut put: impl FnMut(&mut Self, &SampleEntry, &mut Vec<String>) -> Option<()>,
    ) -> Option<Vec<Vec<String>>> {
        let (sample, wanted) = (self.sample, self.rows);
        let mut rows = Vec::new();
        for _ in 0..wanted * TRIES {
            let place = usize::try_from(self.chance.below(fitting.len() as u64)).ok()?;
            let entry = sample.entries.get(*fitting.get(place)?)?;
            let mut row = Vec::new();
            if put(self, entry, &mut row).is_some() {
                let is_constant = row.is_empty();
                rows.push(row);
                if rows.len() >= wanted || is_constant {
                    break;
                }
            }
        }
        (!rows.is_empty()).then_some(rows)
    }

    /// The values of a filter, in order.
    fn values(
        &mut self,
        filter: &FilterShape,
        entry: &SampleEntry,
        row: &mut Vec<String>,
    ) -> Option<()> {
        match filter {
            FilterShape::And(filters) | FilterShape::Or(filters) => {
                filters.iter().try_for_each(|filter| self.values(filter, entry, row))
            }
            FilterShape::Not(filter) => {
                // The own values of an entry would never match it.
                let sample = self.sample;
                let place = self.chance.below(sample.entries.len() as u64);
                let other = sample.entries.get(usize::try_from(place).ok()?)?;
                self.values(filter, other, row)
            }
            FilterShape::Whole(_) => Some(()),
            FilterShape::Value { attribute, .. } => {
                row.push(self.value(attribute, entry)?);
                Some(())
            }
            FilterShape::Substrings { attribute, initial, any, last } => {
                let value = self.value(attribute, entry)?;
                let lengths: Vec<usize> = initial.iter().chain(any).chain(last).copied().collect();
                let ends = Ends { initial: initial.is_some(), last: last.is_some() };
                row.extend(self.pieces(&value, &lengths, ends)?);
                Some(())
            }
        }
    }

    /// A value of the entry, or of another that has one.
    fn value(&mut self, attribute: &str, entry: &SampleEntry) -> Option<String> {
        let sample = self.sample;
        let mut values = entry.values(attribute);
        if values.is_empty() {
            let others = sample.by_attribute.get(&attribute.to_ascii_lowercase())?;
            let place = usize::try_from(self.chance.below(others.len() as u64)).ok()?;
            values = sample.entries.get(*others.get(place)?)?.values(attribute);
        }
        let place = usize::try_from(self.chance.below(values.len() as u64)).ok()?;
        values.get(place).cloned()
    }

    /// Pieces of a value, of these lengths or shorter, in order and apart.
    fn pieces(&mut self, value: &str, lengths: &[usize], ends: Ends) -> Option<Vec<String>> {
        let letters: Vec<char> = value.chars().collect();
        if lengths.is_empty() || letters.len() < lengths.len() {
            return None;
        }
        let mut lengths: Vec<usize> = lengths.iter().map(|length| (*length).max(1)).collect();
        while lengths.iter().sum::<usize>() > letters.len() {
            let longest = lengths.iter_mut().max()?;
            *longest -= 1;
        }
        let mut slack = letters.len() - lengths.iter().sum::<usize>();
        let (mut at, count) = (0, lengths.len());
        let mut pieces = Vec::new();
        for (number, length) in lengths.into_iter().enumerate() {
            let is_first = number == 0 && ends.initial;
            let gap = match number + 1 == count && ends.last {
                _ if is_first => 0,
                true => slack,
                false => usize::try_from(self.chance.below(slack as u64 + 1)).ok()?,
            };
            slack -= gap;
            at += gap;
            pieces.push(letters.get(at..at + length)?.iter().collect());
            at += length;
        }
        Some(pieces)
    }
}

/// Which ends of a value are asserted.
#[derive(Clone, Copy)]
struct Ends {
    initial: bool,
    last: bool,
}

/// Whether an entry is in the scope of a base of this shape; without a scope, anywhere below.
fn is_below(entry: &SampleEntry, name: &NameShape, scope: Option<ScopeName>) -> bool {
    let NameShape::Types(types) = name else { return true };
    let below = entry.depth().checked_sub(types.len());
    let is_in_scope = match (below, scope) {
        (None, _) => false,
        (Some(below), Some(ScopeName::Base)) => below == 0,
        (Some(below), Some(ScopeName::One)) => below == 1,
        (Some(below), Some(ScopeName::Children)) => below > 0,
        (Some(_), Some(ScopeName::Sub) | None) => true,
    };
    is_in_scope && entry.has_superior(types)
}

/// What is drawn of a name: nothing, or the name of the entry or of a superior.
fn base_of(entry: &SampleEntry, name: &NameShape) -> Option<Option<String>> {
    match name {
        NameShape::Own(_) => Some(None),
        // The name of the root is empty, and no value is.
        NameShape::Types(types) => entry.superior(types).filter(|it| !it.is_empty()).map(Some),
    }
}

fn put_name(name: &NameShape, pattern: &mut Pattern, next: &mut usize) {
    match name {
        NameShape::Own(text) => pattern.push_text(text),
        NameShape::Types(_) => put_value(pattern, next),
    }
}

fn put_value(pattern: &mut Pattern, next: &mut usize) {
    pattern.push_value(*next);
    *next += 1;
}

fn put_filter(filter: &FilterShape, out: &mut Pattern, next: &mut usize) {
    let mut all = |sign: &str, filters: &[FilterShape]| {
        out.push_text(sign);
        filters.iter().for_each(|filter| put_filter(filter, out, next));
        out.push_text(")");
    };
    match filter {
        FilterShape::And(filters) => all("(&", filters),
        FilterShape::Or(filters) => all("(|", filters),
        FilterShape::Not(filter) => all("(!", std::slice::from_ref(filter)),
        FilterShape::Whole(text) => out.push_text(text),
        FilterShape::Value { before, .. } => {
            out.push_text(&format!("({before}"));
            put_value(out, next);
            out.push_text(")");
        }
        FilterShape::Substrings { attribute, initial, any, last } => {
            out.push_text(&format!("({attribute}="));
            initial.iter().for_each(|_| put_value(out, next));
            out.push_text("*");
            for _ in any {
                put_value(out, next);
                out.push_text("*");
            }
            last.iter().for_each(|_| put_value(out, next));
            out.push_text(")");
        }
    }
}

/// The columns of rows as variables: the same turn takes the same row of each.
fn lists(rows: &[Vec<String>]) -> Result<Variables, Failure> {
    let mut variables = Variables::default();
    let columns = rows.first().map_or(0, Vec::len);
    for column in 0..columns {
        let values = rows.iter().filter_map(|row| row.get(column).cloned()).collect();
        variables.push_list(values)?;
    }
    Ok(variables)
}

fn job(
    rows: &[Vec<String>],
    ask: Blueprint,
    expected: Expected,
    binds_apart: bool,
) -> Result<Job, Failure> {
    let steps = vec![Step { ask: Ask::Prepared(ask), expected }];
    Ok(Job { variables: lists(rows)?, order: Order::Sequential, steps, binds_apart })
}

const NO_WRITES: &str = "updates, without --writes";
const NO_NAME: &str = "requests about entries with names of a form that no entry here has";
const NO_VALUE: &str = "requests with attributes that no entry here shows values of";
/// Attributes whose values are asked for.
const ATTRIBUTES_MAX: usize = 200;
/// Different requests of all shapes, as far as each has enough.
const ROWS_MAX: usize = 50_000;
const ROWS_OF_SHAPE_MIN: usize = 50;
const ROWS_OF_SHAPE_MAX: usize = 5_000;
/// How often a row is drawn before it is given up, on average.
const TRIES: usize = 4;
/// Numbers in all mixes.
const MIX_CELLS_MAX: usize = 500_000;
/// A mix is of a minute, or longer.
const MIX_SPANS_MIN: usize = 60;
/// Draws of a replay have nothing to do with others.
const REPLAY: u64 = 0x7265_706c_6179;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_in_order_apart_and_at_their_ends() {
        let sample = Sample::default();
        let mut draw = Draw { sample: &sample, chance: Chance::new(1, 1), rows: 1 };
        let value = "Müller-Lüdenscheidt";
        for (lengths, initial, last) in [
            (&[3, 2, 4][..], true, true),
            (&[3, 2], true, false),
            (&[1, 6], false, true),
            (&[2, 2, 2], false, false),
            // Longer than the value.
            (&[30, 2, 50], true, true),
        ] {
            for _ in 0..50 {
                let pieces = draw.pieces(value, lengths, Ends { initial, last }).unwrap();
                assert_eq!(pieces.len(), lengths.len());
                let mut rest = value;
                for (number, piece) in pieces.iter().enumerate() {
                    assert!(!piece.is_empty() && piece.chars().count() <= lengths[number]);
                    let (before, behind) = rest.split_once(&**piece).unwrap();
                    assert!(number > 0 || !initial || before.is_empty(), "{pieces:?}");
                    rest = behind;
                }
                assert!(!last || value.ends_with(&**pieces.last().unwrap()), "{pieces:?}");
            }
        }
        assert!(draw.pieces("ab", &[1, 1, 1], Ends { initial: true, last: true }).is_none());
    }

    #[test]
    fn a_filter_has_the_form_it_had() {
        let text = "(&(objectClass=person)(|(cn=*a*b*)(sn>=c)(!(mail=d*)))(x:dn:1.2:=e)(l=*))";
        let filter = ldap::filter::Filter::parse(text).unwrap();
        let line = format!(
            "[2026-11-22T12:00:00Z] SEARCH base=\"dc=x\" scope=\"sub\" filter=\"{filter}\"\n"
        );
        let recorded = Recorded::read([("log", line.as_bytes())]).unwrap();
        let (Shape::Search(shape), 1) = &recorded.shapes[0] else { panic!("{recorded:?}") };
        let (mut pattern, mut next) = (Pattern::default(), 0);
        put_filter(&shape.filter, &mut pattern, &mut next);
        let values = ["a", "b", "c", "d", "e"].map(str::to_owned);
        assert_eq!((pattern.fill(&values), next), (text.to_owned(), 5));
    }
}
