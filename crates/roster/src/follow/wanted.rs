//! An entry of the source as it is to be here: translated, with the names of this directory.
//!
//! Invariant: it holds what can be set here and nothing that this server computes or stamps by
//! itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use ldap::control_value::sync::uuid_of_text;
use ldap::dn::Dn;
use ldap::ldif::{LDIF_FOLD_COLUMNS, LdifWriter};
use ldap::message::{AttributesBuf, PartialAttribute, ValuesBuf};
use offline::{EntryTranslator, PlainEntry};
use schema::{DnKey, Schema};

use crate::diff::body::{Body, BodyWriter};
use crate::diff::known::{Attributes, Chosen};
use crate::failure::Failure;

/// The octets of an `entryUUID`.
pub(super) type Uuid = [u8; 16];

/// An entry of the source.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Wanted {
    pub(super) uuid: Uuid,
    pub(super) dn: String,
    /// Its values, as `diff` compares them.
    pub(super) body: Vec<u8>,
}

impl Wanted {
    /// Its attributes as a request has them.
    pub(super) fn attributes(&self) -> Result<AttributesBuf, Failure> {
        let mut list = AttributesBuf::new();
        let mut current: Option<(&str, ValuesBuf)> = None;
        for (description, value) in Body::read(&self.body)?.values() {
            match &mut current {
                Some((last, values)) if *last == description => values.push(value),
                _ => {
                    push(&mut list, current.take());
                    let mut values = ValuesBuf::new();
                    values.push(value);
                    current = Some((description, values));
                }
            }
        }
        push(&mut list, current);
        Ok(list)
    }

    /// It as LDIF.
    pub(super) fn text(&self) -> Vec<u8> {
        let mut text = Vec::new();
        let mut writer = LdifWriter::new(&mut text, LDIF_FOLD_COLUMNS);
        // A buffer takes everything.
        let _ = writer.dn(&self.dn);
        if let Ok(body) = Body::read(&self.body) {
            for (description, value) in body.values() {
                let _ = writer.attribute(description, value);
            }
        }
        let _ = writer.end_record();
        text
    }
}

fn push(list: &mut AttributesBuf, attribute: Option<(&str, ValuesBuf)>) {
    if let Some((description, values)) = attribute {
        list.push(PartialAttribute { description, values: values.as_ref() });
    }
}

/// A branch that has another name here.
#[derive(Clone, Debug)]
pub(super) struct Renaming {
    pub(super) from: Dn,
    pub(super) to: Dn,
}

/// Makes what is wanted of what the source has.
pub(super) struct Translation {
    translator: EntryTranslator,
    schema: Arc<Schema>,
    attributes: Attributes,
    renaming: Option<Renaming>,
    from: Option<DnKey>,
}

impl Translation {
    /// Into a directory with this schema.
    pub(super) fn new(schema: &Arc<Schema>, renaming: Option<Renaming>) -> Result<Self, Failure> {
        let from = renaming.as_ref().map(|it| key_of(schema, &it.from.to_string())).transpose()?;
        Ok(Self {
            translator: EntryTranslator::new(Arc::clone(schema)),
            schema: Arc::clone(schema),
            attributes: settable(schema),
            renaming,
            from,
        })
    }

    /// A name here as it is compared; none if it cannot be one.
    pub(super) fn key(&self, dn: &str) -> Option<DnKey> {
        DnKey::from_text(&self.schema, dn).ok()
    }

    /// What an entry of the source is to be here; none if it is left out. Its identity is `uuid`,
    /// or what its translation has, or follows from its name.
    pub(super) fn wanted(
        &mut self,
        uuid: Option<Uuid>,
        entry: PlainEntry,
    ) -> Result<Option<Wanted>, Failure> {
        let Ok(PlainEntry { dn, values }) = self.translator.translate(entry) else {
            return Ok(None);
        };
        let dn = self.name_here(&dn);
        // Values of one attribute are to stand together, in whatever order they come.
        let mut gathered: BTreeMap<String, (String, Vec<Vec<u8>>)> = BTreeMap::new();
        let mut own = None;
        for (description, value) in values {
            let known = self.attributes.get(&description);
            if known.key == ENTRY_UUID {
                own = own.or_else(|| uuid_of_text(&value));
                continue;
            }
            if !known.is_read {
                continue;
            }
            let value = self.value_here(&description, value);
            gathered.entry(known.key.clone()).or_insert((description, Vec::new())).1.push(value);
        }
        let Some(uuid) = uuid.or(own) else {
            let why = format!("the source shows no entryUUID or nsUniqueId of '{dn}'");
            let hint = "bind there as an entry that may read operational attributes";
            return Err(Failure::refused(why).hint(hint));
        };
        // An entry has the values of its name, which may be another one here.
        let rdn = Dn::parse(&dn).ok().and_then(|dn| dn.rdns().first().cloned());
        for ava in rdn.iter().flat_map(|rdn| rdn.avas()) {
            let known = self.attributes.get(&ava.attribute);
            let key = |value: &[u8]| {
                let mut key = Vec::new();
                self.attributes.value_key(&known, value, &mut key);
                key
            };
            let values = gathered.entry(known.key.clone());
            let (_, values) = values.or_insert_with(|| (ava.attribute.clone(), Vec::new()));
            if !values.iter().any(|value| key(value) == key(&ava.value)) {
                values.push(ava.value.clone());
            }
        }
        let mut body = Vec::new();
        let mut writer = BodyWriter::new(&mut body, &uuid, &dn);
        writer.value("entryUUID", text_of_uuid(&uuid).as_bytes());
        for (description, values) in gathered.values() {
            values.iter().for_each(|value| writer.value(description, value));
        }
        Ok(Some(Wanted { uuid, dn, body }))
    }

