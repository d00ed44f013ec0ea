//! Dialects: records as other directory servers write them, translated on the way in.
//!
//! One table of named rules (`rules.rs`) says what happens to what only another server understands,
//! and everything that a rule does is counted under its name. Types and classes that the schema
//! lacks refuse an entry as ever, but what was seen of them makes definitions that are offered.
//!
//! Invariants: a record that no rule is about stays as it came, at the cost of one look at each
//! name; translating a translated record changes nothing; a type that the files of the user's own
//! schema define is never taken away.

mod convert;
mod names;
mod offer;
mod one_by_one;
mod rules;
mod subtree_policy;
mod tally;
mod text;
#[cfg(any(test, feature = "test-support"))]
mod translated;

use std::borrow::Cow;
use std::sync::Arc;

use auth::password;
use schema::Schema;

use self::names::{Interest, NameTable, Scan};
pub use self::one_by_one::{EntryTranslator, PlainEntry};
use self::rules::{Action, Match, RULES, Rule};
pub use self::tally::{PasswordUse, RuleUse, Tally, UnknownUse};
pub(super) use self::text::{is_search_note, text};
#[cfg(any(test, feature = "test-support"))]
pub use self::translated::translated;
use super::record::RawRecord;

/// Translates records; one serves all threads.
pub(super) struct Translator {
    schema: Arc<Schema>,
    names: NameTable,
    /// By rule: whether the values stay where they are, too.
    stays: Vec<bool>,
    /// By rule: whether the type it sets takes one value only.
    is_single: Vec<bool>,
}

/// What becomes of a record.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Verdict {
    /// It is an entry.
    Keep,
    /// It is none, for this reason.
    Skip(&'static str),
}

/// One value on its way to another type.
struct Moved {
    rule: usize,
    into: &'static str,
    value: Vec<u8>,
}

/// What one record has come to.
struct Work<'r> {
    dn: Cow<'r, str>,
    /// Whether the entry comes from Active Directory.
    is_marked: bool,
    /// The object classes, as they came.
    classes: Vec<Cow<'r, [u8]>>,
    kept: Vec<(Cow<'r, str>, Cow<'r, [u8]>)>,
    moved: Vec<Moved>,
    /// The newest change number among the options of 389 and Sun servers.
    newest: Option<String>,
    /// Whether the structural class is another one now.
    is_reclassed: bool,
}

impl Translator {
    /// The rules for a directory with this schema.
    pub(super) fn new(schema: Arc<Schema>) -> Self {
        let builtin = Schema::builtin();
        let is_users = |name: &str| {
            builtin.attribute_type(name).is_none() && schema.attribute_type(name).is_some()
        };
        let mut names = NameTable::default();
        names.look_at(OBJECT_CLASS, Interest::Classes);
        names.look_at(USER_PASSWORD, Interest::Passwords);
        let mut stays = Vec::with_capacity(RULES.len());
        let mut is_single = Vec::with_capacity(RULES.len());
        for (at, rule) in RULES.iter().enumerate() {
            let (Match::Types(types) | Match::MarkedTypes(types)) = rule.matches else {
                stays.push(false);
                is_single.push(false);
                continue;
            };
            let interest = match rule.action {
                Action::Rewrite(how) => Interest::Forms(how),
                _ => Interest::All,
            };
            for name in types {
                names.add(name, at, interest);
            }
            stays.push(types.iter().any(|name| is_users(name)));
            is_single.push(match rule.action {
                Action::Move(into, _) | Action::Copy(into, _) => {
                    schema.attribute_type(into).is_some_and(|kind| kind.single_value)
                }
                _ => false,
            });
        }
        Self { schema, names, stays, is_single }
    }

    /// Translates one record.
    pub(super) fn translate(&self, record: &mut RawRecord<'_>, tally: &mut Tally) -> Verdict {
        // All are looked at even when one is found: passwords are counted here.
        let mut is_concerned = begins_with(&record.dn, NS_UNIQUE_ID)
            || names_password(&record.dn)
            || subtree_policy::may_be(&record.dn);
        for (description, value) in &record.attributes {
            is_concerned |= self.concerns(description, value, tally);
        }
        if is_concerned { self.apply(record, tally) } else { Verdict::Keep }
    }

