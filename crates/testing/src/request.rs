//! A step's request as octets (RFC 4511 §4).

use crate::ber::{
    ENUMERATED, INTEGER, OCTET_STRING, SEQUENCE, SET, put, put_boolean, put_number, put_with,
};
use crate::filter;
use crate::script::{ChangeSpec, ControlSpec, ReadWhen, RequestSpec, SearchSpec, Step, VlvSpec};
use crate::template::{Captures, Template};

/// Simple paged results (RFC 2696).
pub(crate) const PAGED_RESULTS: &str = "1.2.840.113556.1.4.319";
/// Server-side sorting (RFC 2891), request and response.
pub(crate) const SORT: &str = "1.2.840.113556.1.4.473";
pub(crate) const SORT_RESPONSE: &str = "1.2.840.113556.1.4.474";
/// Virtual list view (draft-ietf-ldapext-ldapv3-vlv-09), request and response.
const VLV: &str = "2.16.840.1.113730.3.4.9";
pub(crate) const VLV_RESPONSE: &str = "2.16.840.1.113730.3.4.10";
/// Pre-read (RFC 4527).
const PRE_READ: &str = "1.3.6.1.1.13.1";
/// Post-read (RFC 4527).
const POST_READ: &str = "1.3.6.1.1.13.2";
/// Assertion (RFC 4528).
const ASSERTION: &str = "1.3.6.1.1.12";
/// Matched values (RFC 3876).
const MATCHED_VALUES: &str = "1.2.826.0.1.3344810.2.3";
/// Subentries (RFC 3672).
const SUBENTRIES: &str = "1.3.6.1.4.1.4203.1.10.1";
/// Transaction specification (RFC 5805).
const TRANSACTION: &str = "1.3.6.1.1.21.2";
/// End transaction (RFC 5805).
const END_TRANSACTION: &str = "1.3.6.1.1.21.3";
/// Password modify (RFC 3062).
pub(crate) const PASSWORD_MODIFY: &str = "1.3.6.1.4.1.4203.1.11.1";

/// The octets that `step` puts on the wire.
pub(crate) fn encode(step: &Step, id: i64, captures: &Captures) -> Result<Vec<u8>, String> {
    if let RequestSpec::Raw(octets) = &step.request {
        return Ok(octets.clone());
    }
    let mut content = Vec::new();
    put_number(&mut content, INTEGER, id);
    operation(&step.request, captures, &mut content)?;
    if !step.controls.is_empty() {
        let mut list = Vec::new();
        for control in &step.controls {
            put_control(control, captures, &mut list)?;
        }
        put(&mut content, 0xa0, &list);
    }
    let mut out = Vec::new();
    put(&mut out, SEQUENCE, &content);
    Ok(out)
}

/// The tag of the response that ends a request, if it has one.
pub(crate) fn final_tag(request: &RequestSpec) -> Option<u8> {
    match request {
        RequestSpec::Bind { .. } | RequestSpec::Sasl { .. } => Some(0x61),
        RequestSpec::Search(_) => Some(0x65),
        RequestSpec::Modify { .. } => Some(0x67),
        RequestSpec::Add { .. } => Some(0x69),
        RequestSpec::Delete { .. } => Some(0x6b),
        RequestSpec::ModifyDn { .. } => Some(0x6d),
        RequestSpec::Compare { .. } => Some(0x6f),
        RequestSpec::Extended { .. }
        | RequestSpec::PasswordModify { .. }
        | RequestSpec::EndTransaction { .. } => Some(0x78),
        RequestSpec::Unbind | RequestSpec::Abandon(_) | RequestSpec::Raw(_) => None,
    }
}

