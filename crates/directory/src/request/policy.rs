//! Policies of connections: which operations, and which part of the tree, a connection may ask for
//! at all, by where it comes from, how it is protected and who is bound.
//!
//! The first policy whose conditions all hold is the one of the connection; without any, nothing is
//! restricted. A policy narrows what may be asked; what is answered is for access control.
//!
//! Invariant: a policy that names no addresses does not hold on the Unix socket: whoever may run
//! the server can always get in and mend what policies shut out.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;

use aci::{Identity, Network};
use ldap::message::{OperationKind, Request, Scope};
use ldap::result::ResultCode;
use schema::{DnKey, Schema};

use crate::error::DirectoryError;
use crate::read::subschema::SUBSCHEMA_DN;
use crate::request::refusal::Refusal;
use crate::request::session::{ChosenPolicy, Session};
use crate::write::password_modify::value::OID as PASSWORD_MODIFY;

/// One policy, as it is configured.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Policy {
    /// What refusals call it.
    pub name: String,
    /// Where connections come from; empty = anywhere but from the Unix socket.
    pub addresses: Vec<PolicyAddress>,
    /// Whether TLS protects them; nothing = either.
    pub tls: Option<bool>,
    /// `anonymous`, or names: whoever is bound as that entry or as one below it; empty = anybody.
    pub identities: Vec<String>,
    /// What may be asked for; nothing = everything.
    pub operations: Option<Vec<PolicyOperation>>,
    /// The subtrees that requests may name; empty = all.
    pub suffixes: Vec<String>,
    /// Connections bound as one identity at the same time, 0 = any number; nothing = as elsewhere.
    pub connections_per_identity_max: Option<u32>,
    /// Operations of one identity that are not answered, 0 = any number; nothing = as elsewhere.
    pub operations_per_identity_max: Option<u32>,
}

/// Where a connection comes from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum PolicyAddress {
    /// The Unix socket.
    Local,
    /// Addresses with the same first bits.
    Network(Network),
}

/// An operation that a policy allows.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum PolicyOperation {
    /// Those of this kind; of extended operations those that are not named below.
    Kind(OperationKind),
    /// Password modify (RFC 3062).
    PasswordModify,
}

impl PolicyOperation {
    /// All that a policy can allow: ending a connection is always allowed.
    pub fn all() -> impl Iterator<Item = Self> {
        let kinds = OperationKind::ALL.into_iter().filter(|kind| kind.answered_by().is_some());
        kinds.map(Self::Kind).chain([Self::PasswordModify])
    }

    /// Its name in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kind(kind) => kind.name(),
            Self::PasswordModify => "password_modify",
        }
    }

    /// Which one a request asks for; nothing when no policy forbids it: ending and protecting a
    /// connection is always allowed.
    fn of(request: &Request<'_>) -> Option<Self> {
        match request {
            Request::Unbind | Request::Abandon(_) => None,
            Request::Extended(extended) if extended.oid == START_TLS => None,
            Request::Extended(extended) if extended.oid == PASSWORD_MODIFY => {
                Some(Self::PasswordModify)
            }
            other => Some(Self::Kind(other.kind())),
        }
    }
}

impl FromStr for PolicyAddress {
    /// What is wrong, for whoever wrote it.
    type Err = &'static str;

    /// `local`, `192.0.2.1`, `192.0.2.0/24`, `2001:db8::/32`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "local" => Ok(Self::Local),
            _ => text.parse().map(Self::Network),
        }
    }
}

impl fmt::Display for PolicyAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local => f.write_str("local"),
            Self::Network(network) => network.fmt(f),
        }
    }
}

impl PolicyAddress {
    fn holds(self, address: Option<IpAddr>) -> bool {
        match self {
            Self::Local => address.is_none(),
            Self::Network(network) => address.is_some_and(|address| network.contains(address)),
        }
    }
}

/// All policies, in their order.
#[derive(Debug, Default)]
pub(crate) struct Policies(Vec<Resolved>);

/// A policy whose names are resolved.
#[derive(Debug)]
struct Resolved {
    policy: Policy,
    is_for_anonymous: bool,
    identities: Vec<DnKey>,
    suffixes: Vec<DnKey>,
}

