//! What one member asks another: the first octet of an ask says what. `docs/cluster-protocol.md`
//! has what follows, and the answers.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::join_all;

use crate::engine::MemberStatus;
use crate::transport::Peers;

/// What the directory answers: the octets that follow are its own.
pub(crate) const ASK_DIRECTORY: u8 = 0;
/// Which state one must have to see everything that was acknowledged.
pub(crate) const ASK_READ: u8 = 1;
/// How the member is doing.
pub(crate) const ASK_STATUS: u8 = 2;
/// What digests it has.
pub(crate) const ASK_DIGESTS: u8 = 3;

/// A change of the members, which whoever leads carries out.
pub(crate) const ASK_MEMBERS: u8 = 4;

/// What a comparison of the data asks, see `verifying/message.rs`.
pub(crate) const ASK_VERIFY: u8 = 5;

/// Why a member does not answer what it does not know: earlier releases say it with these words,
/// too.
pub(crate) const NOT_KNOWN: &str = "nobody knows that";

/// Asks all but this member at once, each no longer than `limit`. Tells what `read` makes of each
/// answer when it comes; none where there is none.
pub(crate) async fn ask_all<T>(
    peers: &Peers,
    members: &[MemberStatus],
    what: u8,
    limit: Duration,
    read: impl Fn(&[u8]) -> Option<T>,
) -> Vec<(u64, Option<T>)> {
    let (own, read) = (peers.own_node(), &read);
    let others = members.iter().map(|member| member.id).filter(|id| *id != own);
    let asked = others.map(|id| async move {
        let said = peers.ask(id, vec![what], limit).await;
        (id, said.ok().and_then(|octets| read(&octets)))
    });
    join_all(asked).await
}

/// Where the other members are asked.
#[derive(Clone)]
pub(crate) enum Asks {
    /// Over connections.
    Peers(Peers),
    /// In a simulation.
    #[cfg(test)]
    Simulated(crate::simulation::Link),
}

impl Asks {
    /// From now on the others are these, with their addresses.
    pub(crate) fn follow(&self, others: &BTreeMap<u64, String>) {
        match self {
            Self::Peers(peers) => peers.follow(others),
            #[cfg(test)]
            Self::Simulated(_) => {}
        }
    }

    /// Asks `leader` which record one must have to see everything that was acknowledged; none when
    /// it cannot tell.
    pub(crate) async fn read(&self, leader: u64, limit: Duration) -> Option<store::Lsn> {
        let peers = match self {
            Self::Peers(peers) => peers,
            #[cfg(test)]
            Self::Simulated(link) => return link.ask_read(leader, limit).await,
        };
        let octets = peers.ask(leader, vec![ASK_READ], limit).await.ok()?;
        let lsn = u64::from_le_bytes(*octets.first_chunk()?);
        lsn.checked_sub(1).map(store::Lsn)
    }
}
