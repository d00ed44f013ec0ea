//! What undoes a change: planned from what the server tells of it, and compared with what there is
//! now.
//!
//! Invariant: what others changed since is not overwritten, unless that is asked for.

use client::{Connection, SearchFor};
use ldap::dn::Dn;
use ldap::filter::{AvaFilter, Filter};
use ldap::message::{ModifyOperation, Scope};

use super::back::{Deleted, is_there, name_of};
use super::names::{NameKey, Names, Then, parsed};
use super::step::{Modification, Step};
use super::values::{Net, Values};
use super::{Start, ToldChange, read};
use crate::configuration::told;
use crate::failure::Failure;
use crate::output;

/// What is known when a change is undone.
pub(crate) struct Undoing<'a> {
    connection: &'a mut Connection,
    names: &'a Names,
    /// Also where something has changed since.
    is_forced: bool,
    planned: Planned,
}

/// The renames among the steps so far: by the name before, the name after; in order.
#[derive(Default)]
struct Planned(Vec<(NameKey, Dn)>);

impl Planned {
    /// What an entry is called when these renames are done.
    fn after(&self, names: &Names, dn: Dn) -> Dn {
        self.0.iter().fold(dn, |dn, (old, new)| {
            let key = names.key(&dn);
            if !key.starts_with(old) {
                return dn;
            }
            let below = dn.rdns().iter().take(key.len() - old.len());
            Dn::new(below.chain(new.rdns()).cloned().collect())
        })
    }
}

impl<'a> Undoing<'a> {
    /// Nothing is planned yet.
    pub(crate) fn new(connection: &'a mut Connection, names: &'a Names, is_forced: bool) -> Self {
        Self { connection, names, is_forced, planned: Planned::default() }
    }

    /// What an entry that is called `dn` now is called when its step comes.
    fn at_its_step(&self, dn: &str) -> Result<Dn, Failure> {
        Ok(self.planned.after(self.names, parsed(dn)?))
    }

    /// The steps that undo what changes of one number did, in their order.
    ///
    /// # Errors
    /// When something has changed since, or the server does not tell what was before.
    pub(crate) fn steps(&mut self, all: &[ToldChange]) -> Result<Vec<Step>, Failure> {
        for change in all {
            if self.names.is_of_server(&change.dn)? {
                return Err(Failure::refused(format!(
                    "change {} is one of {}, which is not undone",
                    change.number, change.dn
                ))
                .hint(match told::is_configuration(&change.dn) {
                    true => format!("'roster config undo {}' undoes it", change.number),
                    false => "change that yourself: 'roster changes' tells what it did".to_owned(),
                }));
            }
        }
        let mut steps = Vec::new();
        let backwards = || all.iter().rev();
        // What was deleted is there again before others name it, superiors before what is below.
        let deleted = backwards().filter(|change| change.kind == "delete");
        for change in deleted {
            steps.extend(self.of_delete(change)?);
        }
        for change in backwards().filter(|change| change.kind == "modrdn") {
            steps.extend(self.of_rename(change)?);
        }
        for (change, net) in modified(self.names, all)?.into_iter().rev() {
            steps.extend(self.of_modify(change, net, all)?);
        }
        for change in backwards().filter(|change| change.kind == "add") {
            steps.extend(self.of_add(change)?);
        }
        Ok(steps)
    }

    fn of_delete(&mut self, change: &ToldChange) -> Result<Option<Step>, Failure> {
        if change.lines.is_empty() {
            return Err(Failure::refused(format!(
                "the change log does not tell what {} held",
                change.dn
            ))
            .hint("it was too much for a record: a backup may have it"));
        }
        let dn = self.names.now(&parsed(&change.dn)?, change.number, Then::Deleted).to_string();
        let by_uuid = name_of(self.connection, change.uuid.as_deref())?;
        let is_taken = is_there(self.connection, &dn)?;
        if let Some(other) = by_uuid.or_else(|| is_taken.then(|| dn.clone())) {
            return self.left_out(Failure::refused(format!("{other} is there again")));
        }
        let (change, references) = (change.clone(), Vec::new());
        Ok(Some(Step::Back(Box::new(Deleted { dn, change, references }))))
    }