impl Policies {
    pub(crate) fn new(list: &[Policy], schema: &Schema) -> Result<Self, DirectoryError> {
        let key = |text: &String| {
            DnKey::from_text(schema, text).map_err(|error| DirectoryError::Name {
                text: text.clone(),
                reason: error.to_string(),
            })
        };
        let resolve = |policy: &Policy| {
            let names = policy.identities.iter().filter(|name| *name != ANONYMOUS);
            Ok(Resolved {
                is_for_anonymous: policy.identities.iter().any(|name| name == ANONYMOUS),
                identities: names.map(key).collect::<Result<_, DirectoryError>>()?,
                suffixes: policy.suffixes.iter().map(key).collect::<Result<_, DirectoryError>>()?,
                policy: policy.clone(),
            })
        };
        Ok(Self(list.iter().map(resolve).collect::<Result<_, DirectoryError>>()?))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Refuses what the policy of the session does not allow.
    pub(crate) fn check(
        &self,
        session: &mut Session,
        request: &Request<'_>,
        schema: &Schema,
    ) -> Result<(), Refusal> {
        match self.of(session, schema) {
            Some(policy) => policy.check(request, schema),
            None => Ok(()),
        }
    }

    /// The same where the value of an extended operation says which entry it is about.
    pub(crate) fn check_target(
        &self,
        session: &mut Session,
        key: &DnKey,
        schema: &Schema,
    ) -> Result<(), Refusal> {
        match self.of(session, schema) {
            Some(policy) if policy.is_outside(key) => Err(policy.other_name()),
            Some(_) | None => Ok(()),
        }
    }

    fn of(&self, session: &mut Session, schema: &Schema) -> Option<&Resolved> {
        if session.is_elsewhere() {
            return None;
        }
        let (access, secure) = (Arc::clone(session.access()), session.is_secure());
        let known = session
            .policy()
            .as_ref()
            .filter(|chosen| Arc::ptr_eq(&chosen.access, &access) && chosen.secure == secure);
        let policy = match known {
            Some(chosen) => chosen.policy,
            None => {
                let key = match session.identity() {
                    Identity::Anonymous => None,
                    Identity::Root(dn) | Identity::Entry(dn) => {
                        Some(DnKey::from_text(schema, dn.as_str()).ok()?)
                    }
                };
                let policy = self.choose(session, key.as_ref());
                *session.policy() = Some(ChosenPolicy { access, secure, policy });
                policy
            }
        };
        self.0.get(policy?)
    }

    /// How many connections, and operations that are not answered, there may be of an identity that
    /// has just proved itself, as far as its policy says.
    pub(crate) fn identity_limits(
        &self,
        session: &Session,
        key: &DnKey,
    ) -> Option<(Option<u32>, Option<u32>)> {
        let Resolved { policy, .. } = self.0.get(self.choose(session, Some(key))?)?;
        Some((policy.connections_per_identity_max, policy.operations_per_identity_max))
    }

    /// The policy for a session when this identity is bound.
    fn choose(&self, session: &Session, key: Option<&DnKey>) -> Option<usize> {
        let peer = session.peer();
        let address = peer.ip;
        let is_local = peer.local_user.is_some() || address.is_none();
        self.0.iter().position(|one| {
            let Policy { addresses, tls, identities, .. } = &one.policy;
            let is_from_there = match addresses.is_empty() {
                true => !is_local,
                false => addresses.iter().any(|range| range.holds(address)),
            };
            let is_asker = identities.is_empty()
                || match key {
                    None => one.is_for_anonymous,
                    Some(key) => one.identities.iter().any(|name| key.is_within(name)),
                };
            is_from_there && is_asker && tls.is_none_or(|tls| tls == session.is_secure())
        })
    }
}

impl Resolved {
    fn check(&self, request: &Request<'_>, schema: &Schema) -> Result<(), Refusal> {
        let Some(operation) = PolicyOperation::of(request) else { return Ok(()) };
        let name = &self.policy.name;
        if let Some(allowed) = &self.policy.operations
            && !allowed.contains(&operation)
        {
            let word = operation.name();
            let why = format!("the policy '{name}' of this connection does not allow {word}");
            return Err(Refusal::new(ResultCode::UnwillingToPerform, why));
        }
        if self.suffixes.is_empty() {
            return Ok(());
        }
        // What is no name is refused for that.
        let outside =
            |text: &str| DnKey::from_text(schema, text).is_ok_and(|key| self.is_outside(&key));
        let is_outside = match request {
            // What a server is, is for everybody.
            Request::Search(search) if search.scope == Scope::Base && is_public(search.base) => {
                false
            }
            Request::Search(search) => outside(search.base),
            Request::Compare(compare) => outside(compare.name),
            Request::Add(add) => outside(add.name),
            Request::Delete(delete) => outside(delete.name),
            Request::Modify(modify) => outside(modify.name),
            Request::ModifyDn(rename) => {
                outside(rename.name) || rename.new_superior.is_some_and(outside)
            }
            // Who somebody is, and what is no operation on an entry that is named; where the value
            // of one names an entry, `check_target` is asked.
            Request::Bind(_) | Request::Extended(_) | Request::Unbind | Request::Abandon(_) => {
                false
            }
        };
        if is_outside { Err(self.other_name()) } else { Ok(()) }
    }

