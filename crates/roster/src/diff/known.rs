//! What is known of attributes: which are compared, and by which rule.
//!
//! Invariant: two descriptions of one attribute (`cn`, `commonName`, `CN;lang-DE`) have one key.

use std::collections::HashMap;
use std::sync::Arc;

use schema::{AttributeDescription, Compare, Prepare, Schema};

use crate::online::addition::is_computed;

/// What was asked to be compared.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chosen {
    /// Attributes that are left out.
    pub(crate) ignored: Vec<String>,
    /// Nothing else is compared in entries that both have; none: all are.
    pub(crate) only: Vec<String>,
    /// Operational attributes are compared, too.
    pub(crate) has_operational: bool,
    /// What only servers set can be set here, too.
    pub(crate) relaxes: bool,
    /// The attribute by which renamed entries are found.
    pub(crate) identity: Option<String>,
}

/// An attribute, as a description names it.
#[derive(Debug)]
pub(crate) struct Known {
    /// What all its descriptions have in common.
    pub(crate) key: String,
    /// How it is written where nothing else is said.
    pub(crate) text: String,
    /// It is read at all.
    pub(crate) is_read: bool,
    /// It is compared in entries that both have.
    pub(crate) is_compared: bool,
    /// Only servers set it.
    pub(crate) is_server_set: bool,
    pub(crate) is_object_class: bool,
    /// How its values are compared; none: by their octets, and values cannot be removed one by one.
    pub(crate) prepare: Option<Prepare>,
    /// It is what renamed entries are found by.
    pub(crate) is_identity: bool,
}

/// Looks attributes up.
#[derive(Debug)]
pub(crate) struct Attributes {
    pub(crate) schema: Arc<Schema>,
    chosen: Chosen,
    ignored: Vec<Named>,
    only: Vec<Named>,
    identity: Option<Named>,
    known: HashMap<String, Arc<Known>>,
}

/// An attribute that somebody named.
#[derive(Clone, Debug)]
enum Named {
    Described(Arc<AttributeDescription>),
    /// The schema has none: name and options.
    Unknown(String, Vec<String>),
}

impl Named {
    fn of(schema: &Schema, text: &str) -> Self {
        match schema.describe(text) {
            Ok(described) => Self::Described(described),
            Err(_) => {
                let text = text.to_ascii_lowercase();
                let mut parts = text.split(';').map(str::to_owned);
                let name = parts.next().unwrap_or_default();
                let mut options: Vec<String> = parts.filter(|one| one != "binary").collect();
                options.sort_unstable();
                options.dedup();
                Self::Unknown(name, options)
            }
        }
    }

    fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Described(asked), Self::Described(had)) => asked.covers(had),
            (Self::Unknown(name, options), Self::Unknown(had, had_options)) => {
                name == had && options.iter().all(|option| had_options.contains(option))
            }
            (Self::Described(_), Self::Unknown(..)) | (Self::Unknown(..), Self::Described(_)) => {
                false
            }
        }
    }
}

impl Attributes {
    pub(crate) fn new(schema: &Arc<Schema>, chosen: &Chosen) -> Self {
        let named = |texts: &[String]| texts.iter().map(|text| Named::of(schema, text)).collect();
        Self {
            ignored: named(&chosen.ignored),
            only: named(&chosen.only),
            identity: chosen.identity.as_ref().map(|text| Named::of(schema, text)),
            schema: Arc::clone(schema),
            chosen: chosen.clone(),
            known: HashMap::new(),
        }
    }

    /// The same for another thread.
    pub(crate) fn another(&self) -> Self {
        Self::new(&self.schema, &self.chosen)
    }

    /// What is known of an attribute.
    pub(crate) fn get(&mut self, description: &str) -> Arc<Known> {
        if let Some(known) = self.known.get(description) {
            return Arc::clone(known);
        }
        // Descriptions come from files of others, and need not be few.
        if self.known.len() >= KNOWN_MAX {
            self.known.clear();
        }
        let known = Arc::new(self.look(description));
        self.known.insert(description.to_owned(), Arc::clone(&known));
        known
    }

