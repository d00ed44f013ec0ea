//! Making requests cheaply: each is encoded once per number of digits, then only digits and
//! message id are put in place.
//!
//! Invariant: what is sent is byte for byte what encoding the request anew would give.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ldap::filter::Filter;
use ldap::message::{
    AddRequest, AttributesBuf, Authentication, BindRequest, CompareRequest, Controls,
    DeleteRequest, DerefAliases, Message, MessageId, Modification, ModificationsBuf,
    ModifyDnRequest, ModifyOperation, ModifyRequest, PartialAttribute, Request, Scope,
    SearchRequest, StringsBuf, ValuesBuf,
};

use super::pattern::{Numbers, Pattern, Ranges};
use crate::failure::Failure;
use crate::template::Generator;

/// What is asked again and again.
#[derive(Clone, Debug)]
pub(crate) enum Blueprint {
    Search {
        base: Pattern,
        scope: Scope,
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

/// Makes the requests of one thread.
#[derive(Debug)]
pub(crate) enum Source {
    /// The same request with other numbers.
    Prepared(Prepared),
    /// Adds of made-up entries, each once.
    Entries(Entries),
}

impl Source {
    /// Appends the next request to `out`; false when there is none left.
    pub(crate) fn next(&mut self, id: MessageId, out: &mut Vec<u8>) -> Result<bool, Failure> {
        match self {
            Self::Prepared(prepared) => prepared.next(id, out),
            Self::Entries(entries) => entries.next(id, out),
        }
    }
}

/// Adds the entries of a template from one number up to another.
#[derive(Debug)]
pub(crate) struct Entries {
    pub(crate) generator: Generator,
    /// The number of the entry to add next, shared by all connections.
    pub(crate) next: Arc<AtomicU64>,
    /// The number behind the last.
    pub(crate) end: u64,
}

impl Entries {
    fn next(&mut self, id: MessageId, out: &mut Vec<u8>) -> Result<bool, Failure> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        if number >= self.end {
            return Ok(false);
        }
        let entry = self.generator.generate(number).map_err(Failure::local)?;
        let pairs: Vec<(&str, &str)> = entry.attributes().collect();
        let mut attributes = AttributesBuf::new();
        for (index, (description, _)) in pairs.iter().enumerate() {
            let same = |(other, _): &&(&str, &str)| other.eq_ignore_ascii_case(description);
            if pairs.iter().take(index).any(|pair| same(&pair)) {
                continue;
            }
            let values: ValuesBuf =
                pairs.iter().filter(same).map(|(_, value)| value.as_bytes()).collect();
            attributes.push(PartialAttribute { description, values: values.as_ref() });
        }
        let request = AddRequest { name: entry.dn(), attributes: attributes.as_ref() };
        encode(id, Request::Add(request), out);
        Ok(true)
    }
}

/// A request encoded once for each number of digits its numbers can have.
#[derive(Debug)]
pub(crate) struct Prepared {
    blueprint: Arc<Blueprint>,
    ranges: Ranges,
    numbers: Numbers,
    shapes: Vec<Shape>,
    /// Kept for its memory.
    drawn: Vec<u64>,
    digits: Vec<Vec<u8>>,
}

/// An encoded request whose numbers have these many digits.
#[derive(Debug)]
struct Shape {
    widths: Vec<usize>,
    bytes: Vec<u8>,
    id_at: usize,
    /// Per number: where its digits stand, each time it is used.
    digits_at: Vec<Vec<usize>>,
}

impl Prepared {
    /// Prepares; a request that cannot be encoded is refused here already.
    pub(crate) fn new(
        blueprint: Arc<Blueprint>,
        ranges: Ranges,
        numbers: Numbers,
    ) -> Result<Self, Failure> {
        let digits = ranges.iter().map(|_| Vec::new()).collect();
        let widths: Vec<usize> = ranges.iter().map(|_| 1).collect();
        Shape::new(&blueprint, &widths)?;
        Ok(Self { blueprint, ranges, numbers, shapes: Vec::new(), drawn: Vec::new(), digits })
    }

