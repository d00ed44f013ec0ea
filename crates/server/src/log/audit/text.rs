//! A change as text: LDIF (RFC 2849) with comments that say who asked for it, or JSON.
//!
//! Invariant: values of passwords and other secrets are hidden unless the settings say otherwise,
//! and those of attributes that the schema does not have any more are hidden always.
//! Invariant: a comment is one line, whatever a client called itself.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use environment::Timestamp;
use history::record::{ChangeRole, OpKind, Record};
use ldap::dn::Dn;
use ldap::ldif::push_ldif_line;
use schema::{Attribute, AttributeDelta, AttributeDescription, Change, GatherChange, RenameChange};

use super::super::line::{self, Line, TimeText, is_hidden, key, push_escaped};

/// What the level of records is called among the settings.
const LEVEL: &str = "record-level";

/// How changes are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Form {
    pub(crate) is_json: bool,
    /// Passwords are written as they are stored.
    pub(crate) shows_hashes: bool,
}

/// Appends all changes of a record; says how many those are.
pub(super) fn record(
    out: &mut Vec<u8>,
    form: Form,
    record: &Record,
    guessed: &BTreeSet<String>,
) -> u64 {
    let mut teller = Renderer { out, form, guessed };
    // What says only what was before is in the log already.
    let is_told = |at: &usize| record.role(*at) != ChangeRole::Before;
    let told: Vec<&Change> =
        (0..record.changes.len()).filter(is_told).filter_map(|at| record.changes.get(at)).collect();
    for (index, change) in told.iter().enumerate() {
        let place = ChangePlace { number: index + 1, count: told.len() };
        if form.is_json {
            teller.json(record, place, change);
        } else {
            teller.comments(record, place);
            teller.ldif(change);
            teller.out.push(b'\n');
        }
    }
    told.len() as u64
}

/// Which of the changes of a record.
#[derive(Clone, Copy)]
struct ChangePlace {
    number: usize,
    count: usize,
}

/// Appends something about the log itself.
pub(super) fn note(out: &mut Vec<u8>, form: Form, now: Timestamp, note: &str) {
    let mut time = TimeText::new();
    let time = time.of(now);
    if form.is_json {
        let mut line = Line::begin(out, line::Form::Json, time, "note", "");
        line.text(key!("note", ""), note.as_bytes());
        line.end();
    } else {
        out.extend_from_slice(b"# time=");
        out.extend_from_slice(time);
        out.extend_from_slice(b" note=\"");
        push_escaped(out, note.as_bytes());
        out.extend_from_slice(b"\"\n\n");
    }
}

struct Renderer<'t> {
    out: &'t mut Vec<u8>,
    form: Form,
    guessed: &'t BTreeSet<String>,
}

