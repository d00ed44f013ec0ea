//! Who asks. Set by a bind, kept by the session, read by every decision.

use ldap::dn::Dn;

/// The authorization identity of a session (RFC 4513 §2).
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum Identity {
    /// Nobody in particular: before the first bind, and after a failed or anonymous one.
    #[default]
    Anonymous,
    /// The administrator of this directory, who has no entry.
    Root(Dn),
    /// An entry, under the name it was bound with.
    Entry(Dn),
}

impl Identity {
    /// The authzId of RFC 4513 §5.2.1.8, as Who am I? answers it: empty when anonymous.
    pub fn authorization_id(&self) -> String {
        match self.dn() {
            Some(dn) => format!("dn:{dn}"),
            None => String::new(),
        }
    }

    /// The name of the identity, as stamped into `creatorsName`; `None` when anonymous.
    pub fn dn(&self) -> Option<&Dn> {
        match self {
            Self::Anonymous => None,
            Self::Root(dn) | Self::Entry(dn) => Some(dn),
        }
    }
}
