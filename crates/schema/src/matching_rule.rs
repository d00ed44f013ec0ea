//! Matching rules (RFC 4517 §4): one table.
//!
//! Each rule turns a value into a *key*. Values match when their keys are equal, and are ordered as
//! their keys' octets are; filters, indexes and names all use these keys, so they cannot disagree.
//!
//! Invariants: preparing is total (what it refuses, it refuses with a reason), only appends to its
//! buffer, and never recurses deeper than a DN inside a DN. It allocates nothing else, but for
//! escaped lines, certificates, integers beyond 64 bits and names with escapes or several
//! assertions in an RDN.

mod certificate;
mod first_component;
mod integer;
mod name;
mod octets;
mod text;
mod time;

pub(crate) use certificate::is_sequence;
pub use integer::INTEGER_DIGITS_MAX;
pub(crate) use integer::integer;
pub(crate) use name::split_optional_uid;
pub(crate) use octets::{auth_password, bit_string, boolean, csn, uuid};
pub(crate) use text::split_lines;
pub(crate) use time::{generalized_time, utc_time};

use crate::prepare::{Invalid, Position};
use crate::schema::Schema;
use crate::syntax::{self, Check, oid};

/// What a rule decides.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RuleKind {
    /// Whether two values match.
    Equality,
    /// Which of two values comes first.
    Ordering,
    /// Whether a value holds some pieces.
    Substring,
}

/// How the key of a value and the key of an assertion are compared.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Compare {
    /// Octet by octet. Only such rules can be looked up in an index of keys.
    Key,
    /// One of the value's words is the assertion.
    Word,
    /// The assertion's words are among the value's, in this order.
    Words,
    /// The value has every bit of the assertion.
    AllBits,
    /// The value has one bit of the assertion.
    AnyBits,
    /// The value is the assertion, or names an entry from which values lead there. Of the entry at
    /// hand only the first can be told; a search asks for the rest before it asks entries.
    Chain,
}

/// Appends the key of a value; what is appended on refusal means nothing.
pub type Prepare = fn(&Schema, &[u8], &mut Vec<u8>) -> Result<(), Invalid>;
/// Appends the key of a piece of a substring assertion.
pub type PreparePiece = fn(Position, &[u8], &mut Vec<u8>) -> Result<(), Invalid>;

/// A matching rule.
pub struct MatchingRule {
    /// Its object identifier.
    pub oid: &'static str,
    /// Its name.
    pub name: &'static str,
    /// What it decides.
    pub kind: RuleKind,
    /// The syntax of assertion values, as an OID.
    pub syntax: &'static str,
    /// The syntaxes of the attributes it applies to, as OIDs.
    pub applies_to: &'static [&'static str],
    /// The key of an attribute value.
    pub prepare: Prepare,
    /// What an assertion value has to be, where preparing does not tell.
    check_assertion: Check,
    /// The key of an assertion value that was checked.
    assertion_key: Prepare,
    /// The key of a piece; substring rules only.
    pub prepare_piece: Option<PreparePiece>,
    /// How keys are compared for equality.
    pub compare: Compare,
    /// What values hold: names, for example, whose values may hold names.
    pub(crate) holds: Holds,
}

/// What values of a rule hold, and so may nest.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Holds {
    /// Octets, numbers, times, texts of ASCII alone.
    Plain,
    /// Texts of any characters, which are normalized.
    Text,
    Name,
    Certificate,
}

