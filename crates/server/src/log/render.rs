//! From records to lines: what the log thread knows of each connection, and how it is written.

use environment::Timestamp;
use ldap::ber::{Reader, Tag};
use ldap::message::{OperationKind, Scope};
use ldap::result::ResultCode;
use rustc_hash::FxHashMap;

use super::filter::{HIDDEN, Secrets, push_filter, push_value};
use super::line::{Form, Key, Line, TimeText, key};
use super::wire::{Field, Kind, LoggedRequest, OperationRecord, Parts};
use super::{PROXIED_1, PROXIED_2, SESSION_TRACKING};

/// Makes lines of records.
pub(super) struct Renderer {
    form: Form,
    connections: FxHashMap<u64, Known>,
    pub(super) secrets: Secrets,
    time: TimeText,
    /// When the logs began.
    pub(super) epoch: Timestamp,
}

/// What is known of a connection.
#[derive(Default)]
struct Known {
    client: Vec<u8>,
    subject: Vec<u8>,
    authz: Vec<u8>,
    mechanism: Vec<u8>,
    tls: Vec<u8>,
    /// All of these, as a part of a line.
    shown: Vec<u8>,
}

impl Known {
    fn show(&mut self, form: Form) {
        let mut out = Vec::new();
        let mut line = Line::begin(&mut out, form, b"", "", "");
        let start = line.out.len();
        line.text(key!("client", "from"), &self.client);
        line.text(key!("subject", "authDN"), &self.subject);
        for (key, text) in [
            (key!("authz", "authzID"), &self.authz),
            (key!("mechanism", "mech"), &self.mechanism),
            (key!("tls", "tls"), &self.tls),
        ] {
            if !text.is_empty() {
                line.text(key, text);
            }
        }
        out.drain(..start);
        self.shown = out;
    }
}

impl Renderer {
    pub(super) fn new(form: Form, secrets: Secrets) -> Self {
        let connections = FxHashMap::default();
        Self { form, connections, secrets, time: TimeText::new(), epoch: Timestamp(0) }
    }

    /// Appends the line of a record, if it has one; says whether it has.
    pub(super) fn record(&mut self, record: &[u8], out: &mut Vec<u8>) -> bool {
        let start = out.len();
        let mut parts = Parts(record);
        let kind = parts.octet().and_then(Kind::of);
        let rendered = match kind {
            Some(Kind::Connect) => self.connect(&mut parts, out),
            Some(Kind::Secured) => self.secured(&mut parts, out),
            Some(Kind::Identity) => self.identity(&mut parts),
            Some(Kind::Operation) => self.operation(&mut parts, out),
            Some(Kind::Disconnect) => self.disconnect(&mut parts, out),
            Some(Kind::Refused) => self.refused(&mut parts, out),
            None => None,
        };
        if rendered.is_none() {
            out.truncate(start);
        }
        out.len() > start
    }

    /// Appends a line that says how many records were lost.
    pub(super) fn dropped(&mut self, count: u64, why: &str, now: Timestamp, out: &mut Vec<u8>) {
        let time = self.time.of(now);
        let mut line = Line::begin(out, self.form, time, "dropped", "DROPPED");
        line.number(key!("count", "count"), count);
        line.text(key!("reason", "reason"), why.as_bytes());
        line.end();
    }

    /// Appends a line that says how many connections were refused besides those that have a line.
    pub(super) fn left_out(&mut self, count: u64, now: Timestamp, out: &mut Vec<u8>) {
        let mut line = Line::begin(out, self.form, self.time.of(now), "refused", "REFUSED");
        line.number(key!("count", "count"), count);
        line.text(key!("reason", "reason"), b"more than access_log.refused_per_second_max");
        line.end();
    }

    fn refused(&mut self, parts: &mut Parts<'_>, out: &mut Vec<u8>) -> Option<()> {
        let time = parts.number()?;
        let (client, listener, reason) = (parts.text()?, parts.text()?, parts.text()?);
        let time = self.moment(time);
        let mut line = Line::begin(out, self.form, self.time.of(time), "refused", "REFUSED");
        line.text(key!("client", "from"), client);
        line.text(key!("listener", "protocol"), listener);
        line.text(key!("reason", "reason"), reason);
        line.end();
        Some(())
    }

    fn moment(&self, since_epoch_us: u64) -> Timestamp {
        Timestamp(self.epoch.0.saturating_add(since_epoch_us))
    }

