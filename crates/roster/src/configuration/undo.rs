//! What undoes a change of the configuration, compared with what there is now.
//!
//! Invariant: what others changed since is not overwritten.

use std::collections::BTreeSet;

use client::Connection;

use super::brief::{Subject, subject};
use super::told::{self, ConfigChange, Together};
use super::{INDEX, SCHEMA_DN, SETTING, present};
use crate::changes::step::Step;
use crate::changes::values::{ValueRules, Values};
use crate::failure::Failure;

/// The requests that undo a change; none if nothing is left of it.
///
/// # Errors
/// When what it changed has changed since, or the server does not tell what was before.
pub(crate) fn steps(
    connection: &mut Connection,
    change: &ConfigChange,
) -> Result<Vec<Step>, Failure> {
    let mut together = Together::default();
    together.put(change)?;
    let mut steps = Vec::new();
    for (dn, attribute, values) in together.attributes() {
        let mut undone = Undone::of(attribute, values)?;
        let now = match attribute.eq_ignore_ascii_case(INDEX) {
            // The entry may be gone with its last index.
            true => present::indexes(connection)?.into_values().flatten().collect(),
            false => present::values(connection, dn, attribute)?,
        };
        if undone.is_done(&now) {
            continue;
        }
        if undone.goes.iter().chain(&undone.comes).any(|value| is_setting_list(attribute, value)) {
            undone.changed_lists = settings_since(connection, change.number)?;
        }
        if !undone.applies(&now) {
            return Err(changed_since(connection, change, &undone)?);
        }
        let own = undone.steps(connection, dn)?;
        match steps.last_mut() {
            // Of the schema all is one request: it is never valid in parts.
            Some(Step::Modify { dn: last, changes })
                if last == dn && dn.eq_ignore_ascii_case(SCHEMA_DN) =>
            {
                changes.extend(own.into_iter().flat_map(Step::into_changes));
            }
            _ => steps.extend(own),
        }
    }
    Ok(steps)
}

/// What is to become of the values of one attribute.
struct Undone<'a> {
    attribute: &'a str,
    goes: Vec<String>,
    comes: Vec<String>,
    rules: ValueRules,
    /// The settings that are not what the change left: of a list, values that went and came do not
    /// tell what else was in it.
    changed_lists: BTreeSet<String>,
}

impl<'a> Undone<'a> {
    fn of(attribute: &'a str, values: &Values) -> Result<Self, Failure> {
        let texts = |all: &[Vec<u8>]| {
            let text = |value: &Vec<u8>| String::from_utf8(value.clone());
            let texts = all.iter().map(text).collect::<Result<Vec<_>, _>>();
            texts.map_err(|_| Failure::refused(format!("a value of {attribute} is no text")))
        };
        let (goes, comes) = (texts(&values.added)?, texts(&values.removed)?);
        let (rules, changed_lists) = (ValueRules::new(), BTreeSet::new());
        Ok(Self { attribute, goes, comes, rules, changed_lists })
    }

    fn is_same(&self, one: &str, other: &str) -> bool {
        if subject(self.attribute, one).what == ACI {
            return one == other;
        }
        self.rules.are_same(self.attribute, one.as_bytes(), other.as_bytes())
    }

    fn has(&self, now: &[String], value: &str) -> bool {
        now.iter().any(|one| self.is_same(one, value))
    }

    /// Whether everything is as it was before the change.
    fn is_done(&self, now: &[String]) -> bool {
        let is_replaced =
            |value: &String| self.comes.iter().any(|other| self.is_same(value, other));
        self.comes.iter().all(|value| self.has(now, value))
            && self.goes.iter().all(|value| is_replaced(value) || !self.has(now, value))
            && (!self.goes.iter().any(is_replaced) || self.comes.iter().all(|it| now.contains(it)))
            && !now.iter().any(|other| self.is_in_place_of_one(other))
    }

    /// Whether a value took the place of one that is to go, and is none that is to come.
    fn is_in_place_of_one(&self, other: &str) -> bool {
        let own = self.subject(other);
        !self.comes.iter().chain(&self.goes).any(|value| self.is_same(value, other))
            && self
                .goes
                .iter()
                .any(|value| !is_list(self.attribute, value) && self.subject(value).is_same(&own))
    }

