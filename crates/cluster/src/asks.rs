//! What one member asks another about the state that it reads.

use std::time::Duration;

use crate::transport::Peers;

/// Which state one must have to see everything that was acknowledged.
pub(crate) const ASK_READ: u8 = 1;

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