    /// A name of the source as it is here.
    pub(super) fn name_here(&self, dn: &str) -> String {
        let (Some(renaming), Some(from)) = (&self.renaming, &self.from) else {
            return dn.to_owned();
        };
        let is_in = DnKey::from_text(&self.schema, dn).is_ok_and(|key| key.is_within(from));
        match Dn::parse(dn) {
            Ok(dn) if is_in => {
                let own = dn.rdns().len().saturating_sub(renaming.from.rdns().len());
                let own = dn.rdns().iter().take(own).rev().cloned();
                own.fold(renaming.to.clone(), |above, rdn| above.child(rdn)).to_string()
            }
            _ => dn.to_owned(),
        }
    }

    fn value_here(&self, description: &str, value: Vec<u8>) -> Vec<u8> {
        if self.renaming.is_none() {
            return value;
        }
        let named = self.schema.describe(description);
        match str::from_utf8(&value) {
            Ok(text) if named.is_ok_and(|one| one.kind.names_entries()) => {
                self.name_here(text).into_bytes()
            }
            _ => value,
        }
    }
}

/// Everything that can be set in a directory with this schema.
pub(super) fn settable(schema: &Arc<Schema>) -> Attributes {
    let chosen = Chosen {
        ignored: OWN.map(str::to_owned).to_vec(),
        has_operational: true,
        relaxes: true,
        ..Chosen::default()
    };
    Attributes::new(schema, &chosen)
}

/// A name as it is compared.
pub(super) fn key_of(schema: &Schema, dn: &str) -> Result<DnKey, Failure> {
    DnKey::from_text(schema, dn)
        .map_err(|error| Failure::refused(format!("'{dn}' cannot be a name here: {error}")))
}

/// An `entryUUID` as text (RFC 4530 §2.1).
pub(super) fn text_of_uuid(uuid: &Uuid) -> String {
    let hex: String = uuid.iter().map(|octet| format!("{octet:02x}")).collect();
    let part = |range: std::ops::Range<usize>| hex.get(range).unwrap_or_default();
    [part(0..8), part(8..12), part(12..16), part(16..20), part(20..32)].join("-")
}

/// A name in the place of another one that has to be free.
pub(super) fn other_name(dn: &str, uuid: &Uuid) -> String {
    let rdn = Dn::parse(dn).ok().and_then(|dn| dn.rdns().first().cloned());
    let kind = rdn.iter().flat_map(|rdn| rdn.avas()).map(|ava| ava.attribute.clone()).next();
    format!("{}=displaced-{}", kind.as_deref().unwrap_or("cn"), text_of_uuid(uuid))
}

/// The key of the identity among attributes.
const ENTRY_UUID: &str = "entryuuid";
/// What each server stamps or keeps by itself.
const OWN: [&str; 3] = ["entryCSN", "structuralObjectClass", "contextCSN"];

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn translation(renaming: Option<(&str, &str)>) -> Translation {
        let parsed = |dn| Dn::parse(dn).unwrap();
        let renaming = renaming.map(|(from, to)| Renaming { from: parsed(from), to: parsed(to) });
        Translation::new(&Schema::builtin(), renaming).unwrap()
    }

    fn wanted(translation: &mut Translation, dn: &str, values: &[(&str, &str)]) -> String {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), value.as_bytes().to_vec());
        let entry = PlainEntry { dn: dn.to_owned(), values: values.iter().map(owned).collect() };
        let wanted = translation.wanted(Some([0x1f; 16]), entry).unwrap().unwrap();
        String::from_utf8(wanted.text()).unwrap()
    }

    #[test]
    fn what_servers_keep_by_themselves_is_left_out_and_values_stand_together() {
        let values = [
            ("cn", "a"),
            ("entryCSN", "20010101000000.000000Z#000000#000#000000"),
            ("objectClass", "person"),
            ("CN", "b"),
            ("entryUUID", "00000000-0000-0000-0000-000000000000"),
            ("modifyTimestamp", "20010203040506Z"),
            ("structuralObjectClass", "person"),
            ("hasSubordinates", "FALSE"),
        ];
        let text = wanted(&mut translation(None), "cn=a,o=x", &values);
        let uuid = "1f1f1f1f-1f1f-1f1f-1f1f-1f1f1f1f1f1f";
        assert_eq!(
            text,
            format!(
                "dn: cn=a,o=x\nentryUUID: {uuid}\ncn: a\ncn: b\n\
                 modifyTimestamp: 20010203040506Z\nobjectClass: person\n\n"
            )
        );
    }

    #[test]
    fn a_branch_may_have_another_name_here() {
        let mut other = translation(Some(("dc=old,dc=com", "o=new")));
        let values = [("member", "cn=b, DC=old,dc=com"), ("member", "cn=b,dc=x"), ("l", "dc=old")];
        let text = wanted(&mut other, "cn=g,ou=a,dc=OLD,dc=com", &values);
        assert!(text.starts_with("dn: cn=g,ou=a,o=new\n"), "{text}");
        assert!(text.contains("member: cn=b,o=new\nmember: cn=b,dc=x\n"), "{text}");
        assert!(text.contains("l: dc=old\n"), "{text}");
        assert_eq!(other.name_here("dc=old,dc=com"), "o=new");
        let text = wanted(&mut other, "dc=old,dc=com", &[("dc", "old")]);
        assert!(text.contains("dc: old\no: new\n"), "{text}");
    }
}
