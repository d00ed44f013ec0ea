//! What is to be done to one entry, as LDIF or as a line of JSON, and in which order all of it is
//! told.
//!
//! Entries are added and renamed first, superiors before subordinates; then come modifications,
//! whose values may name entries that were added; then what is gone is deleted, subordinates
//! first: by now nothing names it. Last comes what had to be deleted to be added again.
//!
//! Invariant: what is told is not in memory: what comes later waits in temporary files.

use std::io::{BufRead as _, BufReader, Read as _, Write};

use ldap::ldif::{
    LDIF_FOLD_COLUMNS, LdifBody, LdifChange, LdifControl, LdifModification, LdifRecord, LdifWriter,
};
use serde_json::{Map, Value, json};

use super::body::{Body, damaged};
use super::scratch::{Scratch, Written, failed};
use crate::changes::{shown, verb};
use crate::failure::Failure;
use crate::online::server::MANAGE_DSA_IT;
use crate::output;

/// How differences are told.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Form {
    Ldif,
    Json,
    /// Not at all: that there is something is enough.
    Nothing,
}

/// When a change is told.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum When {
    /// Entries that are added or renamed.
    First,
    /// Modifications.
    Second,
    /// Deletes, the last one first.
    Third,
    /// Entries that are added where another one was deleted.
    Last,
}

/// A change of an entry.
#[derive(Debug)]
pub(super) struct Edit<'a> {
    pub(super) dn: &'a str,
    pub(super) change: LdifChange,
    /// The entry is one that servers follow unless they are told not to.
    pub(super) is_referral: bool,
}

/// The values of an entry that is added.
pub(super) fn addition(
    body: &Body<'_>,
    mut is_told: impl FnMut(&str) -> bool,
) -> Vec<(String, Vec<u8>)> {
    let all = body.values().filter(|(description, _)| is_told(description));
    all.map(|(description, value)| (description.to_owned(), value.to_vec())).collect()
}

/// Takes changes in any order, and tells them in theirs.
pub(super) struct Teller<'o> {
    out: &'o mut dyn Write,
    told: Form,
    /// Said before the first change.
    head: String,
    modifications: Option<Scratch>,
    deletes: Option<Scratch>,
    again: Option<Scratch>,
    /// The text of one change.
    text: Vec<u8>,
}

impl<'o> Teller<'o> {
    pub(super) fn new(out: &'o mut dyn Write, told: Form, head: String) -> Self {
        let text = Vec::new();
        Self { out, told, head, modifications: None, deletes: None, again: None, text }
    }

    /// Whether it is enough that something differs.
    pub(super) fn is_silent(&self) -> bool {
        self.told == Form::Nothing
    }

    /// Tells a change.
    pub(super) fn tell(&mut self, when: When, edit: Edit<'_>) -> Result<(), Failure> {
        let mut text = std::mem::take(&mut self.text);
        text.clear();
        match self.told {
            Form::Nothing => {}
            Form::Ldif => ldif(edit, &mut text)?,
            Form::Json => {
                let line = json_of(&edit).to_string();
                text.extend_from_slice(output::json_shown(&line).as_bytes());
                text.push(b'\n');
            }
        }
        self.put(when, &text)?;
        self.text = text;
        Ok(())
    }

    /// Tells that attributes of an entry differ that only servers set.
    pub(super) fn tell_server_set(&mut self, dn: &str, names: &[String]) -> Result<(), Failure> {
        let text = match self.told {
            Form::Nothing => return Ok(()),
            Form::Ldif => {
                let (dn, names) = (output::within_line(dn), names.join(", "));
                format!("# only servers set what else differs in {dn}: {names}\n\n")
            }
            Form::Json => {
                let line = json!({ "type": "server-set", "dn": dn, "attributes": names });
                format!("{}\n", output::json_shown(&line.to_string()))
            }
        };
        self.put(When::Second, text.as_bytes())
    }

    fn put(&mut self, when: When, text: &[u8]) -> Result<(), Failure> {
        if text.is_empty() {
            return Ok(());
        }
        let head = std::mem::take(&mut self.head);
        self.out.write_all(head.as_bytes())?;
        let scratch = match when {
            When::First => return Ok(self.out.write_all(text)?),
            When::Second => &mut self.modifications,
            When::Third => &mut self.deletes,
            When::Last => &mut self.again,
        };
        let scratch = match scratch {
            Some(scratch) => scratch,
            none => none.insert(Scratch::new()?),
        };
        scratch.write(text)?;
        if when == When::Third {
            // So that they can be read from the end.
            let length = u32::try_from(text.len()).map_err(|_| damaged())?;
            scratch.write(&length.to_le_bytes())?;
        }
        Ok(())
    }

    /// Tells what waits.
    pub(super) fn finish(self) -> Result<(), Failure> {
        let Self { out, modifications, deletes, again, .. } = self;
        if let Some(scratch) = modifications {
            copy(&scratch.written()?, out)?;
        }
        if let Some(scratch) = deletes {
            backwards(&scratch.written()?, out)?;
        }
        if let Some(scratch) = again {
            copy(&scratch.written()?, out)?;
        }
        Ok(out.flush()?)
    }
}

