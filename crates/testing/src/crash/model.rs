//! What the directory must hold: every entry, exactly, as far as answers tell.
//!
//! Each client owns its entries and has at most one request in flight for each of them. So the
//! state of an entry is known: what was acknowledged, or, while a request is unanswered, that or
//! what the request makes of it, and nothing between.
//!
//! Invariant: values of the attributes in `UNIQUE` are never used twice in a whole run, so that a
//! search for one finds at most one entry, and one that went must find none.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::chance::Chance;
use crate::client::{Attributes, Change, ChangeKind, Request};

/// All entries of a run are below this one.
pub(super) const TOP: &str = "ou=crash,dc=example,dc=com";
/// The two places where containers stand, below `TOP`.
pub(super) const SIDES: [&str; 2] = ["ou=left", "ou=right"];
/// Containers of a client; its people stand in them.
const CONTAINERS: usize = 2;
/// Requests remembered for each entry, to be told when it is wrong.
const HISTORY_MAX: usize = 12;
/// Values and names remembered for each entry that must not be found any more.
const RETIRED_MAX: usize = 8;
/// Length of a description that makes a record larger than a page or two.
const LONG_TEXT_BYTES: u64 = 40_000;
/// The attribute that says whose entry it is, for people and for containers.
pub(super) const MARKS: [&str; 2] = ["employeeNumber", "businessCategory"];
/// Attributes whose values are unique in the whole run.
pub(super) const UNIQUE: [&str; 8] =
    ["uid", "cn", "sn", "givenName", "mail", "telephoneNumber", "title", "l"];

/// An entry as it must be.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Entry {
    pub(super) rdn: Vec<(String, String)>,
    /// Which side, or which container of the same client.
    pub(super) place: usize,
    pub(super) attributes: Attributes,
    /// Learned when first seen; renames keep it.
    pub(super) uuid: Option<String>,
}

/// A request without an answer.
#[derive(Clone, Debug)]
pub(super) struct Pending {
    pub(super) text: String,
    /// The entry after it.
    pub(super) after: Option<Entry>,
    /// The transaction it is part of: all of its requests are done or none.
    pub(super) transaction: Option<u64>,
}

/// An entry over its whole life: it may be deleted and added again.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    /// Stands in the entry, in an attribute of `MARKS`.
    pub(super) mark: String,
    pub(super) state: Option<Entry>,
    pub(super) pending: Option<Pending>,
    /// Values that are gone, with their attribute.
    pub(super) retired: Vec<(String, String)>,
    /// Names that are gone.
    pub(super) retired_names: Vec<String>,
    pub(super) history: VecDeque<String>,
}

/// Which of its owner's entries.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Which {
    Container(usize),
    Person(usize),
}

/// All entries of one client.
#[derive(Debug)]
pub(super) struct Owner {
    pub(super) number: usize,
    serial: u64,
    pub(super) containers: Vec<Slot>,
    pub(super) people: Vec<Slot>,
}

impl Entry {
    pub(super) fn rdn_text(&self) -> String {
        let avas: Vec<String> =
            self.rdn.iter().map(|(name, value)| format!("{name}={value}")).collect();
        avas.join("+")
    }
}

impl Slot {
    fn new(mark: String) -> Self {
        Self {
            mark,
            state: None,
            pending: None,
            retired: Vec::new(),
            retired_names: Vec::new(),
            history: VecDeque::new(),
        }
    }

    /// Notes what happened to the entry.
    pub(super) fn note(&mut self, text: String) {
        if self.history.len() == HISTORY_MAX {
            self.history.pop_front();
        }
        self.history.push_back(text);
    }

    /// Settles the request in flight: it was done, or not at all. What the other outcome would
    /// have left must never be found from now on.
    pub(super) fn settle(&mut self, done: bool, how: &str) {
        let Some(pending) = self.pending.take() else { return };
        self.note(format!("{} — {how}", pending.text));
        let other =
            if done { std::mem::replace(&mut self.state, pending.after) } else { pending.after };
        let kept = |name: &str, value: &String| {
            let values = self.state.as_ref().and_then(|state| state.attributes.get(name));
            values.is_some_and(|values| values.contains(value))
        };
        let mut gone = Vec::new();
        for (name, values) in other.iter().flat_map(|other| &other.attributes) {
            if UNIQUE.contains(&name.as_str()) {
                let values = values.iter().filter(|value| !kept(name, value));
                gone.extend(values.map(|value| (name.clone(), value.clone())));
            }
        }
        self.retired.append(&mut gone);
        let excess = self.retired.len().saturating_sub(RETIRED_MAX);
        self.retired.drain(..excess);
    }

