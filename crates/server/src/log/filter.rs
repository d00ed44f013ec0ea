//! Filters as text (RFC 4515), straight from their octets, without the values of passwords.
//!
//! Invariant: what is asserted of a password attribute is never shown, nor of an attribute that
//! the schema does not have and that is called like one.

use std::sync::Arc;

use ldap::ber::{Reader, Tag};
use ldap::filter::FILTER_DEPTH_MAX;
use rustc_hash::FxHashMap;
use schema::Schema;

use super::line::{is_hidden, push_escaped, push_hex};

/// Which attributes hold secrets.
pub(super) struct Secrets {
    schema: Arc<Schema>,
    known: FxHashMap<Box<[u8]>, bool>,
    /// A value was hidden: what the server said to it may repeat it.
    pub(super) has_hidden: bool,
}

impl Secrets {
    pub(super) fn new(schema: Arc<Schema>) -> Self {
        Self { schema, known: FxHashMap::default(), has_hidden: false }
    }

    /// The schema in force; most often the same as before.
    pub(super) fn set_schema(&mut self, schema: Arc<Schema>) {
        if !Arc::ptr_eq(&self.schema, &schema) {
            *self = Self::new(schema);
        }
    }

    /// Whether values of the attribute are to be hidden.
    pub(super) fn hold(&mut self, description: &[u8]) -> bool {
        if let Some(is_secret) = self.known.get(description) {
            self.has_hidden |= *is_secret;
            return *is_secret;
        }
        let is_secret = is_secret(&self.schema, description);
        if self.known.len() >= KNOWN_MAX {
            self.known.clear();
        }
        self.known.insert(description.into(), is_secret);
        self.has_hidden |= is_secret;
        is_secret
    }
}

pub(super) fn is_secret(schema: &Schema, description: &[u8]) -> bool {
    let text = String::from_utf8_lossy(description);
    schema.describe(&text).map_or_else(
        |_| {
            let text = text.to_ascii_lowercase();
            ["passw", "pwd", "secret"].iter().any(|part| text.contains(part))
        },
        |description| description.is_password() || description.kind.is_kept_from_logs(),
    )
}

/// Stands where a value was.
pub(super) const HIDDEN: &[u8] = b"{hidden}";

/// Appends the filter to `out`, escaped for a text within quotation marks, up to a limit.
pub(super) fn push_filter(out: &mut Vec<u8>, filter: &mut Reader<'_>, secrets: &mut Secrets) {
    let mut text = Text { end: out.len() + FILTER_TEXT_MAX_BYTES, out, secrets };
    if text.filter(filter, FILTER_DEPTH_MAX.into()).is_none() {
        text.out.extend_from_slice("…".as_bytes());
    }
}

struct Text<'t> {
    out: &'t mut Vec<u8>,
    /// It becomes no longer than this, about.
    end: usize,
    secrets: &'t mut Secrets,
}