    /// Whether everything is as the change left it.
    fn applies(&self, now: &[String]) -> bool {
        let mut rest = now.iter().filter(|one| !self.goes.iter().any(|it| self.is_same(one, it)));
        let is_taken = |other: &String| {
            self.comes.iter().any(|value| {
                self.is_same(value, other)
                    || (!is_list(self.attribute, value)
                        && self.subject(value).is_same(&self.subject(other)))
            })
        };
        let is_changed = |value: &String| {
            is_setting_list(self.attribute, value)
                && self.changed_lists.contains(setting_name(value))
        };
        self.goes.iter().all(|value| self.has(now, value))
            && !rest.any(is_taken)
            && !self.goes.iter().chain(&self.comes).any(is_changed)
    }

    fn subject(&self, value: &str) -> Subject {
        subject(self.attribute, value)
    }

    fn subjects(&self) -> impl Iterator<Item = Subject> {
        self.goes.iter().chain(&self.comes).map(|value| self.subject(value))
    }

    fn steps(&self, connection: &mut Connection, dn: &str) -> Result<Vec<Step>, Failure> {
        if !self.attribute.eq_ignore_ascii_case(INDEX) {
            let step = present::modify(dn, self.attribute, &self.goes, &self.comes);
            return Ok(step.into_iter().collect());
        }
        let there = present::indexes(connection)?;
        let name = dn.split_once('=').and_then(|(_, rest)| rest.split_once(','));
        let name = name.map_or(dn, |(name, _)| name);
        let mut steps = Vec::new();
        let is_new = !there.keys().any(|own| own.eq_ignore_ascii_case(name));
        if !self.comes.is_empty() {
            steps.push(present::add_indexes(name, &self.comes, is_new));
        }
        if !self.goes.is_empty() {
            steps.push(present::drop_indexes(name, &self.goes));
        }
        Ok(steps)
    }
}

impl Subject {
    fn is_same(&self, other: &Self) -> bool {
        self.what == other.what && self.name.eq_ignore_ascii_case(&other.name)
    }
}

/// Whether several values may be of one subject: those of a list, and ACIs with one name.
fn is_list(attribute: &str, value: &str) -> bool {
    subject(attribute, value).what == ACI || is_setting_list(attribute, value)
}

/// Whether a value is a line of a setting that may have several.
fn is_setting_list(attribute: &str, value: &str) -> bool {
    let name = setting_name(value);
    let all = || server::setting_descriptions();
    attribute.eq_ignore_ascii_case(SETTING)
        && all().iter().any(|one| one.name == name && one.separator.is_some())
}

fn setting_name(line: &str) -> &str {
    line.split('=').next().unwrap_or_default()
}

/// The settings that are not what the change with this number left.
fn settings_since(connection: &mut Connection, number: u64) -> Result<BTreeSet<String>, Failure> {
    let (mut together, mut names) = (Together::default(), BTreeSet::new());
    let mut add = |values: &[Vec<u8>]| {
        let texts = values.iter().filter_map(|value| std::str::from_utf8(value).ok());
        names.extend(texts.map(|text| setting_name(text).to_owned()));
    };
    told::read(connection, number.saturating_add(1), &mut |later| {
        // Where nobody knows what was before, anything may have changed.
        if together.put(&later).is_err() {
            let deltas = later.parts.iter().flat_map(|part| part.deltas());
            let own = deltas.filter(|delta| delta.attribute.eq_ignore_ascii_case(SETTING));
            own.for_each(|delta| add(&delta.values));
        }
        Ok(())
    })?;
    for (_, attribute, values) in together.attributes() {
        if attribute.eq_ignore_ascii_case(SETTING) {
            add(&values.added);
            add(&values.removed);
        }
    }
    Ok(names)
}

/// What a global ACI is called.
const ACI: &str = "global ACI";