    fn is_outside(&self, key: &DnKey) -> bool {
        !self.suffixes.is_empty() && !self.suffixes.iter().any(|suffix| key.is_within(suffix))
    }

    fn other_name(&self) -> Refusal {
        let name = &self.policy.name;
        let why = format!("the policy '{name}' of this connection does not allow this name");
        Refusal::new(ResultCode::UnwillingToPerform, why)
    }
}

/// The root DSE and the schema.
fn is_public(base: &str) -> bool {
    base.is_empty() || base.eq_ignore_ascii_case(SUBSCHEMA_DN)
}

/// Stands for those who are not bound.
const ANONYMOUS: &str = "anonymous";

const START_TLS: &str = "1.3.6.1.4.1.1466.20037";

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(range: &str, address: &str, want: bool) {
        let range = range.parse::<PolicyAddress>().unwrap();
        let address = address.parse::<IpAddr>().ok();
        assert_eq!(range.holds(address), want, "{range}");
    }

    #[test]
    fn an_address_is_in_a_range_by_its_first_bits() {
        check("192.0.2.1", "192.0.2.1", true);
        check("192.0.2.1", "192.0.2.2", false);
        check("192.0.2.0/24", "192.0.2.255", true);
        check("192.0.2.0/24", "192.0.3.0", false);
        check("192.0.2.128/25", "192.0.2.127", false);
        check("0.0.0.0/0", "8.8.8.8", true);
        check("0.0.0.0/0", "2001:db8::1", false);
        check("192.0.2.0/24", "::ffff:192.0.2.9", true);
        check("2001:db8::/32", "2001:db8:ffff::1", true);
        check("2001:db8::/32", "2001:db9::1", false);
        check("::1", "::1", true);
        check("::/0", "", false);
        check("local", "", true);
        check("local", "127.0.0.1", false);
        check("10.1.9.9/16", "10.1.0.0", true);
        check("::/0", "1.2.3.4", false);
        check("::/0", "::ffff:1.2.3.4", false);
    }

    #[test]
    fn a_range_of_mapped_addresses_is_one_of_ipv4() {
        check("::ffff:192.0.2.1/120", "192.0.2.9", true);
        check("::ffff:192.0.2.1/120", "::ffff:192.0.2.9", true);
        check("::ffff:192.0.2.1/120", "192.0.3.9", false);
        check("::ffff:192.0.2.1/120", "::1", false);
        check("::ffff:192.0.2.1", "192.0.2.1", true);
        check("::ffff:192.0.2.1", "192.0.2.2", false);
    }

    #[test]
    fn what_is_no_range_is_refused() {
        for text in [
            "",
            "x",
            "Local",
            "192.0.2.0/33",
            "192.0.2.0/024",
            "192.0.2.0/+24",
            "::ffff:192.0.2.1/24",
            "192.0.2.0/256",
            "2001:db8::/129",
            "192.0.2.0/",
            "192.0.2.0/-1",
            "192.0.2.0/24/24",
            "192.0.2.0/255.255.255.0",
            "192.0.2.*",
            "0192.0.2.0/24",
            "[::1]",
            " 192.0.2.1",
        ] {
            assert!(text.parse::<PolicyAddress>().is_err(), "{text}");
        }
    }
}
