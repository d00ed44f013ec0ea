//! What differs between two moments: changes of that time, taken together for each entry.
//!
//! Invariant: what came and went again in between is not told, unless something else was below it
//! meanwhile. Additions, renames and deletions keep their order, so that each finds what is above
//! it; values follow at the end.

use std::collections::BTreeMap;

use ldap::dn::Dn;
use ldap::message::ModifyOperation;

use super::names::{NameKey, Names, parsed};
use super::step::{Modification, Step};
use super::values::{Net, ValueRules};
use super::{ToldChange, back};
use crate::failure::Failure;

/// The changes that were read so far.
pub(crate) struct Difference {
    names: Names,
    rules: ValueRules,
    entries: Vec<Tracked>,
    /// The entries by the names that they have by now.
    by_name: BTreeMap<NameKey, usize>,
    moves: Vec<Move>,
    /// The names before and after each rename, in order.
    renamed: Vec<(NameKey, NameKey)>,
}

/// An entry that was changed.
struct Tracked {
    /// Whether it was there in the beginning, and whether it is at the end.
    was: bool,
    is: bool,
    /// What it held when it was added; then follows what became of that.
    attributes: Vec<(String, Vec<Vec<u8>>)>,
    net: Net,
    now: Dn,
    /// All names that it had.
    names: Vec<NameKey>,
}

/// An entry comes, goes, or is called otherwise.
struct Move {
    entry: usize,
    what: Moved,
    /// What was added meanwhile and is above it.
    above: Vec<usize>,
}

enum Moved {
    Added(Dn),
    Renamed { old: Dn, new: Dn, deletes_old_rdn: bool, is_elsewhere: bool },
    Deleted(Dn),
}

impl Difference {
    /// Nothing yet.
    pub(crate) fn new() -> Self {
        Self {
            names: Names::unchanged(),
            rules: ValueRules::new(),
            entries: Vec::new(),
            by_name: BTreeMap::new(),
            moves: Vec::new(),
            renamed: Vec::new(),
        }
    }

    /// Takes the next change.
    ///
    /// # Errors
    /// When it does not tell what was before it.
    pub(crate) fn put(&mut self, change: &ToldChange) -> Result<(), Failure> {
        // Settings do not tell what was before, and servers have definitions of their own.
        if self.names.is_of_server(&change.dn)? {
            return Ok(());
        }
        let dn = parsed(&change.dn)?;
        let key = self.names.key(&dn);
        match &*change.kind {
            "add" => {
                let attributes = back::attributes(change);
                let at = self.track(key.clone(), dn.clone(), attributes, false);
                self.moved(at, Moved::Added(dn), &key);
            }
            "delete" => {
                let at = self.tracked(&key, &dn);
                self.by_name.remove(&key);
                if let Some(entry) = self.entries.get_mut(at) {
                    entry.is = false;
                }
                self.moved(at, Moved::Deleted(dn), &key);
            }
            "modify" => {
                let at = self.tracked(&key, &dn);
                if let Some(entry) = self.entries.get_mut(at) {
                    entry.net.put(change)?;
                }
            }
            "modrdn" => self.rename(change, &dn, &key)?,
            _ => {}
        }
        Ok(())
    }

    fn rename(&mut self, change: &ToldChange, dn: &Dn, key: &NameKey) -> Result<(), Failure> {
        let Some(new) = change.new_dn() else { return Ok(()) };
        let new = parsed(&new)?;
        let at = self.tracked(key, dn);
        if let Some(entry) = self.entries.get_mut(at) {
            entry.net.put(change)?;
        }
        let new_key = self.names.key(&new);
        // What is below it moves, too.
        let below = self.by_name.range(key.clone()..).take_while(|(one, _)| one.starts_with(key));
        let below: Vec<(NameKey, usize)> = below.map(|(one, at)| (one.clone(), *at)).collect();
        for (one, at) in below {
            self.by_name.remove(&one);
            let rest = one.get(key.len()..).unwrap_or_default();
            let moved: NameKey = new_key.iter().chain(rest).cloned().collect();
            if let Some(entry) = self.entries.get_mut(at) {
                let leaf = entry.now.rdns().iter().take(rest.len());
                entry.now = Dn::new(leaf.chain(new.rdns()).cloned().collect());
                entry.names.push(moved.clone());
            }
            self.by_name.insert(moved, at);
        }
        self.renamed.push((key.clone(), new_key.clone()));
        let deletes_old_rdn = change.deletes_old_rdn;
        let is_elsewhere = change.new_superior.is_some();
        let what = Moved::Renamed { old: dn.clone(), new, deletes_old_rdn, is_elsewhere };
        self.moved(at, what, &new_key);
        Ok(())
    }

