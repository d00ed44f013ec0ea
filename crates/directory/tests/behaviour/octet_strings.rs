//! Searches for octet strings of any form, from the request to the answer: whatever the indexes, in
//! memory and on disk, the entries are those that a naive evaluation finds.

use ldap::message::{
    AddRequest, AttributesBuf, Controls, ModifyOperation, PartialAttribute, Request, ValuesBuf,
};
use ldap::result::ResultCode;
use testing::chance::Chance;

use crate::support::{Asked, Client, SUFFIX, Served};

type Octets = Vec<u8>;

const TYPES: [&str; 2] = ["oct", "oct2"];
const ENTRIES: usize = 350;
const FILTERS: usize = 400;
/// Octets of a value key that is stored whole, of what is kept of a longer one, and beside.
const LENGTHS: [usize; 6] = [204, 205, 206, 220, 221, 300];

enum Term {
    Or(Vec<Self>),
    And(Vec<Self>),
    Not(Box<Self>),
    Present(usize),
    Equal(usize, Octets),
    AtLeast(usize, Octets),
    AtMost(usize, Octets),
    Pieces(usize, [Octets; 3]),
}

/// Values of each of the types.
type Values = [Vec<Octets>; 2];

impl Term {
    fn random(pool: &[Octets], chance: &mut Chance, depth: u64) -> Self {
        let several = |chance: &mut Chance| -> Vec<Self> {
            (0..=chance.below(4)).map(|_| Self::random(pool, chance, depth - 1)).collect()
        };
        let of = chance.below(2) as usize;
        let value = chance.pick(pool).unwrap().clone();
        match chance.below(if depth == 0 { 6 } else { 10 }) {
            0 => Self::Present(of),
            1 | 2 => Self::Equal(of, value),
            3 => Self::AtLeast(of, value),
            4 => Self::AtMost(of, value),
            5 => Self::pieces(of, &value, chance),
            6 | 7 => Self::Or(several(chance)),
            8 => Self::And(several(chance)),
            _ => Self::Not(Box::new(Self::random(pool, chance, depth - 1))),
        }
    }

    /// Two cuts make an initial, an inner and a final piece, of which some are left out.
    fn pieces(of: usize, value: &Octets, chance: &mut Chance) -> Self {
        let length = value.len() as u64;
        let mut cuts = [chance.below(length + 1) as usize, chance.below(length + 1) as usize];
        cuts.sort_unstable();
        let pieces = [&value[..cuts[0]], &value[cuts[0]..cuts[1]], &value[cuts[1]..]];
        let pieces = pieces.map(|piece| match chance.once_in(3) {
            true => Octets::new(),
            false => piece[..piece.len().min(chance.below(9) as usize)].to_vec(),
        });
        match pieces.iter().all(Vec::is_empty) {
            true => Self::Present(of),
            false => Self::Pieces(of, pieces),
        }
    }

    /// Every type is known and every entry may be searched, so nothing is Undefined.
    fn holds(&self, values: &Values) -> bool {
        let any = |of: usize, test: &dyn Fn(&Octets) -> bool| values[of].iter().any(test);
        match self {
            Self::Or(terms) => terms.iter().any(|term| term.holds(values)),
            Self::And(terms) => terms.iter().all(|term| term.holds(values)),
            Self::Not(term) => !term.holds(values),
            Self::Present(of) => any(*of, &|_| true),
            Self::Equal(of, asked) => any(*of, &|value| value == asked),
            Self::AtLeast(of, asked) => any(*of, &|value| value >= asked),
            Self::AtMost(of, asked) => any(*of, &|value| value <= asked),
            Self::Pieces(of, [initial, inner, last]) => any(*of, &|value| {
                value.len() >= initial.len() + last.len()
                    && value.starts_with(initial)
                    && value.ends_with(last)
                    && {
                        let rest = &value[initial.len()..value.len() - last.len()];
                        inner.is_empty() || rest.windows(inner.len()).any(|part| part == inner)
                    }
            }),
        }
    }

    fn text(&self) -> String {
        let all = |terms: &[Self]| terms.iter().map(Self::text).collect::<String>();
        match self {
            Self::Or(terms) => format!("(|{})", all(terms)),
            Self::And(terms) => format!("(&{})", all(terms)),
            Self::Not(term) => format!("(!{})", term.text()),
            Self::Present(of) => format!("({}=*)", TYPES[*of]),
            Self::Equal(of, value) => format!("({}={})", TYPES[*of], escaped(value)),
            Self::AtLeast(of, value) => format!("({}>={})", TYPES[*of], escaped(value)),
            Self::AtMost(of, value) => format!("({}<={})", TYPES[*of], escaped(value)),
            Self::Pieces(of, pieces) => {
                let [initial, inner, last] = pieces.each_ref().map(escaped);
                let star = if inner.is_empty() { "" } else { "*" };
                format!("({}={initial}*{inner}{star}{last})", TYPES[*of])
            }
        }
    }
}

fn escaped(octets: &Octets) -> String {
    octets.iter().map(|octet| format!("\\{octet:02x}")).collect()
}

