//! Random trees of entries, and what servers do with changes to them.

use std::collections::BTreeMap;

use ldap::ldif::{LdifBody, LdifChange, LdifLimits, LdifReader, LdifWriter};
use ldap::message::ModifyOperation;
use testing::chance::Chance;

/// Values of an entry, as they are written.
type Values = Vec<(String, Vec<u8>)>;

/// Entries by name: RDNs from below the base down.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    entries: BTreeMap<Vec<String>, Values>,
    next_id: u32,
}

impl Tree {
    pub(crate) fn random(chance: &mut Chance, count: u64) -> Self {
        let mut tree = Self { entries: BTreeMap::new(), next_id: 0 };
        for _ in 0..count {
            tree.add(chance);
        }
        tree
    }

    /// The same after some changes.
    pub(crate) fn changed(&self, chance: &mut Chance, count: u64) -> Self {
        let mut tree = self.clone();
        for _ in 0..count {
            match chance.below(6) {
                0 => tree.add(chance),
                1 => tree.delete(chance),
                2 => tree.modify(chance),
                _ => tree.rename(chance),
            }
        }
        tree
    }

    fn any(&self, chance: &mut Chance) -> Option<Vec<String>> {
        let all: Vec<_> = self.entries.keys().cloned().collect();
        chance.pick(&all).cloned()
    }

    fn rdn(chance: &mut Chance) -> String {
        let name = chance.pick(&["a", "b", "c", "d", "e, f", "g+h", "i"]).unwrap();
        let name = name.replace(',', "\\,").replace('+', "\\+");
        match chance.once_in(8) {
            true => format!("cn={name}+description=id{}", chance.below(3)),
            false => format!("cn={name}"),
        }
    }

    /// A name that is not taken, below something.
    fn place(&self, chance: &mut Chance) -> Option<Vec<String>> {
        let mut path = match chance.once_in(3) {
            true => Vec::new(),
            false => self.any(chance).unwrap_or_default(),
        };
        path.push(Self::rdn(chance));
        (!self.entries.contains_key(&path) && path.len() < 6).then_some(path)
    }

    fn add(&mut self, chance: &mut Chance) {
        let Some(path) = self.place(chance) else { return };
        self.next_id += 1;
        let class = *chance.pick(&["device", "inetOrgPerson", "applicationProcess"]).unwrap();
        let mut values: Values = Vec::new();
        let mut put = |name: &str, value: &str| {
            values.push((name.to_owned(), value.as_bytes().to_vec()));
        };
        put("objectClass", class);
        put("description", &format!("entry {}", self.next_id));
        if class == "inetOrgPerson" {
            put("sn", "x");
        }
        for _ in 0..chance.below(4) {
            let city = *chance.pick(&["Bern", "Chur", "Genf", "Olten"]).unwrap();
            put("l", city);
        }
        values.push(("cn;lang-de".to_owned(), "Straße".into()));
        if class == "inetOrgPerson" && chance.once_in(2) {
            let octets = chance.draw().to_le_bytes();
            values.push(("jpegPhoto".to_owned(), [&b"\xFF\xD8"[..], &octets].concat()));
        }
        values.sort();
        values.dedup();
        values.sort_by_key(|(name, _)| name != "objectClass");
        self.entries.insert(path.clone(), values);
        self.name(&path);
    }

    /// Gives an entry the values of its name.
    fn name(&mut self, path: &[String]) {
        let rdn = path.last().unwrap().clone();
        let values = self.entries.get_mut(path).unwrap();
        for (name, value) in named(&rdn) {
            if !values.iter().any(|(has, had)| *has == name && same(had, &value)) {
                values.push((name, value));
            }
        }
    }

    fn delete(&mut self, chance: &mut Chance) {
        if let Some(path) = self.any(chance) {
            self.entries.retain(|other, _| !other.starts_with(&path));
        }
    }

    fn modify(&mut self, chance: &mut Chance) {
        let Some(path) = self.any(chance) else { return };
        let values = self.entries.get_mut(&path).unwrap();
        match chance.below(4) {
            0 => values.retain(|(name, _)| name != "l"),
            1 => {
                values.retain(|(name, _)| name != "l");
                values.push(("l".to_owned(), b"Sion".to_vec()));
                values.push(("l".to_owned(), b"bern".to_vec()));
            }
            2 => values.push(("seeAlso".to_owned(), b"cn=a,dc=x".to_vec())),
            // Another kind of entry, which no modification makes of it.
            _ => {
                values.retain(|(name, _)| ["description", "cn", "cn;lang-de"].contains(&&**name));
                values.insert(0, ("objectClass".to_owned(), b"device".to_vec()));
            }
        }
        let mut seen = std::collections::BTreeSet::new();
        values.retain(|one| seen.insert(one.clone()));
    }

    fn rename(&mut self, chance: &mut Chance) {
        let (Some(from), Some(to)) = (self.any(chance), self.place(chance)) else { return };
        if to.starts_with(&from) {
            return;
        }
        self.moved(&from, &to, chance.once_in(2));
    }