    /// Remembers what the schema lacks of a record that was refused.
    pub(super) fn examine(&self, record: &RawRecord<'_>, tally: &mut Tally) {
        tally.examine(&self.schema, record);
    }

    /// Whether a rule may be about a value. Costs little: every value of every record is asked for.
    fn concerns(&self, description: &str, value: &[u8], tally: &mut Tally) -> bool {
        let scan = Scan::of(description.as_bytes());
        if scan.has_options {
            return true;
        }
        match self.names.find(scan, description).map(|known| known.interest) {
            None | Some(Interest::None) => false,
            Some(Interest::All) => true,
            Some(Interest::Classes) => class_rule(value).is_some(),
            Some(Interest::Passwords) => tally.count_password(value),
            Some(Interest::Forms(how)) => how(value).is_some(),
        }
    }

    /// Applies all rules to a record that one of them may be about.
    fn apply<'r>(&self, record: &mut RawRecord<'r>, tally: &mut Tally) -> Verdict {
        if let Some((at, reason)) = self.skip(record) {
            tally.count_rule(at, &record.dn);
            return Verdict::Skip(reason);
        }
        if names_password(&record.dn) {
            tally.count_rule(rule_of(&Match::NamedPasswords), &record.dn);
        }
        let is_mark = |(description, _): &(Cow<'_, str>, Cow<'_, [u8]>)| {
            rules::MARKS.iter().any(|mark| mark.eq_ignore_ascii_case(base(description)))
        };
        let classes = |(description, value): &(Cow<'_, str>, Cow<'r, [u8]>)| {
            let is_class = base(description).eq_ignore_ascii_case(OBJECT_CLASS);
            is_class.then(|| value.clone())
        };
        let mut work = Work {
            dn: std::mem::take(&mut record.dn),
            is_marked: record.attributes.iter().any(is_mark),
            classes: record.attributes.iter().filter_map(classes).collect(),
            kept: Vec::with_capacity(record.attributes.len() + 2),
            moved: Vec::new(),
            newest: None,
            is_reclassed: false,
        };
        if let Some(dn) = subtree_policy::moved(&work.dn) {
            tally.count_rule(rule_of(&Match::SubtreePolicies), &work.dn);
            work.dn = Cow::Owned(dn);
            let all: (_, &[u8]) = (subtree_policy::SPECIFICATION, b"{ }");
            work.kept.push((Cow::Borrowed(all.0), Cow::Borrowed(all.1)));
        }
        for (description, value) in record.attributes.drain(..) {
            self.value(&mut work, description, value, tally);
        }
        self.settle(&mut work, tally);
        (record.dn, record.attributes) = (work.dn, work.kept);
        Verdict::Keep
    }

    /// The rule by which the whole record is left out, if there is one.
    fn skip(&self, record: &RawRecord<'_>) -> Option<(usize, &'static str)> {
        let reason = |at: usize| match RULES.get(at)?.action {
            Action::Skip(reason) => Some((at, reason)),
            _ => None,
        };
        let by_name = RULES.iter().position(
            |rule| matches!(rule.matches, Match::Names(start) if begins_with(&record.dn, start)),
        );
        by_name.and_then(reason).or_else(|| {
            record.attributes.iter().find_map(|(description, value)| {
                let name = base(description);
                if name.eq_ignore_ascii_case(OBJECT_CLASS) {
                    return class_rule(value).and_then(reason);
                }
                let known = self.names.find(Scan::of(name.as_bytes()), name)?;
                known.rules.iter().copied().find_map(reason)
            })
        })
    }

    /// One value of a record: into `kept`, into `moved`, or nowhere.
    fn value<'r>(
        &self,
        work: &mut Work<'r>,
        description: Cow<'r, str>,
        value: Cow<'r, [u8]>,
        tally: &mut Tally,
    ) {
        let Some(description) = work.strip(description, tally) else { return };
        let mut value = value;
        let name = base(&description);
        if name.eq_ignore_ascii_case(OBJECT_CLASS)
            && let Some(at) = class_rule(&value)
            && let Some(classes) = RULES.get(at).and_then(|rule| work.classes_instead(rule))
        {
            tally.count_rule(at, &work.dn);
            work.is_reclassed = true;
            for class in classes {
                work.kept.push((description.clone(), Cow::Borrowed(class.as_bytes())));
            }
            return;
        }
        // `authPassword;orclcommonpwd` has a rule of its own; others are about all options.
        let found = self.names.find(Scan::of(description.as_bytes()), &description);
        let found = found.or_else(|| self.names.find(Scan::of(name.as_bytes()), name));
        let mut stays = true;
        for &at in found.map_or(&[][..], |known| &known.rules) {
            let Some(rule) = RULES.get(at) else { continue };
            if matches!(rule.matches, Match::MarkedTypes(_)) && !work.is_marked {
                continue;
            }
            let is_kept = self.stays.get(at).is_some_and(|stays| *stays) || names(&work.dn, name);
            match rule.action {
                Action::Drop => stays = is_kept,
                Action::Rewrite(how) => match how(&value) {
                    Some(other) => value = Cow::Owned(other),
                    None => continue,
                },
                Action::Move(into, how) => {
                    stays = is_kept;
                    let other = how(&value);
                    work.moved.extend(other.map(|value| Moved { rule: at, into, value }));
                }
                Action::Copy(into, how) => match how(&value) {
                    Some(value) => work.moved.push(Moved { rule: at, into, value }),
                    None => continue,
                },
                Action::Skip(_)
                | Action::Strip
                | Action::Keep
                | Action::Classes(_)
                | Action::TakeFrom(_)
                | Action::MoveUp => continue,
            }
            tally.count_rule(at, &work.dn);
        }
        if name.eq_ignore_ascii_case(USER_PASSWORD) && is_foreign(&value) {
            tally.count_rule(rule_of(&Match::ForeignPasswords), &work.dn);
        }
        if name != description
            && PASSWORDS.iter().any(|one| one.eq_ignore_ascii_case(name))
            && stays
        {
            tally.count_rule(rule_of(&Match::OptionedPasswords), &work.dn);
        }
        if stays {
            work.kept.push((description, value));
        }
    }

    /// Adds what was moved, and what an entry of Active Directory lacks.
    fn settle(&self, work: &mut Work<'_>, tally: &mut Tally) {
        if work.is_reclassed {
            work.kept.retain(|(name, _)| !name.eq_ignore_ascii_case("structuralObjectClass"));
        }
        if let Some(newest) = work.newest.take()
            && let Some(value) = convert::csn_from_389(newest.as_bytes())
        {
            work.moved.push(Moved { rule: RULES.len(), into: "entryCSN", value });
        }
        // The first rule wins; of its values for a type of one value, the largest one.
        work.moved.sort_by(|one, other| {
            (one.into, one.rule, &other.value).cmp(&(other.into, other.rule, &one.value))
        });
        let mut last: Option<(&'static str, usize)> = None;
        for Moved { rule, into, value } in std::mem::take(&mut work.moved) {
            let is_single = self.is_single.get(rule).is_none_or(|single| *single);
            let goes_in = match last {
                Some((before, winner)) if before == into => winner == rule && !is_single,
                Some(_) | None => !work.has(into),
            };
            if goes_in {
                if into == USER_PASSWORD {
                    tally.count_password(&value);
                }
                work.kept.push((Cow::Borrowed(into), Cow::Owned(value)));
                last = Some((into, rule));
            }
        }
        if work.is_marked && work.is_person() {
            for (at, rule) in RULES.iter().enumerate() {
                let (Match::MarkedWithout(lacks), Action::TakeFrom(other)) =
                    (&rule.matches, &rule.action)
                else {
                    continue;
                };
                let found = work.kept.iter().find(|(name, _)| other.eq_ignore_ascii_case(name));
                if let (false, Some((_, value))) = (work.has(lacks), found) {
                    let value = value.clone();
                    tally.count_rule(at, &work.dn);
                    work.kept.push((Cow::Borrowed(lacks), value));
                }
            }
        }
    }
}