    /// An entry that was there in the beginning, unless it is known.
    fn tracked(&mut self, key: &NameKey, dn: &Dn) -> usize {
        match self.by_name.get(key) {
            Some(at) => *at,
            None => {
                let at = self.track(key.clone(), dn.clone(), Vec::new(), true);
                let before = self.names_before(key);
                if let Some(entry) = self.entries.get_mut(at) {
                    entry.names.extend(before);
                }
                at
            }
        }
    }

    /// What an entry was called that is new here, but moved with what is above it.
    fn names_before(&self, key: &NameKey) -> Vec<NameKey> {
        let (mut key, mut names) = (key.clone(), Vec::new());
        for (old, new) in self.renamed.iter().rev() {
            if let Some(below) = key.strip_prefix(new.as_slice()) {
                key = old.iter().chain(below).cloned().collect();
                names.push(key.clone());
            }
        }
        names
    }

    fn track(
        &mut self,
        key: NameKey,
        now: Dn,
        attributes: Vec<(String, Vec<Vec<u8>>)>,
        was: bool,
    ) -> usize {
        let at = self.entries.len();
        let names = vec![key.clone()];
        self.entries.push(Tracked { was, is: true, attributes, net: Net::none(), now, names });
        self.by_name.insert(key, at);
        at
    }

    fn moved(&mut self, entry: usize, what: Moved, key: &NameKey) {
        let above = (1..key.len()).filter_map(|depth| self.by_name.get(key.get(..depth)?));
        let new = above.filter(|at| self.entries.get(**at).is_some_and(|one| !one.was));
        let above = new.copied().collect();
        self.moves.push(Move { entry, what, above });
    }

    /// What turns the first moment into the second, of what was within `base` at any time.
    pub(crate) fn steps(self, base: Option<&NameKey>) -> Vec<Step> {
        let told = self.told(base);
        let Self { rules, entries, moves, .. } = self;
        let is_told = |at: usize| told.get(at) == Some(&true);
        let mut steps = Vec::new();
        for Move { entry: at, what, .. } in moves {
            let Some(entry) = entries.get(at).filter(|_| is_told(at)) else { continue };
            steps.push(match what {
                Moved::Added(dn) => {
                    Step::Add { attributes: entry.held(&dn, &rules), dn: dn.to_string() }
                }
                Moved::Deleted(dn) => Step::Delete { dn: dn.to_string() },
                Moved::Renamed { old, new, deletes_old_rdn, is_elsewhere } => {
                    // What was added has the values of the end, and those of its first name.
                    let deletes_old_rdn = match entry.was {
                        true => deletes_old_rdn,
                        false => !entry.keeps_name(&old, &rules),
                    };
                    let superior = || Dn::new(new.rdns().iter().skip(1).cloned().collect());
                    Step::Rename {
                        dn: old.to_string(),
                        new_rdn: new.rdns().first().map(ToString::to_string).unwrap_or_default(),
                        deletes_old_rdn,
                        new_superior: is_elsewhere.then(|| superior().to_string()),
                    }
                }
            });
        }
        for (at, entry) in entries.into_iter().enumerate() {
            if !entry.was || !entry.is || entry.net.attributes.is_empty() || !is_told(at) {
                continue;
            }
            let mut changes = Vec::new();
            for (attribute, values) in entry.net.attributes {
                let parts = [
                    (ModifyOperation::Delete, values.removed),
                    (ModifyOperation::Add, values.added),
                ];
                for (operation, values) in parts.into_iter().filter(|(_, all)| !all.is_empty()) {
                    changes.push(Modification { operation, attribute: attribute.clone(), values });
                }
            }
            steps.push(Step::Modify { dn: entry.now.to_string(), changes });
        }
        steps
    }

