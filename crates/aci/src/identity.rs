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

impl Grants {
    /// These grants, with limits of others where there are none.
    #[must_use]
    pub fn or_limits(mut self, mut others: Self) -> Self {
        for (own, other) in self.limits().into_iter().zip(others.limits()) {
            *own = own.or(*other);
        }
        self
    }

    /// These grants, with limits of others where these are wider.
    #[must_use]
    pub fn or_wider_limits(mut self, mut others: Self) -> Self {
        // No limit at all is the widest.
        let width = |limit: u32| limit.checked_sub(1).unwrap_or(u32::MAX);
        for (own, other) in self.limits().into_iter().zip(others.limits()) {
            *own = own.iter().chain(&*other).copied().max_by_key(|limit| width(*limit));
        }
        self
    }

    fn limits(&mut self) -> [&mut Option<u32>; 8] {
        let Self {
            size_limit_entries,
            paged_total_entries_max,
            time_limit_s,
            look_through_limit_entries,
            search_work_max,
            idle_limit_s,
            connections_max,
            operations_max,
            privileges: _,
            unindexed_search_with_control: _,
        } = self;
        [
            size_limit_entries,
            paged_total_entries_max,
            time_limit_s,
            look_through_limit_entries,
            search_work_max,
            idle_limit_s,
            connections_max,
            operations_max,
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_others_fill_up_or_widen() {
        let of = |size, time| Grants {
            size_limit_entries: size,
            time_limit_s: time,
            ..Grants::default()
        };
        let (own, other) = (of(Some(5), None), of(Some(7), Some(0)));
        assert_eq!(own.or_limits(other), of(Some(5), Some(0)));
        assert_eq!(own.or_wider_limits(other), of(Some(7), Some(0)));
        assert_eq!(other.or_wider_limits(own), of(Some(7), Some(0)));
        assert_eq!(of(Some(0), Some(9)).or_wider_limits(other), of(Some(0), Some(0)));
        // What is no limit is nobody else's.
        let privileged = Grants { privileges: Privileges::ALL, ..other };
        assert_eq!(own.or_limits(privileged).privileges, Privileges::NONE);
        assert_eq!(own.or_wider_limits(privileged).privileges, Privileges::NONE);
    }
}