impl Renderer<'_> {
    fn hides(&self, description: &AttributeDescription) -> bool {
        self.guessed.contains(description.text())
            || ((description.is_password() || description.kind.is_kept_from_logs())
                && !self.form.shows_hashes)
    }

    /// Who asked, from where, when.
    fn comments(&mut self, record: &Record, place: ChangePlace) {
        let who = &record.origin.who;
        let mut time = TimeText::new();
        self.out.extend_from_slice(b"# time=");
        self.out.extend_from_slice(time.of(record.csn.time));
        let message = record.origin.message;
        let numbers = format!(
            " lsn={} change={}/{} operation={} conn={} msg={message}\n#",
            record.lsn.0,
            place.number,
            place.count,
            operation(record.origin.op),
            who.session,
        );
        self.out.extend_from_slice(numbers.as_bytes());
        for (key, text) in [
            (" who=\"", &*who.dn),
            (" authz=\"", &who.authz),
            (" from=\"", &who.address),
            (" mechanism=\"", &who.mechanism),
        ] {
            if !text.is_empty() || key == " who=\"" {
                self.out.extend_from_slice(key.as_bytes());
                push_escaped(self.out, text.as_bytes());
                self.out.push(b'"');
            }
        }
        if !record.origin.controls.is_empty() {
            let controls = format!(" controls=\"{}\"", record.origin.controls.join(" "));
            self.out.extend_from_slice(controls.as_bytes());
        }
        if let Some(purpose) = &record.origin.purpose {
            self.out.extend_from_slice(b" purpose=\"");
            push_escaped(self.out, purpose.as_bytes());
            self.out.push(b'"');
        }
        self.out.push(b'\n');
    }

    // ---- LDIF

    fn ldif(&mut self, change: &Change) {
        match change {
            Change::Add(add) => {
                self.head(add.entry.name(), "add");
                for attribute in add.entry.attributes() {
                    self.values(&attribute.description, &attribute.values);
                }
            }
            Change::Modify(modify) => {
                self.head(&modify.dn, "modify");
                self.deltas(&modify.deltas, |_| true);
            }
            Change::Rename(rename) => self.rename(rename),
            Change::Delete(delete) => {
                for attribute in &delete.attributes {
                    self.former(attribute);
                }
                self.head(&delete.dn, "delete");
            }
            Change::Schema(schema) => {
                self.definitions("cn=schema", &schema.added, &schema.removed);
            }
            Change::Index(index) => {
                self.definitions("cn=index,cn=config", &index.added, &index.removed);
            }
            Change::Setting(setting) => self.setting(&setting.name, &setting.values),
            // It is what it was.
            Change::Gather(gather) => self.gather(gather),
            Change::Level(level) => self.setting(LEVEL, &[level.to_string()]),
        }
    }

    fn head(&mut self, dn: &Dn, kind: &str) {
        self.line("dn", dn.to_string().as_bytes());
        self.line("changetype", kind.as_bytes());
    }

    fn line(&mut self, name: &str, value: &[u8]) {
        push_ldif_line(self.out, name, value, 0);
    }

    fn values(&mut self, description: &AttributeDescription, values: &[Vec<u8>]) {
        let hides = self.hides(description);
        for value in values {
            self.line(description.text(), if hides { HIDDEN } else { value });
        }
    }

    /// What an entry held before it was deleted, in comments.
    fn former(&mut self, attribute: &Attribute) {
        let start = self.out.len();
        self.values(&attribute.description, &attribute.values);
        self.comment_since(start);
    }

    /// Makes lines comments.
    fn comment_since(&mut self, start: usize) {
        let lines = self.out.split_off(start);
        for line in lines.split_inclusive(|octet| *octet == b'\n') {
            self.out.extend_from_slice(b"# ");
            self.out.extend_from_slice(line);
        }
    }

    fn deltas(&mut self, deltas: &[AttributeDelta], wanted: impl Fn(&AttributeDelta) -> bool) {
        for delta in deltas.iter().filter(|delta| wanted(delta)) {
            for (what, values) in [("delete", &delta.removed), ("add", &delta.added)] {
                if !values.is_empty() {
                    self.line(what, delta.description.text().as_bytes());
                    self.values(&delta.description, values);
                    self.out.extend_from_slice(b"-\n");
                }
            }
        }
    }

    fn rename(&mut self, rename: &RenameChange) {
        self.head(&rename.old_dn, "modrdn");
        self.line("newrdn", rename.new_rdn.to_string().as_bytes());
        let deletes = if rename.deletes_old_rdn() { "1" } else { "0" };
        self.line("deleteoldrdn", deletes.as_bytes());
        let superior = |dn: &Dn| Dn::new(dn.rdns().iter().skip(1).cloned().collect());
        let new = superior(&rename.new_dn);
        if new != superior(&rename.old_dn) {
            self.line("newsuperior", new.to_string().as_bytes());
        }
        // Of what changed besides the name: stamps.
        let is_more = |delta: &AttributeDelta| delta.description.is_operational();
        if rename.deltas.iter().any(is_more) {
            self.out.push(b'\n');
            self.head(&rename.new_dn, "modify");
            self.deltas(&rename.deltas, is_more);
        }
    }

    /// In comments: an entry that is as it was.
    fn gather(&mut self, gather: &GatherChange) {
        let names = gather.attributes.iter().map(|one| one.text()).collect::<Vec<_>>().join(" ");
        let start = self.out.len();
        self.line("dn", gather.dn.to_string().as_bytes());
        self.line("by-number", names.as_bytes());
        self.comment_since(start);
    }

    fn setting(&mut self, name: &str, values: &[String]) {
        self.line("dn", b"cn=config");
        self.line("changetype", b"modify");
        self.line("replace", name.as_bytes());
        for value in values {
            self.line(name, value.as_bytes());
        }
        self.out.extend_from_slice(b"-\n");
    }

    /// Lines such as `attributeTypes: ( … )`.
    fn definitions(&mut self, dn: &str, added: &[String], removed: &[String]) {
        self.line("dn", dn.as_bytes());
        self.line("changetype", b"modify");
        for (what, lines) in [("delete", removed), ("add", added)] {
            for line in lines {
                let (name, value) = line.split_once(": ").unwrap_or(("description", line));
                self.line(what, name.as_bytes());
                self.line(name, value.as_bytes());
                self.out.extend_from_slice(b"-\n");
            }
        }
    }

    // ---- JSON

    fn json(&mut self, record: &Record, place: ChangePlace, change: &Change) {
        let who = &record.origin.who;
        let kind = match change {
            Change::Add(_) => "add",
            Change::Modify(_) => "modify",
            Change::Rename(_) => "modify_dn",
            Change::Delete(_) => "delete",
            Change::Schema(_) => "schema",
            Change::Index(_) => "index",
            Change::Setting(_) => "setting",
            Change::Gather(_) => "gather",
            Change::Level(_) => "level",
        };
        let mut time = TimeText::new();
        let time = time.of(record.csn.time);
        let mut line = Line::begin(self.out, line::Form::Json, time, kind, "");
        line.number(key!("lsn", ""), record.lsn.0);
        line.number(key!("change", ""), place.number as u64);
        line.number(key!("changes", ""), place.count as u64);
        line.text(key!("operation", ""), operation(record.origin.op).as_bytes());
        line.number(key!("conn", ""), who.session);
        line.number(key!("msg", ""), u64::from(record.origin.message.unsigned_abs()));
        line.text(key!("client", ""), who.address.as_bytes());
        line.text(key!("subject", ""), who.dn.as_bytes());
        for (key, text) in
            [(key!("authz", ""), &*who.authz), (key!("mechanism", ""), &who.mechanism)]
        {
            if !text.is_empty() {
                line.text(key, text.as_bytes());
            }
        }
        if !record.origin.controls.is_empty() {
            let controls = record.origin.controls.iter().map(|oid| oid.as_bytes());
            line.list(key!("controls", ""), controls);
        }
        if let Some(purpose) = &record.origin.purpose {
            line.text(key!("purpose", ""), purpose.as_bytes());
        }
        let dn = match change {
            Change::Add(add) => add.entry.name().to_string(),
            Change::Modify(modify) => modify.dn.to_string(),
            Change::Rename(rename) => rename.old_dn.to_string(),
            Change::Delete(delete) => delete.dn.to_string(),
            Change::Gather(gather) => gather.dn.to_string(),
            Change::Schema(_) => "cn=schema".to_owned(),
            Change::Index(_) => "cn=index,cn=config".to_owned(),
            Change::Setting(_) | Change::Level(_) => "cn=config".to_owned(),
        };
        line.text(key!("dn", ""), dn.as_bytes());
        if let Change::Rename(rename) = change {
            line.text(key!("new_dn", ""), rename.new_dn.to_string().as_bytes());
        }
        self.json_content(change);
        self.out.extend_from_slice(b"}\n");
    }

    fn json_content(&mut self, change: &Change) {
        match change {
            Change::Add(add) => self.json_attributes(add.entry.attributes()),
            Change::Delete(delete) => self.json_attributes(&delete.attributes),
            Change::Modify(modify) => self.json_deltas(&modify.deltas),
            Change::Rename(rename) => self.json_deltas(&rename.deltas),
            Change::Schema(schema) => self.json_definitions(&schema.added, &schema.removed),
            Change::Index(index) => self.json_definitions(&index.added, &index.removed),
            Change::Setting(setting) => self.json_setting(&setting.name, &setting.values),
            Change::Gather(_) => {}
            Change::Level(level) => self.json_setting(LEVEL, &[level.to_string()]),
        }
    }

    fn json_attributes(&mut self, attributes: &[Attribute]) {
        self.out.extend_from_slice(b",\"attributes\":[");
        for (index, attribute) in attributes.iter().enumerate() {
            self.json_name(index, &attribute.description);
            self.json_values("values", &attribute.description, &attribute.values);
            self.out.push(b'}');
        }
        self.out.push(b']');
    }

    fn json_deltas(&mut self, deltas: &[AttributeDelta]) {
        self.out.extend_from_slice(b",\"deltas\":[");
        for (index, delta) in deltas.iter().enumerate() {
            self.json_name(index, &delta.description);
            self.json_values("removed", &delta.description, &delta.removed);
            self.json_values("added", &delta.description, &delta.added);
            self.out.push(b'}');
        }
        self.out.push(b']');
    }

    fn json_name(&mut self, index: usize, description: &AttributeDescription) {
        self.out.extend_from_slice(if index > 0 { b",{" } else { b"{" });
        self.out.extend_from_slice(b"\"attribute\":\"");
        push_escaped(self.out, description.text().as_bytes());
        self.out.push(b'"');
    }

    fn json_values(&mut self, key: &str, description: &AttributeDescription, values: &[Vec<u8>]) {
        let hides = self.hides(description);
        self.out.extend_from_slice(format!(",\"{key}\":[").as_bytes());
        for (index, value) in values.iter().enumerate() {
            if index > 0 {
                self.out.push(b',');
            }
            push_json_value(self.out, if hides { HIDDEN } else { value });
        }
        self.out.push(b']');
    }

    fn json_definitions(&mut self, added: &[String], removed: &[String]) {
        self.json_lines("removed", removed);
        self.json_lines("added", added);
    }

    fn json_setting(&mut self, name: &str, values: &[String]) {
        self.out.extend_from_slice(b",\"setting\":");
        push_json_value(self.out, name.as_bytes());
        self.json_lines("values", values);
    }

    fn json_lines(&mut self, key: &str, lines: &[String]) {
        self.out.extend_from_slice(format!(",\"{key}\":[").as_bytes());
        for (index, line) in lines.iter().enumerate() {
            if index > 0 {
                self.out.push(b',');
            }
            push_json_value(self.out, line.as_bytes());
        }
        self.out.push(b']');
    }
}

/// Text as a string, other octets as an object with their base64.
fn push_json_value(out: &mut Vec<u8>, value: &[u8]) {
    let text = std::str::from_utf8(value).ok();
    if text.is_some_and(|text| !text.chars().any(|one| one != '\n' && is_hidden(one))) {
        out.push(b'"');
        push_escaped(out, value);
        out.push(b'"');
    } else {
        out.extend_from_slice(b"{\"base64\":\"");
        out.extend_from_slice(STANDARD.encode(value).as_bytes());
        out.extend_from_slice(b"\"}");
    }
}

/// What an operation is called.
const fn operation(kind: OpKind) -> &'static str {
    match kind {
        OpKind::Add => "add",
        OpKind::Delete => "delete",
        OpKind::Modify => "modify",
        OpKind::ModifyDn => "modify_dn",
        OpKind::PasswordModify => "password_modify",
        OpKind::Transaction => "transaction",
        OpKind::Internal => "internal",
    }
}

/// Stands where a password was.
const HIDDEN: &[u8] = b"{hidden}";