    fn of_add(&mut self, change: &ToldChange) -> Result<Option<Step>, Failure> {
        let Some(dn) = self.current(change, &parsed(&change.dn)?)? else { return Ok(None) };
        if !self.is_forced
            && let Some(later) = self.later(change, None)?
        {
            return Err(changed_since(&dn, &later));
        }
        Ok(Some(Step::Delete { dn: self.at_its_step(&dn)?.to_string() }))
    }

    fn of_rename(&mut self, change: &ToldChange) -> Result<Option<Step>, Failure> {
        let Some(new) = change.new_dn() else { return Ok(None) };
        let (old, new) = (parsed(&change.dn)?, parsed(&new)?);
        let Some(dn) = self.current(change, &new)? else { return Ok(None) };
        let expected = self.names.now(&new, change.number, Then::Deleted);
        if self.names.key_of(&dn)? != self.names.key(&expected) && !self.is_forced {
            return Err(Failure::refused(format!(
                "{new} was renamed again since change {}: it is {dn} now",
                change.number
            ))
            .hint("undo the later change first, or use --force"));
        }
        let above = |dn: &Dn| Dn::new(dn.rdns().iter().skip(1).cloned().collect());
        let superior = self.names.now(&above(&old), change.number, Then::There);
        let superior = self.planned.after(self.names, superior);
        let dn = self.at_its_step(&dn)?;
        let is_moved = self.names.key(&superior) != self.names.key(&above(&dn));
        let Some(rdn) = old.rdns().first() else { return Ok(None) };
        let undone = std::iter::once(rdn).chain(superior.rdns()).cloned().collect();
        self.planned.0.push((self.names.key(&dn), Dn::new(undone)));
        Ok(Some(Step::Rename {
            deletes_old_rdn: brought_its_name(change, &new),
            dn: dn.to_string(),
            new_rdn: rdn.to_string(),
            new_superior: is_moved.then(|| superior.to_string()),
        }))
    }

    fn of_modify(
        &mut self,
        change: &ToldChange,
        net: Net,
        all: &[ToldChange],
    ) -> Result<Option<Step>, Failure> {
        if net.attributes.is_empty() {
            return Ok(None);
        }
        let Some(dn) = self.current(change, &parsed(&change.dn)?)? else { return Ok(None) };
        let mut changes = Vec::new();
        for (attribute, Values { removed, added }) in net.attributes {
            let removed = self.named_now(removed, all)?;
            let there = self.values(&dn, &attribute)?;
            let has = |value: &Vec<u8>| {
                there.iter().any(|one| net.rules.are_same(&attribute, one, value))
            };
            let (goes, stays): (Vec<_>, Vec<_>) = added.into_iter().partition(has);
            let (back, comes): (Vec<_>, Vec<_>) = removed.into_iter().partition(has);
            let is_undone = goes.is_empty() && comes.is_empty();
            if !is_undone && !self.is_forced && (!stays.is_empty() || !back.is_empty()) {
                let later = self.later(change, Some(&attribute))?;
                return Err(match later {
                    Some(later) => changed_since(&format!("'{attribute}' of {dn}"), &later),
                    None => Failure::refused(format!(
                        "'{attribute}' of {dn} has other values than change {} left",
                        change.number
                    ))
                    .hint("look at the entry, and use --force to undo it all the same"),
                });
            }
            let is_single = net.rules.is_single(&attribute);
            let mut push = |operation, values: Vec<Vec<u8>>| {
                let attribute = attribute.clone();
                changes.push(Modification { operation, attribute, values });
            };
            if is_single && !comes.is_empty() {
                push(ModifyOperation::Replace, comes);
                continue;
            }
            if !goes.is_empty() {
                push(ModifyOperation::Delete, goes);
            }
            if !comes.is_empty() {
                push(ModifyOperation::Add, comes);
            }
        }
        let dn = self.at_its_step(&dn)?.to_string();
        Ok((!changes.is_empty()).then_some(Step::Modify { dn, changes }))
    }

