//! Entries of a configuration: attributes and values as text.

use std::collections::HashMap;

use ldap::dn::Dn;

/// An entry as it was read.
#[derive(Clone, Debug)]
pub(super) struct ConfigEntry {
    /// Its name as written, and the line where it begins.
    pub(super) dn: String,
    pub(super) line: u64,
    /// The name in one form, and that of its superior.
    key: String,
    superior: Option<String>,
    /// Values that are not UTF-8 are left out: no setting is made of them.
    attributes: Vec<(String, String)>,
}

/// All entries, in the order of the file.
#[derive(Clone, Debug, Default)]
pub(super) struct Entries {
    all: Vec<ConfigEntry>,
    /// By superior.
    below: HashMap<String, Vec<usize>>,
    by_key: HashMap<String, usize>,
}

/// A name in the one form that names are compared in here.
fn key(dn: &Dn) -> String {
    dn.to_string().to_lowercase()
}

impl ConfigEntry {
    pub(super) fn new(dn: String, line: u64, attributes: Vec<(String, Vec<u8>)>) -> Self {
        let parsed = Dn::parse(&dn).ok();
        let text = |(name, value): (String, Vec<u8>)| Some((name, String::from_utf8(value).ok()?));
        Self {
            line,
            key: parsed.as_ref().map_or_else(|| dn.to_lowercase(), key),
            superior: parsed.and_then(|dn| dn.parent()).map(|dn| key(&dn)),
            attributes: attributes.into_iter().filter_map(text).collect(),
            dn,
        }
    }

    /// The values of an attribute.
    pub(super) fn values<'e>(&'e self, name: &'e str) -> impl Iterator<Item = &'e str> {
        let is_it = |(own, _): &&(String, String)| own.eq_ignore_ascii_case(name);
        self.attributes.iter().filter(is_it).map(|(_, value)| value.trim())
    }

    /// Values with the names of their attributes.
    pub(super) fn attributes(&self) -> impl Iterator<Item = (&str, &str)> {
        self.attributes.iter().map(|(name, value)| (name.as_str(), value.trim()))
    }

    /// The first value, if it is not empty.
    pub(super) fn value<'e>(&'e self, name: &'e str) -> Option<&'e str> {
        self.values(name).next().filter(|value| !value.is_empty())
    }

    /// Whether it has a class.
    pub(super) fn is(&self, class: &str) -> bool {
        self.values("objectClass").any(|own| own.eq_ignore_ascii_case(class))
    }

    /// Whether a switch is on.
    pub(super) fn is_on(&self, name: &str) -> bool {
        self.value(name).is_some_and(|value| {
            ["on", "true", "yes", "1"].iter().any(|on| on.eq_ignore_ascii_case(value))
        })
    }

    /// Whether a switch is there and is off.
    pub(super) fn is_off(&self, name: &str) -> bool {
        self.value(name).is_some_and(|value| {
            ["off", "false", "no", "0"].iter().any(|off| off.eq_ignore_ascii_case(value))
        })
    }

    /// The value in its name.
    pub(super) fn leaf(&self) -> String {
        let dn = Dn::parse(&self.dn).ok();
        let ava = dn.as_ref().and_then(|dn| dn.rdns().first()?.avas().first());
        let value = ava.map(|ava| String::from_utf8_lossy(&ava.value).into_owned());
        value.unwrap_or_else(|| self.dn.clone())
    }
}

impl Entries {
    pub(super) fn push(&mut self, entry: ConfigEntry) {
        let at = self.all.len();
        if let Some(superior) = &entry.superior {
            self.below.entry(superior.clone()).or_default().push(at);
        }
        self.by_key.entry(entry.key.clone()).or_insert(at);
        self.all.push(entry);
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &ConfigEntry> {
        self.all.iter()
    }

    /// The entries directly below one.
    pub(super) fn below<'e>(
        &'e self,
        entry: &ConfigEntry,
    ) -> impl Iterator<Item = &'e ConfigEntry> {
        let found = self.below.get(&entry.key).map_or(&[][..], Vec::as_slice);
        found.iter().filter_map(|at| self.all.get(*at))
    }

    /// The entry above one.
    pub(super) fn above(&self, entry: &ConfigEntry) -> Option<&ConfigEntry> {
        self.all.get(*self.by_key.get(entry.superior.as_deref()?)?)
    }

    /// The entry of a name.
    pub(super) fn named(&self, dn: &str) -> Option<&ConfigEntry> {
        let key = Dn::parse(dn).ok().map(|dn| key(&dn))?;
        self.all.get(*self.by_key.get(&key)?)
    }
}
