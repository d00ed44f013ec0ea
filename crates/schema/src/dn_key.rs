//! Names as keys: DNs that name the same entry have equal keys.
//!
//! A [`DnKey`] holds the RDNs from the root down, each ended by an octet 0; an RDN of several
//! assertions holds them sorted, with an octet 1 between them; an assertion is the lower-case first
//! name of its type, `=` and the value as the type's equality rule prepares it.
//!
//! Invariants: octets 0 and 1 occur nowhere else (in values they are escaped by an octet 2), so the
//! form is injective, and the key of a superior is a prefix of the key of an inferior.

use std::fmt;

use ldap::dn::{Dn, DnError, DnLimits, Rdn, parse_dn};

use crate::rules::Holds;
use crate::schema::Schema;

/// The key of a DN.
#[derive(Clone, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct DnKey(Vec<u8>);

impl DnKey {
    /// The key of the zero-length DN.
    pub const fn root() -> Self {
        Self(Vec::new())
    }

    /// Resolves a DN in text form.
    pub fn from_text(schema: &Schema, text: &str) -> Result<Self, InvalidDn> {
        let mut key = Vec::with_capacity(text.len() + KEY_RESERVE_BYTES);
        Self::write(schema, text, &mut key)?;
        Ok(Self(key))
    }

    /// Resolves a DN.
    pub fn from_dn(schema: &Schema, name: &Dn) -> Result<Self, InvalidDn> {
        let mut key = Vec::new();
        let mut writer = RdnSequenceWriter::new(schema, &mut key);
        for rdn in name.rdns().iter().rev() {
            writer.rdn(rdn)?;
        }
        Ok(Self(key))
    }

    /// The key from octets that [`Self::as_bytes`] gave.
    pub const fn from_bytes(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// The octets of the key.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The RDNs from the root down, each as the octets of an [`RdnKey`].
    pub fn rdns(&self) -> impl DoubleEndedIterator<Item = &[u8]> {
        self.0
            .split_inclusive(|&byte| byte == RDN_END)
            .map(|rdn| rdn.strip_suffix(&[RDN_END]).unwrap_or(rdn))
    }

    /// The number of RDNs.
    pub fn depth(&self) -> usize {
        memchr::memchr_iter(RDN_END, &self.0).count()
    }

    /// Whether this is the key of the zero-length DN.
    pub const fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// The key without its leaf; the root has no parent.
    pub fn parent(&self) -> Option<Self> {
        let (_, rest) = self.0.split_last()?;
        let length = rest.iter().rposition(|&byte| byte == RDN_END).map_or(0, |end| end + 1);
        Some(Self(rest.get(..length).unwrap_or_default().to_vec()))
    }

    /// The leaf; the root has none.
    pub fn leaf(&self) -> Option<RdnKey> {
        self.rdns().next_back().map(|rdn| RdnKey(rdn.to_vec()))
    }

    /// Whether this names `base` or one of its subordinates.
    pub fn is_within(&self, base: &Self) -> bool {
        self.0.starts_with(&base.0)
    }

    /// Goes down to the subordinate with this RDN.
    pub fn push(&mut self, rdn: &RdnKey) {
        self.0.extend_from_slice(&rdn.0);
        self.0.push(RDN_END);
    }

    /// Appends the key of a DN in text form to `out`.
    pub fn write(schema: &Schema, text: &str, out: &mut Vec<u8>) -> Result<(), InvalidDn> {
        write_text(&mut RdnSequenceWriter::new(schema, out), text)
    }
}

impl fmt::Debug for DnKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DnKey({})", self.0.escape_ascii())
    }
}

/// The key of an RDN; the entries below one superior have different ones.
#[derive(Clone, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct RdnKey(Vec<u8>);

impl RdnKey {
    /// Resolves an RDN.
    pub fn from_rdn(schema: &Schema, rdn: &Rdn) -> Result<Self, InvalidDn> {
        let mut key = Vec::new();
        RdnSequenceWriter::new(schema, &mut key).rdn(rdn)?;
        key.pop();
        Ok(Self(key))
    }