impl<'r> Work<'r> {
    /// The description without the options that are dropped; `None` when the value goes.
    fn strip(&mut self, description: Cow<'r, str>, tally: &mut Tally) -> Option<Cow<'r, str>> {
        if !description.contains(';') {
            return Some(description);
        }
        let mut left = String::new();
        for option in description.split(';').skip(1) {
            let Some((at, start)) = option_rule(option) else {
                left.push(';');
                left.push_str(option);
                continue;
            };
            tally.count_rule(at, &self.dn);
            match RULES.get(at).map(|rule| &rule.action) {
                Some(Action::Drop) => return None,
                _ => {
                    let number = option.get(start.len()..).unwrap_or_default().to_ascii_lowercase();
                    self.newest = self.newest.take().max(Some(number));
                }
            }
        }
        let name = base(&description);
        if name.len() + left.len() == description.len() {
            return Some(description);
        }
        Some(Cow::Owned(format!("{name}{left}")))
    }

    /// The classes that take the place of one that this rule is about.
    fn classes_instead(&self, rule: &Rule) -> Option<&'static [&'static str]> {
        let has = |class: &str| self.classes.iter().any(|one| is_name(one, class));
        match (&rule.matches, &rule.action) {
            (_, Action::Classes(classes)) => Some(classes),
            (Match::ClassesBeside(_, other), Action::Drop) if has(other) => Some(&[]),
            _ => None,
        }
    }