fn operation(request: &RequestSpec, captures: &Captures, out: &mut Vec<u8>) -> Result<(), String> {
    let mut content = Vec::new();
    let tag = match request {
        RequestSpec::Bind { version, name, password } => {
            put_number(&mut content, INTEGER, *version);
            put_text(&mut content, OCTET_STRING, name, captures)?;
            put(&mut content, 0x80, &password.expand(captures)?);
            0x60
        }
        RequestSpec::Sasl { mechanism, credentials } => {
            put_number(&mut content, INTEGER, 3);
            put(&mut content, OCTET_STRING, b"");
            let mut sasl = Vec::new();
            put(&mut sasl, OCTET_STRING, mechanism.as_bytes());
            put_optional(&mut sasl, OCTET_STRING, credentials.as_ref(), captures)?;
            put(&mut content, 0xa3, &sasl);
            0x60
        }
        RequestSpec::Unbind => 0x42,
        RequestSpec::Search(search) => {
            put_search(search, captures, &mut content)?;
            0x63
        }
        RequestSpec::Modify { name, changes } => {
            put_text(&mut content, OCTET_STRING, name, captures)?;
            put_changes(changes, captures, &mut content)?;
            0x66
        }
        RequestSpec::Add { name, attributes } => {
            put_text(&mut content, OCTET_STRING, name, captures)?;
            let mut list = Vec::new();
            for (description, values) in attributes {
                put_attribute(&mut list, description, values, captures)?;
            }
            put(&mut content, SEQUENCE, &list);
            0x68
        }
        RequestSpec::Delete { name } => {
            content = name.expand(captures)?;
            0x4a
        }
        RequestSpec::ModifyDn { name, new_rdn, delete_old_rdn, new_superior } => {
            put_text(&mut content, OCTET_STRING, name, captures)?;
            put_text(&mut content, OCTET_STRING, new_rdn, captures)?;
            put_boolean(&mut content, *delete_old_rdn);
            put_optional(&mut content, 0x80, new_superior.as_ref(), captures)?;
            0x6c
        }
        RequestSpec::Compare { name, description, value } => {
            put_text(&mut content, OCTET_STRING, name, captures)?;
            let value = value.expand(captures)?;
            put_with(&mut content, SEQUENCE, |out| {
                put(out, OCTET_STRING, description.as_bytes());
                put(out, OCTET_STRING, &value);
            });
            0x6e
        }
        RequestSpec::Extended { oid, value } => {
            put(&mut content, 0x80, oid.as_bytes());
            put_optional(&mut content, 0x81, value.as_ref(), captures)?;
            0x77
        }
        RequestSpec::PasswordModify { user, old, new } => {
            put(&mut content, 0x80, PASSWORD_MODIFY.as_bytes());
            let mut fields = Vec::new();
            put_optional(&mut fields, 0x80, user.as_ref(), captures)?;
            put_optional(&mut fields, 0x81, old.as_ref(), captures)?;
            put_optional(&mut fields, 0x82, new.as_ref(), captures)?;
            // RFC 3062 §2: the value may be left out when it would be empty.
            if !fields.is_empty() {
                put_with(&mut content, 0x81, |out| put(out, SEQUENCE, &fields));
            }
            0x77
        }
        RequestSpec::EndTransaction { commit, identifier } => {
            put(&mut content, 0x80, END_TRANSACTION.as_bytes());
            let identifier = identifier.expand(captures)?;
            put_with(&mut content, 0x81, |out| {
                put_with(out, SEQUENCE, |out| {
                    // RFC 4511 §5.1: a default value is not encoded.
                    if !commit {
                        put_boolean(out, false);
                    }
                    put(out, OCTET_STRING, &identifier);
                });
            });
            0x77
        }
        RequestSpec::Abandon(id) => {
            put_number(out, 0x50, *id);
            return Ok(());
        }
        RequestSpec::Raw(_) => return Err("raw octets have no operation".to_owned()),
    };
    put(out, tag, &content);
    Ok(())
}

fn put_search(search: &SearchSpec, captures: &Captures, out: &mut Vec<u8>) -> Result<(), String> {
    put_text(out, OCTET_STRING, &search.base, captures)?;
    put_number(out, ENUMERATED, search.scope);
    put_number(out, ENUMERATED, search.deref);
    put_number(out, INTEGER, search.size_limit_entries);
    put_number(out, INTEGER, search.time_limit_s);
    put_boolean(out, search.types_only);
    filter::encode(&search.filter.expand_text(captures)?, out)?;
    put_with(out, SEQUENCE, |out| {
        for attribute in &search.attributes {
            put(out, OCTET_STRING, attribute.as_bytes());
        }
    });
    Ok(())
}

fn put_changes(
    changes: &[ChangeSpec],
    captures: &Captures,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    let mut list = Vec::new();
    for change in changes {
        let mut item = Vec::new();
        put_number(&mut item, ENUMERATED, change.operation);
        put_attribute(&mut item, &change.description, &change.values, captures)?;
        put(&mut list, SEQUENCE, &item);
    }
    put(out, SEQUENCE, &list);
    Ok(())
}

fn put_attribute(
    out: &mut Vec<u8>,
    description: &str,
    values: &[Template],
    captures: &Captures,
) -> Result<(), String> {
    let mut set = Vec::new();
    for value in values {
        put(&mut set, OCTET_STRING, &value.expand(captures)?);
    }
    put_with(out, SEQUENCE, |out| {
        put(out, OCTET_STRING, description.as_bytes());
        put(out, SET, &set);
    });
    Ok(())
}

