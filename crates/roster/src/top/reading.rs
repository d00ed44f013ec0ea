//! What a server says of itself at one moment.

use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

use client::{Connection, SearchFor};
use ldap::filter::Filter;
use ldap::message::Scope;
use ldap::result::ResultCode;

use crate::connect::ADMINISTRATOR_HINT;
use crate::failure::Failure;

/// One look at `cn=monitor`.
#[derive(Debug)]
pub(crate) struct Reading {
    /// When the first answer was there.
    pub(crate) at: Instant,
    /// By names, in lower case; what another server does not tell is not there.
    entries: HashMap<String, HashMap<String, Vec<String>>>,
}

/// How long operations of a kind took: upper ends of buckets in µs, and how many are in each.
pub(crate) type Times = BTreeMap<u64, u64>;

impl Reading {
    /// Asks the server.
    pub(crate) fn take(connection: &mut Connection) -> Result<Self, Failure> {
        let mut at = None;
        let mut entries = HashMap::new();
        for (base, scope) in BRANCHES {
            let asked = SearchFor {
                scope: *scope,
                attributes: &["*"],
                ..SearchFor::below(base, Filter::Present("objectClass"))
            };
            let found = connection.search(&asked)?;
            // A server that lets one wait counts before it answers, not when it is asked.
            at.get_or_insert_with(now);
            let is_missing = found.outcome.code == ResultCode::NoSuchObject;
            if is_missing && found.outcome.matched.is_empty() {
                let what = "the server shows its metrics only to its administrator";
                return Err(Failure::refused(what).hint(ADMINISTRATOR_HINT));
            }
            if is_missing {
                continue;
            }
            found.outcome.into_result("search")?;
            for entry in found.entries {
                let attributes = entry.attributes.into_iter().map(|(name, values)| {
                    let text = |value: Vec<u8>| String::from_utf8_lossy(&value).into_owned();
                    (name.to_ascii_lowercase(), values.into_iter().map(text).collect())
                });
                entries.insert(entry.dn.to_ascii_lowercase(), attributes.collect());
            }
        }
        Ok(Self { at: at.unwrap_or_else(now), entries })
    }

    /// The number that an entry, named without `,cn=monitor`, has there.
    pub(crate) fn number(&self, entry: &str, attribute: &str) -> Option<u64> {
        self.texts(entry, attribute).next()?.parse().ok()
    }

    /// The number, maybe negative, that an entry, named without `,cn=monitor`, has there.
    pub(crate) fn signed(&self, entry: &str, attribute: &str) -> Option<i64> {
        self.texts(entry, attribute).next()?.parse().ok()
    }

    pub(crate) fn text(&self, entry: &str, attribute: &str) -> Option<&str> {
        self.texts(entry, attribute).next()
    }

    /// Values `WORD NUMBER`.
    pub(crate) fn counts(&self, entry: &str, attribute: &str) -> BTreeMap<String, u64> {
        let pairs = self.texts(entry, attribute).filter_map(|text| {
            let (word, count) = text.rsplit_once(' ')?;
            Some((word.to_owned(), count.parse().ok()?))
        });
        pairs.collect()
    }

    pub(crate) fn times(&self, entry: &str) -> Times {
        let counts = self.counts(entry, "roster-operation-times");
        counts.into_iter().filter_map(|(end, count)| Some((end.parse().ok()?, count))).collect()
    }

    /// The entries right below one, by the values they are named with.
    pub(crate) fn below(&self, entry: &str) -> Vec<String> {
        let end = format!(",{entry},cn=monitor");
        let names = self.entries.keys().filter_map(|name| {
            let name = name.strip_suffix(&end)?.strip_prefix("cn=")?;
            (!name.contains(',')).then(|| name.to_owned())
        });
        let mut names = names.collect::<Vec<_>>();
        names.sort();
        names
    }

    fn texts(&self, entry: &str, attribute: &str) -> impl Iterator<Item = &str> {
        let found = self.entries.get(&format!("{entry},cn=monitor"));
        let values = found.and_then(|attributes| attributes.get(attribute));
        values.into_iter().flatten().map(String::as_str)
    }

    #[cfg(test)]
    pub(crate) fn made(at: Instant, entries: &[Made<'_>]) -> Self {
        let of = |attributes: &[(&str, &[&str])]| {
            let one = |(name, values): &(&str, &[&str])| {
                let values = values.iter().map(|&value| value.to_owned()).collect();
                ((*name).to_owned(), values)
            };
            attributes.iter().map(one).collect()
        };
        let one = |(name, attributes): &Made<'_>| (format!("{name},cn=monitor"), of(attributes));
        Self { at, entries: entries.iter().map(one).collect() }
    }
}

#[cfg(test)]
impl Reading {
    pub(super) fn taken_at(self, at: Instant) -> Self {
        Self { at, ..self }
    }
}

/// An entry without `,cn=monitor`, and its attributes.
#[cfg(test)]
type Made<'a> = (&'a str, &'a [(&'a str, &'a [&'a str])]);

/// The clock of the user's side.
#[allow(clippy::disallowed_methods, reason = "a terminal lives by the clock of the machine")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// What is asked for; `cn=index,cn=monitor` is left out, since it costs the server much.
const BRANCHES: &[(&str, Scope)] = &[
    ("cn=operations,cn=monitor", Scope::Subtree),
    ("cn=connections,cn=monitor", Scope::Base),
    ("cn=work,cn=monitor", Scope::Subtree),
    ("cn=store,cn=monitor", Scope::Base),
    ("cn=journal,cn=monitor", Scope::Base),
    ("cn=logs,cn=monitor", Scope::Subtree),
    ("cn=tls,cn=monitor", Scope::Base),
    ("cn=sinks,cn=monitor", Scope::Subtree),
    ("cn=process,cn=monitor", Scope::Base),
    ("cn=cluster,cn=monitor", Scope::Subtree),
];
