//! The other nodes, as this one reaches them.
//!
//! Invariant: one connection to a node for each purpose, whoever uses it.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use openraft::RaftNetworkFactory;
use tokio::time::Instant;

use super::confirmed::Confirmed;
use super::connection::{CallError, Dialing};
use super::door::MemberAddresses;
use super::frame::{ASK_MAX_BYTES, Kind, Purpose};
use super::link::Link;
use super::network::PeerNetwork;
use super::tls::Credentials;
use crate::copies::Copies;
use crate::types::{Node, Types};

/// The other nodes; clones are the same. What is asked of it is asked within a tokio runtime.
#[derive(Clone)]
pub struct Peers {
    credentials: Credentials,
    links: Arc<Mutex<HashMap<u64, Links>>>,
    addresses: MemberAddresses,
    copies: Option<Arc<Copies>>,
}

/// The ways to one node.
#[derive(Clone)]
pub(crate) struct Links {
    pub(crate) votes: Arc<Link>,
    pub(crate) log: Arc<Link>,
    pub(crate) asks: Arc<Link>,
    pub(crate) copying: Arc<Link>,
    pub(crate) confirmed: Arc<Confirmed>,
}

/// Why an ask has no response.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum AskError {
    /// The node has not got it and never will.
    NotSent(String),
    /// The node may have got it.
    Unknown(String),
}

impl Peers {
    /// Nobody yet.
    #[must_use]
    pub fn new(credentials: Credentials) -> Self {
        let (links, addresses) = (Arc::default(), MemberAddresses::default());
        Self { credentials, links, addresses, copies: None }
    }

    /// With the copies of the data that are sent to whoever lacks what the log no longer has.
    pub(crate) fn sending(self, copies: Arc<Copies>) -> Self {
        Self { copies: Some(copies), ..self }
    }

    /// A node is found at `address` (`HOST:PORT`) from now on.
    pub fn know(&self, node: u64, address: &str) {
        self.links_to(node, address);
    }

    /// A node is no longer one of the cluster.
    pub fn forget(&self, node: u64) {
        self.addresses.forget(node);
        if let Some(links) = self.links().remove(&node) {
            for link in [links.votes, links.log, links.asks, links.copying] {
                link.end("the node was removed from the cluster");
            }
        }
    }

    /// The other nodes are these from now on, with their addresses.
    pub(crate) fn follow(&self, others: &BTreeMap<u64, String>) {
        let gone: Vec<u64> = {
            let links = self.links();
            links.keys().filter(|node| !others.contains_key(node)).copied().collect()
        };
        gone.into_iter().for_each(|node| self.forget(node));
        others.iter().for_each(|(node, address)| self.know(*node, address));
    }

    /// Sends octets to the handler of asks of a node, and waits for what it says, no longer than
    /// `limit`.
    ///
    /// # Errors
    /// Whether the node may have got it.
    pub async fn ask(
        &self,
        node: u64,
        octets: Vec<u8>,
        limit: Duration,
    ) -> Result<Vec<u8>, AskError> {
        let deadline = Instant::now() + limit;
        if octets.len() > ASK_MAX_BYTES {
            return Err(AskError::NotSent(format!("it is longer than {ASK_MAX_BYTES} bytes")));
        }
        let link = self.links().get(&node).map(|links| Arc::clone(&links.asks));
        let link = link.ok_or_else(|| AskError::NotSent(format!("node {node} is not known")))?;
        let connection = link.connection(deadline).await.map_err(AskError::NotSent)?;
        let mut call = connection.begin(Kind::Ask, octets, deadline).await?;
        Ok(call.response(deadline).await?)
    }

    /// The nodes that were found to speak another version of the protocol, and which.
    pub(crate) fn other_protocols(&self) -> BTreeMap<u64, u16> {
        let links = self.links();
        let spoken = links.iter().filter_map(|(node, links)| {
            // What is asked every second.
            Some((*node, links.asks.other_protocol()?))
        });
        spoken.collect()
    }

    /// Where the nodes are.
    pub(crate) const fn addresses(&self) -> &MemberAddresses {
        &self.addresses
    }

    pub(crate) fn own_node(&self) -> u64 {
        self.credentials.identity().node
    }

    fn links_to(&self, node: u64, address: &str) -> Links {
        let mut all = self.links();
        let links = all.entry(node).or_insert_with(|| {
            let to = |purpose| {
                let dialing = Dialing {
                    credentials: self.credentials.clone(),
                    wanted: node,
                    address: address.to_owned(),
                    purpose,
                    addresses: self.addresses.clone(),
                };
                Arc::new(Link::new(dialing))
            };
            Links {
                votes: to(Purpose::Votes),
                log: to(Purpose::Log),
                asks: to(Purpose::Asks),
                copying: to(Purpose::Copies),
                confirmed: Arc::default(),
            }
        });
        for link in [&links.votes, &links.log, &links.asks, &links.copying] {
            link.set_address(address);
        }
        links.clone()
    }

    fn links(&self) -> MutexGuard<'_, HashMap<u64, Links>> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn network(&self, node: u64, at: &Node) -> (u64, Links) {
        (self.own_node(), self.links_to(node, &at.address))
    }
}

impl RaftNetworkFactory<Types> for Peers {
    type Network = PeerNetwork;

    async fn new_client(&mut self, target: u64, node: &Node) -> PeerNetwork {
        let (own, links) = self.network(target, node);
        let network = PeerNetwork::new(own, target, Arc::clone(&links.log), links);
        network.with_copies(self.copies.clone())
    }

    async fn new_heartbeat_client(&mut self, target: u64, node: &Node) -> PeerNetwork {
        let (own, links) = self.network(target, node);
        PeerNetwork::new(own, target, Arc::clone(&links.votes), links)
    }
}

impl From<CallError> for AskError {
    fn from(error: CallError) -> Self {
        match error {
            CallError::TimedOut { is_sent: false } => Self::NotSent(LATE.to_owned()),
            CallError::TimedOut { is_sent: true } => Self::Unknown(LATE.to_owned()),
            CallError::Broken { is_sent: false, reason } => Self::NotSent(reason),
            CallError::Broken { is_sent: true, reason } | CallError::Failed(reason) => {
                Self::Unknown(reason)
            }
        }
    }
}

impl fmt::Display for AskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotSent(reason) => write!(f, "the node was not asked: {reason}"),
            Self::Unknown(reason) => write!(f, "the node did not answer: {reason}"),
        }
    }
}

impl std::error::Error for AskError {}

const LATE: &str = "no response in time";
