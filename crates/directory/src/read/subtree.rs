//! Which entries a subentry is about (RFC 3672 §2.1): `{ base "ou=people", minimum 1 }`.
//!
//! Invariant: what was read covers no entry that the text leaves out: parts that are not
//! understood refuse the whole.
//! Invariant: which entries it covers says nothing of what is secret in them: the entry of an
//! account tells which policy governs it.

use std::fmt;

use ldap::dn::Dn;
use ldap::filter::{AvaFilter, Filter};
use schema::{
    AttributeDescription, DnKey, EntryRead, RdnKey, ResolvedFilter, Schema, Truth, WithoutSecrets,
};

use crate::read::computed;

/// A subtree specification, resolved for one administrative point.
#[derive(Debug)]
pub struct Subtree {
    /// The topmost entry that may be in it.
    base: DnKey,
    /// These are left out, and what is below them.
    before: Vec<DnKey>,
    /// What is below these is left out.
    after: Vec<DnKey>,
    /// How far below the base it begins and ends.
    minimum: usize,
    maximum: Option<usize>,
    /// What its entries match.
    filter: Option<ResolvedFilter>,
}

/// Why a text is no subtree specification that can be followed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SubtreeFault {
    /// The octet of the text at which it was seen.
    pub position: usize,
    /// What is wrong.
    pub reason: String,
}

impl fmt::Display for SubtreeFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { position, reason } = self;
        write!(f, "subtreeSpecification: at octet {position}: {reason}")
    }
}

impl Subtree {
    /// Everything at and below `point`.
    pub fn whole(point: DnKey) -> Self {
        Self {
            base: point,
            before: Vec::new(),
            after: Vec::new(),
            minimum: 0,
            maximum: None,
            filter: None,
        }
    }

    /// Reads a specification of the administrative point `point`.
    ///
    /// # Errors
    /// When it is malformed, too long or too deep, or names what the schema does not have.
    pub fn parse(text: &str, point: &DnKey, schema: &Schema) -> Result<Self, SubtreeFault> {
        let mut reader = Reader { text, position: 0, schema };
        if text.len() > TEXT_MAX_BYTES {
            return Err(reader.fault(format!("it has more than {TEXT_MAX_BYTES} bytes")));
        }
        let subtree = reader.subtree(point)?;
        reader.spaces();
        match reader.rest() {
            "" => Ok(subtree),
            _ => Err(reader.fault("something follows its end")),
        }
    }

    /// The topmost entry that may be in it.
    pub fn base(&self) -> &DnKey {
        &self.base
    }

    /// Whether it has the entry of this name.
    pub fn covers(&self, entry: &dyn EntryRead, key: &DnKey, schema: &Schema) -> bool {
        if !key.is_within(&self.base) {
            return false;
        }
        let depth = key.depth() - self.base.depth();
        depth >= self.minimum
            && self.maximum.is_none_or(|maximum| depth <= maximum)
            && !self.before.iter().any(|chopped| key.is_within(chopped))
            && !self.after.iter().any(|chopped| key != chopped && key.is_within(chopped))
            && self
                .filter
                .as_ref()
                .is_none_or(|filter| filter.matches(schema, &WithoutSecrets(entry)) == Truth::True)
    }

    /// Whether it is about other entries when one gets another name: a name in it, that of a group
    /// in its filter as well, is at or below the old or the new one.
    pub fn is_of_rename(&self, old: &DnKey, new: &DnKey) -> bool {
        let mut names = [&self.base].into_iter().chain(&self.before).chain(&self.after);
        names.any(|name| name.is_within(old) || name.is_within(new))
            || self.filter.as_ref().is_some_and(|filter| is_filter_of_rename(filter, old, new))
    }

    /// Whether it is about entries by such an attribute.
    pub fn asks_for(&self, description: &AttributeDescription) -> bool {
        let mut found = false;
        if let Some(filter) = &self.filter {
            let asks = |asked: &AttributeDescription| {
                asked.kind.is_subtype_of(&description.kind)
                    || description.kind.is_subtype_of(&asked.kind)
            };
            filter.visit_descriptions(&mut |asked| found |= asks(asked));
        }
        found
    }

    /// Whether it is about the members of groups or roles.
    pub(crate) fn asks_for_groups(&self, schema: &Schema) -> bool {
        computed::of_groups(schema.well_known()).into_iter().any(|one| self.asks_for(one))
    }

    /// A secret type that its filter names; what is asked of it has no answer.
    pub fn secret(&self) -> Option<String> {
        let mut found = None;
        let filter = self.filter.as_ref()?;
        filter.visit_descriptions(&mut |description| {
            if description.kind.is_secret() {
                found.get_or_insert_with(|| description.kind.name().to_owned());
            }
        });
        found
    }
}

