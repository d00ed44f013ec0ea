//! Definitions for what the schema lacks, guessed from how it was used.
//!
//! Invariants: the text is a schema file that loads beside the files of the tree; entries whose
//! only fault was what it defines are no longer refused, but where a class would have to be both
//! structural and auxiliary, which the text says.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use ldap::description::is_numeric_oid;
use ldap::dn::Dn;
use schema::{Schema, Syntax};

use super::tally::{Tally, UnknownClass, UnknownType};

/// Which syntaxes suit all values seen of a type: a bit for each of [`SYNTAXES`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Fit(u8);

impl Default for Fit {
    fn default() -> Self {
        Self((1 << SYNTAXES.len()) - 1)
    }
}

impl Fit {
    /// What suits one value.
    pub(super) fn of(schema: &Schema, value: &[u8]) -> Self {
        let suits = |found: &Guess| {
            let syntax = Syntax::find(found.syntax);
            syntax.is_some_and(|syntax| (syntax.check)(schema, value).is_ok())
                && (found.also)(schema, value)
        };
        let fits = SYNTAXES.iter().enumerate().filter(|(_, guess)| suits(guess));
        Self(fits.fold(0, |bits, (at, _)| bits | 1 << at))
    }

    /// What suits both.
    pub(super) const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    fn best(self) -> &'static Guess {
        let found = SYNTAXES.iter().enumerate().find(|(at, _)| self.0 & (1 << at) != 0);
        found.map_or(&OCTETS, |(_, guess)| guess)
    }
}

/// The file.
pub(super) fn schema_file(tally: &Tally) -> String {
    let mut text = HEAD.to_owned();
    for found in tally.types.values() {
        attribute_type(&mut text, found);
    }
    let kinds = Kinds::of(tally);
    // A class comes after those that it is derived from.
    let mut written = BTreeSet::new();
    for key in tally.classes.keys() {
        write_class(&mut text, tally, &kinds, key, &mut written);
    }
    text
}

/// How the values of a type are guessed to be.
struct Guess {
    syntax: &'static str,
    /// What is asked beyond the check of the syntax.
    also: fn(&Schema, &[u8]) -> bool,
    rules: &'static str,
}

/// The first that suits is taken.
static SYNTAXES: [Guess; 5] = [
    Guess {
        syntax: "1.3.6.1.4.1.1466.115.121.1.7",
        also: anything,
        rules: "EQUALITY booleanMatch",
    },
    Guess {
        syntax: "1.3.6.1.4.1.1466.115.121.1.27",
        also: anything,
        rules: "EQUALITY integerMatch ORDERING integerOrderingMatch",
    },
    Guess {
        syntax: "1.3.6.1.4.1.1466.115.121.1.24",
        also: anything,
        rules: "EQUALITY generalizedTimeMatch ORDERING generalizedTimeOrderingMatch",
    },
    Guess {
        syntax: "1.3.6.1.4.1.1466.115.121.1.12",
        also: is_name,
        rules: "EQUALITY distinguishedNameMatch",
    },
    Guess {
        syntax: "1.3.6.1.4.1.1466.115.121.1.15",
        also: is_text,
        rules: "EQUALITY caseIgnoreMatch SUBSTR caseIgnoreSubstringsMatch",
    },
];

/// What always suits.
static OCTETS: Guess = Guess {
    syntax: "1.3.6.1.4.1.1466.115.121.1.40",
    also: anything,
    rules: "EQUALITY octetStringMatch",
};

fn anything(_: &Schema, _: &[u8]) -> bool {
    true
}

/// Texts with an equals sign are no names unless the schema knows what they begin with.
fn is_name(schema: &Schema, value: &[u8]) -> bool {
    let name = std::str::from_utf8(value).ok().and_then(|text| Dn::parse(text).ok());
    let leaf = name.as_ref().and_then(|name| name.rdns().first());
    leaf.and_then(|rdn| rdn.avas().first())
        .is_some_and(|ava| schema.attribute_type(&ava.attribute).is_some())
}

