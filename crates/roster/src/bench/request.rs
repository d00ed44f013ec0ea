//! Making requests cheaply: each is encoded once for every length its values have, then only values
//! and message id are put in place.
//!
//! Invariant: what is sent is byte for byte what encoding the request anew would give.

use std::collections::HashMap;

use clap::ValueEnum;
use ldap::filter::Filter;
use ldap::message::{
    CompareRequest, DeleteRequest, DerefAliases, MessageId, Modification, ModificationsBuf,
    ModifyDnRequest, ModifyOperation, ModifyRequest, PartialAttribute, Request, Scope,
    SearchRequest, StringsBuf, ValuesBuf,
};
use serde::{Deserialize, Serialize};

use super::pattern::Pattern;
use super::work::{encode, simple_bind};
use crate::failure::Failure;

/// A request whose values change.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Blueprint {
    Search {
        base: Pattern,
        scope: ScopeName,
        filter: Pattern,
        attributes: Vec<String>,
    },
    Compare {
        dn: Pattern,
        attribute: String,
        value: Pattern,
    },
    Bind {
        dn: Pattern,
        password: Pattern,
    },
    /// Replaces the values of one attribute by one.
    Modify {
        dn: Pattern,
        attribute: String,
        value: Pattern,
    },
    /// Gives an entry another RDN; the values of the old one go.
    ModifyDn {
        dn: Pattern,
        new_rdn: Pattern,
    },
    Delete {
        dn: Pattern,
    },
}

/// How far a search goes.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ScopeName {
    /// The base entry
    Base,
    /// The entries directly below it
    One,
    /// The base entry and all below
    Sub,
    /// All below the base entry
    Children,
}

impl ScopeName {
    const fn scope(self) -> Scope {
        match self {
            Self::Base => Scope::Base,
            Self::One => Scope::One,
            Self::Sub => Scope::Subtree,
            Self::Children => Scope::Subordinate,
        }
    }
}

/// A blueprint encoded once for all lengths its values have had.
#[derive(Debug)]
pub(crate) struct Prepared {
    blueprint: Blueprint,
    shapes: Vec<Shape>,
    /// Where the shape for these lengths stands.
    by_widths: HashMap<Vec<usize>, usize>,
    /// The shape used last: numbers drawn from a range mostly have the same number of digits.
    last: usize,
    widths: Vec<usize>,
}

/// An encoded request whose values have these lengths.
#[derive(Debug)]
struct Shape {
    widths: Vec<usize>,
    bytes: Vec<u8>,
    id_at: usize,
    /// Per value: where its octets stand, each time it is used.
    values_at: Vec<Vec<usize>>,
}

impl Prepared {
    /// Prepares for so many values; a request that cannot be encoded is refused here already.
    pub(crate) fn new(blueprint: Blueprint, values: usize) -> Result<Self, Failure> {
        Shape::new(&blueprint, &vec![1; values])?;
        let (shapes, by_widths) = (Vec::new(), HashMap::new());
        Ok(Self { blueprint, shapes, by_widths, last: 0, widths: Vec::new() })
    }

    /// Appends the request with these values.
    pub(crate) fn write(
        &mut self,
        id: MessageId,
        values: &[Vec<u8>],
        out: &mut Vec<u8>,
    ) -> Result<(), Failure> {
        let lengths = values.iter().map(Vec::len);
        let is_same = |shape: &Shape| shape.widths.iter().copied().eq(lengths.clone());
        if !self.shapes.get(self.last).is_some_and(is_same) {
            self.widths.clear();
            self.widths.extend(lengths.clone());
            self.last = match self.by_widths.get(&self.widths) {
                Some(index) => *index,
                None => {
                    self.shapes.push(Shape::new(&self.blueprint, &self.widths)?);
                    self.by_widths.insert(self.widths.clone(), self.shapes.len() - 1);
                    self.shapes.len() - 1
                }
            };
        }
        if let Some(shape) = self.shapes.get(self.last) {
            shape.write(id, values, out);
        }
        Ok(())
    }
}