/// Whether a filter asks for a name at or below one of these.
fn is_filter_of_rename(filter: &ResolvedFilter, old: &DnKey, new: &DnKey) -> bool {
    let asks = |filter: &ResolvedFilter| is_filter_of_rename(filter, old, new);
    match filter {
        ResolvedFilter::And(parts) | ResolvedFilter::Or(parts) => parts.iter().any(asks),
        ResolvedFilter::Not(part) => asks(part),
        ResolvedFilter::Equality(assertion) => {
            let name = DnKey::from_bytes(assertion.key.clone());
            assertion.description.kind.names_entries()
                && (name.is_within(old) || name.is_within(new))
        }
        // What is asked for so is no whole name.
        ResolvedFilter::Present(_)
        | ResolvedFilter::GreaterOrEqual(_)
        | ResolvedFilter::LessOrEqual(_)
        | ResolvedFilter::Approx(_)
        | ResolvedFilter::Substrings(_)
        | ResolvedFilter::Extensible(_)
        | ResolvedFilter::Undefined => false,
    }
}

/// A text being read.
struct Reader<'t> {
    text: &'t str,
    position: usize,
    schema: &'t Schema,
}

impl<'t> Reader<'t> {
    fn rest(&self) -> &'t str {
        self.text.get(self.position..).unwrap_or_default()
    }

    fn fault(&self, reason: impl Into<String>) -> SubtreeFault {
        SubtreeFault { position: self.position, reason: reason.into() }
    }

    fn spaces(&mut self) {
        let rest = self.rest();
        self.position += rest.len() - rest.trim_start_matches(' ').len();
    }

    /// Goes on behind `token`, if it comes next.
    fn takes(&mut self, token: char) -> bool {
        self.spaces();
        let is_next = self.rest().starts_with(token);
        self.position += if is_next { token.len_utf8() } else { 0 };
        is_next
    }

    fn expect(&mut self, token: char) -> Result<(), SubtreeFault> {
        if self.takes(token) { Ok(()) } else { Err(self.fault(format!("'{token}' is missing"))) }
    }

    /// Letters, digits, dots and hyphens.
    fn word(&mut self) -> &'t str {
        self.spaces();
        let rest = self.rest();
        let is_part = |one: char| one.is_ascii_alphanumeric() || matches!(one, '.' | '-');
        let end = rest.find(|one: char| !is_part(one)).unwrap_or(rest.len());
        self.position += end;
        rest.get(..end).unwrap_or_default()
    }

    /// Text between quotes; a quote in it is written twice.
    fn quoted(&mut self) -> Result<String, SubtreeFault> {
        self.expect('"')?;
        let mut value = String::new();
        loop {
            let rest = self.rest();
            let Some(end) = rest.find('"') else { return Err(self.fault("a quote is not closed")) };
            value.push_str(rest.get(..end).unwrap_or_default());
            self.position += end + 1;
            if !self.rest().starts_with('"') {
                return Ok(value);
            }
            value.push('"');
            self.position += 1;
        }
    }

    /// A name relative to `above`.
    fn local_name(&mut self, above: &DnKey) -> Result<DnKey, SubtreeFault> {
        let text = self.quoted()?;
        let dn = Dn::parse(&text).map_err(|error| self.fault(error.to_string()))?;
        let local =
            DnKey::from_dn(self.schema, &dn).map_err(|error| self.fault(error.to_string()))?;
        let mut key = above.clone();
        for rdn in local.rdns() {
            key.push(&RdnKey::from_bytes(rdn.to_vec()));
        }
        Ok(key)
    }

    fn number(&mut self) -> Result<usize, SubtreeFault> {
        let word = self.word();
        word.parse().map_err(|_| self.fault("a number is missing"))
    }

    fn subtree(&mut self, point: &DnKey) -> Result<Subtree, SubtreeFault> {
        let mut subtree = Subtree::whole(point.clone());
        let mut known = PARTS.iter();
        self.expect('{')?;
        if self.takes('}') {
            return Ok(subtree);
        }
        loop {
            let name = self.word();
            // In the order of the definition, each at most once.
            if !known.any(|part| *part == name) {
                return Err(self.fault(format!("'{name}' is no part that may stand here")));
            }
            match name {
                "base" => subtree.base = self.local_name(point)?,
                "specificExclusions" => self.exclusions(&mut subtree)?,
                "minimum" => subtree.minimum = self.number()?,
                "maximum" => subtree.maximum = Some(self.number()?),
                _ => subtree.filter = Some(self.filter()?),
            }
            if !self.takes(',') {
                break;
            }
        }
        self.expect('}')?;
        Ok(subtree)
    }

    /// `{ chopBefore:"ou=a", chopAfter:"ou=b" }`
    fn exclusions(&mut self, subtree: &mut Subtree) -> Result<(), SubtreeFault> {
        self.expect('{')?;
        if self.takes('}') {
            return Ok(());
        }
        loop {
            let name = self.word();
            self.expect(':')?;
            let base = subtree.base.clone();
            let chopped = self.local_name(&base)?;
            match name {
                "chopBefore" => subtree.before.push(chopped),
                "chopAfter" => subtree.after.push(chopped),
                _ => return Err(self.fault("chopBefore or chopAfter is missing")),
            }
            if subtree.before.len() + subtree.after.len() > EXCLUSIONS_MAX {
                return Err(self.fault(format!("it has more than {EXCLUSIONS_MAX} exclusions")));
            }
            if !self.takes(',') {
                break;
            }
        }
        self.expect('}')
    }

    /// A refinement (classes, joined), or a filter between quotes as other servers take it.
    fn filter(&mut self) -> Result<ResolvedFilter, SubtreeFault> {
        self.spaces();
        if self.rest().starts_with('"') {
            let text = self.quoted()?;
            let filter = Filter::parse(&text).map_err(|error| self.fault(error.to_string()))?;
            return Ok(ResolvedFilter::resolve(&filter, self.schema));
        }
        let filter = self.refinement(REFINEMENT_DEPTH_MAX)?;
        Ok(ResolvedFilter::resolve(&filter, self.schema))
    }

    fn refinement(&mut self, depth_left: usize) -> Result<Filter<'t>, SubtreeFault> {
        let Some(depth_left) = depth_left.checked_sub(1) else {
            return Err(self.fault("it is nested too deep"));
        };
        let name = self.word();
        self.expect(':')?;
        Ok(match name {
            "item" => {
                let class = self.word();
                if self.schema.object_class(class).is_none() {
                    return Err(self.fault(format!("there is no object class '{class}'")));
                }
                let value = class.as_bytes().into();
                Filter::Equality(AvaFilter { description: "objectClass", value })
            }
            "not" => Filter::Not(Box::new(self.refinement(depth_left)?)),
            "and" => Filter::And(self.refinements(depth_left)?),
            "or" => Filter::Or(self.refinements(depth_left)?),
            _ => return Err(self.fault("item, and, or or not is missing")),
        })
    }

    fn refinements(&mut self, depth_left: usize) -> Result<Vec<Filter<'t>>, SubtreeFault> {
        self.expect('{')?;
        let mut all = Vec::new();
        if self.takes('}') {
            return Ok(all);
        }
        loop {
            all.push(self.refinement(depth_left)?);
            if !self.takes(',') {
                break;
            }
        }
        self.expect('}')?;
        Ok(all)
    }
}