impl MatchingRule {
    /// Finds a rule by its OID or by its name in any case.
    pub fn find(name_or_oid: &str) -> Option<&'static Self> {
        let is_it =
            |rule: &&Self| rule.oid == name_or_oid || rule.name.eq_ignore_ascii_case(name_or_oid);
        MATCHING_RULES.iter().find(is_it)
    }

    /// Whether it can compare values of the syntax with this OID.
    pub fn applies_to(&self, syntax: &str) -> bool {
        self.applies_to.contains(&syntax)
    }

    /// Whether a value with key `value` matches an assertion with key `assertion`.
    pub fn keys_match(&self, value: &[u8], assertion: &[u8]) -> bool {
        match self.compare {
            Compare::Key | Compare::Chain => value == assertion,
            Compare::Word => value.split(|&byte| byte == b' ').any(|word| word == assertion),
            Compare::Words => {
                let mut words = value.split(|&byte| byte == b' ');
                assertion.split(|&byte| byte == b' ').all(|asked| words.any(|word| word == asked))
            }
            Compare::AllBits => integer::octet_pairs(value, assertion)
                .all(|(value, assertion)| value & assertion == assertion),
            Compare::AnyBits => integer::octet_pairs(value, assertion)
                .any(|(value, assertion)| value & assertion != 0),
        }
    }

    /// Appends the key of an assertion value, which has to be of the assertion syntax: a filter
    /// with one that is not is Undefined (RFC 4511 §4.5.1.7).
    pub fn prepare_assertion(
        &self,
        schema: &Schema,
        value: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), Invalid> {
        (self.check_assertion)(schema, value).map_err(Invalid)?;
        (self.assertion_key)(schema, value, out)
    }

    const fn new(
        oid: &'static str,
        name: &'static str,
        kind: RuleKind,
        applies_to: &'static [&'static str],
        prepare: Prepare,
    ) -> Self {
        let [syntax, ..] = applies_to else { panic!("a rule applies to a syntax") };
        Self {
            oid,
            name,
            kind,
            syntax,
            applies_to,
            prepare,
            check_assertion: syntax::text::anything,
            assertion_key: prepare,
            prepare_piece: None,
            compare: Compare::Key,
            holds: Holds::Plain,
        }
    }

    /// An equality rule whose assertions have the first syntax of `applies_to`.
    const fn equality(
        oid: &'static str,
        name: &'static str,
        applies_to: &'static [&'static str],
        prepare: Prepare,
    ) -> Self {
        Self::new(oid, name, RuleKind::Equality, applies_to, prepare)
    }

    const fn ordering(
        oid: &'static str,
        name: &'static str,
        applies_to: &'static [&'static str],
        prepare: Prepare,
    ) -> Self {
        Self::new(oid, name, RuleKind::Ordering, applies_to, prepare)
    }

    const fn substring(
        oid: &'static str,
        name: &'static str,
        applies_to: &'static [&'static str],
        prepare: Prepare,
        prepare_piece: PreparePiece,
    ) -> Self {
        let rule = Self::new(oid, name, RuleKind::Substring, applies_to, prepare);
        Self { syntax: oid::SUBSTRING_ASSERTION, prepare_piece: Some(prepare_piece), ..rule }
    }

    const fn comparing(self, compare: Compare) -> Self {
        Self { compare, ..self }
    }

    const fn holding(self, holds: Holds) -> Self {
        Self { holds, ..self }
    }

    /// Gives assertions a syntax and a preparation of their own.
    const fn asserting(self, syntax: &'static str, assertion_key: Prepare) -> Self {
        Self { syntax, assertion_key, ..self }
    }

    /// Checks assertions by their syntax: where preparing accepts more than that.
    const fn checking(self, check_assertion: Check) -> Self {
        Self { check_assertion, ..self }
    }
}

impl PartialEq for MatchingRule {
    fn eq(&self, other: &Self) -> bool {
        self.oid == other.oid
    }
}

impl Eq for MatchingRule {}

impl std::fmt::Debug for MatchingRule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// The rule of `~=` for texts; other attributes are compared with their equality rule.
pub const APPROXIMATE_RULE: &str = "1.3.6.1.4.1.4203.666.4.4";

/// The rule by which a group has members of members, too: see [`Compare::Chain`].
pub const IN_CHAIN_RULE: &str = "1.2.840.113556.1.4.1941";

/// Directory strings and what is contained in them (RFC 4517 §3.2).
const DIRECTORY: &[&str] = &[
    oid::DIRECTORY_STRING,
    oid::PRINTABLE_STRING,
    oid::COUNTRY_STRING,
    oid::TELEPHONE_NUMBER,
    oid::NUMERIC_STRING,
    oid::IA5_STRING,
];
const IA5: &[&str] = &[oid::IA5_STRING];
const INTEGER: &[&str] = &[oid::INTEGER];
const TIME: &[&str] = &[oid::GENERALIZED_TIME];
const POSTAL: &[&str] = &[oid::POSTAL_ADDRESS];
const OCTETS: &[&str] = &[oid::OCTET_STRING];
const CSN: &[&str] = &[oid::CSN];
const OID_FIRST: &[&str] = &[
    oid::ATTRIBUTE_TYPE_DESCRIPTION,
    oid::OBJECT_CLASS_DESCRIPTION,
    oid::DIT_CONTENT_RULE_DESCRIPTION,
    oid::LDAP_SYNTAX_DESCRIPTION,
    oid::MATCHING_RULE_DESCRIPTION,
    oid::MATCHING_RULE_USE_DESCRIPTION,
    oid::NAME_FORM_DESCRIPTION,
];