/// Beginnings of each other, zeros and the octets that keys escape and end with, and values alike
/// for longer than a key may be.
fn pool(chance: &mut Chance) -> Vec<Octets> {
    let mut pool =
        vec![vec![], vec![0], vec![0, 0], vec![0xff], vec![0, 0xff], vec![0, 0xff, 0, 0]];
    for _ in 0..24 {
        let mut value = chance.pick(&pool).unwrap().clone();
        for _ in 0..=chance.below(3) {
            value.push(*chance.pick(&[0, 0, 1, 2, 0x7f, 0x80, 0xfe, 0xff]).unwrap());
        }
        pool.push(value);
    }
    let start = vec![0; 203];
    for length in LENGTHS {
        for last in [0, 1, 0xff] {
            let mut value = start.clone();
            value.resize(length - 1, 0xff);
            value.push(last);
            pool.push(value);
        }
    }
    pool
}

fn add(root: &mut Client, number: usize, values: &Values) {
    let name = format!("cn={number},{SUFFIX}");
    let mut attributes = AttributesBuf::new();
    let classes: ValuesBuf = [&b"device"[..], b"extensibleObject"].into_iter().collect();
    attributes.push(PartialAttribute { description: "objectClass", values: classes.as_ref() });
    for (description, values) in TYPES.iter().zip(values) {
        let values: ValuesBuf = values.iter().map(Vec::as_slice).collect();
        if !values.as_ref().is_empty() {
            attributes.push(PartialAttribute { description, values: values.as_ref() });
        }
    }
    let request = AddRequest { name: &name, attributes: attributes.as_ref() };
    let answer = root.request(Request::Add(request), Controls::EMPTY);
    assert_eq!(answer.code(), ResultCode::Success, "{name}: {}", answer.diagnostic);
}

/// Some values, the first ones of the pool most often: half of all entries have one of them.
fn values(pool: &[Octets], chance: &mut Chance) -> Values {
    TYPES.map(|_| {
        let mut values = Vec::new();
        for _ in 0..chance.below(4) {
            let among = if chance.once_in(2) { 4 } else { pool.len() };
            let value = chance.pick(&pool[..among]).unwrap();
            if !values.contains(value) {
                values.push(value.clone());
            }
        }
        values
    })
}

fn ask(served: &Served, entries: &[Values], pool: &[Octets], chance: &mut Chance) {
    let mut root = served.root();
    for _ in 0..FILTERS {
        let first = Term::Equal(0, chance.pick(pool).unwrap().clone());
        let other = Term::random(pool, chance, 2);
        let filter = match chance.below(3) {
            0 => other,
            _ => Term::Or(vec![first, other]),
        };
        let text = format!("(&(objectClass=device){})", filter.text());
        // With and without anything beside it.
        let text = if chance.once_in(2) { text } else { filter.text() };
        let answer = root.search(&Asked { filter: &text, ..Asked::default() });
        assert_eq!(answer.code(), ResultCode::Success, "{text}: {}", answer.diagnostic);
        let mut found: Vec<&str> = answer.names();
        found.retain(|name| *name != SUFFIX);
        let mut want: Vec<String> = (0..entries.len())
            .filter(|number| filter.holds(&entries[*number]))
            .map(|number| format!("cn={number},{SUFFIX}"))
            .collect();
        found.sort_unstable();
        want.sort_unstable();
        assert_eq!(found, want, "{text}");
    }
}

#[test]
fn octet_strings_are_found_by_any_filter() {
    let rules = "EQUALITY octetStringMatch ORDERING octetStringOrderingMatch \
                 SUBSTR octetStringSubstringsMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.40";
    let chance = &mut Chance::new(340, 31);
    let mut served = Served::with(|options| {
        let types = TYPES.iter().enumerate().map(|(number, name)| {
            format!("attributeTypes: ( 1.3.6.1.4.1.55555.{number} NAME '{name}' {rules} )\n")
        });
        let text = format!("dn: cn=schema\n{}", types.collect::<String>());
        std::fs::write(options.data.join("schema/octets.ldif"), text).unwrap();
    });
    let pool = pool(chance);
    let entries: Vec<Values> = (0..ENTRIES).map(|_| values(&pool, chance)).collect();
    let mut root = served.root();
    for (number, values) in entries.iter().enumerate() {
        add(&mut root, number, values);
    }
    ask(&served, &entries, &pool, chance);
    for kinds in [&["equality"][..], &["equality", "ordering"], &["substring", "presence"]] {
        for name in TYPES {
            let index = format!("ds-cfg-attribute={name},cn=Index,cn=config");
            let changes = [(ModifyOperation::Replace, "ds-cfg-index-type", kinds)];
            if root.modify(&index, &changes) == ResultCode::NoSuchObject {
                let index_types: &[(&str, &[&str])] = &[
                    ("objectClass", &["top", "ds-cfg-backend-index"]),
                    ("ds-cfg-attribute", &[name]),
                    ("ds-cfg-index-type", kinds),
                ];
                assert_eq!(root.add(&index, index_types), ResultCode::Success);
            }
        }
        // While the indexes are built, and when they are.
        ask(&served, &entries, &pool, chance);
        drop(root);
        served = served.reopen();
        ask(&served, &entries, &pool, chance);
        root = served.root();
    }
}
