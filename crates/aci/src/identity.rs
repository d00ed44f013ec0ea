//! Who asks. Set by a bind, kept by the session, read by every decision.

use ldap::dn::DnText;

use crate::Privileges;

/// The authorization identity of a session (RFC 4513 §2).
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum Identity {
    /// Nobody in particular: before the first bind, and after a failed or anonymous one.
    #[default]
    Anonymous,
    /// The administrator of this directory, who has no entry.
    Root(DnText),
    /// An entry, under the name it was bound with.
    Entry(DnText),
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
    pub fn dn(&self) -> Option<&DnText> {
        match self {
            Self::Anonymous => None,
            Self::Root(dn) | Self::Entry(dn) => Some(dn),
        }
    }
}

/// What an identity was given beyond, or instead of, what everybody has; read when it binds.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Grants {
    /// Entries one search returns; 0 = no limit. None: as everybody.
    pub size_limit_entries: Option<u32>,
    /// Entries that all pages of one search return together; 0 = no limit. None: as everybody.
    pub paged_total_entries_max: Option<u32>,
    /// Seconds one search takes; 0 = no limit. None: as everybody.
    pub time_limit_s: Option<u32>,
    /// Entries one search looks at; 0 = no limit. None: as everybody.
    pub look_through_limit_entries: Option<u32>,
    /// Millions of steps of work that testing entries may be for one search; 0 = no limit. None: as
    /// everybody.
    pub search_work_max: Option<u32>,
    /// Seconds its connection may stay silent; 0 = no limit. None: as everybody.
    pub idle_limit_s: Option<u32>,
    /// Connections that are bound as it; 0 = any number. None: as everybody.
    pub connections_max: Option<u32>,
    /// Operations of its connections that are not answered; 0 = any number. None: as everybody.
    pub operations_max: Option<u32>,
    /// What it may do to the server as a whole.
    pub privileges: Privileges,
    /// It may search where no index helps when it says by a control that it means to.
    pub unindexed_search_with_control: bool,
}