/// Writes all of a file.
fn copy(written: &Written, out: &mut dyn Write) -> Result<(), Failure> {
    let mut reader =
        BufReader::with_capacity(BUFFER_BYTES, written.section(0, written.length_bytes));
    loop {
        let octets = reader.fill_buf().map_err(|error| failed(&error))?;
        if octets.is_empty() {
            return Ok(());
        }
        out.write_all(octets)?;
        let length = octets.len();
        reader.consume(length);
    }
}

/// Writes the texts of a file, the last one first.
fn backwards(written: &Written, out: &mut dyn Write) -> Result<(), Failure> {
    let mut end = written.length_bytes;
    let mut text = Vec::new();
    while end > 0 {
        let mut length = [0; 4];
        let length_at = end.checked_sub(4).ok_or_else(damaged)?;
        written.read_at(length_at, &mut length)?;
        let length = u64::from(u32::from_le_bytes(length));
        let start = length_at.checked_sub(length).ok_or_else(damaged)?;
        text.clear();
        let mut section = written.section(start, length_at);
        section.read_to_end(&mut text).map_err(|error| failed(&error))?;
        out.write_all(&text)?;
        end = start;
    }
    Ok(())
}

fn ldif(edit: Edit<'_>, out: &mut Vec<u8>) -> Result<(), Failure> {
    let control = || LdifControl { oid: MANAGE_DSA_IT.to_owned(), critical: true, value: None };
    let record = LdifRecord {
        line: 0,
        dn: edit.dn.to_owned(),
        controls: edit.is_referral.then(control).into_iter().collect(),
        body: LdifBody::Change(edit.change),
    };
    Ok(LdifWriter::new(out, LDIF_FOLD_COLUMNS).record(&record)?)
}

/// As `roster changes` tells changes.
fn json_of(edit: &Edit<'_>) -> Value {
    let mut told = Map::new();
    let mut put = |name: &str, value: Value| told.insert(name.to_owned(), value);
    put("dn", json!(edit.dn));
    match &edit.change {
        LdifChange::Add(values) => {
            put("type", json!("add"));
            let mut attributes: Map<String, Value> = Map::new();
            for (name, value) in values {
                let list = attributes.entry(name.clone()).or_insert_with(|| json!([]));
                if let Value::Array(list) = list {
                    list.push(shown(value));
                }
            }
            put("attributes", Value::Object(attributes));
        }
        LdifChange::Delete => {
            put("type", json!("delete"));
        }
        LdifChange::Modify(modifications) => {
            put("type", json!("modify"));
            let one = |one: &LdifModification| {
                let values: Vec<Value> = one.values.iter().map(|value| shown(value)).collect();
                json!({ "attribute": one.description, verb(one.operation): values })
            };
            put("changes", modifications.iter().map(one).collect());
        }
        LdifChange::ModifyDn { new_rdn, delete_old_rdn, new_superior } => {
            put("type", json!("modrdn"));
            put("new_rdn", json!(new_rdn));
            put("delete_old_rdn", json!(delete_old_rdn));
            if let Some(superior) = new_superior {
                put("new_superior", json!(superior));
            }
        }
    }
    Value::Object(told)
}

const BUFFER_BYTES: usize = 256 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn told(told: Form, edits: Vec<(When, &str, LdifChange, bool)>) -> String {
        let mut out = Vec::new();
        let mut teller = Teller::new(&mut out, told, "# head\n".to_owned());
        for (when, dn, change, is_referral) in edits {
            teller.tell(when, Edit { dn, change, is_referral }).unwrap();
        }
        teller.finish().unwrap();
        String::from_utf8(out).unwrap()
    }

    fn add(name: &str) -> LdifChange {
        LdifChange::Add(vec![("cn".to_owned(), name.as_bytes().to_vec())])
    }

    #[test]
    fn changes_are_told_in_an_order_that_can_be_applied() {
        let modify = LdifChange::Modify(vec![LdifModification {
            operation: ldap::message::ModifyOperation::Replace,
            description: "l".to_owned(),
            values: vec![b"Chur".to_vec()],
        }]);
        let edits = || {
            vec![
                (When::Third, "ou=a", LdifChange::Delete, false),
                (When::Last, "cn=again", add("again"), false),
                (When::Second, "cn=m", modify.clone(), true),
                (When::Third, "cn=b,ou=a", LdifChange::Delete, false),
                (When::First, "cn=new", add("new"), false),
            ]
        };
        let want = "# head\n\
                    dn: cn=new\nchangetype: add\ncn: new\n\n\
                    dn: cn=m\ncontrol: 2.16.840.1.113730.3.4.2 true\nchangetype: modify\n\
                    replace: l\nl: Chur\n-\n\n\
                    dn: cn=b,ou=a\nchangetype: delete\n\n\
                    dn: ou=a\nchangetype: delete\n\n\
                    dn: cn=again\nchangetype: add\ncn: again\n\n";
        assert_eq!(told(Form::Ldif, edits()), want);
        let json = told(Form::Json, edits());
        let first = json.lines().nth(1).unwrap();
        let want = json!({ "dn": "cn=new", "type": "add", "attributes": { "cn": ["new"] } });
        assert_eq!(serde_json::from_str::<Value>(first).unwrap(), want);
        assert_eq!(told(Form::Nothing, edits()), "");
        assert_eq!(told(Form::Ldif, Vec::new()), "");
    }
}
