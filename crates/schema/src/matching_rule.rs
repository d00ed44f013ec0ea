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

use crate::rules::{Compare, Holds, MatchingRule};
use crate::syntax::{self, oid};

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

impl MatchingRule {
    /// Finds a rule by its OID or by its name in any case.
    pub fn find(name_or_oid: &str) -> Option<&'static Self> {
        let is_it =
            |rule: &&Self| rule.oid == name_or_oid || rule.name.eq_ignore_ascii_case(name_or_oid);
        MATCHING_RULES.iter().find(is_it)
    }
}

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
