//! A change as an object, or as lines of LDIF: what `roster changes` prints and sinks send, read
//! from an entry of `cn=changelog`.

use ldap::dn::Dn;
use ldap::ldif::{LdifBody, LdifChange, LdifLimits, LdifModification, LdifReader, push_ldif_line};
use ldap::message::ModifyOperation;
use serde_json::{Map, Value, json};

/// A change as a server tells it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ToldChange {
    /// Its number.
    pub number: u64,
    /// Which part of what has that number; 1 for the first.
    pub part: u32,
    /// When it was made, as `YYYYMMDDHHMMSSZ`.
    pub time: String,
    /// `add`, `modify`, `modrdn`, `delete`.
    pub kind: String,
    /// The entry, by its name of before.
    pub dn: String,
    /// Its `entryUUID`.
    pub uuid: Option<String>,
    /// The identity that 389 servers give.
    pub unique_id: Option<String>,
    /// Who made it.
    pub by: Option<String>,
    /// Why, as who made it says.
    pub purpose: Option<String>,
    /// Of a rename, the new leaf.
    pub new_rdn: Option<String>,
    /// Whether the values of the old name go.
    pub deletes_old_rdn: bool,
    /// Its superior from then on, where that is another one.
    pub new_superior: Option<String>,
    /// The lines of LDIF that say what changed, or what a deleted entry held.
    pub lines: Vec<u8>,
}

/// What a change did to an attribute.
#[derive(Debug)]
pub struct ToldDelta {
    /// How.
    pub operation: ModifyOperation,
    /// Which.
    pub attribute: String,
    /// With these.
    pub values: Vec<Vec<u8>>,
}

impl ToldChange {
    /// The change that an entry of `cn=changelog` tells, whose first values `value` has; none if it
    /// is no change.
    pub fn read(value: &dyn Fn(&str) -> Option<Vec<u8>>) -> Option<Self> {
        let text = |name: &str| value(name).and_then(|octets| String::from_utf8(octets).ok());
        let part = text("roster-change-part").and_then(|text| text.parse().ok());
        Some(Self {
            number: text("changeNumber")?.parse().ok()?,
            part: part.unwrap_or(1),
            time: text("changeTime").unwrap_or_default(),
            kind: text("changeType")?.to_ascii_lowercase(),
            dn: text("targetDN")?,
            uuid: text("targetEntryUUID"),
            unique_id: text("targetUniqueId"),
            by: text("changeInitiatorsName"),
            purpose: text("roster-change-purpose"),
            new_rdn: text("newRDN"),
            deletes_old_rdn: text("deleteOldRDN")
                .is_some_and(|text| text.eq_ignore_ascii_case("TRUE")),
            new_superior: text("newSuperior"),
            lines: value("changes").or_else(|| value("deletedEntryAttrs")).unwrap_or_default(),
        })
    }

    /// The values of the entry that was added, or was deleted.
    pub fn values(&self) -> Vec<(String, Vec<u8>)> {
        match self.record("add") {
            Some(LdifChange::Add(values)) => values,
            _ => Vec::new(),
        }
    }

    /// What changed, in order.
    pub fn deltas(&self) -> Vec<ToldDelta> {
        let Some(LdifChange::Modify(modifications)) = self.record("modify") else {
            return Vec::new();
        };
        let delta = |one: LdifModification| ToldDelta {
            operation: one.operation,
            attribute: one.description,
            values: one.values,
        };
        modifications.into_iter().map(delta).collect()
    }

    /// Its lines, read as those of a change of this kind.
    pub fn record(&self, kind: &str) -> Option<LdifChange> {
        let mut text = Vec::with_capacity(self.lines.len() + self.dn.len() + 64);
        push_ldif_line(&mut text, "dn", self.dn.as_bytes(), 0);
        push_ldif_line(&mut text, "changetype", kind.as_bytes(), 0);
        text.extend_from_slice(&self.lines);
        let mut reader = LdifReader::new(text.as_slice(), LdifLimits::default());
        match reader.next_record().ok().flatten()?.body {
            LdifBody::Change(change) => Some(change),
            LdifBody::Content(_) => None,
        }
    }

    /// Its name after it.
    pub fn new_dn(&self) -> Option<String> {
        let rdn = self.new_rdn.as_ref()?;
        let above = match &self.new_superior {
            Some(superior) => superior.clone(),
            None => parent(&self.dn)?,
        };
        Some(format!("{rdn},{above}"))
    }

    /// As an object.
    pub fn json(&self) -> Value {
        let mut told = Map::new();
        let mut put = |name: &str, value: Value| told.insert(name.to_owned(), value);
        put("number", json!(self.number));
        if self.part > 1 {
            put("part", json!(self.part));
        }
        put("time", json!(self.time));
        put("type", json!(self.kind));
        put("dn", json!(self.dn));
        let texts = [
            ("uuid", &self.uuid),
            ("by", &self.by),
            ("purpose", &self.purpose),
            ("new_dn", &self.new_dn()),
        ];
        for (name, text) in texts {
            if let Some(text) = text {
                put(name, json!(text));
            }
        }
        if matches!(&*self.kind, "add" | "delete") {
            let mut attributes: Map<String, Value> = Map::new();
            for (name, value) in self.values() {
                let values = attributes.entry(name).or_insert_with(|| json!([]));
                if let Value::Array(values) = values {
                    values.push(shown(&value));
                }
            }
            put("attributes", Value::Object(attributes));
        } else {
            let delta = |one: &ToldDelta| {
                let values: Vec<Value> = one.values.iter().map(|value| shown(value)).collect();
                json!({ "attribute": one.attribute, verb(one.operation): values })
            };
            put("changes", self.deltas().iter().map(delta).collect());
        }
        Value::Object(told)
    }
}

/// An operation as LDIF has it.
pub const fn verb(operation: ModifyOperation) -> &'static str {
    match operation {
        ModifyOperation::Add => "add",
        ModifyOperation::Delete => "delete",
        ModifyOperation::Replace => "replace",
        ModifyOperation::Increment => "increment",
    }
}

/// Text as it is, other octets as an object with their base64.
pub fn shown(value: &[u8]) -> Value {
    use base64::Engine as _;
    match std::str::from_utf8(value) {
        Ok(text) => json!(text),
        Err(_) => json!({ "base64": base64::engine::general_purpose::STANDARD.encode(value) }),
    }
}

/// The name above another.
fn parent(dn: &str) -> Option<String> {
    let dn = Dn::parse(dn).ok()?;
    Some(Dn::new(dn.rdns().iter().skip(1).cloned().collect()).to_string())
}