    fn connect(&mut self, parts: &mut Parts<'_>, out: &mut Vec<u8>) -> Option<()> {
        let (number, time) = (parts.number()?, parts.number()?);
        let (client, listener) = (parts.text()?, parts.text()?);
        let time = self.moment(time);
        let mut line = Line::begin(out, self.form, self.time.of(time), "connect", "CONNECT");
        line.number(CONNECTION, number);
        line.text(key!("client", "from"), client);
        line.text(key!("listener", "protocol"), listener);
        line.end();
        let mut known = Known { client: client.to_vec(), ..Known::default() };
        known.show(self.form);
        self.connections.insert(number, known);
        Some(())
    }

    fn secured(&mut self, parts: &mut Parts<'_>, out: &mut Vec<u8>) -> Option<()> {
        let (number, time) = (parts.number()?, parts.number()?);
        let (version, cipher) = (parts.text()?, parts.text()?);
        let time = self.moment(time);
        let known = self.connections.get_mut(&number)?;
        let mut line = Line::begin(out, self.form, self.time.of(time), "tls", "TLS");
        line.number(CONNECTION, number);
        line.text(key!("client", "from"), &known.client);
        line.text(key!("tls", "tls"), version);
        line.text(key!("cipher", "cipher"), cipher);
        line.end();
        known.tls = version.to_vec();
        known.show(self.form);
        Some(())
    }

    fn identity(&mut self, parts: &mut Parts<'_>) -> Option<()> {
        let known = self.connections.get_mut(&parts.number()?)?;
        known.subject = parts.text()?.to_vec();
        known.authz = parts.text()?.to_vec();
        known.mechanism = parts.text()?.to_vec();
        known.show(self.form);
        Some(())
    }

    fn disconnect(&mut self, parts: &mut Parts<'_>, out: &mut Vec<u8>) -> Option<()> {
        let (number, time, operations) = (parts.number()?, parts.number()?, parts.number()?);
        let reason = parts.text()?;
        let time = self.moment(time);
        let known = self.connections.remove(&number)?;
        let mut line = Line::begin(out, self.form, self.time.of(time), "disconnect", "DISCONNECT");
        line.number(CONNECTION, number);
        line.out.extend_from_slice(&known.shown);
        line.number(key!("operations", "operations"), operations);
        line.text(key!("reason", "reason"), reason);
        line.end();
        Some(())
    }

    fn operation(&mut self, parts: &mut Parts<'_>, out: &mut Vec<u8>) -> Option<()> {
        let operation = parts.operation()?;
        let diagnostic = parts.text()?;
        let time = self.moment(operation.ended_us);
        let is_search = operation.kind == Some(OperationKind::Search);
        let (json, text) = names(operation.kind);
        let mut line = Line::begin(out, self.form, self.time.of(time), json, text);
        line.number(CONNECTION, operation.connection);
        line.number(key!("op", "op"), operation.number);
        line.number(key!("msg", "msgID"), u64::from(operation.message_id.unsigned_abs()));
        if let Some(known) = self.connections.get(&operation.connection) {
            line.out.extend_from_slice(&known.shown);
        }
        self.secrets.has_hidden = false;
        match parts.octet() {
            Some(octet) if octet == LoggedRequest::Message as u8 => {
                // One that cannot be read is written as far as it can.
                let _ = put_search(&mut line, parts.0, &mut self.secrets);
            }
            Some(_) | None => put_fields(&mut line, *parts, &mut self.secrets),
        }
        let is_repeated = self.secrets.has_hidden && !diagnostic.is_empty();
        let diagnostic = if is_repeated { HIDDEN } else { diagnostic };
        outcome(&mut line, &operation, diagnostic, is_search);
        line.end();
        Some(())
    }
}