impl Shape {
    /// Finds the places of values and message id by encoding with others and comparing.
    fn new(blueprint: &Blueprint, widths: &[usize]) -> Result<Self, Failure> {
        let zeros: Vec<String> = widths.iter().map(|width| "0".repeat(*width)).collect();
        let with = |id, values: &[String]| {
            let mut out = Vec::new();
            blueprint.encode(id, values, &mut out)?;
            Ok::<_, Failure>(out)
        };
        let bytes = with(FIRST_ID, &zeros)?;
        let ids = differences(&bytes, &with(OTHER_ID, &zeros)?);
        let id_at = *ids.first().ok_or_else(|| Failure::local("the request has no message id"))?;
        let mut values_at = Vec::new();
        for (index, width) in widths.iter().enumerate() {
            let mut values = zeros.clone();
            if let Some(values) = values.get_mut(index) {
                *values = "1".repeat(*width);
            }
            let places = differences(&bytes, &with(FIRST_ID, &values)?);
            values_at.push(places.into_iter().step_by(*width).collect());
        }
        Ok(Self { widths: widths.to_vec(), bytes, id_at, values_at })
    }

    fn write(&self, id: MessageId, values: &[Vec<u8>], out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&self.bytes);
        let mut put = |at: usize, bytes: &[u8]| {
            if let Some(place) = out.get_mut(start + at..start + at + bytes.len()) {
                place.copy_from_slice(bytes);
            }
        };
        put(self.id_at, &id.0.to_be_bytes());
        for (places, values) in self.values_at.iter().zip(values) {
            for at in places {
                put(*at, values);
            }
        }
    }
}

fn differences(one: &[u8], other: &[u8]) -> Vec<usize> {
    (0..).zip(one.iter().zip(other)).filter(|(_, (a, b))| a != b).map(|(at, _)| at).collect()
}

impl Blueprint {
    /// Appends the request with these values.
    fn encode(&self, id: MessageId, values: &[String], out: &mut Vec<u8>) -> Result<(), Failure> {
        match self {
            Self::Search { base, scope, filter, attributes } => {
                let text = filter.fill(values);
                let filter = Filter::parse(&text).map_err(|error| {
                    Failure::local(format!("'{text}' is not a search filter: {error}"))
                })?;
                let attributes: StringsBuf = attributes.iter().map(String::as_str).collect();
                let request = SearchRequest {
                    base: &base.fill(values),
                    scope: scope.scope(),
                    deref: DerefAliases::Never,
                    size_limit_entries: 0,
                    time_limit_s: 0,
                    types_only: false,
                    filter,
                    attributes: attributes.as_ref(),
                };
                encode(id, Request::Search(request), out);
            }
            Self::Compare { dn, attribute, value } => {
                let (dn, value) = (dn.fill(values), value.fill(values));
                let value = value.as_bytes();
                let request = CompareRequest { name: &dn, description: attribute, value };
                encode(id, Request::Compare(request), out);
            }
            Self::Bind { dn, password } => {
                let (dn, password) = (dn.fill(values), password.fill(values));
                encode(id, Request::Bind(simple_bind(&dn, &password)), out);
            }
            Self::Modify { dn, attribute, value } => {
                let list: ValuesBuf = [value.fill(values).as_bytes()].into_iter().collect();
                let attribute = PartialAttribute { description: attribute, values: list.as_ref() };
                let mut changes = ModificationsBuf::new();
                changes.push(Modification { operation: ModifyOperation::Replace, attribute });
                let name = dn.fill(values);
                let request = ModifyRequest { name: &name, changes: changes.as_ref() };
                encode(id, Request::Modify(request), out);
            }
            Self::ModifyDn { dn, new_rdn } => {
                let request = ModifyDnRequest {
                    name: &dn.fill(values),
                    new_rdn: &new_rdn.fill(values),
                    delete_old_rdn: true,
                    new_superior: None,
                };
                encode(id, Request::ModifyDn(request), out);
            }
            Self::Delete { dn } => {
                encode(id, Request::Delete(DeleteRequest { name: &dn.fill(values) }), out);
            }
        }
        Ok(())
    }
}