fn put_control(
    control: &ControlSpec,
    captures: &Captures,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    let mut content = Vec::new();
    match control {
        ControlSpec::Plain { oid, critical, value } => {
            put(&mut content, OCTET_STRING, oid.as_bytes());
            // RFC 4511 §5.1: a default value is not encoded.
            if *critical {
                put_boolean(&mut content, true);
            }
            put_optional(&mut content, OCTET_STRING, value.as_ref(), captures)?;
        }
        ControlSpec::Paged { size, cookie } => {
            let cookie = cookie.expand(captures)?;
            put(&mut content, OCTET_STRING, PAGED_RESULTS.as_bytes());
            put_boolean(&mut content, true);
            put_with(&mut content, OCTET_STRING, |out| {
                put_with(out, SEQUENCE, |out| {
                    put_number(out, INTEGER, i64::from(*size));
                    put(out, OCTET_STRING, &cookie);
                });
            });
        }
        ControlSpec::Sort { critical, keys } => {
            put(&mut content, OCTET_STRING, SORT.as_bytes());
            if *critical {
                put_boolean(&mut content, true);
            }
            put_with(&mut content, OCTET_STRING, |out| put_sort_keys(out, keys));
        }
        ControlSpec::Vlv { before, after, target, context } => {
            let mut fields = Vec::new();
            put_number(&mut fields, INTEGER, *before);
            put_number(&mut fields, INTEGER, *after);
            match target {
                VlvSpec::Offset(offset, count) => put_with(&mut fields, 0xa0, |out| {
                    put_number(out, INTEGER, *offset);
                    put_number(out, INTEGER, *count);
                }),
                VlvSpec::Value(value) => put(&mut fields, 0x81, &value.expand(captures)?),
            }
            put_optional(&mut fields, OCTET_STRING, context.as_ref(), captures)?;
            let mut value = Vec::new();
            put(&mut value, SEQUENCE, &fields);
            put_critical(&mut content, VLV, &value);
        }
        ControlSpec::Assertion(text) => {
            let mut value = Vec::new();
            filter::encode(&text.expand_text(captures)?, &mut value)?;
            put_critical(&mut content, ASSERTION, &value);
        }
        ControlSpec::MatchedValues(filters) => {
            let mut items = Vec::new();
            for text in filters {
                filter::encode(&text.expand_text(captures)?, &mut items)?;
            }
            let mut value = Vec::new();
            put(&mut value, SEQUENCE, &items);
            put_critical(&mut content, MATCHED_VALUES, &value);
        }
        ControlSpec::Subentries(visibility) => {
            let mut value = Vec::new();
            put_boolean(&mut value, *visibility);
            put_critical(&mut content, SUBENTRIES, &value);
        }
        ControlSpec::ReadEntry { when, attributes } => {
            let mut value = Vec::new();
            put_with(&mut value, SEQUENCE, |out| {
                for attribute in attributes {
                    put(out, OCTET_STRING, attribute.as_bytes());
                }
            });
            put_critical(&mut content, read_entry_oid(*when), &value);
        }
        ControlSpec::Transaction(identifier) => {
            put_critical(&mut content, TRANSACTION, &identifier.expand(captures)?);
        }
    }
    put(out, SEQUENCE, &content);
    Ok(())
}

fn put_sort_keys(out: &mut Vec<u8>, keys: &[String]) {
    put_with(out, SEQUENCE, |out| {
        for key in keys {
            let (key, is_reverse) =
                key.strip_prefix('-').map_or((key.as_str(), false), |key| (key, true));
            let (attribute, rule) = key.split_once(':').unwrap_or((key, ""));
            put_with(out, SEQUENCE, |out| {
                put(out, OCTET_STRING, attribute.as_bytes());
                if !rule.is_empty() {
                    put(out, 0x80, rule.as_bytes());
                }
                if is_reverse {
                    put(out, 0x81, &[0xff]);
                }
            });
        }
    });
}

fn put_critical(out: &mut Vec<u8>, oid: &str, value: &[u8]) {
    put(out, OCTET_STRING, oid.as_bytes());
    put_boolean(out, true);
    put(out, OCTET_STRING, value);
}

/// The OID of a control of RFC 4527.
pub(crate) fn read_entry_oid(when: ReadWhen) -> &'static str {
    match when {
        ReadWhen::Before => PRE_READ,
        ReadWhen::After => POST_READ,
    }
}

fn put_text(
    out: &mut Vec<u8>,
    tag: u8,
    text: &Template,
    captures: &Captures,
) -> Result<(), String> {
    put(out, tag, &text.expand(captures)?);
    Ok(())
}

fn put_optional(
    out: &mut Vec<u8>,
    tag: u8,
    value: Option<&Template>,
    captures: &Captures,
) -> Result<(), String> {
    if let Some(value) = value {
        put(out, tag, &value.expand(captures)?);
    }
    Ok(())
}