/// What came of it.
fn outcome(line: &mut Line<'_>, operation: &OperationRecord, diagnostic: &[u8], is_search: bool) {
    if let Some(code) = operation.code {
        line.number(key!("code", "result"), u64::from(code));
        if code != 0 {
            let name = ResultCode::from_code(code).map_or("unknown", ResultCode::name);
            line.text(key!("result", "resultName"), name.as_bytes());
        }
    }
    if !diagnostic.is_empty() {
        line.text(key!("diagnostic", "message"), diagnostic);
    }
    if let Some(error) = operation.policy {
        line.text(key!("policy", "policy"), error.name().as_bytes());
    }
    if let Some(failure) = operation.failure {
        line.text(key!("cause", "cause"), failure.name().as_bytes());
    }
    if operation.is_abandoned {
        line.flag(key!("abandoned", "abandoned"));
    }
    if is_search {
        line.number(key!("entries", "nentries"), u64::from(operation.entries));
        if operation.references > 0 {
            line.number(key!("references", "nrefs"), u64::from(operation.references));
        }
        line.number(key!("candidates", "candidates"), operation.candidates);
        if operation.is_unindexed {
            line.flag(key!("unindexed", "unindexed"));
        }
    }
    line.number(key!("octets", "octets"), operation.bytes);
    line.number(key!("queue_us", "qtime"), operation.queue_us);
    line.number(key!("elapsed_us", "etime"), operation.elapsed_us);
}

/// A search as it came.
fn put_search(line: &mut Line<'_>, message: &[u8], secrets: &mut Secrets) -> Option<()> {
    let mut message = Reader::new(message).sequence(Tag::SEQUENCE).ok()?;
    message.read(Tag::INTEGER).ok()?;
    let mut search = message.sequence(OperationKind::Search.tag()).ok()?;
    line.text(key!("base", "base"), search.read(Tag::OCTET_STRING).ok()?);
    let scope = search.enumerated(Tag::ENUMERATED).ok()?;
    let scope = match Scope::from_code(scope)? {
        Scope::Base => "base",
        Scope::One => "one",
        Scope::Subtree => "sub",
        Scope::Subordinate => "subordinate",
    };
    line.text(key!("scope", "scope"), scope.as_bytes());
    let deref = search.enumerated(Tag::ENUMERATED).ok()?;
    let size_limit = search.unsigned(Tag::INTEGER).ok()?;
    let time_limit = search.unsigned(Tag::INTEGER).ok()?;
    let types_only = search.boolean(Tag::BOOLEAN).ok()?;
    line.open(key!("filter", "filter"));
    push_filter(line.out, &mut search, secrets);
    line.close();
    // What the filter's text left unread.
    if search.peek_tag().is_some_and(|tag| tag.is_context()) {
        search.read_any().ok()?;
    }
    let mut attributes = search.sequence(Tag::SEQUENCE).ok()?;
    if !attributes.is_empty() {
        let mut left = ATTRIBUTES_SHOWN_MAX;
        let next = || {
            left -= 1;
            if left == 0 {
                return (!attributes.is_empty()).then_some("…".as_bytes());
            }
            attributes.read(Tag::OCTET_STRING).ok()
        };
        line.list(key!("attributes", "attrs"), std::iter::from_fn(next).take(ATTRIBUTES_SHOWN_MAX));
    }
    for (key, number) in [
        (key!("deref", "deref"), deref),
        (key!("size_limit", "sizeLimit"), size_limit),
        (key!("time_limit_s", "timeLimit"), time_limit),
    ] {
        if number > 0 {
            line.number(key, u64::from(number));
        }
    }
    if types_only {
        line.flag(key!("types_only", "typesOnly"));
    }
    let Some(mut controls) = message.sequence_optional(Tag::context(0, true)).ok()? else {
        return Some(());
    };
    let mut oids = Vec::new();
    let mut behind = Vec::new();
    while let Ok(mut control) = controls.sequence(Tag::SEQUENCE) {
        let oid = control.read(Tag::OCTET_STRING).ok()?;
        let _critical = control.read_optional(Tag::BOOLEAN).ok()?;
        oids.push(oid);
        behind.push((oid, control.read_optional(Tag::OCTET_STRING).ok()?.unwrap_or_default()));
    }
    put_controls(line, &oids, &behind);
    Some(())
}