    fn look(&self, description: &str) -> Known {
        let named = Named::of(&self.schema, description);
        let is_ignored = self.ignored.iter().any(|one| one.covers(&named));
        let is_only = self.only.is_empty() || self.only.iter().any(|one| one.covers(&named));
        let is_identity = self.identity.as_ref().is_some_and(|one| one.covers(&named));
        let (key, text, kind) = match &named {
            Named::Described(described) => {
                let options: String =
                    described.options().iter().map(|option| format!(";{option}")).collect();
                let key = format!("{}{options}", described.kind.key());
                (key, described.text().to_owned(), Some(&described.kind))
            }
            Named::Unknown(name, options) => {
                let key = std::iter::once(name).chain(options).map(String::as_str);
                (key.collect::<Vec<_>>().join(";"), description.to_owned(), None)
            }
        };
        let is_operational = kind.is_some_and(|kind| kind.is_operational());
        let rule = kind.and_then(|kind| kind.equality).filter(|rule| rule.compare == Compare::Key);
        Known {
            is_object_class: key == "objectclass",
            is_read: !is_ignored
                && (self.chosen.has_operational || !is_operational || key == REFERRAL)
                && !is_computed(kind.map_or(description, |kind| kind.name())),
            is_compared: is_only,
            is_server_set: !self.chosen.relaxes
                && kind.is_some_and(|kind| kind.no_user_modification),
            prepare: rule.map(|rule| rule.prepare),
            is_identity,
            key,
            text,
        }
    }

    /// What a value is compared by: equal values have equal keys. False if its rule cannot be
    /// applied to it.
    pub(crate) fn value_key(&self, known: &Known, value: &[u8], out: &mut Vec<u8>) -> bool {
        out.clear();
        if let Some(prepare) = known.prepare {
            out.push(PREPARED);
            if prepare(&self.schema, value, out).is_ok() {
                return true;
            }
            out.clear();
        }
        out.push(AS_IT_IS);
        out.extend_from_slice(value);
        false
    }
}

/// Where a referral leads: operational by its definition (RFC 3296 §2.2), and what somebody wrote.
pub(crate) const REFERRAL: &str = "ref";
/// Descriptions that are remembered.
const KNOWN_MAX: usize = 10_000;
/// The first octet of a key.
const PREPARED: u8 = 1;
const AS_IT_IS: u8 = 0;

#[cfg(test)]
mod tests {
    use super::*;

    fn attributes(chosen: Chosen) -> Attributes {
        Attributes::new(&Schema::builtin(), &chosen)
    }

    #[test]
    fn descriptions_of_one_attribute_have_one_key() {
        let mut all = attributes(Chosen::default());
        for texts in [
            ["cn", "commonName", "2.5.4.3"],
            ["cn;lang-de;x-a", "CN;x-a;LANG-de", "commonName;x-a;lang-de"],
            ["userCertificate", "userCertificate;binary", "usercertificate;BINARY"],
            ["unheardOf;b;a", "UNHEARDOF;a;b", "unheardof;a;b;a"],
        ] {
            let keys = texts.map(|text| all.get(text).key.clone());
            assert!(keys.iter().all(|key| *key == keys[0]), "{keys:?}");
        }
        assert_ne!(all.get("cn").key, all.get("cn;lang-de").key);
        assert_eq!(all.get("userCertificate").text, "userCertificate;binary");
    }

    #[test]
    fn what_is_compared_is_chosen() {
        let mut plain = attributes(Chosen::default());
        assert!(plain.get("cn").is_read && plain.get("unheardOf").is_read);
        assert!(!plain.get("modifyTimestamp").is_read && !plain.get("entryUUID").is_read);
        assert!(!plain.get("memberOf").is_read && !plain.get("isMemberOf").is_read);
        let mut chosen = attributes(Chosen {
            ignored: vec!["cn".into(), "unheardOf;a".into()],
            only: vec!["sn;lang-de".into(), "unheardOf".into()],
            has_operational: true,
            relaxes: false,
            identity: Some("entryUUID".into()),
        });
        assert!(!chosen.get("cn;lang-de").is_read && !chosen.get("unheardOf;b;a").is_read);
        assert!(chosen.get("UnheardOf;c").is_compared && !chosen.get("sn").is_compared);
        assert!(chosen.get("sn;lang-de").is_compared);
        let uuid = chosen.get("entryuuid");
        assert!(uuid.is_read && uuid.is_server_set && uuid.is_identity);
    }

    #[test]
    fn values_are_equal_as_their_rule_says() {
        let mut all = attributes(Chosen::default());
        let mut check = |name: &str, one: &[u8], other: &[u8], is_equal: bool| {
            let known = all.get(name);
            let (mut first, mut second) = (Vec::new(), Vec::new());
            all.value_key(&known, one, &mut first);
            all.value_key(&known, other, &mut second);
            assert_eq!(first == second, is_equal, "{name}");
        };
        check("cn", b"Anna  Kahn ", b"anna kahn", true);
        check("member", b"CN=A, dc=X", b"cn=a,dc=x", true);
        check("jpegPhoto", b"A", b"a", false);
        check("unheardOf", b"A", b"a", false);
        check("uidNumber", b"7", b"8", false);
    }
}