    /// Values that named what the same change deleted name it as it is called when it is back.
    fn named_now(&self, values: Vec<Vec<u8>>, all: &[ToldChange]) -> Result<Vec<Vec<u8>>, Failure> {
        let mut named = Vec::with_capacity(values.len());
        for value in values {
            let text = std::str::from_utf8(&value).ok();
            let key = text.and_then(|text| self.names.key_of(text).ok());
            let mut now = None;
            for change in all.iter().filter(|change| change.kind == "delete") {
                let was = parsed(&change.dn)?;
                let name = self.names.now(&was, change.number, Then::Deleted);
                if key.as_ref() == Some(&self.names.key(&was)) && name != was {
                    now = Some(name.to_string().into_bytes());
                }
            }
            named.push(now.unwrap_or(value));
        }
        Ok(named)
    }

    /// What cannot be undone ends it; by force the rest is undone without.
    fn left_out<T>(&self, why: Failure) -> Result<Option<T>, Failure> {
        if !self.is_forced {
            return Err(why);
        }
        output::note(format_args!("roster: {}", why.message));
        Ok(None)
    }

    /// How the entry of a change is called now; `then` is what the change left it called. None if
    /// it is gone and that is no reason to end.
    fn current(&mut self, change: &ToldChange, then: &Dn) -> Result<Option<String>, Failure> {
        let gone = || {
            Failure::refused(format!("{then} is not there any more"))
                .hint("'roster undelete' brings back what was deleted")
        };
        if change.uuid.is_some() {
            let now = name_of(self.connection, change.uuid.as_deref())?;
            return now.map_or_else(|| self.left_out(gone()), |now| Ok(Some(now)));
        }
        let dn = self.names.now(then, change.number, Then::There).to_string();
        if !is_there(self.connection, &dn)? {
            return self.left_out(gone());
        }
        // Without an entryUUID it may be another entry that took the name.
        match self.is_forced {
            true => Ok(Some(dn)),
            false => Err(Failure::refused(format!(
                "change {} does not tell the entryUUID of its entry, which may be gone: {dn} may \
                 be another one",
                change.number
            ))
            .hint("'roster history DN' shows what became of it; --force takes it by its name")),
        }
    }

