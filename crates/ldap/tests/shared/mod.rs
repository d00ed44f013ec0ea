//! Short hands for the tests of the wire half.
//!
//! Lists borrow their octets: the tests leak them, so that a message is one expression.

#![allow(dead_code, reason = "each test binary uses a part of it")]

pub(crate) mod arbitrary;

use ldap::message::{
    Attributes, Control, Controls, Element, List, Modification, Modifications, ModifyOperation,
    PartialAttribute, Strings, Values,
};

/// A list of these elements.
pub(crate) fn list<'i, E: Element + 'static>(
    items: impl IntoIterator<Item = E::Item<'i>>,
) -> List<'static, E> {
    let list: ldap::message::ListBuf<E> = items.into_iter().collect();
    Box::leak(Box::new(list)).as_ref()
}

pub(crate) fn values(values: &[&[u8]]) -> Values<'static> {
    list(values.iter().copied())
}

pub(crate) fn strings(strings: &[&str]) -> Strings<'static> {
    list(strings.iter().copied())
}

pub(crate) fn attributes(items: &[(&str, &[&str])]) -> Attributes<'static> {
    list(items.iter().map(|&(description, texts)| attribute(description, texts)))
}

pub(crate) fn attribute<'a>(description: &'a str, texts: &[&str]) -> PartialAttribute<'a> {
    PartialAttribute { description, values: list(texts.iter().map(|text| text.as_bytes())) }
}

pub(crate) fn modifications(items: &[(ModifyOperation, &str, &[&str])]) -> Modifications<'static> {
    list(items.iter().map(|&(operation, description, texts)| Modification {
        operation,
        attribute: attribute(description, texts),
    }))
}

pub(crate) fn controls(controls: &[Control<'_>]) -> Controls<'static> {
    list(controls.iter().copied())
}

pub(crate) const fn control<'a>(
    oid: &'a str,
    critical: bool,
    value: Option<&'a [u8]>,
) -> Control<'a> {
    Control { oid, critical, value }
}

/// The octets of annotated hex: pairs of digits, comments from `#` to the end of the line.
pub(crate) fn unhex(text: &str) -> Vec<u8> {
    text.lines()
        .flat_map(|line| line.split('#').next().unwrap().split_ascii_whitespace())
        .map(|pair| u8::from_str_radix(pair, 16).unwrap_or_else(|_| panic!("bad hex {pair:?}")))
        .collect()
}
