//! A server's message, taken apart (RFC 4511 §4).

use crate::ber::{ENUMERATED, INTEGER, OCTET_STRING, Reader, SEQUENCE, SET};

/// Descriptions with their values.
pub(crate) type Attributes = Vec<(String, Vec<Vec<u8>>)>;

/// Object identifiers with their values.
pub(crate) type ControlList = Vec<(String, Option<Vec<u8>>)>;

const SEARCH_ENTRY: u8 = 0x64;

/// One decoded message.
#[derive(Clone, Debug)]
pub(crate) struct Response {
    pub(crate) id: i64,
    pub(crate) tag: u8,
    pub(crate) body: Body,
    pub(crate) controls: ControlList,
}

/// The forms a response takes.
#[derive(Clone, Debug)]
pub(crate) enum Body {
    Entry { dn: String, attributes: Attributes },
    Reference(Vec<String>),
    Result(Ended),
    Intermediate,
}

/// LDAPResult with what bind and extended responses add.
#[derive(Clone, Debug)]
pub(crate) struct Ended {
    pub(crate) code: i64,
    pub(crate) matched: String,
    pub(crate) diagnostic: String,
    pub(crate) referrals: Vec<String>,
    pub(crate) name: Option<String>,
    pub(crate) value: Option<Vec<u8>>,
}

/// Decodes one message; `None` when it is not one.
pub(crate) fn decode(bytes: &[u8]) -> Option<Response> {
    let mut outer = Reader::new(bytes);
    let mut message = outer.inside(SEQUENCE)?;
    let id = message.number(INTEGER)?;
    let (tag, content) = message.any()?;
    let mut operation = Reader::new(content);
    let body = match tag {
        SEARCH_ENTRY => entry(&mut operation)?,
        0x73 => Body::Reference(strings(&mut operation)?),
        0x79 => return Some(Response { id, tag, body: Body::Intermediate, controls: Vec::new() }),
        0x61 | 0x65 | 0x67 | 0x69 | 0x6b | 0x6d | 0x6f | 0x78 => {
            Body::Result(ended(&mut operation)?)
        }
        _ => return None,
    };
    let controls = match message.optional(0xa0) {
        Some(list) => controls(Reader::new(list))?,
        None => Vec::new(),
    };
    let whole = operation.is_empty() && message.is_empty() && outer.is_empty();
    whole.then_some(Response { id, tag, body, controls })
}

fn entry(operation: &mut Reader<'_>) -> Option<Body> {
    let dn = operation.text(OCTET_STRING)?;
    let mut list = operation.inside(SEQUENCE)?;
    let mut attributes = Vec::new();
    while !list.is_empty() {
        let mut attribute = list.inside(SEQUENCE)?;
        let description = attribute.text(OCTET_STRING)?;
        let mut set = attribute.inside(SET)?;
        let mut values = Vec::new();
        while !set.is_empty() {
            values.push(set.content(OCTET_STRING)?.to_vec());
        }
        attributes.push((description, values));
    }
    Some(Body::Entry { dn, attributes })
}

fn strings(list: &mut Reader<'_>) -> Option<Vec<String>> {
    let mut strings = Vec::new();
    while !list.is_empty() {
        strings.push(list.text(OCTET_STRING)?);
    }
    Some(strings)
}

fn ended(operation: &mut Reader<'_>) -> Option<Ended> {
    let code = operation.number(ENUMERATED)?;
    let matched = operation.text(OCTET_STRING)?;
    let diagnostic = operation.text(OCTET_STRING)?;
    let referrals = match operation.optional(0xa3) {
        Some(list) => strings(&mut Reader::new(list))?,
        None => Vec::new(),
    };
    // Server SASL credentials of a bind have tag 7; an extended response has name 10, value 11.
    let credentials = operation.optional(0x87);
    let name = match operation.optional(0x8a) {
        Some(name) => Some(String::from_utf8(name.to_vec()).ok()?),
        None => None,
    };
    let value = operation.optional(0x8b).or(credentials).map(<[u8]>::to_vec);
    Some(Ended { code, matched, diagnostic, referrals, name, value })
}

