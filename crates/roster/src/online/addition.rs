//! An entry of a file as it is sent: an add, and, for what is too large for one request, modifies
//! that add the other values.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use ldap::ber::{Frame, frame};
use ldap::ldif::{LDIF_FOLD_COLUMNS, LdifControl, LdifEntry, LdifWriter};
use ldap::message::{
    AddRequest, Attributes, AttributesBuf, Control, Controls, ControlsBuf, DecodeLimits, Message,
    MessageId, Modification, ModificationsBuf, ModifyOperation, PartialAttribute, Request,
    ValuesBuf,
};
use schema::{ATTRIBUTE_COUNT_MAX, Schema};

/// Where an entry stands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct SourceLine {
    /// Which of the sources, from 0.
    pub(crate) source: u32,
    /// The line of its `dn:`, from 1.
    pub(crate) line: u64,
}

/// An entry on its way to the server.
#[derive(Clone, Debug)]
pub(crate) struct Addition {
    pub(crate) place: SourceLine,
    pub(crate) dn: String,
    /// The controls that the record gives its add.
    pub(crate) controls: ControlsBuf,
    /// Its attributes, in parts that fit into a request each; the first goes with the add.
    pub(crate) parts: VecDeque<AttributesBuf>,
    /// How many parts the server has taken.
    pub(crate) taken: usize,
}

impl Addition {
    /// The attributes that go with the add.
    pub(crate) fn first(&self) -> Attributes<'_> {
        self.parts.front().map_or(Attributes::EMPTY, AttributesBuf::as_ref)
    }

    /// The controls of the add: those of the record beside those of the import.
    pub(crate) fn controls_with(&self, of_import: Controls<'_>) -> ControlsBuf {
        let is_own = |oid: &str| self.controls.as_ref().iter().any(|own| own.oid == oid);
        let mut all: ControlsBuf = self.controls.as_ref().iter().collect();
        for control in of_import.iter().filter(|control| !is_own(control.oid)) {
            all.push(control);
        }
        all
    }

    /// Whether it means something else without its controls.
    pub(crate) fn has_critical_control(&self) -> bool {
        self.controls.as_ref().iter().any(|control| control.critical)
    }

    /// Whether the server has it all.
    pub(crate) fn is_complete(&self) -> bool {
        self.taken >= self.parts.len()
    }

    /// How many ACIs it has.
    pub(crate) fn acis_count(&self, schema: &Schema) -> u64 {
        let attributes = self.parts.iter().flat_map(|part| part.as_ref().iter());
        let acis = attributes.filter(|attribute| {
            let described = schema.describe(attribute.description);
            described.is_ok_and(|described| schema.well_known().aci.covers(&described))
        });
        acis.map(|attribute| attribute.values.iter().count() as u64).sum()
    }

    /// The modifications that add the next part.
    pub(crate) fn next_part(&self) -> ModificationsBuf {
        let part = self.parts.get(self.taken).map_or(Attributes::EMPTY, AttributesBuf::as_ref);
        let modification = |attribute| Modification { operation: ModifyOperation::Add, attribute };
        part.iter().map(modification).collect()
    }

    /// Everything of it as octets.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend_from_slice(&self.place.source.to_le_bytes());
        out.extend_from_slice(&self.place.line.to_le_bytes());
        for part in &self.parts {
            let op = Request::Add(AddRequest { name: &self.dn, attributes: part.as_ref() });
            Message { id: MessageId(1), op, controls: self.controls.as_ref() }.encode(&mut out);
        }
        out
    }

    /// The addition that was encoded, with nothing taken; none if these octets are of no addition.
    pub(crate) fn decode(octets: &[u8]) -> Option<Self> {
        let (source, rest) = octets.split_first_chunk()?;
        let (line, mut rest) = rest.split_first_chunk()?;
        let place =
            SourceLine { source: u32::from_le_bytes(*source), line: u64::from_le_bytes(*line) };
        let (dn, controls, parts) = (String::new(), ControlsBuf::new(), VecDeque::new());
        let mut addition = Self { place, dn, controls, parts, taken: 0 };
        while !rest.is_empty() {
            let Ok(Frame::Complete(length)) = frame(rest, usize::MAX) else { return None };
            let (message, after) = rest.split_at_checked(length)?;
            rest = after;
            let decoded = Message::<Request<'_>>::decode(message, &DecodeLimits::default());
            let Ok(Message { op: Request::Add(request), controls, .. }) = decoded else {
                return None;
            };
            let AddRequest { name, attributes } = request;
            name.clone_into(&mut addition.dn);
            addition.controls = controls.iter().collect();
            addition.parts.push_back(attributes.iter().collect());
        }
        Some(addition)
    }

    /// It as an LDIF record.
    pub(crate) fn text(&self) -> Vec<u8> {
        let mut text = Vec::new();
        let mut writer = LdifWriter::new(&mut text, LDIF_FOLD_COLUMNS);
        // A buffer takes everything.
        let _ = self.write(&mut writer);
        text
    }

    fn write(&self, writer: &mut LdifWriter<&mut Vec<u8>>) -> io::Result<()> {
        writer.dn(&self.dn)?;
        for Control { oid, critical, value } in self.controls.as_ref().iter() {
            let value = value.map(<[u8]>::to_vec);
            writer.control(&LdifControl { oid: oid.to_owned(), critical, value })?;
        }
        if !self.controls.as_ref().is_empty() {
            writer.attribute("changetype", b"add")?;
        }
        for attribute in self.parts.iter().flat_map(|part| part.as_ref().iter()) {
            for value in attribute.values {
                writer.attribute(attribute.description, value)?;
            }
        }
        writer.end_record()
    }
}