/// In this order.
const PARTS: [&str; 5] =
    ["base", "specificExclusions", "minimum", "maximum", "specificationFilter"];

/// Octets of a specification.
const TEXT_MAX_BYTES: usize = 16_384;
/// Names that one specification leaves out.
const EXCLUSIONS_MAX: usize = 256;
/// How deep a refinement is nested.
const REFINEMENT_DEPTH_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use schema::Entry;

    use super::*;

    fn covered(text: &str) -> Vec<&'static str> {
        let schema = Schema::builtin();
        let point = DnKey::from_text(&schema, "dc=x").unwrap();
        let subtree = Subtree::parse(text, &point, &schema).unwrap();
        let names = ["dc=x", "ou=a,dc=x", "ou=b,dc=x", "uid=1,ou=a,dc=x", "uid=2,ou=b,dc=x", "c=y"];
        let is_covered = |name: &&str| {
            let class = if name.starts_with("uid") { "inetOrgPerson" } else { "domain" };
            let pairs = [("objectClass", class.as_bytes())];
            let entry = Entry::from_pairs(Dn::parse(name).unwrap(), pairs, &schema).unwrap();
            subtree.covers(&entry, &DnKey::from_text(&schema, name).unwrap(), &schema)
        };
        names.into_iter().filter(is_covered).collect()
    }

    #[test]
    fn entries_are_in_it_as_every_part_says() {
        let (a, b) = ("uid=1,ou=a,dc=x", "uid=2,ou=b,dc=x");
        let all = ["dc=x", "ou=a,dc=x", "ou=b,dc=x", a, b];
        assert_eq!(covered("{}"), all);
        assert_eq!(covered(" { } "), all);
        assert_eq!(covered("{ base \"ou=A\" }"), ["ou=a,dc=x", a]);
        assert_eq!(covered("{base \"\", minimum 2}"), [a, b]);
        assert_eq!(covered("{ maximum 1 }"), ["dc=x", "ou=a,dc=x", "ou=b,dc=x"]);
        assert_eq!(
            covered("{ specificExclusions { chopBefore:\"ou=a\", chopAfter:\"ou=b\" } }"),
            ["dc=x", "ou=b,dc=x"]
        );
        assert_eq!(covered("{ specificationFilter item:inetOrgPerson }"), [a, b]);
        assert_eq!(
            covered("{ specificationFilter and:{ not:item:domain, or:{item:inetOrgPerson} } }"),
            [a, b]
        );
        assert_eq!(covered("{ specificationFilter \"(objectClass=domain)\" }"), all[..3]);
        let whole = "{ base \"ou=b\", specificExclusions { }, minimum 1, maximum 1 }";
        assert_eq!(covered(whole), [b]);
    }

    #[test]
    fn a_rename_is_about_it_when_it_names_what_is_renamed_or_something_below() {
        let schema = Schema::builtin();
        let key = |text: &str| DnKey::from_text(&schema, text).unwrap();
        let check = |text: &str, old: &str, want: bool| {
            let subtree = Subtree::parse(text, &key("dc=x"), &schema).unwrap();
            assert_eq!(subtree.is_of_rename(&key(old), &key("dc=z")), want, "{text} {old}");
            assert_eq!(subtree.is_of_rename(&key("dc=z"), &key(old)), want, "{text} {old}");
        };
        check("{ base \"ou=a\" }", "ou=a,dc=x", true);
        check("{ base \"ou=a\" }", "uid=1,ou=a,dc=x", false);
        let group = "{ specificationFilter \"(&(sn=a)(!(|(sn=b)(memberOf=cn=g,ou=o,dc=y))))\" }";
        check(group, "cn=G,ou=o,dc=y", true);
        check(group, "ou=o,dc=y", true);
        check(group, "cn=h,ou=o,dc=y", false);
        check("{ specificationFilter \"(memberOf=*)\" }", "ou=o,dc=y", false);
    }

    #[test]
    fn which_entries_are_in_it_says_nothing_of_what_is_secret() {
        let schema = Schema::builtin();
        let pairs = [("cn", &b"x"[..]), ("userPassword", b"secret"), ("pwdReset", b"TRUE")];
        let entry = Entry::from_pairs(Dn::parse("cn=x").unwrap(), pairs, &schema).unwrap();
        let key = DnKey::from_text(&schema, "cn=x").unwrap();
        for (filter, secret, is_covered) in [
            ("(userPassword=*)", Some("userPassword"), false),
            ("(!(userPassword=*))", Some("userPassword"), false),
            ("(userPassword:octetStringOrderingMatch:=t)", Some("userPassword"), false),
            ("(|(cn=y)(&(!(cn=y))(2.5.4.35=secret)))", Some("userPassword"), false),
            ("(pwdReset=TRUE)", Some("pwdReset"), false),
            // These name none, and ask all there are.
            ("(:octetStringOrderingMatch:=t)", None, false),
            ("(:octetStringMatch:=secret)", None, false),
            ("(:caseIgnoreMatch:=x)", None, true),
            ("(cn=x)", None, true),
        ] {
            let text = format!("{{ specificationFilter \"{filter}\" }}");
            let subtree = Subtree::parse(&text, &DnKey::root(), &schema).unwrap();
            assert_eq!(subtree.secret().as_deref(), secret, "{filter}");
            assert_eq!(subtree.covers(&entry, &key, &schema), is_covered, "{filter}");
        }
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        let schema = Schema::builtin();
        let deep = format!("{{ specificationFilter {}item:top }}", "not:".repeat(20));
        for (text, want) in [
            ("", "at octet 0: '{' is missing"),
            ("{", "at octet 1: '' is no part"),
            ("{} x", "at octet 3: something follows"),
            ("{ base ou=a }", "'\"' is missing"),
            ("{ base \"ou=a }", "a quote is not closed"),
            ("{ base \"nonsense\" }", "subtreeSpecification: at octet"),
            ("{ minimum 1, base \"ou=a\" }", "'base' is no part that may stand here"),
            ("{ minimum x }", "a number is missing"),
            ("{ minimum 1 maximum 2 }", "'}' is missing"),
            ("{ specificExclusions { chop:\"ou=a\" } }", "chopBefore or chopAfter is missing"),
            ("{ specificationFilter item:nothing }", "there is no object class 'nothing'"),
            ("{ specificationFilter \"(cn=\" }", "subtreeSpecification: at octet"),
            (&deep, "nested too deep"),
        ] {
            let fault = Subtree::parse(text, &DnKey::root(), &schema).unwrap_err().to_string();
            assert!(fault.contains(want), "{text}: {fault}");
        }
    }
}