    fn next(&mut self, id: MessageId, out: &mut Vec<u8>) -> Result<bool, Failure> {
        if !self.numbers.draw(&self.ranges, &mut self.drawn) {
            return Ok(false);
        }
        for ((range, number), digits) in self.ranges.iter().zip(&self.drawn).zip(&mut self.digits) {
            range.write(*number, digits);
        }
        let fits = |shape: &&Shape| {
            shape.widths.iter().zip(&self.digits).all(|(width, digits)| *width == digits.len())
        };
        if !self.shapes.iter().any(|shape| fits(&shape)) {
            let widths: Vec<usize> = self.digits.iter().map(Vec::len).collect();
            self.shapes.push(Shape::new(&self.blueprint, &widths)?);
        }
        if let Some(shape) = self.shapes.iter().find(fits) {
            shape.write(id, &self.digits, out);
        }
        Ok(true)
    }
}

impl Shape {
    /// Finds the places of digits and message id by encoding with others and comparing.
    fn new(blueprint: &Blueprint, widths: &[usize]) -> Result<Self, Failure> {
        let zeros: Vec<String> = widths.iter().map(|width| "0".repeat(*width)).collect();
        let with = |id, digits: &[String]| {
            let mut out = Vec::new();
            blueprint.encode(id, digits, &mut out)?;
            Ok::<_, Failure>(out)
        };
        let bytes = with(FIRST_ID, &zeros)?;
        let ids = differences(&bytes, &with(OTHER_ID, &zeros)?);
        let id_at = *ids.first().ok_or_else(|| Failure::local("the request has no message id"))?;
        let mut digits_at = Vec::new();
        for (index, width) in widths.iter().enumerate() {
            let mut digits = zeros.clone();
            if let Some(digits) = digits.get_mut(index) {
                *digits = "1".repeat(*width);
            }
            let places = differences(&bytes, &with(FIRST_ID, &digits)?);
            digits_at.push(places.into_iter().step_by(*width).collect());
        }
        Ok(Self { widths: widths.to_vec(), bytes, id_at, digits_at })
    }

    fn write(&self, id: MessageId, digits: &[Vec<u8>], out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&self.bytes);
        let mut put = |at: usize, bytes: &[u8]| {
            if let Some(place) = out.get_mut(start + at..start + at + bytes.len()) {
                place.copy_from_slice(bytes);
            }
        };
        put(self.id_at, &id.0.to_be_bytes());
        for (places, digits) in self.digits_at.iter().zip(digits) {
            for at in places {
                put(*at, digits);
            }
        }
    }
}

fn differences(one: &[u8], other: &[u8]) -> Vec<usize> {
    (0..).zip(one.iter().zip(other)).filter(|(_, (a, b))| a != b).map(|(at, _)| at).collect()
}

impl Blueprint {
    /// Appends the request with these digits for its numbers.
    fn encode(&self, id: MessageId, digits: &[String], out: &mut Vec<u8>) -> Result<(), Failure> {
        match self {
            Self::Search { base, scope, filter, attributes } => {
                let text = filter.fill(digits);
                let filter = Filter::parse(&text).map_err(|error| {
                    Failure::local(format!("'{text}' is not a search filter: {error}"))
                })?;
                let attributes: StringsBuf = attributes.iter().map(String::as_str).collect();
                let request = SearchRequest {
                    base: &base.fill(digits),
                    scope: *scope,
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
                let (dn, value) = (dn.fill(digits), value.fill(digits));
                let value = value.as_bytes();
                let request = CompareRequest { name: &dn, description: attribute, value };
                encode(id, Request::Compare(request), out);
            }
            Self::Bind { dn, password } => {
                let (dn, password) = (dn.fill(digits), password.fill(digits));
                encode(id, Request::Bind(simple_bind(&dn, &password)), out);
            }
            Self::Modify { dn, attribute, value } => {
                let values: ValuesBuf = [value.fill(digits).as_bytes()].into_iter().collect();
                let attribute =
                    PartialAttribute { description: attribute, values: values.as_ref() };
                let mut changes = ModificationsBuf::new();
                changes.push(Modification { operation: ModifyOperation::Replace, attribute });
                let name = dn.fill(digits);
                let request = ModifyRequest { name: &name, changes: changes.as_ref() };
                encode(id, Request::Modify(request), out);
            }
            Self::ModifyDn { dn, new_rdn } => {
                let request = ModifyDnRequest {
                    name: &dn.fill(digits),
                    new_rdn: &new_rdn.fill(digits),
                    delete_old_rdn: true,
                    new_superior: None,
                };
                encode(id, Request::ModifyDn(request), out);
            }
            Self::Delete { dn } => {
                encode(id, Request::Delete(DeleteRequest { name: &dn.fill(digits) }), out);
            }
        }
        Ok(())
    }
}

/// A bind with name and password (RFC 4511 §4.2).
pub(crate) fn simple_bind<'a>(name: &'a str, password: &'a str) -> BindRequest<'a> {
    let authentication = Authentication::Simple(password.as_bytes());
    BindRequest { version: 3, name, authentication }
}

/// Appends one message without controls.
pub(crate) fn encode(id: MessageId, op: Request<'_>, out: &mut Vec<u8>) {
    Message { id, op, controls: Controls::EMPTY }.encode(out);
}

/// The first message id in use: all from here on take four octets.
pub(crate) const FIRST_ID: MessageId = MessageId(0x0101_0101);
/// Differs from the first in every octet.
const OTHER_ID: MessageId = MessageId(0x7070_7070);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::template::Template;

