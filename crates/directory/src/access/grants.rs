//! What an entry is given for its own searches: read once, when it binds.

use std::iter::successors;
use std::sync::Arc;

use aci::{Grants, Privilege};
use schema::{AttributeDescription, AttributeType, EntryRead, Families, Schema};

/// The attributes that grant something, in one version of the schema.
#[derive(Default)]
pub(crate) struct GrantTypes {
    size: Vec<Arc<AttributeDescription>>,
    paged_total: Vec<Arc<AttributeDescription>>,
    time: Vec<Arc<AttributeDescription>>,
    look_through: Vec<Arc<AttributeDescription>>,
    work: Vec<Arc<AttributeDescription>>,
    idle: Vec<Arc<AttributeDescription>>,
    connections: Vec<Arc<AttributeDescription>>,
    operations: Vec<Arc<AttributeDescription>>,
    privilege: Vec<Arc<AttributeDescription>>,
    /// The numbers of all these types, in order.
    numbers: Vec<u64>,
    /// Their bits: what has none of these is none of them.
    families: Families,
}

impl GrantTypes {
    pub(crate) fn new(schema: &Schema) -> Self {
        let known = |names: &[&str]| {
            names.iter().filter_map(|name| schema.describe(name).ok()).collect::<Vec<_>>()
        };
        let mut types = Self {
            size: known(&["ds-rlim-size-limit", "nsSizeLimit"]),
            paged_total: known(&["ds-rlim-paged-total-limit"]),
            time: known(&["ds-rlim-time-limit", "nsTimeLimit"]),
            look_through: known(&["ds-rlim-lookthrough-limit", "nsLookThroughLimit"]),
            work: known(&["ds-rlim-search-work-limit"]),
            idle: known(&["ds-rlim-idle-time-limit", "nsIdleTimeout"]),
            connections: known(&["ds-rlim-connection-limit"]),
            operations: known(&["ds-rlim-operation-limit"]),
            privilege: known(&["ds-privilege-name"]),
            numbers: Vec::new(),
            families: 0,
        };
        let all = types.lists().into_iter().flatten();
        let all: Vec<_> = all.map(|one| (one.kind.number(), one.kind.family())).collect();
        types.numbers = all.iter().map(|(number, _)| *number).collect();
        types.families = all.iter().fold(0, |bits, (_, family)| bits | family);
        types.numbers.sort_unstable();
        types
    }

    /// All of them.
    #[cfg(test)]
    pub(crate) fn all(&self) -> Vec<&AttributeDescription> {
        self.lists().into_iter().flatten().map(|description| &**description).collect()
    }

    fn lists(&self) -> [&[Arc<AttributeDescription>]; 9] {
        let Self {
            size, paged_total, time, look_through, work, idle, connections, operations, ..
        } = self;
        [
            size,
            paged_total,
            time,
            look_through,
            work,
            idle,
            connections,
            operations,
            &self.privilege,
        ]
    }

    /// What `entry` is given.
    pub(crate) fn read(&self, entry: &dyn EntryRead) -> Grants {
        // Most entries have none of them: one look at the types says so.
        let mut is_any = false;
        entry.visit_wanted(&|_| false, &mut |description, _| {
            let kind: &AttributeType = &description.kind;
            let mut kinds = successors(Some(kind), |kind| kind.superior.as_deref());
            is_any |= kind.families() & self.families != 0
                && kinds.any(|kind| self.numbers.binary_search(&kind.number()).is_ok());
        });
        if !is_any {
            return Grants::default();
        }
        let mut grants = Grants {
            size_limit_entries: limit(entry, &self.size),
            paged_total_entries_max: limit(entry, &self.paged_total),
            time_limit_s: limit(entry, &self.time),
            look_through_limit_entries: limit(entry, &self.look_through),
            search_work_max: limit(entry, &self.work),
            idle_limit_s: limit(entry, &self.idle),
            connections_max: limit(entry, &self.connections),
            operations_max: limit(entry, &self.operations),
            ..Grants::default()
        };
        let mut names: Vec<Vec<u8>> = Vec::new();
        for description in &self.privilege {
            entry.visit_values(description, &mut |_, name| {
                names.push(name.to_vec());
                grants.unindexed_search_with_control |=
                    name.eq_ignore_ascii_case(UNINDEXED_SEARCH_WITH_CONTROL);
                true
            });
        }
        grants.privileges = grants.privileges.changed_by(names.iter().map(Vec::as_slice));
        grants
    }
}

/// Whether a text takes a privilege away: `-NAME`.
pub fn takes_privilege(text: &str) -> bool {
    text.strip_prefix('-').is_some_and(|name| Privilege::from_name(name.as_bytes()).is_some())
}

/// The limit that the first of these attributes sets. What is not positive is no limit: 0 means
/// that to OpenDJ, and -1 to 389 Directory Server.
fn limit(entry: &dyn EntryRead, types: &[Arc<AttributeDescription>]) -> Option<u32> {
    types.iter().find_map(|description| {
        let mut found = None;
        entry.visit_values(description, &mut |_, value| {
            let number = std::str::from_utf8(value).ok().and_then(|text| text.parse::<i64>().ok());
            found = number.map(|number| u32::try_from(number.max(0)).unwrap_or(u32::MAX));
            found.is_none()
        });
        found
    })
}

/// The privilege to search where no index helps with the permit unindexed search control.
const UNINDEXED_SEARCH_WITH_CONTROL: &[u8] = b"unindexed-search-with-control";

#[cfg(test)]
mod tests {
    use aci::Privileges;
    use ldap::dn::Dn;
    use schema::Entry;

    use super::*;

    #[test]
    fn an_entry_is_given_what_its_attributes_say() {
        let schema = Schema::builtin();
        let check = |pairs: &[(&str, &str)], want: Grants| {
            let pairs = pairs.iter().map(|(name, value)| (*name, value.as_bytes()));
            let entry = Entry::from_pairs(Dn::parse("cn=a").unwrap(), pairs, &schema).unwrap();
            assert_eq!(GrantTypes::new(&schema).read(&entry), want);
        };
        let nothing = Grants::default();
        let privileges =
            |names: &[&str]| Privileges::NONE.changed_by(names.iter().map(|name| name.as_bytes()));
        check(&[("cn", "a")], nothing);
        check(
            &[("ds-rlim-size-limit", "5"), ("nsSizeLimit", "7"), ("nsTimeLimit", "-1")],
            Grants { size_limit_entries: Some(5), time_limit_s: Some(0), ..nothing },
        );
        check(
            &[("nsLookThroughLimit", "9"), ("ds-rlim-time-limit", "99999999999")],
            Grants { time_limit_s: Some(u32::MAX), look_through_limit_entries: Some(9), ..nothing },
        );
        check(
            &[("ds-rlim-search-work-limit", "500")],
            Grants { search_work_max: Some(500), ..nothing },
        );
        check(
            &[("ds-rlim-idle-time-limit", "60"), ("nsIdleTimeout", "-1")],
            Grants { idle_limit_s: Some(60), ..nothing },
        );
        check(
            &[("ds-rlim-connection-limit", "3"), ("ds-rlim-operation-limit", "0")],
            Grants { connections_max: Some(3), operations_max: Some(0), ..nothing },
        );
        check(
            &[("ds-privilege-name", "config-read"), ("ds-privilege-name", "Unindexed-Search")],
            Grants { privileges: privileges(&["config-read", "unindexed-search"]), ..nothing },
        );
        check(
            &[("ds-privilege-name", "unindexed-search-with-control")],
            Grants { unindexed_search_with_control: true, ..nothing },
        );
    }
}