    fn has(&self, kind: &str) -> bool {
        self.kept.iter().any(|(description, _)| base(description).eq_ignore_ascii_case(kind))
    }

    fn is_person(&self) -> bool {
        self.kept.iter().any(|(description, value)| {
            description.eq_ignore_ascii_case(OBJECT_CLASS) && value.eq_ignore_ascii_case(b"person")
        })
    }
}

fn is_foreign(value: &[u8]) -> bool {
    !password::is_hashed(value) && password::is_foreign(value)
}

/// The type of a description, without its options.
fn base(description: &str) -> &str {
    description.split_once(';').map_or(description, |(name, _)| name)
}

fn begins_with(text: &str, start: &str) -> bool {
    text.get(..start.len()).is_some_and(|head| head.eq_ignore_ascii_case(start))
}

/// Whether the leaf of `dn` names its entry by an attribute of this type.
fn names(dn: &str, kind: &str) -> bool {
    // A value may hold whatever looks like this, which only keeps what could go.
    let leaf = dn.split(',').next().unwrap_or_default();
    leaf.split('+').any(|ava| {
        ava.split_once('=').is_some_and(|(name, _)| name.trim().eq_ignore_ascii_case(kind))
    })
}

/// The rule about a value of objectClass.
fn class_rule(value: &[u8]) -> Option<usize> {
    // Nearly all classes have other lengths.
    if !matches!(value.len(), 4 | 11) {
        return None;
    }
    let is_about = |classes: &[&str]| classes.iter().any(|class| is_name(value, class));
    RULES.iter().position(|rule| match rule.matches {
        Match::Classes(classes) | Match::ClassesBeside(classes, _) => is_about(classes),
        _ => false,
    })
}

fn is_name(value: &[u8], name: &str) -> bool {
    name.as_bytes().eq_ignore_ascii_case(value)
}

/// The rule about an option, and what such options begin with.
fn option_rule(option: &str) -> Option<(usize, &'static str)> {
    RULES.iter().enumerate().find_map(|(at, rule)| match rule.matches {
        Match::Options(starts) => {
            starts.iter().find(|start| begins_with(option, start)).map(|start| (at, *start))
        }
        _ => None,
    })
}

/// The one rule about these.
fn rule_of(matches: &Match) -> usize {
    let is_it =
        |rule: &Rule| std::mem::discriminant(&rule.matches) == std::mem::discriminant(matches);
    RULES.iter().position(is_it).expect("the table has it")
}

/// Whether the leaf of `dn` holds a password.
fn names_password(dn: &str) -> bool {
    PASSWORDS.iter().any(|name| names(dn, name))
}

const OBJECT_CLASS: &str = "objectClass";
const USER_PASSWORD: &str = "userPassword";
/// The types of passwords, as they may be written.
const PASSWORDS: [&str; 4] = [USER_PASSWORD, "2.5.4.35", "authPassword", "1.3.6.1.4.1.4203.1.3.4"];
const NS_UNIQUE_ID: &str = "nsuniqueid=";

#[cfg(test)]
mod tests;