/// Makes additions of records.
pub(crate) struct Maker {
    schema: Arc<Schema>,
    /// Whether the server lets this user set what only the server sets.
    relax: bool,
    part_bytes: usize,
    /// The attributes of one record; used again for the next, the first `count` are this one's.
    attributes: Vec<(String, ValuesBuf)>,
    count: usize,
}

impl Maker {
    /// With `relax`, operational attributes are sent, but for those that a server computes.
    pub(crate) fn new(relax: bool) -> Self {
        Self {
            schema: Schema::builtin(),
            relax,
            part_bytes: PART_BYTES,
            attributes: Vec::new(),
            count: 0,
        }
    }

    /// Makes the addition of a record.
    pub(crate) fn addition(&mut self, source: u32, entry: &LdifEntry<'_>) -> Addition {
        self.count = 0;
        let mut last = ("", None);
        for (description, value) in entry.attributes() {
            if last.0 != description {
                last = (description, self.place_of(description));
            }
            if let Some((_, values)) = last.1.and_then(|place| self.attributes.get_mut(place)) {
                values.push(value);
            }
        }
        let mut controls = ControlsBuf::new();
        for LdifControl { oid, critical, value } in &entry.controls {
            controls.push(Control { oid, critical: *critical, value: value.as_deref() });
        }
        Addition {
            place: SourceLine { source, line: entry.line },
            dn: entry.dn.to_owned(),
            controls,
            parts: self.parts(),
            taken: 0,
        }
    }

    /// Where the values of an attribute are gathered; none when it is not sent.
    fn place_of(&mut self, description: &str) -> Option<usize> {
        if self.is_left_out(description) {
            return None;
        }
        let known = self.attributes.iter().take(self.count.min(ATTRIBUTE_COUNT_MAX));
        let place = known.map(|(known, _)| known).position(|known| known == description);
        if place.is_some() {
            return place;
        }
        match self.attributes.get_mut(self.count) {
            Some((unused, values)) => {
                unused.clear();
                unused.push_str(description);
                values.clear();
            }
            None => self.attributes.push((description.to_owned(), ValuesBuf::new())),
        }
        self.count += 1;
        Some(self.count - 1)
    }

    fn is_left_out(&self, description: &str) -> bool {
        let csn = &self.schema.well_known().entry_csn;
        let described = self.schema.describe(description);
        is_computed(description)
            || described.is_ok_and(|known| {
                csn.covers(&known) || (!self.relax && known.kind.no_user_modification)
            })
    }

    /// What was gathered, in the order of the file; of what takes several parts, attributes with
    /// the fewest octets come first, so that the add has what an entry must have.
    fn parts(&self) -> VecDeque<AttributesBuf> {
        let size = |values: &ValuesBuf| values.as_ref().as_ber().len();
        let mut attributes: Vec<&(String, ValuesBuf)> =
            self.attributes.iter().take(self.count).collect();
        if attributes.iter().map(|(_, values)| size(values)).sum::<usize>() > self.part_bytes {
            attributes.sort_by_key(|(_, values)| size(values));
        }
        let mut parts = Parts { max_bytes: self.part_bytes, ..Parts::default() };
        for (description, values) in attributes {
            if size(values) <= self.part_bytes {
                parts.push(description, values);
                continue;
            }
            let mut some = ValuesBuf::new();
            for value in values.as_ref() {
                some.push(value);
                if size(&some) >= self.part_bytes {
                    parts.push(description, &some);
                    some.clear();
                }
            }
            if !some.as_ref().is_empty() {
                parts.push(description, &some);
            }
        }
        parts.done.push_back(parts.last);
        parts.done
    }
}