    /// Remembers a name the entry may have had.
    pub(super) fn retire_name(&mut self, dn: String) {
        self.retired_names.push(dn);
        let excess = self.retired_names.len().saturating_sub(RETIRED_MAX);
        self.retired_names.drain(..excess);
    }
}

impl Owner {
    pub(super) fn new(number: usize, people: usize) -> Self {
        let slots = |kind: &str, count: usize| -> Vec<Slot> {
            (0..count).map(|slot| Slot::new(format!("{kind}{number}.{slot}"))).collect()
        };
        Self { number, serial: 0, containers: slots("k", CONTAINERS), people: slots("p", people) }
    }

    pub(super) fn slot(&mut self, which: Which) -> Option<&mut Slot> {
        match which {
            Which::Container(number) => self.containers.get_mut(number),
            Which::Person(number) => self.people.get_mut(number),
        }
    }

    /// All its slots with what they are.
    pub(super) fn slots(&self) -> impl Iterator<Item = (Which, &Slot)> {
        let containers = (0..).map(Which::Container).zip(&self.containers);
        containers.chain((0..).map(Which::Person).zip(&self.people))
    }

    /// The DN an entry has while the containers are as they are.
    pub(super) fn dn(&self, which: Which, entry: &Entry) -> String {
        let rdn = entry.rdn_text();
        match which {
            Which::Container(_) => {
                format!("{rdn},{},{TOP}", SIDES.get(entry.place).copied().unwrap_or_default())
            }
            Which::Person(_) => format!("{rdn},{}", self.container_dn(entry.place)),
        }
    }

    fn container_dn(&self, number: usize) -> String {
        let container = self.containers.get(number).and_then(|slot| slot.state.as_ref());
        container.map_or_else(String::new, |entry| self.dn(Which::Container(number), entry))
    }

    /// The next request, which is from now on in flight; `None` when one has to be answered first.
    pub(super) fn next(&mut self, chance: &mut Chance) -> Option<(Which, Request)> {
        let busy = self.slots().any(|(_, slot)| slot.pending.is_some());
        let missing = self.containers.iter().position(|slot| slot.state.is_none());
        if missing.is_some() || chance.once_in(60) {
            // The names of all people hang on the containers: these move while nothing else does.
            if busy {
                return None;
            }
            let number = missing.unwrap_or(chance.below(CONTAINERS as u64) as usize);
            return self.start(Which::Container(number), chance);
        }
        if self.containers.iter().any(|slot| slot.pending.is_some()) {
            return None;
        }
        let number = chance.below(self.people.len() as u64) as usize;
        if self.people.get(number)?.pending.is_some() {
            return None;
        }
        self.start(Which::Person(number), chance)
    }