/// Octets may happen to be UTF-8.
fn is_text(_: &Schema, value: &[u8]) -> bool {
    !value.iter().any(|octet| octet.is_ascii_control() && !b"\t\r\n".contains(octet))
}

/// Which classes are structural, and what they are derived from.
#[derive(Default)]
struct Kinds<'t> {
    structural: BTreeMap<&'t str, &'t str>,
    /// Those that would have to be both.
    doubtful: BTreeSet<&'t str>,
}

impl<'t> Kinds<'t> {
    /// An entry without a known structural class needs one of its unknown ones to be that: the
    /// last, unless it is auxiliary elsewhere. Where one entry has two of them, the later one is
    /// derived from the earlier one.
    fn of(tally: &'t Tally) -> Self {
        let is_beside =
            |key: &str| tally.classes.get(key).is_none_or(|class| class.is_beside_structural);
        let mut kinds = Self::default();
        for combination in &tally.combinations {
            match combination.iter().rev().find(|key| !is_beside(key)) {
                Some(key) => {
                    kinds.structural.insert(key, "top");
                }
                None => kinds.doubtful.extend(combination.iter().map(String::as_str)),
            }
        }
        for combination in &tally.combinations {
            let chain =
                combination.iter().filter(|key| kinds.structural.contains_key(key.as_str()));
            let chain: Vec<&str> = chain.map(String::as_str).collect();
            for (above, below) in chain.iter().zip(chain.iter().skip(1)) {
                if !kinds.is_above(below, above) && kinds.structural.get(below) == Some(&"top") {
                    kinds.structural.insert(below, above);
                }
            }
        }
        kinds
    }

    /// Whether `upper` is `lower` or one of those it is derived from.
    fn is_above(&self, upper: &str, lower: &str) -> bool {
        let mut key = lower;
        loop {
            if key == upper {
                return true;
            }
            match self.structural.get(key) {
                Some(above) => key = above,
                None => return false,
            }
        }
    }
}

fn attribute_type(text: &mut String, found: &UnknownType) {
    seen(text, found.times, "values", &found.example);
    let guess = found.fit.best();
    let usage = if found.is_operational { " USAGE directoryOperation" } else { "" };
    let (oid, name) = oid_and_name(&found.name, ACTIVE_DIRECTORY_TYPES, "-oid");
    let (rules, syntax) = (guess.rules, guess.syntax);
    define(
        text,
        &format!("attributeTypes: ( {oid}{name} {rules} SYNTAX {syntax}{usage} {ORIGIN} )"),
    );
}

/// Writes the class `key`, and those above it before.
fn write_class<'t>(
    text: &mut String,
    tally: &'t Tally,
    kinds: &Kinds<'t>,
    key: &'t str,
    written: &mut BTreeSet<&'t str>,
) {
    let mut chain = vec![key];
    while let Some(above) = chain.last().and_then(|key| kinds.structural.get(key)) {
        chain.push(above);
    }
    for key in chain.into_iter().rev() {
        if let Some(found) = tally.classes.get(key).filter(|_| written.insert(key)) {
            object_class(text, tally, kinds, key, found);
        }
    }
}

fn object_class(
    text: &mut String,
    tally: &Tally,
    kinds: &Kinds<'_>,
    key: &str,
    found: &UnknownClass,
) {
    seen(text, found.times, "entries", &found.example);
    let above = kinds.structural.get(key);
    let (kind, superior) = match above {
        Some(above) => {
            ("STRUCTURAL", tally.classes.get(*above).map_or(*above, |class| &class.name))
        }
        None => ("AUXILIARY", "top"),
    };
    if kinds.doubtful.contains(key) {
        let name = &found.name;
        writeln!(
            text,
            "# {name} is the only class of some entries, and beside a structural one in\n\
                        # others: it cannot be both, so the former stay refused."
        )
        .expect("a string takes all");
    }
    let is_user = |key: &&String| tally.types.get(*key).is_none_or(|found| !found.is_operational);
    let allows = found.allows.iter().filter(is_user);
    let allows: Vec<&str> =
        allows.map(|key| tally.types.get(key).map_or(key.as_str(), |found| &found.name)).collect();
    let may = match allows.as_slice() {
        [] => String::new(),
        allows => format!(" MAY ( {} )", allows.join(" $ ")),
    };
    let (oid, name) = oid_and_name(&found.name, ACTIVE_DIRECTORY_CLASSES, "-class-oid");
    define(text, &format!("objectClasses: ( {oid}{name} SUP {superior} {kind}{may} {ORIGIN} )"));
}