#[derive(Default)]
struct Parts {
    max_bytes: usize,
    done: VecDeque<AttributesBuf>,
    last: AttributesBuf,
}

impl Parts {
    fn push(&mut self, description: &str, values: &ValuesBuf) {
        let attribute = PartialAttribute { description, values: values.as_ref() };
        let bytes = self.last.as_ref().as_ber().len();
        if bytes > 0 && bytes + attribute.values.as_ber().len() > self.max_bytes {
            self.done.push_back(std::mem::take(&mut self.last));
        }
        self.last.push(attribute);
    }
}

/// Whether a server computes this attribute when it is read, and so never takes it.
pub(crate) fn is_computed(description: &str) -> bool {
    COMPUTED.iter().any(|computed| computed.eq_ignore_ascii_case(description))
}

/// What `+` returns beside what is stored: RFC 5020, RFC 4512 §4.2, X.501; see `LiveEntry` of
/// `directory`.
const COMPUTED: [&str; 11] = [
    "entryDN",
    "subschemaSubentry",
    "hasSubordinates",
    "numSubordinates",
    "etag",
    "governingStructureRule",
    "contextCSN",
    "isMemberOf",
    "isDirectMemberOf",
    "memberOf",
    "nsRole",
];
/// The octets of values in one request: well below what servers take (roster: 16 MiB).
const PART_BYTES: usize = 4 << 20;

#[cfg(test)]
mod tests {
    use ldap::ldif::{LdifLimits, LdifReader};

    use super::*;

    fn addition(maker: &mut Maker, ldif: &str) -> Addition {
        let mut reader = LdifReader::new(ldif.as_bytes(), LdifLimits::default());
        let entry = reader.next_entry().unwrap().unwrap();
        maker.addition(3, &entry)
    }

    fn shown(addition: &Addition) -> String {
        String::from_utf8(addition.text()).unwrap()
    }

    const PERSON: &str = "# a comment\ndn: cn=a,o=x\nobjectClass: person\ncn: a\nsn: b\n\
                          hasSubordinates: FALSE\ncreateTimestamp: 20010203040506Z\n\
                          ENTRYDN: cn=a,o=x\n\
                          entryCSN: 20010101000000.000000Z#000000#000#000000\ncn: b\n\n";

    #[test]
    fn values_of_one_attribute_come_together_and_computed_ones_are_left_out() {
        let mut maker = Maker::new(true);
        // What is left of one record does not show in the next.
        addition(&mut maker, "dn: o=x\nl: x\nst: y\nstreet: z\nou: x\n");
        let one = addition(&mut maker, PERSON);
        assert_eq!(one.place, SourceLine { source: 3, line: 2 });
        assert_eq!(
            shown(&one),
            "dn: cn=a,o=x\nobjectClass: person\ncn: a\ncn: b\nsn: b\n\
             createTimestamp: 20010203040506Z\n\n"
        );
        assert_eq!(one.parts.len(), 1);
    }

    #[test]
    fn without_the_right_to_relax_the_rules_the_server_stamps() {
        let one = addition(&mut Maker::new(false), PERSON);
        assert_eq!(shown(&one), "dn: cn=a,o=x\nobjectClass: person\ncn: a\ncn: b\nsn: b\n\n");
    }

    #[test]
    fn a_large_group_is_sent_in_parts() {
        let mut ldif = String::from("dn: cn=g,o=x\n");
        (0..100).for_each(|n| ldif.push_str(&format!("member: uid=user.{n:03},o=x\n")));
        ldif.push_str("objectClass: groupOfNames\ncn: g\n");
        let mut maker = Maker { part_bytes: 500, ..Maker::new(true) };
        let mut one = addition(&mut maker, &ldif);
        assert_eq!(one.parts.len(), 5);
        let first: Vec<&str> = one.first().iter().map(|one| one.description).collect();
        assert_eq!(first, ["cn", "objectClass"]);
        let mut members = 0;
        one.taken = 1;
        while !one.is_complete() {
            let part = one.next_part();
            let part = part.as_ref().iter().next().unwrap();
            assert_eq!(part.operation, ModifyOperation::Add);
            assert!(part.attribute.values.as_ber().len() < 540);
            members += part.attribute.values.len();
            one.taken += 1;
        }
        assert_eq!(members, 100);
        assert_eq!(shown(&one).matches("member: ").count(), 100);
        let octets = one.encode();
        let again = Addition::decode(&octets).unwrap();
        assert_eq!((again.place, again.taken), (one.place, 0));
        assert_eq!(shown(&again), shown(&one));
        assert!(Addition::decode(&octets[..octets.len() - 1]).is_none());
    }
}