/// Any other operation.
fn put_fields(line: &mut Line<'_>, parts: Parts<'_>, secrets: &mut Secrets) {
    let each = || {
        let mut parts = parts;
        std::iter::from_fn(move || parts.field())
    };
    let all = |wanted| each().filter(move |(field, _)| *field == wanted).map(|(_, text)| text);
    for (field, key) in [
        (Field::Name, key!("dn", "dn")),
        (Field::Mechanism, key!("auth", "authType")),
        (Field::User, key!("user", "user")),
        (Field::Oid, key!("oid", "oid")),
        (Field::NewRdn, key!("new_rdn", "newRDN")),
        (Field::NewSuperior, key!("new_superior", "newSuperior")),
        (Field::Target, key!("target", "idToAbandon")),
        (Field::Attribute, key!("attribute", "attr")),
    ] {
        if let Some(text) = all(field).next() {
            line.text(key, text);
        }
    }
    if let Some(name) = all(Field::Oid).next().and_then(extended_name) {
        line.text(key!("name", "name"), name.as_bytes());
    }
    if let (Some(attribute), Some(value)) = (all(Field::Attribute).next(), all(Field::Value).next())
    {
        let is_secret = secrets.hold(attribute);
        line.open(key!("value", "value"));
        push_value(line.out, if is_secret { HIDDEN } else { value });
        line.close();
    }
    if all(Field::DeletesOldRdn).next().is_some() {
        line.flag(key!("delete_old_rdn", "deleteOldRDN"));
    }
    if all(Field::Change).next().is_some() {
        line.list(key!("changes", "changes"), all(Field::Change));
    }
    if all(Field::Cut).next().is_some() {
        // Of what was cut off nobody knows.
        secrets.has_hidden = true;
        line.flag(key!("cut", "cut"));
    }
    let oids = all(Field::Control).collect::<Vec<_>>();
    let mut behind = Vec::new();
    for (field, text) in each() {
        match (field, behind.last_mut()) {
            (Field::Control, _) => behind.push((text, &b""[..])),
            (Field::ControlValue, Some((_, value))) => *value = text,
            _ => {}
        }
    }
    put_controls(line, &oids, &behind);
}

/// Which controls there are, and what they say of who is behind the request.
fn put_controls(line: &mut Line<'_>, oids: &[&[u8]], behind: &[(&[u8], &[u8])]) {
    if !oids.is_empty() {
        line.list(key!("controls", "controls"), oids.iter().copied());
    }
    for (oid, value) in behind {
        if *oid == SESSION_TRACKING.as_bytes() {
            let _ = session_tracking(line, value);
        } else if *oid == PROXIED_2.as_bytes() {
            line.text(PROXIED, value);
        } else if *oid == PROXIED_1.as_bytes() {
            let dn = Reader::new(value).sequence(Tag::SEQUENCE);
            if let Ok(dn) = dn.and_then(|mut fields| fields.read(Tag::OCTET_STRING)) {
                line.text(PROXIED, &[b"dn:", dn].concat());
            }
        }
    }
}

/// The fields of draft-wahl-ldap-session §2.
fn session_tracking(line: &mut Line<'_>, value: &[u8]) -> Option<()> {
    let mut fields = Reader::new(value).sequence(Tag::SEQUENCE).ok()?;
    for key in [
        key!("session_ip", "sessionIP"),
        key!("session_name", "sessionName"),
        key!("session_format", "sessionFormat"),
        key!("session_id", "sessionID"),
    ] {
        let text = fields.read(Tag::OCTET_STRING).ok()?;
        if !text.is_empty() {
            line.text(key, text.get(..SESSION_TEXT_MAX_BYTES).unwrap_or(text));
        }
    }
    Some(())
}

/// What an operation is called, in each form.
fn names(kind: Option<OperationKind>) -> (&'static str, &'static str) {
    let text = match kind {
        Some(OperationKind::Bind) => "BIND",
        Some(OperationKind::Search) => "SEARCH",
        Some(OperationKind::Modify) => "MODIFY",
        Some(OperationKind::Add) => "ADD",
        Some(OperationKind::Delete) => "DELETE",
        Some(OperationKind::ModifyDn) => "MODIFYDN",
        Some(OperationKind::Compare) => "COMPARE",
        Some(OperationKind::Abandon) => "ABANDON",
        Some(OperationKind::Extended) => "EXTENDED",
        Some(OperationKind::Unbind) | None => "UNKNOWN",
    };
    let known = kind.filter(|kind| *kind != OperationKind::Unbind);
    (known.map_or("unknown", OperationKind::name), text)
}

/// What an extended operation is called.
fn extended_name(oid: &[u8]) -> Option<&'static str> {
    Some(match std::str::from_utf8(oid).ok()? {
        "1.3.6.1.4.1.1466.20037" => "StartTLS",
        "1.3.6.1.4.1.4203.1.11.1" => "password modify",
        "1.3.6.1.4.1.4203.1.11.3" => "who am I",
        "1.3.6.1.1.21.1" => "start transaction",
        "1.3.6.1.1.21.3" => "end transaction",
        "1.3.6.1.1.8" => "cancel",
        _ => return None,
    })
}