impl Text<'_> {
    /// `None` when it is no filter, too long, or deeper than any that is carried out.
    fn filter(&mut self, reader: &mut Reader<'_>, depth: usize) -> Option<()> {
        if depth == 0 || self.out.len() > self.end {
            return None;
        }
        let tag = reader.peek_tag()?;
        self.out.push(b'(');
        match tag {
            AND | OR | NOT => {
                let sign = if tag == AND { b'&' } else { b'|' };
                self.out.push(if tag == NOT { b'!' } else { sign });
                let mut members = reader.sequence(tag).ok()?;
                while !members.is_empty() {
                    self.filter(&mut members, depth - 1)?;
                }
            }
            EQUALITY => self.assertion(reader, tag, b"=")?,
            GREATER_OR_EQUAL => self.assertion(reader, tag, b">=")?,
            LESS_OR_EQUAL => self.assertion(reader, tag, b"<=")?,
            APPROX => self.assertion(reader, tag, b"~=")?,
            PRESENT => {
                push_escaped(self.out, reader.read(tag).ok()?);
                self.out.extend_from_slice(b"=*");
            }
            SUBSTRINGS => self.substrings(reader.sequence(tag).ok()?)?,
            EXTENSIBLE => self.extensible(reader.sequence(tag).ok()?)?,
            _ => return None,
        }
        self.out.push(b')');
        Some(())
    }

    fn assertion(&mut self, reader: &mut Reader<'_>, tag: Tag, sign: &[u8]) -> Option<()> {
        let mut fields = reader.sequence(tag).ok()?;
        let description = fields.read(Tag::OCTET_STRING).ok()?;
        let value = fields.read(Tag::OCTET_STRING).ok()?;
        push_escaped(self.out, description);
        self.out.extend_from_slice(sign);
        let value = if self.secrets.hold(description) { HIDDEN } else { value };
        push_value(self.out, value);
        Some(())
    }

    fn substrings(&mut self, mut fields: Reader<'_>) -> Option<()> {
        let description = fields.read(Tag::OCTET_STRING).ok()?;
        let mut pieces = fields.sequence(Tag::SEQUENCE).ok()?;
        push_escaped(self.out, description);
        self.out.push(b'=');
        if self.secrets.hold(description) {
            self.out.extend_from_slice(HIDDEN);
            return Some(());
        }
        let mut last = INITIAL;
        while let Ok((tag, piece)) = pieces.read_any() {
            if tag != INITIAL {
                self.out.push(b'*');
            }
            push_value(self.out, piece);
            last = tag;
        }
        if last != FINAL {
            self.out.push(b'*');
        }
        Some(())
    }

    fn extensible(&mut self, mut fields: Reader<'_>) -> Option<()> {
        let rule = fields.read_optional(Tag::context(1, false)).ok()?;
        let description = fields.read_optional(Tag::context(2, false)).ok()?;
        let value = fields.read(Tag::context(3, false)).ok()?;
        let of_dn = fields.read_optional(Tag::context(4, false)).ok()?;
        push_escaped(self.out, description.unwrap_or_default());
        if of_dn.is_some_and(|flag| flag != [0]) {
            self.out.extend_from_slice(b":dn");
        }
        if let Some(rule) = rule {
            self.out.push(b':');
            push_escaped(self.out, rule);
        }
        self.out.extend_from_slice(b":=");
        // Without an attribute, it is asserted of all, those with secrets among them.
        let is_secret = description.is_none_or(|description| self.secrets.hold(description));
        self.secrets.has_hidden |= is_secret;
        push_value(self.out, if is_secret { HIDDEN } else { value });
        Some(())
    }
}

/// An assertion value within quotation marks, with what RFC 4515 §3 escapes and what nobody could
/// read as hexadecimal digits.
pub(super) fn push_value(out: &mut Vec<u8>, value: &[u8]) {
    let special = |octet: u8| matches!(octet, b'"' | b'\\' | b'(' | b')' | b'*');
    let is_plain = value
        .iter()
        .fold(true, |plain, &octet| plain & (octet.wrapping_sub(0x20) < 0x5f) & !special(octet));
    if is_plain {
        return out.extend_from_slice(value);
    }
    let push_octets = |out: &mut Vec<u8>, octets: &[u8]| {
        for octet in octets {
            // The escape of the filter begins with a backslash, which is escaped itself.
            out.extend_from_slice(b"\\\\");
            push_hex(out, *octet);
        }
    };
    for chunk in value.utf8_chunks() {
        for character in chunk.valid().chars() {
            let mut room = [0; 4];
            let octets = character.encode_utf8(&mut room).as_bytes();
            match character {
                '"' => out.extend_from_slice(b"\\\""),
                '\\' | '(' | ')' | '*' => push_octets(out, octets),
                _ if is_hidden(character) => push_octets(out, octets),
                _ => out.extend_from_slice(octets),
            }
        }
        push_octets(out, chunk.invalid());
    }
}