/// The first message id in use: all from here on take four octets.
pub(crate) const FIRST_ID: MessageId = MessageId(0x0101_0101);
/// Differs from the first in every octet.
const OTHER_ID: MessageId = MessageId(0x7070_7070);

#[cfg(test)]
mod tests {
    use ldap::message::Message;

    use super::super::keys::Order;
    use super::super::pattern::Variables;
    use super::*;

    /// What is patched equals what is encoded anew, for many values.
    #[track_caller]
    fn check(variables: &Variables, blueprint: Blueprint) {
        let mut keys = variables.keys(Order::Sequential, 1);
        let mut prepared = Prepared::new(blueprint.clone(), keys.len()).unwrap();
        for turn in [0, 1, 5, 8, 9, 10, 11, 98, 99, 100, 12_345, 99_998] {
            let id = MessageId(FIRST_ID.0 + turn as i32);
            let texts = variables.draw(&mut keys, turn);
            let values: Vec<Vec<u8>> = texts.iter().cloned().map(String::into_bytes).collect();
            let mut patched = b"before".to_vec();
            prepared.write(id, &values, &mut patched).unwrap();
            let mut anew = b"before".to_vec();
            blueprint.encode(id, &texts, &mut anew).unwrap();
            assert_eq!(patched, anew, "{texts:?}");
        }
    }

    fn pattern(text: &str, variables: &mut Variables) -> Pattern {
        Pattern::parse(text, variables).unwrap()
    }

    #[test]
    fn patched_requests_equal_encoded_ones() {
        let mut variables = Variables::default();
        let base = pattern("ou=[0-3],dc=x", &mut variables);
        let filter =
            pattern("(&(uid=user.[1-99999])(l=[A,Bee,Cee Dee])(!(cn=*[2]*)))", &mut variables);
        let attributes = vec!["cn".to_owned(), "sn".to_owned()];
        check(&variables, Blueprint::Search { base, scope: ScopeName::Sub, filter, attributes });

        let mut variables = Variables::default();
        let dn = pattern("uid=[0-99999]", &mut variables);
        check(&variables, Blueprint::Delete { dn: dn.clone() });
        check(&variables, Blueprint::ModifyDn { dn: dn.clone(), new_rdn: dn.clone() });
        check(&variables, Blueprint::Bind { dn: dn.clone(), password: dn.clone() });
        let value = pattern("[1] [00100-20000] [x,yy]", &mut variables);
        let attribute = "cn".to_owned();
        let (d, a, v) = (dn.clone(), attribute.clone(), value.clone());
        check(&variables, Blueprint::Compare { dn: d, attribute: a, value: v });
        check(&variables, Blueprint::Modify { dn, attribute, value });
    }

    #[test]
    fn a_value_cannot_change_a_filter() {
        let mut variables = Variables::default();
        let base = pattern("", &mut variables);
        let filter = pattern("(cn=[*,a)(b=*])", &mut variables);
        let blueprint =
            Blueprint::Search { base, scope: ScopeName::Base, filter, attributes: Vec::new() };
        let mut prepared = Prepared::new(blueprint, 1).unwrap();
        for value in [&b"*"[..], b"a)(b=*"] {
            let mut out = Vec::new();
            prepared.write(FIRST_ID, &[value.to_vec()], &mut out).unwrap();
            let message = Message::<Request<'_>>::decode(&out, &Default::default()).unwrap();
            let Request::Search(search) = message.op else { panic!("{message:?}") };
            let Filter::Equality(item) = search.filter else { panic!("{:?}", search.filter) };
            assert_eq!(item.value.as_ref(), value);
        }
    }

    #[test]
    fn a_bad_filter_is_refused_before_the_run() {
        let mut variables = Variables::default();
        let base = pattern("", &mut variables);
        let filter = pattern("(uid=[1-5]", &mut variables);
        let blueprint =
            Blueprint::Search { base, scope: ScopeName::Base, filter, attributes: Vec::new() };
        let failure = Prepared::new(blueprint, 1).unwrap_err();
        assert!(failure.message.starts_with("'(uid=0' is not a search filter: "));
    }
}
