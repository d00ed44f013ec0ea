//! How an entry that a request names is looked for.

use ldap::message::Scope;
use schema::DnKey;

/// The name, and what is looked out for on the way to it.
pub(crate) struct Lookup<'a> {
    /// The name as the client wrote it, and its key: referral URLs are made of them.
    pub(crate) name: &'a str,
    pub(crate) key: &'a DnKey,
    /// Referral objects are looked out for; else they are entries like others.
    pub(crate) referrals: bool,
    /// What a referral URL is to say about the scope; `None` outside searches.
    pub(crate) scope: Option<Scope>,
}