    fn start(&mut self, which: Which, chance: &mut Chance) -> Option<(Which, Request)> {
        let slot = self.slot(which)?;
        let (state, mark) = (slot.state.clone(), slot.mark.clone());
        let old_dn = state.as_ref().map(|entry| self.dn(which, entry));
        let serial = self.take_serial();
        let (request, after) = match (which, state, old_dn) {
            (Which::Container(_), None, _) => {
                let entry = new_container(&mark, &serial, chance);
                (
                    Request::Add {
                        dn: self.dn(which, &entry),
                        attributes: entry.attributes.clone(),
                    },
                    Some(entry),
                )
            }
            (Which::Person(_), None, _) => {
                let entry = new_person(&mark, &serial, chance);
                (
                    Request::Add {
                        dn: self.dn(which, &entry),
                        attributes: entry.attributes.clone(),
                    },
                    Some(entry),
                )
            }
            (Which::Container(_), Some(entry), Some(dn)) => {
                let rdn = vec![("ou".to_owned(), format!("n{serial}"))];
                self.rename(dn, entry, rdn, SIDES.map(|side| format!("{side},{TOP}")), chance)
            }
            (Which::Person(_), Some(entry), Some(dn)) => match chance.below(100) {
                0..20 => (Request::Delete { dn }, None),
                20..38 => {
                    let mut rdn = vec![("uid".to_owned(), format!("u{serial}"))];
                    if chance.once_in(4) {
                        rdn.push(("roomNumber".to_owned(), format!("r{serial}")));
                    }
                    if chance.once_in(4) {
                        rdn.clone_from(&entry.rdn);
                    }
                    let superiors = [self.container_dn(0), self.container_dn(1)];
                    self.rename(dn, entry, rdn, superiors, chance)
                }
                _ => {
                    let changes = changes(&entry, &serial, chance);
                    let mut after = entry;
                    changes.iter().for_each(|change| apply(change, &mut after.attributes));
                    (Request::Modify { dn, changes }, Some(after))
                }
            },
            (_, Some(_), None) => return None,
        };
        let text = describe(&request);
        let names = self.names_left(which, &request, after.as_ref());
        let slot = self.slot(which)?;
        names.into_iter().for_each(|name| slot.retire_name(name));
        slot.pending = Some(Pending { text, after, transaction: None });
        Some((which, request))
    }

    /// Names that the entry has before or after the request; those it has in the end are told
    /// apart when the directory is looked at.
    fn names_left(&self, which: Which, request: &Request, after: Option<&Entry>) -> Vec<String> {
        match request {
            Request::ModifyDn { dn, .. } => {
                let new = after.map(|after| self.dn(which, after));
                // With a container go the names of those in it; some are enough.
                let people = self.slots().filter(|_| matches!(which, Which::Container(_)));
                let people = people
                    .filter_map(|(which, slot)| Some(self.dn(which, slot.state.as_ref()?)))
                    .take(RETIRED_MAX / 2);
                let own = [Some(dn.clone()), new].into_iter().flatten();
                people.chain(own).collect()
            }
            Request::Delete { dn } | Request::Add { dn, .. } => vec![dn.clone()],
            _ => Vec::new(),
        }
    }

    /// A new RDN, a new superior, or both.
    fn rename(
        &self,
        dn: String,
        entry: Entry,
        rdn: Vec<(String, String)>,
        superiors: [String; 2],
        chance: &mut Chance,
    ) -> (Request, Option<Entry>) {
        let place = chance.below(superiors.len() as u64) as usize;
        let moves = place != entry.place && (rdn == entry.rdn || chance.once_in(2));
        let delete_old_rdn = !chance.once_in(4);
        let mut after = entry.clone();
        if delete_old_rdn {
            for (name, value) in entry.rdn.iter().filter(|ava| !rdn.contains(ava)) {
                remove(&mut after.attributes, name, value);
            }
        }
        for (name, value) in &rdn {
            after.attributes.entry(name.clone()).or_default().insert(value.clone());
        }
        after.rdn = rdn;
        after.place = if moves { place } else { entry.place };
        let new_superior = if moves { superiors.into_iter().nth(place) } else { None };
        let new_rdn = after.rdn_text();
        (Request::ModifyDn { dn, new_rdn, delete_old_rdn, new_superior }, Some(after))
    }

