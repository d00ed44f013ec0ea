//! How fresh reads are on each listener, where their requests do not say.

use std::net::SocketAddr;

use directory::DefaultReadLevel;

/// The levels of listeners.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListenerLevels(Vec<(Which, DefaultReadLevel)>);

/// Which listeners.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Which {
    /// That of this address.
    Address(SocketAddr),
    /// All of this kind: `ldap`, `ldaps` or `ldapi`.
    Kind(&'static str),
}

/// A listener, or a kind of them, and its level.
#[derive(Clone, Debug)]
pub struct ListenerLevel(Which, DefaultReadLevel);

impl ListenerLevels {
    /// These levels.
    pub fn new(levels: impl Iterator<Item = ListenerLevel>) -> Self {
        Self(levels.map(|ListenerLevel(which, level)| (which, level)).collect())
    }

    /// Reads one, like `linearizable ldaps` or `bounded 500 192.0.2.1:389`.
    #[must_use]
    pub fn level(text: &str) -> Option<ListenerLevel> {
        let (level, name) = DefaultReadLevel::before(text)?;
        let kind = KINDS.iter().find(|kind| **kind == name).map(|kind| Which::Kind(kind));
        let which = kind.or_else(|| name.parse().ok().map(Which::Address))?;
        Some(ListenerLevel(which, level))
    }

    /// That of a listener of this kind and address. What is said of an address goes before what is
    /// said of its kind.
    pub(crate) fn of(&self, kind: &str, address: Option<SocketAddr>) -> DefaultReadLevel {
        let find = |is_meant: &dyn Fn(&Which) -> bool| {
            self.0.iter().find(|(which, _)| is_meant(which)).map(|(_, level)| *level)
        };
        let is_address = |which: &Which| match which {
            Which::Address(one) => Some(*one) == address,
            Which::Kind(_) => false,
        };
        let is_kind = |which: &Which| match which {
            Which::Address(_) => false,
            Which::Kind(one) => *one == kind,
        };
        find(&is_address).or_else(|| find(&is_kind)).unwrap_or_default()
    }
}

/// What is written for a listener.
pub(crate) const FORM: &str = "levels with a listener like \"linearizable ldaps\" or \"bounded 500 \
                               192.0.2.1:389\"";

const KINDS: [&str; 3] = ["ldap", "ldaps", "ldapi"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_level_of_an_address_goes_before_that_of_its_kind() {
        let texts = ["linearizable ldap", "bounded 500 192.0.2.1:389", "local ldapi"];
        let levels =
            ListenerLevels::new(texts.iter().filter_map(|text| ListenerLevels::level(text)));
        let check = |kind: &str, address: &str, want: DefaultReadLevel| {
            assert_eq!(levels.of(kind, address.parse().ok()), want, "{kind} {address}");
        };
        check("ldap", "192.0.2.1:389", DefaultReadLevel::Bounded { staleness_ms: 500 });
        check("ldap", "192.0.2.2:389", DefaultReadLevel::Linearizable);
        check("ldaps", "192.0.2.1:636", DefaultReadLevel::Local);
        check("ldapi", "", DefaultReadLevel::Local);
    }

    #[test]
    fn what_names_no_listener_or_no_level_is_refused() {
        for text in ["", "ldap", "linearizable", "linearizable ldapx", "bounded ldap", "fast ldap"]
        {
            assert!(ListenerLevels::level(text).is_none(), "{text}");
        }
    }
}