    /// The first later change of the entry that changed more than stamps; where an attribute is
    /// asked for, that one.
    fn later(
        &mut self,
        change: &ToldChange,
        attribute: Option<&str>,
    ) -> Result<Option<ToldChange>, Failure> {
        let Some(uuid) = &change.uuid else { return Ok(None) };
        let value = uuid.as_bytes().into();
        let filter = Filter::Equality(AvaFilter { description: "targetEntryUUID", value });
        let (mut found, start) = (None, Start::Number(change.number + 1));
        read(self.connection, start, Some(&filter), &mut |later| {
            if found.is_none() && tells(&later, attribute) {
                found = Some(later);
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// The values that an entry has.
    fn values(&mut self, dn: &str, attribute: &str) -> Result<Vec<Vec<u8>>, Failure> {
        let attributes = &[attribute][..];
        let asked = SearchFor {
            scope: Scope::Base,
            attributes,
            ..SearchFor::below(dn, Filter::Present("objectClass"))
        };
        let found = self.connection.search(&asked)?.entries.into_iter().next();
        let all = found.map(|entry| entry.attributes).unwrap_or_default();
        let own = all.into_iter().filter(|(name, _)| name.eq_ignore_ascii_case(attribute));
        Ok(own.flat_map(|(_, values)| values).collect())
    }
}

/// The last change of values of each entry, and what all of them did together: one that came and
/// went again in a transaction is neither there now nor was it before.
fn modified<'c>(
    names: &Names,
    all: &'c [ToldChange],
) -> Result<Vec<(&'c ToldChange, Net)>, Failure> {
    let mut entries: Vec<(&ToldChange, Net)> = Vec::new();
    for change in all.iter().filter(|change| change.kind == "modify") {
        let key = names.key_of(&change.dn)?;
        let mut own = None;
        for (at, (last, _)) in entries.iter().enumerate() {
            let is_same = match (&last.uuid, &change.uuid) {
                (Some(one), Some(other)) => one == other,
                (Some(_) | None, None) | (None, Some(_)) => names.key_of(&last.dn)? == key,
            };
            own = own.or(is_same.then_some(at));
        }
        match own.and_then(|at| entries.get_mut(at)) {
            Some((last, net)) => {
                net.put(change)?;
                *last = change;
            }
            None => entries.push((change, Net::of(change)?)),
        }
    }
    Ok(entries)
}

/// Whether a change did something to an attribute, or, if none is asked for, to more than stamps.
fn tells(later: &ToldChange, attribute: Option<&str>) -> bool {
    let changed = || Net::of(later).map(|net| net.attributes).unwrap_or_default();
    match attribute {
        None => later.kind != "modify" || !changed().is_empty(),
        // All of them went or came.
        Some(_) if matches!(&*later.kind, "add" | "delete") => true,
        Some(name) => changed().keys().any(|one| one.eq_ignore_ascii_case(name)),
    }
}

fn changed_since(what: &str, later: &ToldChange) -> Failure {
    let by = later.by.as_deref().unwrap_or("the server");
    Failure::refused(format!(
        "{what} has changed since: change {} ({}) by {by} at {}",
        later.number, later.kind, later.time
    ))
    .hint("undo that first, or use --force")
}

/// Whether a rename gave an entry the values of its new name.
fn brought_its_name(change: &ToldChange, new: &Dn) -> bool {
    let deltas = change.deltas();
    if deltas.is_empty() {
        return change.deletes_old_rdn;
    }
    let avas = new.rdns().first().map(|rdn| rdn.avas()).unwrap_or_default();
    avas.iter().any(|ava| {
        let own = deltas.iter().filter(|one| one.operation == ModifyOperation::Add);
        let mut values = own.flat_map(|one| &one.values);
        values.any(|value| *value == ava.value)
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn changes_of_one_entry_are_taken_together() {
        let change = |dn: &str, uuid: Option<&str>, lines: &str| ToldChange {
            kind: "modify".to_owned(),
            dn: dn.to_owned(),
            uuid: uuid.map(str::to_owned),
            lines: lines.as_bytes().to_vec(),
            ..ToldChange::default()
        };
        let (first, second) =
            ("add: l\nl: Bern\n-\n", "delete: l\nl: Bern\n-\nadd: l\nl: Chur\n-\n");
        for (uuid, dn) in [(None, "CN=a,dc=x"), (Some("1"), "cn=b,dc=x")] {
            let all = [
                change("cn=a,dc=x", uuid, first),
                change("cn=other,dc=x", None, first),
                change(dn, uuid, second),
            ];
            let found = modified(&Names::unchanged(), &all).unwrap();
            let (last, net) = found.first().unwrap();
            let values = Values { removed: Vec::new(), added: vec![b"Chur".to_vec()] };
            assert_eq!((found.len(), &*last.dn), (2, dn));
            assert_eq!(net.attributes.get("l"), Some(&values), "{dn}");
        }
    }

    #[test]
    fn the_change_of_an_attribute_is_told_from_those_of_others() {
        let change = |kind: &str, lines: &str| ToldChange {
            kind: kind.to_owned(),
            dn: "cn=a,dc=x".to_owned(),
            lines: lines.as_bytes().to_vec(),
            ..ToldChange::default()
        };
        let stamps = "add: modifyTimestamp\nmodifyTimestamp: 20270131180000Z\n-\n";
        for (later, of_l, of_all) in [
            (change("modify", "add: L\nL: Bern\n-\n"), true, true),
            (change("modify", "add: title\ntitle: Pilot\n-\n"), false, true),
            (change("modify", stamps), false, false),
            (change("modrdn", "add: cn\ncn: b\n-\n"), false, true),
            (change("delete", "objectClass: device\n"), true, true),
        ] {
            assert_eq!(
                (tells(&later, Some("l")), tells(&later, None)),
                (of_l, of_all),
                "{later:?}"
            );
        }
    }

    #[test]
    fn a_step_calls_entries_as_the_renames_before_it_leave_them() {
        let names = Names::unchanged();
        let renames = [("ou=b,dc=x", "ou=a,dc=x"), ("cn=g,ou=A,dc=x", "cn=h,dc=x")];
        let planned = renames.map(|(old, new)| (names.key_of(old).unwrap(), parsed(new).unwrap()));
        let planned = Planned(planned.to_vec());
        for (now, then) in [
            ("cn=m,ou=B,dc=x", "cn=m,ou=a,dc=x"),
            ("cn=g,ou=b,dc=x", "cn=h,dc=x"),
            ("cn=other,dc=x", "cn=other,dc=x"),
        ] {
            assert_eq!(planned.after(&names, parsed(now).unwrap()).to_string(), then, "{now}");
        }
    }
}