/// The change that is in the way, if it can be told.
fn changed_since(
    connection: &mut Connection,
    change: &ConfigChange,
    undone: &Undone<'_>,
) -> Result<Failure, Failure> {
    let own: Vec<Subject> = undone.subjects().collect();
    let mut found: Option<(ConfigChange, Subject)> = None;
    told::read(connection, change.number.saturating_add(1), &mut |later| {
        let deltas = later.parts.iter().flat_map(|part| part.deltas()).collect::<Vec<_>>();
        let mut subjects = deltas.iter().flat_map(|delta| {
            let texts = delta.values.iter().filter_map(|value| std::str::from_utf8(value).ok());
            texts.map(|text| subject(&delta.attribute, text))
        });
        let touched = subjects.find(|one| own.iter().any(|it| it.is_same(one)));
        if let (None, Some(touched)) = (&found, touched) {
            found = Some((later, touched));
        }
        Ok(())
    })?;
    let number = change.number;
    Ok(match found.as_ref().and_then(|(later, what)| Some((later.first()?, what))) {
        Some((later, Subject { what, name })) => {
            let by = later.by.as_deref().unwrap_or("the server");
            let (other, time) = (later.number, &later.time);
            let why = format!("{what} {name} has changed since: change {other} by {by} at {time}");
            Failure::refused(why).hint(format!(
                "undo that first ('roster config undo {other}'), or set what 'roster config diff \
                 {number}' shows"
            ))
        }
        None => {
            let names: BTreeSet<String> =
                own.iter().map(|Subject { what, name }| format!("{what} {name}")).collect();
            let names = names.into_iter().collect::<Vec<_>>().join(", ");
            Failure::refused(format!("{names}: not what change {number} left"))
                .hint(format!("set what 'roster config diff {number}' shows"))
        }
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    /// Whether nothing is left of a change, and whether it can be undone, when these settings have
    /// changed since.
    fn outcome(
        attribute: &str,
        (gone, come): (&[&str], &[&str]),
        now: &[&str],
        since: &[&str],
    ) -> (bool, bool) {
        let octets = |all: &[&str]| all.iter().map(|one| one.as_bytes().to_vec()).collect();
        let values = Values { removed: octets(gone), added: octets(come) };
        let mut undone = Undone::of(attribute, &values).unwrap();
        undone.changed_lists = since.iter().map(|name| (*name).to_owned()).collect();
        let now: Vec<String> = now.iter().map(|one| (*one).to_owned()).collect();
        let is_done = undone.is_done(&now);
        (is_done, !is_done && undone.applies(&now))
    }

    #[track_caller]
    fn check(attribute: &str, change: (&[&str], &[&str]), now: &[&str], want: (bool, bool)) {
        assert_eq!(outcome(attribute, change, now, &[]), want, "{now:?}");
    }

    #[test]
    fn what_others_changed_since_is_noticed() {
        let (done, applies, neither) = ((true, false), (false, true), (false, false));
        let [five, seven, nine] =
            ["5", "7", "9"].map(|it| format!("limits.size_limit_entries={it}"));
        let change = (&[&*five][..], &[&*seven][..]);
        check(SETTING, change, &[&seven, "log.level=debug"], applies);
        check(SETTING, change, &[&five], done);
        check(SETTING, change, &[&nine], neither);
        check(SETTING, change, &[], neither);
        // A reset is undone unless it was set anew.
        check(SETTING, (&[&five], &[]), &[], applies);
        check(SETTING, (&[&five], &[]), &[&nine], neither);
        // Of a list the others may be there, unless it was changed since.
        let [mail, uid] = ["mail", "uid"].map(|it| format!("authentication.name_attributes={it}"));
        let names = ["authentication.name_attributes"];
        let [kept, set] = [&[][..], &names].map(|since| {
            let (gone, come) = (&[&*mail][..], &[][..]);
            [
                outcome(SETTING, (gone, come), &[&uid], since),
                outcome(SETTING, (come, gone), &[&mail, &uid], since),
            ]
        });
        assert_eq!((kept, set), ([applies; 2], [neither; 2]));
        // ACIs that differ in a letter are two.
        let aci = "ds-cfg-global-aci";
        check(aci, (&[], &["(a)"]), &["(A)"], done);
        let line = "roster-constraint";
        check(line, (&["a: unique mail"], &[]), &["A: unique uid"], neither);
        check(line, (&[], &["a: unique mail"]), &["a: unique mail", "b: unique uid"], applies);
        check(line, (&[], &["a: unique mail"]), &["b: unique uid"], done);
        check(line, (&[], &["a: unique mail"]), &["a: unique uid"], neither);
        // A definition of the schema in another form.
        let [one, two] = ["( 1.2.3 NAME 'a' )", "( 1.2.3 NAME 'a' DESC 'b' )"];
        check("attributeTypes", (&[one], &[two]), &[two], applies);
        check("attributeTypes", (&[one], &[two]), &[one], done);
    }
}