/// Says how often something was met; the name is one line.
fn seen(text: &mut String, times: u64, what: &str, example: &str) {
    writeln!(text, "# {times} {what}, first in {example}").expect("a string takes all");
}

/// A dotted OID is its own name; a name without a known OID ends in `end` as one.
fn oid_and_name(name: &str, known: &[(&str, &str)], end: &str) -> (String, String) {
    if is_numeric_oid(name) {
        return (name.to_owned(), String::new());
    }
    let oid = known.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    let oid = oid.map_or_else(|| format!("{name}{end}"), |(_, oid)| format!("{MICROSOFT}.{oid}"));
    (oid, format!(" NAME '{name}'"))
}

/// Writes a definition, folded between its words.
fn define(text: &mut String, definition: &str) {
    let mut columns = 0;
    for (position, word) in definition.split(' ').enumerate() {
        if position > 0 && columns + word.len() + 1 > FOLD_COLUMNS {
            text.push_str("\n  ");
            columns = 2;
        } else if position > 0 {
            text.push(' ');
            columns += 1;
        }
        text.push_str(word);
        columns += word.len();
    }
    text.push('\n');
}

/// The arc below which Active Directory's own types and classes are.
const MICROSOFT: &str = "1.2.840.113556.1";

/// Types that nearly every export of Active Directory has, and their OIDs below [`MICROSOFT`].
const ACTIVE_DIRECTORY_TYPES: &[(&str, &str)] = &[
    ("adminCount", "4.150"),
    ("assistant", "4.652"),
    ("co", "2.131"),
    ("codePage", "4.16"),
    ("company", "2.146"),
    ("countryCode", "4.25"),
    ("department", "2.141"),
    ("dNSHostName", "4.619"),
    ("employeeID", "4.35"),
    ("gPLink", "4.891"),
    ("gPOptions", "4.892"),
    ("groupType", "4.750"),
    ("homeDrive", "4.45"),
    ("logonHours", "4.64"),
    ("managedBy", "4.653"),
    ("objectSid", "4.146"),
    ("operatingSystem", "4.363"),
    ("otherHomePhone", "2.277"),
    ("otherMobile", "4.647"),
    ("otherPager", "2.118"),
    ("otherTelephone", "2.18"),
    ("primaryGroupID", "4.98"),
    ("profilePath", "4.139"),
    ("proxyAddresses", "2.210"),
    ("sAMAccountName", "4.221"),
    ("sAMAccountType", "4.302"),
    ("scriptPath", "4.62"),
    ("servicePrincipalName", "4.771"),
    ("sIDHistory", "4.609"),
    ("userAccountControl", "4.8"),
    ("userParameters", "4.138"),
    ("userPrincipalName", "4.656"),
    ("wellKnownObjects", "4.618"),
];

/// Classes that nearly every export of Active Directory has, and their OIDs below [`MICROSOFT`].
const ACTIVE_DIRECTORY_CLASSES: &[(&str, &str)] = &[
    ("computer", "3.30"),
    ("contact", "5.15"),
    ("container", "3.23"),
    ("domainDNS", "5.67"),
    ("group", "5.8"),
    ("user", "5.9"),
];

const FOLD_COLUMNS: usize = 78;
const ORIGIN: &str = "X-ORIGIN 'import'";
const HEAD: &str = "\
# Definitions of what the schema lacked, guessed by an import from the values it saw.
# Look them over: names end in -oid where the true OID is not known.
# Put this file into the directory 'schema' of the data directory, then import again.
dn: cn=schema
objectClass: top
objectClass: ldapSubentry
objectClass: subschema
cn: schema
";