    /// A number for a transaction.
    pub(super) fn take_transaction(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    fn take_serial(&mut self) -> String {
        self.serial += 1;
        format!("{:02}{:07}", self.number, self.serial)
    }
}

fn new_container(mark: &str, serial: &str, chance: &mut Chance) -> Entry {
    let rdn = vec![("ou".to_owned(), format!("n{serial}"))];
    let mut attributes = Attributes::new();
    put(&mut attributes, "objectClass", &["top", "organizationalUnit"]);
    put(&mut attributes, "businessCategory", &[mark]);
    put(&mut attributes, "ou", &[&format!("n{serial}")]);
    Entry { rdn, place: chance.below(SIDES.len() as u64) as usize, attributes, uuid: None }
}

fn new_person(mark: &str, serial: &str, chance: &mut Chance) -> Entry {
    let rdn = vec![("uid".to_owned(), format!("u{serial}"))];
    let mut attributes = Attributes::new();
    let classes = ["top", "person", "organizationalPerson", "inetOrgPerson", "posixAccount"];
    put(&mut attributes, "objectClass", &classes);
    put(&mut attributes, "employeeNumber", &[mark]);
    put(&mut attributes, "uidNumber", &["1000"]);
    put(&mut attributes, "gidNumber", &["100"]);
    put(&mut attributes, "homeDirectory", &[&format!("/home/{serial}")]);
    put(&mut attributes, "description", &[&format!("d{serial}")]);
    for name in UNIQUE {
        put(&mut attributes, name, &[&unique(name, serial)]);
    }
    Entry { rdn, place: chance.below(CONTAINERS as u64) as usize, attributes, uuid: None }
}

/// The value of a unique attribute that this serial number makes.
fn unique(name: &str, serial: &str) -> String {
    match name {
        "uid" => format!("u{serial}"),
        "mail" => format!("m{serial}@example.com"),
        "telephoneNumber" => format!("+1 {serial}"),
        "cn" => format!("Person {serial}"),
        _ => format!("{name}{serial}"),
    }
}

/// One to several changes, all of which must be there or none.
fn changes(entry: &Entry, serial: &str, chance: &mut Chance) -> Vec<Change> {
    let replace = |name: &str, values: Vec<String>| Change {
        kind: ChangeKind::Replace,
        attribute: name.to_owned(),
        values,
    };
    let one = |kind, name: &str, value: String| Change {
        kind,
        attribute: name.to_owned(),
        values: vec![value],
    };
    let naming: BTreeSet<&String> =
        entry.rdn.iter().filter(|(name, _)| name == "uid").map(|(_, value)| value).collect();
    match chance.below(12) {
        0..3 => vec![replace("description", vec![format!("d{serial}")])],
        3 => {
            let long = "long text ".repeat((chance.below(LONG_TEXT_BYTES) / 10) as usize + 1);
            vec![
                replace("description", vec![format!("d{serial} {long}.")]),
                replace("title", vec![unique("title", serial)]),
            ]
        }
        4 | 5 => ["mail", "telephoneNumber", "title", "l"]
            .map(|name| replace(name, vec![unique(name, serial)]))
            .to_vec(),
        6 => vec![one(ChangeKind::Add, "mail", unique("mail", serial))],
        7 => match entry.attributes.get("mail").and_then(|mail| mail.first()) {
            Some(mail) => vec![
                one(ChangeKind::Delete, "mail", mail.clone()),
                one(ChangeKind::Add, "mail", unique("mail", serial)),
            ],
            None => vec![one(ChangeKind::Add, "mail", unique("mail", serial))],
        },
        8 => vec![replace("title", Vec::new()), replace("l", Vec::new())],
        9 => {
            let values = (0..3).map(|number| format!("Person {serial}{number}")).collect();
            vec![replace("cn", values), replace("sn", vec![unique("sn", serial)])]
        }
        10 => vec![replace("uid", naming.into_iter().cloned().collect())],
        _ => {
            let by = chance.below(1000).to_string();
            vec![
                one(ChangeKind::Increment, "uidNumber", by),
                replace("description", vec![format!("d{serial}")]),
            ]
        }
    }
}

fn apply(change: &Change, attributes: &mut Attributes) {
    let name = change.attribute.as_str();
    match change.kind {
        ChangeKind::Replace => {
            attributes.remove(name);
            let values: Vec<&str> = change.values.iter().map(String::as_str).collect();
            if !values.is_empty() {
                put(attributes, name, &values);
            }
        }
        ChangeKind::Add => {
            let values: Vec<&str> = change.values.iter().map(String::as_str).collect();
            put(attributes, name, &values);
        }
        ChangeKind::Delete => {
            change.values.iter().for_each(|value| remove(attributes, name, value));
        }
        ChangeKind::Increment => {
            let number = |text: &String| text.parse::<i64>().unwrap_or(0);
            let by: i64 = change.values.iter().map(number).sum();
            if let Some(values) = attributes.get_mut(name) {
                *values = values.iter().map(|value| (number(value) + by).to_string()).collect();
            }
        }
    }
}

fn put(attributes: &mut Attributes, name: &str, values: &[&str]) {
    let entry = attributes.entry(name.to_owned()).or_default();
    entry.extend(values.iter().map(|value| (*value).to_owned()));
}

fn remove(attributes: &mut Attributes, name: &str, value: &str) {
    if let Some(values) = attributes.get_mut(name) {
        values.remove(value);
        if values.is_empty() {
            attributes.remove(name);
        }
    }
}

/// A request in one line.
pub(super) fn describe(request: &Request) -> String {
    match request {
        Request::Bind { dn, .. } => format!("bind {dn}"),
        Request::Password { .. } => "change of the own password".to_owned(),
        Request::Extended { oid, .. } => format!("extended operation {oid}"),
        Request::Add { dn, .. } => format!("add {dn}"),
        Request::Delete { dn } => format!("delete {dn}"),
        Request::Modify { dn, changes } => {
            let change = |change: &Change| {
                let kind = format!("{:?}", change.kind).to_lowercase();
                format!("{kind} {} {}", change.attribute, shorten(&change.values.join(" | ")))
            };
            let changes: Vec<String> = changes.iter().map(change).collect();
            format!("modify {dn}: {}", changes.join("; "))
        }
        Request::ModifyDn { dn, new_rdn, delete_old_rdn, new_superior } => {
            let keep = if *delete_old_rdn { "" } else { ", keeping the old RDN" };
            let to = new_superior.as_deref().unwrap_or("the same superior");
            format!("rename {dn} to {new_rdn} below {to}{keep}")
        }
    }
}

/// Long values are told by their start.
pub(super) fn shorten(text: &str) -> String {
    if text.len() <= 80 {
        return text.to_owned();
    }
    let start: String = text.chars().take(60).collect();
    format!("{start}… ({} bytes)", text.len())
}

/// In which attributes two entries differ, for a person.
pub(super) fn differences(want: &Attributes, have: &Attributes) -> String {
    let names: BTreeSet<&String> = want.keys().chain(have.keys()).collect();
    let mut parts = Vec::new();
    let side = |attributes: &BTreeMap<String, BTreeSet<String>>, name: &String| {
        let values = attributes.get(name).into_iter().flatten();
        let values: Vec<String> = values.map(|value| shorten(value)).collect();
        if values.is_empty() { "nothing".to_owned() } else { values.join(" | ") }
    };
    for name in names {
        if want.get(name) != have.get(name) {
            parts.push(format!("{name} is {} instead of {}", side(have, name), side(want, name)));
        }
    }
    if parts.is_empty() { "all attributes equal".to_owned() } else { parts.join("; ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requests that are all answered: the model says what they make of the entry.
    #[test]
    fn settling_keeps_one_outcome_and_retires_the_other() {
        let mut owner = Owner::new(3, 4);
        let mut chance = Chance::new(1, 1);
        let mut done = false;
        for _ in 0..2000 {
            let Some((which, _)) = owner.next(&mut chance) else { continue };
            let slot = owner.slot(which).unwrap();
            let (before, after) = (slot.state.clone(), slot.pending.clone().unwrap().after);
            slot.settle(done, "told");
            assert_eq!(slot.state, if done { after } else { before });
            for (name, value) in &slot.retired {
                let values = slot.state.as_ref().and_then(|state| state.attributes.get(name));
                assert!(!values.is_some_and(|values| values.contains(value)), "{name} {value}");
            }
            done = !chance.once_in(4);
        }
        assert!(owner.people.iter().any(|slot| slot.state.is_some()));
    }

    #[test]
    fn an_entry_keeps_the_values_of_its_rdn() {
        let mut owner = Owner::new(0, 8);
        let mut chance = Chance::new(7, 1);
        for _ in 0..5000 {
            let Some((which, _)) = owner.next(&mut chance) else { continue };
            let slot = owner.slot(which).unwrap();
            slot.settle(true, "told");
            if let Some(entry) = &slot.state {
                for (name, value) in &entry.rdn {
                    assert!(entry.attributes[name].contains(value), "{entry:?}");
                }
            }
        }
    }
}
