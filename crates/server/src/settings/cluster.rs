//! `[cluster]`: this server as one of several that have one directory.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ::cluster::Node;
use directory::DefaultReadLevel;
use ldap::dn::Dn;

/// `[cluster]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterSettings {
    /// The number of this server among the members; 0 = it is alone.
    pub id: u64,
    /// Where the other members reach it.
    pub listen: Vec<SocketAddr>,
    /// Who takes part, with their numbers; as written, see [`Self::members_by_number`].
    pub members: Vec<(u64, Node)>,
    /// Who of them should lead as long as one of them can; empty: all alike.
    pub preferred: BTreeSet<u64>,
    /// Directory with `ca.pem`, `node.pem` and `node.key`; relative to the data directory.
    pub certificates: PathBuf,
    /// How long nobody decides, about, when the leader is lost; 0: as the sites say.
    pub failover_after: Duration,
    /// Whether the members are at several sites, with slow networks between them.
    pub has_several_sites: bool,
    /// How much of the log is kept for members that fall behind, in bytes.
    pub log_keep_bytes: u64,
    /// The most octets in a second of copies for members that fell behind further.
    pub copy_rate_bytes: u64,
    /// The most octets in a second that a comparison of the data reads on each member.
    pub verify_rate_bytes: u64,
    /// How long an update waits for whoever decides.
    pub write_wait: Duration,
    /// Whether clients are referred to whoever decides, instead of handing on what they ask for.
    pub refers_writes: bool,
    /// How fresh reads are in naming contexts, or parts of them, where they do not say.
    pub read_levels: Vec<(String, DefaultReadLevel)>,
    /// How long a read waits until the data are fresh enough.
    pub read_wait: Duration,
    /// Reads that wait for that.
    pub waiting_reads_max: usize,
}

impl ClusterSettings {
    /// How long the others wait for a leader that is silent before they elect another, which takes
    /// them as long again at the most, but for bad luck.
    #[must_use]
    pub fn silence_max(&self) -> Duration {
        let failover_after = match (self.failover_after, self.has_several_sites) {
            (Duration::ZERO, false) => FAILOVER_AFTER_ONE_SITE,
            (Duration::ZERO, true) => FAILOVER_AFTER_SEVERAL_SITES,
            (set, _) => set,
        };
        failover_after / 2
    }

    /// Who takes part, by number.
    ///
    /// # Errors
    /// Which number or address is there twice: members that count each other differently would
    /// decide without a majority.
    pub fn members_by_number(&self) -> Result<BTreeMap<u64, Node>, String> {
        let mut members: BTreeMap<u64, Node> = BTreeMap::new();
        for (id, node) in &self.members {
            if members.values().any(|other| other.address == node.address) {
                let address = &node.address;
                return Err(format!("the address {address} is twice in cluster.members"));
            }
            if members.insert(*id, node.clone()).is_some() {
                return Err(format!("the number {id} is twice in cluster.members"));
            }
        }
        Ok(members)
    }
}

/// After so long another leader decides, about, where the members are at one site.
const FAILOVER_AFTER_ONE_SITE: Duration = Duration::from_secs(2);
/// And so where they are at several.
const FAILOVER_AFTER_SEVERAL_SITES: Duration = Duration::from_secs(8);

/// What a member is written as.
pub(super) const FORM: &str = "members like \"1 192.0.2.1:7636 ldap://192.0.2.1:1389\": a number \
                               from 1, the address for the others, and the URL for clients";

/// What a preferred member is written as.
pub(super) const PREFERRED_FORM: &str = "numbers of members";
/// What the level of a naming context is written as.
pub(super) const LEVEL_FORM: &str = "levels with a name like \"linearizable dc=example,dc=com\" or \
                                     \"bounded 500 dc=example,dc=com\"";

/// Reads the level of a naming context.
pub(super) fn level(text: &str) -> Option<(String, DefaultReadLevel)> {
    let (level, name) = DefaultReadLevel::before(text)?;
    Dn::parse(name).ok().filter(|dn| !dn.is_root()).map(|_| (name.to_owned(), level))
}

/// The longest address or URL, in bytes.
const TEXT_MAX_BYTES: usize = 1024;

/// Reads a member.
pub(super) fn member(text: &str) -> Option<(u64, Node)> {
    let mut parts = text.split_ascii_whitespace();
    let id: u64 = parts.next()?.parse().ok()?;
    let address = parts.next()?;
    let (host, port) = address.rsplit_once(':')?;
    let url = parts.next().unwrap_or_default();
    let is_url = url.is_empty() || url.starts_with("ldap://") || url.starts_with("ldaps://");
    let is_well_formed = (1..=ID_MAX).contains(&id)
        && !host.is_empty()
        && port.parse::<u16>().is_ok_and(|port| port > 0)
        && is_url
        && text.len() <= TEXT_MAX_BYTES
        && parts.next().is_none();
    let node = Node { address: address.to_owned(), url: url.to_owned(), ..Node::default() };
    is_well_formed.then_some((id, node))
}

/// The largest number of a member with which a cluster begins.
const ID_MAX: u64 = ::cluster::CHOSEN_MAX;
/// The largest number of a member: those that join later get theirs from the log.
pub(super) const JOINED_MAX: u64 = 1 << 52;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_times_of_elections_follow_from_one() {
        let silence_ms = |failover_after_ms, has_several_sites| {
            let failover_after = Duration::from_millis(failover_after_ms);
            let settings =
                ClusterSettings { failover_after, has_several_sites, ..Default::default() };
            settings.silence_max().as_millis()
        };
        assert_eq!([silence_ms(0, false), silence_ms(0, true)], [1_000, 4_000]);
        assert_eq!([silence_ms(5_000, false), silence_ms(5_000, true)], [2_500; 2]);
        assert_eq!(::cluster::SILENCE_MAX.as_millis(), 1_000, "the default of the engine");
    }

    #[test]
    fn no_number_and_no_address_of_a_member_is_there_twice() {
        let of = |texts: &[&str]| {
            let members = texts.iter().map(|text| member(text).unwrap()).collect();
            ClusterSettings { members, ..ClusterSettings::default() }.members_by_number()
        };
        assert_eq!(of(&["1 a.example:7636", "2 b.example:7636"]).unwrap().len(), 2);
        let number = of(&["1 a.example:7636", "1 b.example:7636"]).unwrap_err();
        assert_eq!(number, "the number 1 is twice in cluster.members");
        let address = of(&["1 a.example:7636", "2 a.example:7636"]).unwrap_err();
        assert_eq!(address, "the address a.example:7636 is twice in cluster.members");
    }
}