    /// The key of a naming context below the root of the tree: its whole name counts as one RDN.
    pub fn of_naming_context(name: &DnKey) -> Self {
        Self(name.0.strip_suffix(&[RDN_END]).unwrap_or(&name.0).to_vec())
    }

    /// The key from octets that [`Self::as_bytes`] or [`DnKey::rdns`] gave.
    pub const fn from_bytes(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// The octets of the key, without the one that ends it in a [`DnKey`].
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for RdnKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RdnKey({})", self.0.escape_ascii())
    }
}

/// Why a DN has no key.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum InvalidDn {
    /// The text is not a DN.
    Syntax(DnError),
    /// The value of this attribute type breaks the rule by which it is compared.
    Value {
        /// The attribute type, as written.
        attribute: String,
        /// What the value is not, or does wrong.
        reason: &'static str,
    },
    /// An RDN holds the same assertion twice.
    RepeatedAva,
}

impl InvalidDn {
    /// The reason without its place.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Syntax(_) => "is not a distinguished name",
            Self::Value { reason, .. } => reason,
            Self::RepeatedAva => "holds the same assertion twice in one RDN",
        }
    }
}

impl fmt::Display for InvalidDn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax(error) => error.fmt(f),
            Self::Value { attribute, reason } => write!(f, "the value of '{attribute}' {reason}"),
            Self::RepeatedAva => write!(f, "name {}", self.reason()),
        }
    }
}

impl std::error::Error for InvalidDn {}

/// Appends RDNs to a key.
pub(crate) struct RdnSequenceWriter<'s, 'o> {
    schema: &'s Schema,
    out: &'o mut Vec<u8>,
    /// Where the RDN that is being written starts.
    rdn_start: usize,
    /// How many DNs this one is a value in.
    depth: usize,
}

impl<'s, 'o> RdnSequenceWriter<'s, 'o> {
    pub(crate) const fn new(schema: &'s Schema, out: &'o mut Vec<u8>) -> Self {
        let rdn_start = out.len();
        Self { schema, out, rdn_start, depth: 0 }
    }

    fn rdn(&mut self, rdn: &Rdn) -> Result<(), InvalidDn> {
        let last = rdn.avas().len().saturating_sub(1);
        for (position, ava) in rdn.avas().iter().enumerate() {
            self.ava(&ava.attribute, &ava.value, position < last)?;
        }
        Ok(())
    }

    /// Appends an assertion; the last of its RDN ends the RDN.
    pub(crate) fn ava(
        &mut self,
        attribute: &str,
        value: &[u8],
        more_in_rdn: bool,
    ) -> Result<(), InvalidDn> {
        let is_first = self.out.len() == self.rdn_start;
        if !is_first {
            self.out.push(AVA_SEPARATOR);
        }
        self.assertion(attribute, value)?;
        if more_in_rdn {
            return Ok(());
        }
        if !is_first {
            self.sort_rdn()?;
        }
        self.out.push(RDN_END);
        self.rdn_start = self.out.len();
        Ok(())
    }

    fn assertion(&mut self, attribute: &str, value: &[u8]) -> Result<(), InvalidDn> {
        let Some(kind) = self.schema.attribute_type(attribute) else {
            // Nothing is known about it: the name in any case, the value octet by octet.
            self.out.extend(attribute.bytes().map(|byte| byte.to_ascii_lowercase()));
            self.out.push(b'=');
            let start = self.out.len();
            self.out.extend_from_slice(value);
            escape(self.out, start);
            return Ok(());
        };
        self.out.extend_from_slice(kind.key().as_bytes());
        self.out.push(b'=');
        let start = self.out.len();
        let invalid = |reason| InvalidDn::Value { attribute: attribute.to_owned(), reason };
        let rule = kind.equality;
        match (rule, rule.map_or(Holds::Plain, |rule| rule.holds)) {
            (Some(rule), Holds::Plain | Holds::Text) => {
                (rule.prepare)(self.schema, value, self.out).map_err(|error| invalid(error.0))?;
            }
            (_, Holds::Name) => self.nested(value).map_err(|error| invalid(error.reason()))?,
            // A certificate may hold a name with a certificate with a name …
            (None, _) | (_, Holds::Certificate) => self.out.extend_from_slice(value),
        }
        escape(self.out, start);
        Ok(())
    }