const AND: Tag = Tag::context(0, true);
const OR: Tag = Tag::context(1, true);
const NOT: Tag = Tag::context(2, true);
const EQUALITY: Tag = Tag::context(3, true);
const SUBSTRINGS: Tag = Tag::context(4, true);
const GREATER_OR_EQUAL: Tag = Tag::context(5, true);
const LESS_OR_EQUAL: Tag = Tag::context(6, true);
const PRESENT: Tag = Tag::context(7, false);
const APPROX: Tag = Tag::context(8, true);
const EXTENSIBLE: Tag = Tag::context(9, true);

// Pieces of a substring assertion.
const INITIAL: Tag = Tag::context(0, false);
const FINAL: Tag = Tag::context(2, false);

/// How much of a filter is shown, about.
const FILTER_TEXT_MAX_BYTES: usize = 4 * 1024;

/// Attribute descriptions that are cached: clients may make up any number.
const KNOWN_MAX: usize = 1_000;

#[cfg(test)]
mod tests {
    use ldap::ber::Writer;
    use ldap::filter::Filter;

    use super::*;

    fn shown(filter: &Filter<'_>) -> String {
        let mut octets = Vec::new();
        filter.encode(&mut Writer::new(&mut octets));
        let mut out = Vec::new();
        let mut secrets = Secrets::new(Schema::builtin());
        push_filter(&mut out, &mut Reader::new(&octets), &mut secrets);
        String::from_utf8(out).unwrap()
    }

    #[track_caller]
    fn check(filter: &str, want: &str) {
        assert_eq!(shown(&Filter::parse(filter).unwrap()), want);
    }

    #[test]
    fn filters_are_shown_as_they_are_written() {
        for same in [
            "(uid=anna)",
            "(&(objectClass=person)(|(cn=a*)(cn=*b)(cn=*c*)(cn=a*b*c)(cn~=x))(!(sn=*)))",
            "(&)",
            "(|)",
            "(age>=3)",
            "(age<=3)",
            "(cn:dn:caseExactMatch:=Anna)",
            "(cn:=Anna)",
            "(cn=Müller)",
        ] {
            check(same, same);
        }
        check(r"(cn=a\2a\28\29\5c\22)", r#"(cn=a\\2a\\28\\29\\5c\")"#);
        check(r"(cn=\0a\ff\e2\80\ae)", r"(cn=\\0a\\ff\\e2\\80\\ae)");
    }

    #[test]
    fn what_is_asserted_of_passwords_is_hidden() {
        check("(userPassword=secret)", "(userPassword={hidden})");
        check("(USERPASSWORD;x-1>=secret)", "(USERPASSWORD;x-1>={hidden})");
        check("(2.5.4.35=secret)", "(2.5.4.35={hidden})");
        check("(&(uid=a)(!(userPassword=se*cr*et)))", "(&(uid=a)(!(userPassword={hidden})))");
        check(
            "(userPassword:octetStringMatch:=secret)",
            "(userPassword:octetStringMatch:={hidden})",
        );
        check("(:caseExactMatch:=secret)", "(:caseExactMatch:={hidden})");
        // Not in the schema, and called like one.
        check("(userPasswrod=secret)", "(userPasswrod={hidden})");
        check("(unicodePwd=secret)", "(unicodePwd={hidden})");
        // In the schema, and as good as a password, or the state of one.
        check("(changes=*secret*)", "(changes={hidden})");
        check("(pwdHistory=secret)", "(pwdHistory={hidden})");
        // In the schema, and no password.
        check("(pwdAttribute=userPassword)", "(pwdAttribute=userPassword)");
    }

    #[test]
    fn long_filters_are_cut() {
        let items = (0..2_000).map(|number| format!("(cn={number})")).collect::<String>();
        let text = format!("(|{items})");
        let shown = shown(&Filter::parse(&text).unwrap());
        assert!(shown.ends_with('…') && shown.len() < FILTER_TEXT_MAX_BYTES + 100, "{shown}");
    }
}