    fn moved(&mut self, from: &[String], to: &[String], deletes_old: bool) {
        let all: Vec<_> =
            self.entries.keys().filter(|path| path.starts_with(from)).cloned().collect();
        for path in all {
            let values = self.entries.remove(&path).unwrap();
            let new = [to, &path[from.len()..]].concat();
            self.entries.insert(new, values);
        }
        let kept = named(to.last().unwrap());
        let old = named(from.last().unwrap());
        let values = self.entries.get_mut(to).unwrap();
        values.retain(|(name, value)| {
            let is = |(other, its): &(String, Vec<u8>)| other == name && same(its, value);
            !(deletes_old && old.iter().any(is)) || kept.iter().any(is)
        });
        self.name(to);
    }

    /// As LDIF, in no order but that superiors come first.
    pub(crate) fn ldif(&self, base: &str) -> String {
        let mut out = LdifWriter::new(Vec::new(), 0);
        for (path, values) in &self.entries {
            let mut rdns: Vec<&str> = path.iter().rev().map(String::as_str).collect();
            rdns.push(base);
            out.dn(&rdns.join(",")).unwrap();
            for (name, value) in values {
                out.attribute(name, value).unwrap();
            }
            out.end_record().unwrap();
        }
        String::from_utf8(out.into_inner()).unwrap()
    }

    /// Changes it as a server does, or says why a server would not.
    pub(crate) fn apply(&mut self, base: &str, ldif: &str) -> Result<(), String> {
        let mut reader = LdifReader::new(ldif.as_bytes(), LdifLimits::default());
        while let Some(record) = reader.next_record().map_err(|error| error.to_string())? {
            let path = self.path(base, &record.dn);
            let LdifBody::Change(change) = record.body else { return Err("an entry".into()) };
            self.change(base, &path, change).map_err(|error| format!("{}: {error}", record.dn))?;
        }
        Ok(())
    }

    fn path(&self, base: &str, dn: &str) -> Vec<String> {
        let below = dn.strip_suffix(base).unwrap_or_else(|| panic!("{dn} is not below {base}"));
        let dn = ldap::dn::Dn::parse(below.trim_end_matches(',')).unwrap();
        dn.rdns().iter().rev().map(ToString::to_string).collect()
    }

    fn change(&mut self, base: &str, path: &[String], change: LdifChange) -> Result<(), String> {
        let has_superior = |tree: &Self, path: &[String]| {
            path.len() < 2 || tree.entries.contains_key(&path[..path.len() - 1])
        };
        if let LdifChange::Add(values) = change {
            if !has_superior(self, path) || self.entries.contains_key(path) {
                return Err("it cannot be added".into());
            }
            self.entries.insert(path.to_vec(), values);
            self.name(path);
            return Ok(());
        }
        if !self.entries.contains_key(path) {
            return Err("it is not there".into());
        }
        match change {
            LdifChange::Add(_) => {}
            LdifChange::Delete => {
                if self
                    .entries
                    .keys()
                    .any(|other| other.len() > path.len() && other.starts_with(path))
                {
                    return Err("others are below it".into());
                }
                self.entries.remove(path);
            }
            LdifChange::ModifyDn { new_rdn, delete_old_rdn, new_superior } => {
                let mut to = match new_superior {
                    Some(superior) => self.path(base, &superior),
                    None => path[..path.len() - 1].to_vec(),
                };
                to.push(new_rdn);
                if !has_superior(self, &to)
                    || self.entries.contains_key(&to)
                    || to.starts_with(path)
                {
                    return Err(format!("it cannot become {to:?}"));
                }
                self.moved(path, &to, delete_old_rdn);
            }
            LdifChange::Modify(all) => {
                let values = self.entries.get_mut(path).unwrap();
                for one in all {
                    modify(values, &one)?;
                }
                let rdn = path.last().unwrap();
                for (name, value) in named(rdn) {
                    if !values.iter().any(|(has, had)| *has == name && same(had, &value)) {
                        return Err(format!("it lost {name} of its name"));
                    }
                }
            }
        }
        Ok(())
    }
}

fn modify(values: &mut Values, one: &ldap::ldif::LdifModification) -> Result<(), String> {
    let is = |name: &str| name.eq_ignore_ascii_case(&one.description);
    if one.operation != ModifyOperation::Add && one.values.is_empty()
        || one.operation == ModifyOperation::Replace
    {
        let before = values.len();
        values.retain(|(name, _)| !is(name));
        if one.operation == ModifyOperation::Delete && before == values.len() {
            return Err(format!("it has no {}", one.description));
        }
    }
    for value in &one.values {
        let at = values.iter().position(|(name, had)| is(name) && same(had, value));
        match (one.operation, at) {
            (ModifyOperation::Delete, Some(at)) => {
                values.remove(at);
            }
            (ModifyOperation::Delete, None) => return Err("a value is not there".into()),
            (_, Some(_)) => return Err("a value is there".into()),
            (_, None) => values.push((one.description.clone(), value.clone())),
        }
    }
    Ok(())
}

/// The values of an RDN.
fn named(rdn: &str) -> Values {
    let rdn = ldap::dn::Rdn::parse(rdn).unwrap();
    rdn.avas().iter().map(|ava| (ava.attribute.clone(), ava.value.clone())).collect()
}

/// Whether values are equal but for the case of letters, as all of the text here is compared.
fn same(one: &[u8], other: &[u8]) -> bool {
    one == other || one.is_ascii() && one.eq_ignore_ascii_case(other)
}