    /// Appends the key of a DN that is a value in this one.
    fn nested(&mut self, value: &[u8]) -> Result<(), InvalidDn> {
        let invalid = |reason| InvalidDn::Value { attribute: String::new(), reason };
        if self.depth >= NESTING_MAX {
            return Err(invalid("is a name in a name in a name"));
        }
        let text = std::str::from_utf8(value).map_err(|_| invalid("is not UTF-8"))?;
        let rdn_start = self.out.len();
        let depth = self.depth + 1;
        let mut writer = RdnSequenceWriter { schema: self.schema, out: self.out, rdn_start, depth };
        write_text(&mut writer, text)
    }

    fn sort_rdn(&mut self) -> Result<(), InvalidDn> {
        let rdn = self.out.split_off(self.rdn_start);
        let mut avas: Vec<&[u8]> = rdn.split(|&byte| byte == AVA_SEPARATOR).collect();
        avas.sort_unstable();
        if avas.array_windows().any(|[one, next]| one == next) {
            return Err(InvalidDn::RepeatedAva);
        }
        self.out.extend_from_slice(&avas.join(&AVA_SEPARATOR));
        Ok(())
    }
}

/// Appends the RDNs of a DN in text form.
fn write_text(writer: &mut RdnSequenceWriter<'_, '_>, text: &str) -> Result<(), InvalidDn> {
    let start = writer.out.len();
    for ava in parse_dn(text, DnLimits::default()) {
        let ava = ava.map_err(InvalidDn::Syntax)?;
        writer.ava(ava.attribute, &ava.value, ava.more_in_rdn)?;
    }
    // The text has the leaf first. Turning all octets around, and then those of each RDN, leaves
    // the RDNs in the order of the key without a second buffer.
    let key = writer.out.get_mut(start..).unwrap_or_default();
    key.reverse();
    let mut rest = key;
    while let [_, inner @ ..] = &*rest {
        let end = inner.iter().position(|&byte| byte == RDN_END).map_or(rest.len(), |end| end + 1);
        let (rdn, after) = std::mem::take(&mut rest).split_at_mut(end);
        rdn.reverse();
        rest = after;
    }
    Ok(())
}

/// Escapes the octets that give a key its structure, from `start` on.
fn escape(out: &mut Vec<u8>, start: usize) {
    let needs_escape = |byte: &u8| *byte <= ESCAPE;
    let value = out.get(start..).unwrap_or_default();
    if !value.iter().any(needs_escape) {
        return;
    }
    let plain = out.split_off(start);
    for byte in plain {
        if needs_escape(&byte) {
            out.extend([ESCAPE, byte + ESCAPED_OFFSET]);
        } else {
            out.push(byte);
        }
    }
}