    /// Which entries are told.
    fn told(&self, base: Option<&NameKey>) -> Vec<bool> {
        let is_within = |entry: &Tracked| {
            base.is_none_or(|base| entry.names.iter().any(|name| name.starts_with(base)))
        };
        let entries = self.entries.iter();
        let mut told: Vec<bool> =
            entries.map(|entry| (entry.was || entry.is) && is_within(entry)).collect();
        // What was there for a while and had something of these below it.
        loop {
            let mut is_over = true;
            for Move { entry, above, .. } in &self.moves {
                if told.get(*entry) != Some(&true) {
                    continue;
                }
                for at in above {
                    if let Some(one) = told.get_mut(*at).filter(|one| !**one) {
                        (*one, is_over) = (true, false);
                    }
                }
            }
            if is_over {
                return told;
            }
        }
    }
}

impl Tracked {
    /// What an entry that was added holds at the end.
    fn at_the_end(&self, rules: &ValueRules) -> Vec<(String, Vec<Vec<u8>>)> {
        let mut held = self.attributes.clone();
        held.retain(|(name, _)| !rules.is_server_set(name));
        for (attribute, values) in &self.net.attributes {
            let at = held.iter().position(|(name, _)| name.eq_ignore_ascii_case(attribute));
            let at = at.unwrap_or_else(|| {
                held.push((attribute.clone(), Vec::new()));
                held.len() - 1
            });
            let Some((_, own)) = held.get_mut(at) else { continue };
            let is_gone = |value: &Vec<u8>| {
                values.removed.iter().any(|gone| rules.are_same(attribute, gone, value))
            };
            own.retain(|value| !is_gone(value));
            own.extend(values.added.iter().cloned());
        }
        held
    }

    /// Whether an entry that was added holds a value of the RDN of `dn` at the end.
    fn keeps_name(&self, dn: &Dn, rules: &ValueRules) -> bool {
        let held = self.at_the_end(rules);
        let avas = dn.rdns().first().map(|rdn| rdn.avas()).unwrap_or_default();
        avas.iter().any(|ava| {
            let own = held.iter().filter(|(name, _)| name.eq_ignore_ascii_case(&ava.attribute));
            let mut values = own.flat_map(|(_, values)| values);
            values.any(|value| rules.are_same(&ava.attribute, value, &ava.value))
        })
    }