    /// What is patched equals what is encoded anew, for many numbers.
    #[track_caller]
    fn check(ranges: Ranges, blueprint: Blueprint) {
        let blueprint = Arc::new(blueprint);
        let next: Arc<AtomicU64> = Arc::default();
        let numbers = Numbers::Sequential(Arc::clone(&next));
        let mut prepared = Prepared::new(Arc::clone(&blueprint), ranges.clone(), numbers).unwrap();
        for turn in [0, 1, 5, 8, 9, 10, 11, 98, 99, 100, 12_345, 99_998] {
            next.store(turn, Ordering::Relaxed);
            let id = MessageId(FIRST_ID.0 + turn as i32);
            let mut patched = b"before".to_vec();
            assert!(prepared.next(id, &mut patched).unwrap());
            let digits: Vec<String> =
                prepared.digits.iter().map(|d| String::from_utf8(d.clone()).unwrap()).collect();
            let mut anew = b"before".to_vec();
            blueprint.encode(id, &digits, &mut anew).unwrap();
            assert_eq!(patched, anew, "{digits:?}");
        }
    }

    #[test]
    fn patched_requests_equal_encoded_ones() {
        let mut ranges = Ranges::default();
        let base = Pattern::parse("ou=[0-3],dc=x", &mut ranges);
        let filter = Pattern::parse("(&(uid=user.[1-99999])(!(cn=*[2]*)))", &mut ranges);
        let attributes = vec!["cn".to_owned(), "sn".to_owned()];
        check(ranges, Blueprint::Search { base, scope: Scope::Subtree, filter, attributes });

        let mut ranges = Ranges::default();
        let dn = Pattern::parse("uid=[0-99999]", &mut ranges);
        check(ranges.clone(), Blueprint::Delete { dn: dn.clone() });
        check(ranges.clone(), Blueprint::ModifyDn { dn: dn.clone(), new_rdn: dn.clone() });
        check(ranges.clone(), Blueprint::Bind { dn: dn.clone(), password: dn.clone() });
        let value = Pattern::parse("[1] [00100-20000]", &mut ranges);
        let attribute = "cn".to_owned();
        let (d, a, v) = (dn.clone(), attribute.clone(), value.clone());
        check(ranges.clone(), Blueprint::Compare { dn: d, attribute: a, value: v });
        check(ranges, Blueprint::Modify { dn, attribute, value });
    }

    #[test]
    fn a_bad_filter_is_refused_before_the_run() {
        let mut ranges = Ranges::default();
        let base = Pattern::parse("", &mut ranges);
        let filter = Pattern::parse("(uid=[1-5]", &mut ranges);
        let blueprint =
            Blueprint::Search { base, scope: Scope::Base, filter, attributes: Vec::new() };
        let numbers = Numbers::Sequential(Arc::default());
        let failure = Prepared::new(Arc::new(blueprint), ranges, numbers).unwrap_err();
        assert!(failure.message.starts_with("'(uid=0' is not a search filter: "));
    }

    #[test]
    fn values_of_one_attribute_are_added_together() {
        let text = "branch: o=x\nsubordinateTemplate: a:2\ntemplate: a\nrdnAttr: cn\n\
                    objectClass: top\ncn: <sequential>\nobjectClass: device\n";
        let template =
            Template::parse("t", text, &crate::template::ShippedWords, &Default::default())
                .map(Arc::new)
                .unwrap();
        let next = Arc::new(AtomicU64::new(1));
        let mut entries = Entries { generator: template.generator(1), next, end: 2 };
        let mut out = Vec::new();
        assert!(entries.next(FIRST_ID, &mut out).unwrap());
        let message = Message::<Request<'_>>::decode(&out, &Default::default()).unwrap();
        let Request::Add(add) = message.op else { panic!("{message:?}") };
        let attributes: Vec<(&str, usize)> =
            add.attributes.iter().map(|a| (a.description, a.values.len())).collect();
        assert_eq!((add.name, attributes), ("cn=0,o=x", vec![("objectClass", 2), ("cn", 1)]));
        assert!(!entries.next(FIRST_ID, &mut out).unwrap());
    }
}
