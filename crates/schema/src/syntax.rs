//! Syntaxes (RFC 4517 §3): one table of what attribute values may look like.
//!
//! Invariant: checking is total and never recurses without a limit; a refusal says what the value
//! is not, never the value itself.

mod definition;
pub(crate) mod oid;
mod structured;
pub(crate) mod text;
pub(crate) mod x509;

use crate::rules::{Syntax, anything};

impl Syntax {
    /// Finds a syntax by its OID.
    pub fn find(oid: &str) -> Option<&'static Self> {
        SYNTAXES.iter().find(|syntax| syntax.oid == oid)
    }
}

/// Every syntax.
pub static SYNTAXES: &[Syntax] = &[
    // RFC 4517 §3.3, in alphabetic order.
    Syntax::text(
        oid::ATTRIBUTE_TYPE_DESCRIPTION,
        "Attribute Type Description",
        definition::attribute_type,
    ),
    Syntax::text(oid::BIT_STRING, "Bit String", text::bit_string),
    Syntax::text(oid::BOOLEAN, "Boolean", text::boolean),
    Syntax::text(oid::COUNTRY_STRING, "Country String", text::country),
    Syntax::text(oid::DELIVERY_METHOD, "Delivery Method", structured::delivery_method),
    Syntax::text(oid::DIRECTORY_STRING, "Directory String", text::directory_string),
    Syntax::text(
        oid::DIT_CONTENT_RULE_DESCRIPTION,
        "DIT Content Rule Description",
        definition::dit_content_rule,
    ),
    Syntax::text(
        oid::DIT_STRUCTURE_RULE_DESCRIPTION,
        "DIT Structure Rule Description",
        definition::dit_structure_rule,
    ),
    Syntax::text(oid::DN, "DN", text::distinguished_name),
    Syntax::text(oid::ENHANCED_GUIDE, "Enhanced Guide", structured::enhanced_guide),
    Syntax::text(
        oid::FACSIMILE_TELEPHONE_NUMBER,
        "Facsimile Telephone Number",
        structured::facsimile_number,
    ),
    Syntax::octets(oid::FAX, "Fax", anything),
    Syntax::text(oid::GENERALIZED_TIME, "Generalized Time", text::generalized_time),
    Syntax::text(oid::GUIDE, "Guide", structured::guide),
    Syntax::text(oid::IA5_STRING, "IA5 String", text::ia5_string),
    Syntax::text(oid::INTEGER, "INTEGER", text::integer),
    Syntax::octets(oid::JPEG, "JPEG", anything),
    Syntax::text(oid::LDAP_SYNTAX_DESCRIPTION, "LDAP Syntax Description", definition::ldap_syntax),
    Syntax::text(
        oid::MATCHING_RULE_DESCRIPTION,
        "Matching Rule Description",
        definition::matching_rule,
    ),
    Syntax::text(
        oid::MATCHING_RULE_USE_DESCRIPTION,
        "Matching Rule Use Description",
        definition::matching_rule_use,
    ),
    Syntax::text(oid::NAME_AND_OPTIONAL_UID, "Name And Optional UID", text::name_and_optional_uid),
    Syntax::text(oid::NAME_FORM_DESCRIPTION, "Name Form Description", definition::name_form),
    Syntax::text(oid::NUMERIC_STRING, "Numeric String", text::numeric_string),
    Syntax::text(
        oid::OBJECT_CLASS_DESCRIPTION,
        "Object Class Description",
        definition::object_class,
    ),
    Syntax::octets(oid::OCTET_STRING, "Octet String", anything),
    Syntax::text(oid::OID, "OID", text::object_identifier),
    Syntax::text(oid::OTHER_MAILBOX, "Other Mailbox", structured::other_mailbox),
    Syntax::text(oid::POSTAL_ADDRESS, "Postal Address", text::postal_address),
    Syntax::text(oid::PRINTABLE_STRING, "Printable String", text::printable_string),
    Syntax::text(oid::SUBSTRING_ASSERTION, "Substring Assertion", structured::substring_assertion),
    Syntax::text(oid::TELEPHONE_NUMBER, "Telephone Number", text::telephone_number),
    Syntax::octets(
        oid::TELETEX_TERMINAL_IDENTIFIER,
        "Teletex Terminal Identifier",
        structured::teletex_terminal_identifier,
    ),
    Syntax::text(oid::TELEX_NUMBER, "Telex Number", structured::telex_number),
    Syntax::text(oid::UTC_TIME, "UTC Time", text::utc_time),
    // RFC 4523 §2.
    Syntax::octets(oid::CERTIFICATE, "X.509 Certificate", x509::certificate),
    Syntax::octets(oid::CERTIFICATE_LIST, "X.509 Certificate List", x509::sequence),
    Syntax::octets(oid::CERTIFICATE_PAIR, "X.509 Certificate Pair", x509::sequence),
    Syntax::octets(oid::SUPPORTED_ALGORITHM, "X.509 Supported Algorithm", x509::sequence),
    Syntax::text(
        oid::CERTIFICATE_EXACT_ASSERTION,
        "X.509 Certificate Exact Assertion",
        x509::assertion,
    ),
    Syntax::text(oid::CERTIFICATE_ASSERTION, "X.509 Certificate Assertion", x509::assertion),
    Syntax::text(
        oid::CERTIFICATE_PAIR_EXACT_ASSERTION,
        "X.509 Certificate Pair Exact Assertion",
        x509::assertion,
    ),
    Syntax::text(
        oid::CERTIFICATE_PAIR_ASSERTION,
        "X.509 Certificate Pair Assertion",
        x509::assertion,
    ),
    Syntax::text(
        oid::CERTIFICATE_LIST_EXACT_ASSERTION,
        "X.509 Certificate List Exact Assertion",
        x509::assertion,
    ),
    Syntax::text(
        oid::CERTIFICATE_LIST_ASSERTION,
        "X.509 Certificate List Assertion",
        x509::assertion,
    ),
    Syntax::text(oid::ALGORITHM_IDENTIFIER, "X.509 Algorithm Identifier", x509::assertion),
    // Others.
    Syntax::text(oid::ACI_ITEM, "ACI Item", text::directory_string),
    Syntax::octets(oid::AUDIO, "Audio", anything),
    Syntax::text(oid::AUTH_PASSWORD, "authPassword", text::auth_password),
    Syntax::octets(oid::BINARY, "Binary", anything),
    Syntax::text(oid::BOOT_PARAMETER, "RFC2307 Boot Parameter", structured::boot_parameter),
    Syntax::text(oid::CSN, "CSN", text::csn),
    Syntax::text(
        oid::NIS_NETGROUP_TRIPLE,
        "RFC2307 NIS Netgroup Triple",
        structured::nis_netgroup_triple,
    ),
    Syntax::text(
        oid::SUBTREE_SPECIFICATION,
        "Subtree Specification",
        structured::subtree_specification,
    ),
    Syntax::text(oid::UUID, "UUID", text::uuid),
];

#[cfg(test)]
mod tests;