const CONNECTION: Key = key!("conn", "conn");
const PROXIED: Key = key!("proxied", "proxied");

/// Attributes asked for that are shown.
const ATTRIBUTES_SHOWN_MAX: usize = 200;

/// The longest field of the session tracking control (draft-wahl-ldap-session §2).
const SESSION_TEXT_MAX_BYTES: usize = 1024;

#[cfg(test)]
mod tests {
    use ldap::ber::Writer;
    use ldap::filter::Filter;
    use ldap::message::{
        Control, ControlsBuf, DerefAliases, Message, MessageId, Request, SearchRequest, StringsBuf,
    };
    use schema::Schema;

    use super::super::wire::Draft;
    use super::*;

    /// A search with everything that can be in one.
    fn search() -> Vec<u8> {
        let mut attributes = StringsBuf::new();
        attributes.push("cn");
        attributes.push("sn;lang-de");
        let mut value = Vec::new();
        let mut writer = Writer::new(&mut value);
        let mark = writer.begin(Tag::SEQUENCE);
        ["ip", "name", "1.2", "id"]
            .iter()
            .for_each(|text| writer.octets(Tag::OCTET_STRING, text.as_bytes()));
        writer.end(mark);
        let mut controls = ControlsBuf::new();
        let tracking = Control { oid: SESSION_TRACKING, critical: true, value: Some(&value) };
        let proxied = Control { oid: PROXIED_2, critical: true, value: Some(b"dn:cn=x") };
        [tracking, proxied].iter().for_each(|control| controls.push(*control));
        let filter = "(&(cn=a*b*c)(!(userPassword=s3cret))(|(x:dn:1.2:=y)(z>=1)(sn=*)))";
        let op = Request::Search(SearchRequest {
            base: "dc=example",
            scope: Scope::Subtree,
            deref: DerefAliases::Always,
            size_limit_entries: 3,
            time_limit_s: 4,
            types_only: true,
            filter: Filter::parse(filter).unwrap(),
            attributes: attributes.as_ref(),
        });
        let mut out = Vec::new();
        Message { id: MessageId(7), op, controls: controls.as_ref() }.encode(&mut out);
        out
    }

    fn line(form: Form, message: &[u8]) -> String {
        let mut renderer = Renderer::new(form, Secrets::new(Schema::builtin()));
        let mut record = Vec::new();
        let operation =
            OperationRecord { kind: Some(OperationKind::Search), ..OperationRecord::default() };
        Draft::begin(&mut record, Kind::Operation).operation(&operation).text(b"");
        record.push(LoggedRequest::Message as u8);
        record.extend_from_slice(message);
        let mut out = Vec::new();
        assert!(renderer.record(&record, &mut out));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn whatever_a_message_is_like_its_line_is_one_and_well_formed() {
        let message = search();
        assert!(line(Form::Json, &message).contains("(!(userPassword={hidden}))"));
        let mut lines = 0;
        let mut check = |message: &[u8]| {
            for form in [Form::Json, Form::Text] {
                let line = line(form, message);
                assert!(line.ends_with('\n') && line.matches('\n').count() == 1, "{line}");
                if form == Form::Json {
                    serde_json::from_str::<serde_json::Value>(&line).unwrap();
                }
                lines += 1;
            }
        };
        for at in 0..message.len() {
            check(&message[..at]);
            for octet in [0x00, 0x01, 0x0a, 0x22, 0x30, 0x5c, 0x7f, 0x80, 0x84, 0xa9, 0xff] {
                let mut other = message.clone();
                other[at] = octet;
                check(&other);
            }
        }
        assert!(lines > 1_000);
    }

    #[test]
    fn records_that_are_cut_off_make_no_line() {
        let mut renderer = Renderer::new(Form::Json, Secrets::new(Schema::builtin()));
        let mut record = Vec::new();
        Draft::begin(&mut record, Kind::Connect).number(1).number(2).text(b"a").text(b"b");
        for length in 0..record.len() {
            let mut out = Vec::new();
            assert!(!renderer.record(&record[..length], &mut out) && out.is_empty());
        }
    }
}