    /// The same, and the values of the name it is added by.
    fn held(&self, dn: &Dn, rules: &ValueRules) -> Vec<(String, Vec<Vec<u8>>)> {
        let mut held = self.at_the_end(rules);
        let avas = dn.rdns().first().map(|rdn| rdn.avas()).unwrap_or_default();
        for ava in avas {
            let at = held.iter().position(|(name, _)| name.eq_ignore_ascii_case(&ava.attribute));
            match at.and_then(|at| held.get_mut(at)) {
                Some((name, own)) => {
                    if !own.iter().any(|value| rules.are_same(name, value, &ava.value)) {
                        own.push(ava.value.clone());
                    }
                }
                None => held.push((ava.attribute.clone(), vec![ava.value.clone()])),
            }
        }
        held.retain(|(_, values)| !values.is_empty());
        held
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn change(kind: &str, dn: &str, lines: &str) -> ToldChange {
        ToldChange {
            number: 7,
            kind: kind.to_owned(),
            dn: dn.to_owned(),
            lines: lines.as_bytes().to_vec(),
            ..ToldChange::default()
        }
    }

    fn rename(dn: &str, new_rdn: &str, superior: Option<&str>, lines: &str) -> ToldChange {
        ToldChange {
            new_rdn: Some(new_rdn.to_owned()),
            new_superior: superior.map(str::to_owned),
            deletes_old_rdn: true,
            ..change("modrdn", dn, lines)
        }
    }

    fn ldif(changes: &[ToldChange], base: Option<&str>) -> String {
        let mut difference = Difference::new();
        changes.iter().for_each(|change| difference.put(change).unwrap());
        let base = base.map(|base| Names::unchanged().key_of(base).unwrap());
        let steps = difference.steps(base.as_ref());
        steps.iter().map(|step| String::from_utf8(step.ldif()).unwrap()).collect()
    }

    #[test]
    fn what_came_and_went_is_not_told() {
        let changes = [
            change("add", "cn=a,dc=x", "objectClass: device\ncn: a\nl: Bern\n"),
            change("modify", "cn=b,dc=x", "add: l\nl: Chur\n-\n"),
            change("modify", "cn=a,dc=x", "delete: l\nl: Bern\n-\n"),
            change("delete", "cn=a,dc=x", "objectClass: device\n"),
            change("modify", "CN=B,dc=x", "delete: l\nl: Chur\n-\n"),
        ];
        assert_eq!(ldif(&changes, None), "");
        assert_eq!(ldif(&changes[..1], None).matches("changetype: add").count(), 1);
    }

    #[test]
    fn entries_are_told_once_as_they_are_at_the_end() {
        let names = "delete: cn\ncn: a\n-\nadd: cn\ncn: c\n-\n";
        let changes = [
            change("add", "ou=new,dc=x", "objectClass: organizationalUnit\nou: new\n"),
            change("add", "cn=a,dc=x", "objectClass: device\ncn: a\nl: Bern\nentryUUID: 1\n"),
            rename("cn=a,dc=x", "cn=c", Some("ou=new,dc=x"), names),
            change("modify", "cn=c,ou=new,dc=x", "delete: l\nl: bern\n-\nadd: l\nl: Chur\n-\n"),
            change("modify", "cn=old,dc=x", "delete: l\nl: Bern\n-\n"),
            change("delete", "cn=gone,dc=x", "objectClass: device\n"),
        ];
        let expected = "dn: ou=new,dc=x\nchangetype: add\nobjectClass: organizationalUnit\n\
             ou: new\n\n\
             dn: cn=a,dc=x\nchangetype: add\nobjectClass: device\ncn: c\ncn: a\nl: Chur\n\n\
             dn: cn=a,dc=x\nchangetype: modrdn\nnewrdn: cn=c\ndeleteoldrdn: 1\n\
             newsuperior: ou=new,dc=x\n\n\
             dn: cn=gone,dc=x\nchangetype: delete\n\n\
             dn: cn=old,dc=x\nchangetype: modify\ndelete: l\nl: Bern\n-\n\n";
        assert_eq!(ldif(&changes, None), expected);
        let within = ldif(&changes, Some("cn=OLD,dc=x"));
        assert_eq!(within.matches("dn: ").count(), 1, "{within}");
    }

    #[test]
    fn what_left_a_base_with_its_superior_is_told() {
        let changes = [
            rename("ou=a,ou=base,dc=x", "ou=b", Some("dc=x"), ""),
            change("modify", "cn=leaf,ou=b,dc=x", "add: l\nl: Bern\n-\n"),
            change("modify", "cn=other,dc=x", "add: l\nl: Chur\n-\n"),
        ];
        let told = ldif(&changes, Some("ou=base,dc=x"));
        assert!(told.contains("dn: cn=leaf,ou=b,dc=x\n"), "{told}");
        assert!(!told.contains("cn=other"), "{told}");
    }

    #[test]
    fn what_was_added_keeps_the_values_of_its_first_name_only_if_it_has_them() {
        for (kept, deletes) in
            [("", "deleteoldrdn: 0"), ("delete: cn\ncn: a\n-\n", "deleteoldrdn: 1")]
        {
            let mut renamed = rename("cn=a,dc=x", "cn=c", None, "add: cn\ncn: c\n-\n");
            renamed.deletes_old_rdn = false;
            let changes = [
                change("add", "cn=a,dc=x", "objectClass: device\ncn: a\n"),
                renamed,
                change("modify", "cn=c,dc=x", kept),
            ];
            let told = ldif(&changes, None);
            assert!(told.contains(deletes), "{told}");
        }
    }

    #[test]
    fn what_others_were_below_for_a_while_is_told() {
        let changes = [
            change("add", "ou=t,dc=x", "objectClass: organizationalUnit\nou: t\n"),
            rename("cn=a,dc=x", "cn=a", Some("ou=t,dc=x"), ""),
            rename("cn=a,ou=t,dc=x", "cn=a", Some("ou=u,dc=x"), ""),
            change("delete", "ou=t,dc=x", "objectClass: organizationalUnit\n"),
        ];
        let all = ldif(&changes, None);
        let kinds: Vec<&str> =
            all.lines().filter_map(|line| line.strip_prefix("changetype: ")).collect();
        assert_eq!(kinds, ["add", "modrdn", "modrdn", "delete"], "{all}");
    }
}