/// Every matching rule, by OID.
pub static MATCHING_RULES: &[MatchingRule] = &[
    MatchingRule::equality(
        "2.5.13.0",
        "objectIdentifierMatch",
        &[oid::OID],
        name::object_identifier,
    ),
    MatchingRule::equality(
        "2.5.13.1",
        "distinguishedNameMatch",
        &[oid::DN],
        name::distinguished_name,
    )
    .holding(Holds::Name)
    .checking(syntax::text::not_blank),
    MatchingRule::equality("2.5.13.2", "caseIgnoreMatch", DIRECTORY, text::ignore)
        .holding(Holds::Text)
        .checking(syntax::text::directory_string),
    MatchingRule::ordering("2.5.13.3", "caseIgnoreOrderingMatch", DIRECTORY, text::ignore)
        .holding(Holds::Text)
        .checking(syntax::text::directory_string),
    MatchingRule::substring(
        "2.5.13.4",
        "caseIgnoreSubstringsMatch",
        DIRECTORY,
        text::ignore_full,
        text::ignore_piece,
    )
    .holding(Holds::Text),
    MatchingRule::equality("2.5.13.5", "caseExactMatch", DIRECTORY, text::exact)
        .holding(Holds::Text)
        .checking(syntax::text::directory_string),
    MatchingRule::ordering("2.5.13.6", "caseExactOrderingMatch", DIRECTORY, text::exact)
        .holding(Holds::Text)
        .checking(syntax::text::directory_string),
    MatchingRule::substring(
        "2.5.13.7",
        "caseExactSubstringsMatch",
        DIRECTORY,
        text::exact_full,
        text::exact_piece,
    )
    .holding(Holds::Text),
    MatchingRule::equality("2.5.13.8", "numericStringMatch", &[oid::NUMERIC_STRING], text::numeric)
        .holding(Holds::Text)
        .checking(syntax::text::numeric_string),
    MatchingRule::ordering(
        "2.5.13.9",
        "numericStringOrderingMatch",
        &[oid::NUMERIC_STRING],
        text::numeric,
    )
    .holding(Holds::Text)
    .checking(syntax::text::numeric_string),
    MatchingRule::substring(
        "2.5.13.10",
        "numericStringSubstringsMatch",
        &[oid::NUMERIC_STRING],
        text::numeric,
        text::numeric_piece,
    )
    .holding(Holds::Text),
    MatchingRule::equality("2.5.13.11", "caseIgnoreListMatch", POSTAL, text::ignore_list)
        .holding(Holds::Text)
        .checking(syntax::text::postal_address),
    MatchingRule::substring(
        "2.5.13.12",
        "caseIgnoreListSubstringsMatch",
        POSTAL,
        text::ignore_list_full,
        text::ignore_piece,
    )
    .holding(Holds::Text),
    MatchingRule::equality("2.5.13.13", "booleanMatch", &[oid::BOOLEAN], boolean),
    MatchingRule::equality("2.5.13.14", "integerMatch", INTEGER, integer),
    MatchingRule::ordering("2.5.13.15", "integerOrderingMatch", INTEGER, integer),
    MatchingRule::equality("2.5.13.16", "bitStringMatch", &[oid::BIT_STRING], bit_string),
    MatchingRule::equality("2.5.13.17", "octetStringMatch", OCTETS, octets::octets),
    MatchingRule::ordering("2.5.13.18", "octetStringOrderingMatch", OCTETS, octets::octets),
    MatchingRule::substring(
        "2.5.13.19",
        "octetStringSubstringsMatch",
        OCTETS,
        octets::octets,
        octets::octets_piece,
    ),
    MatchingRule::equality(
        "2.5.13.20",
        "telephoneNumberMatch",
        &[oid::TELEPHONE_NUMBER],
        text::telephone,
    )
    .holding(Holds::Text)
    .checking(syntax::text::telephone_number),
    MatchingRule::substring(
        "2.5.13.21",
        "telephoneNumberSubstringsMatch",
        &[oid::TELEPHONE_NUMBER],
        text::telephone,
        text::telephone_piece,
    )
    .holding(Holds::Text),
    MatchingRule::equality(
        "2.5.13.23",
        "uniqueMemberMatch",
        &[oid::NAME_AND_OPTIONAL_UID],
        name::name_and_optional_uid,
    )
    .holding(Holds::Name)
    .checking(syntax::text::name_and_optional_uid),
    MatchingRule::equality("2.5.13.27", "generalizedTimeMatch", TIME, time::prepare),
    MatchingRule::ordering("2.5.13.28", "generalizedTimeOrderingMatch", TIME, time::prepare),
    MatchingRule::equality(
        "2.5.13.29",
        "integerFirstComponentMatch",
        &[oid::DIT_STRUCTURE_RULE_DESCRIPTION],
        first_component::integer,
    )
    .asserting(oid::INTEGER, integer),
    MatchingRule::equality(
        "2.5.13.30",
        "objectIdentifierFirstComponentMatch",
        OID_FIRST,
        first_component::object_identifier,
    )
    .asserting(oid::OID, name::object_identifier),
    MatchingRule::equality(
        "2.5.13.31",
        "directoryStringFirstComponentMatch",
        &[oid::DIRECTORY_STRING],
        first_component::directory_string,
    )
    .holding(Holds::Text)
    .asserting(oid::DIRECTORY_STRING, text::ignore)
    .checking(syntax::text::directory_string),
    MatchingRule::equality("2.5.13.32", "wordMatch", DIRECTORY, text::words)
        .holding(Holds::Text)
        .asserting(oid::DIRECTORY_STRING, text::word)
        .comparing(Compare::Word),
    MatchingRule::equality("2.5.13.33", "keywordMatch", DIRECTORY, text::words)
        .holding(Holds::Text)
        .asserting(oid::DIRECTORY_STRING, text::word)
        .comparing(Compare::Word),
    MatchingRule::equality(
        "2.5.13.34",
        "certificateExactMatch",
        &[oid::CERTIFICATE],
        certificate::certificate,
    )
    .asserting(oid::CERTIFICATE_EXACT_ASSERTION, certificate::exact_assertion)
    .holding(Holds::Certificate),
    MatchingRule::equality(
        "2.5.13.36",
        "certificatePairExactMatch",
        &[oid::CERTIFICATE_PAIR],
        octets::octets,
    )
    .checking(syntax::x509::sequence),
    MatchingRule::equality(
        "2.5.13.38",
        "certificateListExactMatch",
        &[oid::CERTIFICATE_LIST],
        octets::octets,
    )
    .checking(syntax::x509::sequence),
    MatchingRule::equality(
        "2.5.13.40",
        "algorithmIdentifierMatch",
        &[oid::SUPPORTED_ALGORITHM],
        octets::octets,
    )
    .checking(syntax::x509::sequence),
    MatchingRule::equality(
        "1.2.840.113556.1.4.803",
        "integerBitAndMatch",
        INTEGER,
        integer::twos_complement,
    )
    .comparing(Compare::AllBits),
    MatchingRule::equality(
        "1.2.840.113556.1.4.804",
        "integerBitOrMatch",
        INTEGER,
        integer::twos_complement,
    )
    .comparing(Compare::AnyBits),
    MatchingRule::equality(
        IN_CHAIN_RULE,
        "distinguishedNameInChainMatch",
        &[oid::DN],
        name::distinguished_name,
    )
    .holding(Holds::Name)
    .comparing(Compare::Chain)
    .checking(syntax::text::not_blank),
    MatchingRule::equality("1.3.6.1.1.16.2", "UUIDMatch", &[oid::UUID], uuid),
    MatchingRule::ordering("1.3.6.1.1.16.3", "UUIDOrderingMatch", &[oid::UUID], uuid),
    MatchingRule::equality("1.3.6.1.4.1.1466.109.114.1", "caseExactIA5Match", IA5, text::exact_ia5),
    MatchingRule::equality(
        "1.3.6.1.4.1.1466.109.114.2",
        "caseIgnoreIA5Match",
        IA5,
        text::ignore_ia5,
    ),
    MatchingRule::substring(
        "1.3.6.1.4.1.1466.109.114.3",
        "caseIgnoreIA5SubstringsMatch",
        IA5,
        text::ignore_ia5_full,
        text::ignore_ia5_piece,
    ),
    MatchingRule::substring(
        "1.3.6.1.4.1.4203.1.2.1",
        "caseExactIA5SubstringsMatch",
        IA5,
        text::exact_ia5_full,
        text::exact_ia5_piece,
    ),
    MatchingRule::equality(
        "1.3.6.1.4.1.4203.1.2.2",
        "authPasswordExactMatch",
        &[oid::AUTH_PASSWORD],
        auth_password,
    ),
    MatchingRule::equality(
        APPROXIMATE_RULE,
        "directoryStringApproxMatch",
        DIRECTORY,
        text::phonetic,
    )
    .holding(Holds::Text)
    .comparing(Compare::Words)
    .checking(syntax::text::directory_string),
    MatchingRule::equality("1.3.6.1.4.1.4203.666.11.2.2", "CSNMatch", CSN, csn),
    MatchingRule::ordering("1.3.6.1.4.1.4203.666.11.2.3", "CSNOrderingMatch", CSN, csn),
];

#[cfg(test)]
mod tests;