const RDN_END: u8 = 0;
const AVA_SEPARATOR: u8 = 1;
const ESCAPE: u8 = 2;
/// Added to an escaped octet, so that it is none of the three.
const ESCAPED_OFFSET: u8 = 3;
/// How deep a name may be a value inside a name.
const NESTING_MAX: usize = 1;
/// What the key of a name may take more than its text: the octet that ends the last RDN.
const KEY_RESERVE_BYTES: usize = 16;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(text: &str) -> Result<DnKey, InvalidDn> {
        DnKey::from_text(&Schema::builtin(), text)
    }

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let key = key(text).unwrap();
        assert_eq!(key.as_bytes().escape_ascii().to_string(), expected, "{text}");
        let name = Dn::parse(text).unwrap();
        assert_eq!(DnKey::from_dn(&Schema::builtin(), &name).as_ref(), Ok(&key), "{text}");
        assert_eq!(key.depth(), name.rdns().len());
        assert_eq!(key.rdns().count(), name.rdns().len());
    }

    #[track_caller]
    fn check_same(one: &str, other: &str) {
        assert_eq!(key(one).unwrap(), key(other).unwrap());
    }

    #[track_caller]
    fn check_different(one: &str, other: &str) {
        assert_ne!(key(one).unwrap(), key(other).unwrap());
    }

    #[track_caller]
    fn check_refused(text: &str, diagnostic: &str) {
        assert_eq!(key(text).unwrap_err().to_string(), diagnostic, "{text}");
    }

    #[test]
    fn keys_have_the_root_first() {
        check("", "");
        check("dc=org", "dc=org\\x00");
        check("dc=example,dc=org", "dc=org\\x00dc=example\\x00");
        check("uid=u.5,ou=people,dc=org", "dc=org\\x00ou=people\\x00uid=u.5\\x00");
    }

    #[test]
    fn types_are_written_by_their_first_name() {
        check("CommonName=a", "cn=a\\x00");
        check("2.5.4.3=a", "cn=a\\x00");
        check("0.9.2342.19200300.100.1.25=a", "dc=a\\x00");
    }

    #[test]
    fn values_are_prepared_by_their_rule() {
        check("cn=  Anna   MEYER ", "cn=anna meyer\\x00");
        check("cn=\\ Anna\\ ", "cn=anna\\x00");
        check("cn=M\\C3\\BCLLER", "cn=m\\xc3\\xbcller\\x00");
        check("cn=#04024869", "cn=hi\\x00");
        check("cn=", "cn=\\x00");
    }

    #[test]
    fn unknown_types_are_kept_octet_by_octet() {
        check("Foo=Bar,dc=org", "dc=org\\x00foo=Bar\\x00");
        check("1.2.3.4=x", "1.2.3.4=x\\x00");
    }

    #[test]
    fn assertions_of_an_rdn_are_sorted() {
        check("uid=1+cn=b,dc=x", "dc=x\\x00cn=b\\x01uid=1\\x00");
        check_same("uid=1+cn=B+sn=c,dc=x", "SN=C + CN=b + UID=1,DC=X");
        check_same("cn=b+cn=a", "cn=a+cn=b");
    }

    #[test]
    fn octets_of_the_structure_are_escaped_in_values() {
        check("foo=a\\00\\01\\02b,dc=x", "dc=x\\x00foo=a\\x02\\x03\\x02\\x04\\x02\\x05b\\x00");
        check_different("foo=a\\01foo=b", "foo=a+foo=b");
        check_different("foo=\\00bar", "foo=+bar=");
    }

    #[test]
    fn names_inside_names_are_resolved_once() {
        check_same("member=CN\\3DA\\,DC\\3DX,dc=x", "member=cn=a\\,dc=x,dc=x");
        check_refused(
            "member=member\\=member\\=cn\\=a",
            "the value of 'member' is a name in a name in a name",
        );
    }

    #[test]
    fn deep_nesting_is_refused_without_recursion() {
        let deep = "member=".repeat(5000);
        assert!(key(&deep).is_err());
    }

    #[test]
    fn what_is_no_name_is_refused() {
        assert!(matches!(key("nonsense"), Err(InvalidDn::Syntax(_))));
        assert!(matches!(key("cn=a,,dc=x"), Err(InvalidDn::Syntax(_))));
        check_refused(
            "uidNumber=x,dc=org",
            "the value of 'uidNumber' is not an integer: an optional '-' and digits without \
             leading zeros",
        );
        check_refused("cn=a+cn=A", "name holds the same assertion twice in one RDN");
        check_refused(
            "cn=\\EE\\80\\80",
            "the value of 'cn' holds a character that matching prohibits",
        );
    }

    #[test]
    fn superiors_are_prefixes() {
        let child = key("uid=a,ou=people,dc=example,dc=org").unwrap();
        let within = |base: &str| child.is_within(&key(base).unwrap());
        assert!(within("uid=a,ou=people,dc=example,dc=org"));
        assert!(within("OU=People,dc=example,dc=org"));
        assert!(within("dc=org"));
        assert!(within(""));
        assert!(!within("ou=peopl,dc=example,dc=org"));
        assert!(!within("dc=example"));
        assert!(!within("uid=b,ou=people,dc=example,dc=org"));
        assert!(!key("dc=orga").unwrap().is_within(&key("dc=org").unwrap()));
        assert_eq!(child.parent(), Some(key("ou=people,dc=example,dc=org").unwrap()));
        assert_eq!(key("dc=org").unwrap().parent(), Some(DnKey::root()));
        assert_eq!(DnKey::root().parent(), None);
        assert_eq!(DnKey::root().leaf(), None);
        assert!(DnKey::root().is_root());
    }

    #[test]
    fn pushing_the_leaf_onto_the_parent_gives_the_key() {
        let schema = Schema::builtin();
        for text in ["dc=org", "cn=b+uid=a,dc=org", "uid=a,ou=people,dc=example,dc=org"] {
            let whole = key(text).unwrap();
            let leaf = RdnKey::from_rdn(&schema, &Dn::parse(text).unwrap().rdns()[0]).unwrap();
            assert_eq!(whole.leaf().as_ref(), Some(&leaf));
            let mut built = whole.parent().unwrap();
            built.push(&leaf);
            assert_eq!(built, whole);
        }
    }

    #[test]
    fn a_naming_context_is_one_step_below_the_root() {
        let mut root = DnKey::root();
        root.push(&RdnKey::of_naming_context(&key("dc=example,dc=org").unwrap()));
        assert_eq!(root, key("dc=example,dc=org").unwrap());
    }

    /// Types whose values are compared octet by octet, so that equality is easy to say.
    fn any_rdn() -> impl Strategy<Value = Rdn> {
        let ava = ("[a-c]x", prop::collection::vec(0_u8..4, 0..4))
            .prop_map(|(attribute, value)| ldap::dn::Ava { attribute, value });
        prop::collection::vec(ava, 1..3).prop_map(|avas| Rdn::new(avas).unwrap())
    }

    fn sorted(name: &Dn) -> Vec<Vec<(String, Vec<u8>)>> {
        let avas = |rdn: &Rdn| {
            let mut avas: Vec<_> =
                rdn.avas().iter().map(|ava| (ava.attribute.clone(), ava.value.clone())).collect();
            avas.sort();
            avas
        };
        name.rdns().iter().map(avas).collect()
    }

    proptest! {
        #[test]
        fn keys_are_equal_exactly_when_the_assertions_are(
            one in prop::collection::vec(any_rdn(), 0..3),
            other in prop::collection::vec(any_rdn(), 0..3),
        ) {
            let schema = Schema::builtin();
            let (one, other) = (Dn::new(one), Dn::new(other));
            let keys = (DnKey::from_dn(&schema, &one), DnKey::from_dn(&schema, &other));
            let (Ok(one_key), Ok(other_key)) = keys else { return Ok(()) };
            prop_assert_eq!(one_key == other_key, sorted(&one) == sorted(&other));
            prop_assert_eq!(DnKey::from_text(&schema, &one.to_string()), Ok(one_key));
        }

        #[test]
        fn any_text_is_resolved_or_refused(text: String) {
            let _ = key(&text);
        }

        #[test]
        fn ascii_names_are_resolved_or_refused(text in "[acdnu=,+\\\\# 0-3]{0,40}") {
            let parsed = Dn::parse(&text);
            match key(&text) {
                Ok(key) => {
                    let name = parsed.unwrap();
                    prop_assert_eq!(DnKey::from_dn(&Schema::builtin(), &name), Ok(key));
                }
                Err(InvalidDn::Syntax(_)) => prop_assert!(parsed.is_err()),
                // Found before the rest of the text was read, which may be wrong too.
                Err(InvalidDn::Value { .. } | InvalidDn::RepeatedAva) => {}
            }
        }
    }
}