fn controls(mut list: Reader<'_>) -> Option<ControlList> {
    let mut controls = Vec::new();
    while !list.is_empty() {
        let mut control = list.inside(SEQUENCE)?;
        let oid = control.text(OCTET_STRING)?;
        let _critical = control.optional(crate::ber::BOOLEAN);
        controls.push((oid, control.optional(OCTET_STRING).map(<[u8]>::to_vec)));
    }
    Some(controls)
}

/// The entry in the value of a pre-read or post-read control (RFC 4527 §3).
pub(crate) fn read_entry(value: &[u8]) -> Option<(String, Attributes)> {
    let mut outer = Reader::new(value);
    let body = entry(&mut outer.inside(SEARCH_ENTRY)?)?;
    match body {
        Body::Entry { dn, attributes } if outer.is_empty() => Some((dn, attributes)),
        _ => None,
    }
}

/// What the value of an end transaction response says (RFC 5805 §2.4).
#[derive(Debug, Default)]
pub(crate) struct TransactionEnded {
    pub(crate) failed: Option<i64>,
    /// By message id of the update.
    pub(crate) controls: Vec<(i64, ControlList)>,
}

/// Decodes the value of an end transaction response.
pub(crate) fn transaction_ended(value: &[u8]) -> Option<TransactionEnded> {
    let mut fields = Reader::new(value).inside(SEQUENCE)?;
    let mut ended = TransactionEnded::default();
    if fields.peek() == Some(INTEGER) {
        ended.failed = Some(fields.number(INTEGER)?);
    }
    if !fields.is_empty() {
        let mut updates = fields.inside(SEQUENCE)?;
        while !updates.is_empty() {
            let mut update = updates.inside(SEQUENCE)?;
            let id = update.number(INTEGER)?;
            ended.controls.push((id, controls(update.inside(SEQUENCE)?)?));
        }
    }
    fields.is_empty().then_some(ended)
}

/// The cookie in the value of a paged results control (RFC 2696 §2).
pub(crate) fn paged_cookie(value: &[u8]) -> Option<Vec<u8>> {
    let mut fields = Reader::new(value).inside(SEQUENCE)?;
    fields.number(INTEGER)?;
    fields.content(OCTET_STRING).map(<[u8]>::to_vec)
}

/// Code and attribute in the value of a sort response control (RFC 2891 §1.2).
pub(crate) fn sort_result(value: &[u8]) -> Option<(i64, Option<String>)> {
    let mut fields = Reader::new(value).inside(SEQUENCE)?;
    let code = fields.number(ENUMERATED)?;
    let attribute = match fields.peek() {
        Some(0x80) => Some(String::from_utf8_lossy(fields.content(0x80)?).into_owned()),
        _ => None,
    };
    fields.is_empty().then_some((code, attribute))
}

/// The value of a virtual list view response control (draft-ietf-ldapext-ldapv3-vlv-09 §6.2).
pub(crate) struct VlvFound {
    pub(crate) target: i64,
    pub(crate) count: i64,
    pub(crate) code: i64,
    pub(crate) context: Vec<u8>,
}

/// Decodes it.
pub(crate) fn vlv_found(value: &[u8]) -> Option<VlvFound> {
    let mut fields = Reader::new(value).inside(SEQUENCE)?;
    let target = fields.number(INTEGER)?;
    let count = fields.number(INTEGER)?;
    let code = fields.number(ENUMERATED)?;
    let context = fields.content(OCTET_STRING).unwrap_or_default().to_vec();
    Some(VlvFound { target, count, code, context })
}

/// The password in the value of a password modify response (RFC 3062 §2).
pub(crate) fn generated_password(value: &[u8]) -> Option<Vec<u8>> {
    Reader::new(value).inside(SEQUENCE)?.content(0x80).map(<[u8]>::to_vec)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::template::hex;

    #[test]
    fn a_response_must_be_whole() {
        let good = hex("30 0c 02 01 01 65 07 0a 01 00 04 00 04 00").unwrap();
        assert_eq!(decode(&good).map(|response| response.id), Some(1));
        for cut in 0..good.len() {
            assert!(decode(&good[..cut]).is_none(), "cut at {cut}");
        }
        let trailing = hex("30 0d 02 01 01 65 08 0a 01 00 04 00 04 00 05").unwrap();
        assert!(decode(&trailing).is_none());
    }
}
