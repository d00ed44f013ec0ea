//! One client connection and its authorization state (RFC 4513 §2).

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aci::{Access, ClientOrigin, Identity, Method};
use ldap::message::{DecodeLimits, Message, MessageId, Request};
use ldap::result::ResultCode;
use schema::EntryId;

use crate::bind::authentication::{AuthenticationOptions, Confidentiality, EXTERNAL};
use crate::bind::sasl::exchange::Pending;
use crate::forward::request::{ForwardedIdentity, ForwardedSession};
use crate::read::fresh::level::DefaultReadLevel;
use crate::request::asker_queues::{Asker, network};
use crate::request::cancel::{self, Cancel};
use crate::request::identity_limits::{CountedConnection, CountedOperation};
use crate::request::large_turns::LargeTurns;
use crate::request::protection::{ChannelBindings, ClientCertificate, Tls};
use crate::request::refusal::Refusal;
use crate::write::transactions::Transactions;
pub(crate) use history::record::Who;

/// Where a connection comes from.
#[derive(Clone, Debug, Default)]
pub struct Peer {
    /// The client's address, for logs.
    pub address: String,
    /// The same for access rules; `None` on a Unix socket.
    pub ip: Option<IpAddr>,
    /// A proxy told the address: it says nothing about the way to this server.
    pub is_proxied: bool,
    /// Who is at the other end of a Unix socket; `None` on TCP.
    pub local_user: Option<LocalUser>,
    /// Whether the connection is protected by TLS from its first octet (LDAPS).
    pub secure: bool,
    /// How fresh its reads are where they do not say.
    pub read_level: DefaultReadLevel,
}

/// A user of this machine, as the kernel vouches for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct LocalUser {
    /// Numeric user id.
    pub uid: u32,
    /// Numeric group id.
    pub gid: u32,
}

/// The state of one connection.
#[derive(Debug)]
pub struct Session {
    peer: Peer,
    access: Arc<Access>,
    who: Arc<Who>,
    /// As whom the request at hand is carried out, when it is somebody else.
    assumed: Option<(Arc<Access>, Arc<Who>)>,
    secure: bool,
    /// The name of the client's host, as it was confirmed.
    host_name: Option<Arc<str>>,
    tls: Option<Box<Tls>>,
    /// A SASL bind whose client is to send more.
    pending: Option<Pending>,
    outstanding: Vec<Outstanding>,
    /// The ids of Cancels that had their effect and are still to be answered.
    canceled_ahead: Vec<MessageId>,
    /// Which request may send an entry in parts.
    large_turns: LargeTurns,
    /// Its place among the connections of its identity, where those are counted.
    counted_connection: Option<CountedConnection>,
    /// That of the request at hand among the operations of its identity.
    counted_operation: Option<CountedOperation>,
    transactions: Transactions,
    policy: Option<ChosenPolicy>,
    /// The account that has to change its password before anything else.
    must_change: Option<EntryId>,
    /// Nobody on this connection, once it was: every bind begins as that.
    nobody: Option<(Arc<Access>, Arc<Who>)>,
    /// The connection is another node's.
    is_elsewhere: bool,
}

/// Which policy of connections holds for a session (see `policy.rs`), as long as nothing about it
/// changes.
#[derive(Debug)]
pub(crate) struct ChosenPolicy {
    pub(crate) access: Arc<Access>,
    pub(crate) secure: bool,
    pub(crate) policy: Option<usize>,
}

/// A request that is not answered yet.
#[derive(Debug)]
struct Outstanding {
    id: MessageId,
    cancel: Cancel,
    /// A bind is not abandoned by a request.
    is_bind: bool,
    _counted: Option<CountedOperation>,
}

impl Session {
    pub(crate) fn new(peer: Peer) -> Self {
        let secure = peer.secure;
        let identity = Identity::Anonymous;
        let number = SESSIONS.fetch_add(1, Ordering::Relaxed);
        let mut session = Self {
            who: who(&identity, &peer.address, "", number),
            peer,
            access: Arc::new(Access::of(identity.clone())),
            secure,
            assumed: None,
            host_name: None,
            tls: None,
            pending: None,
            outstanding: Vec::new(),
            canceled_ahead: Vec::new(),
            large_turns: LargeTurns::default(),
            counted_connection: None,
            counted_operation: None,
            transactions: Transactions::default(),
            policy: None,
            must_change: None,
            nobody: None,
            is_elsewhere: false,
        };
        session.set_access(Access::of(identity), "");
        session
    }

    /// A session of another node, as that told of it: with what its identity may do now, and the
    /// mechanism by which it was proved.
    pub(crate) fn of_another(
        told: ForwardedSession,
        access: Access,
        mechanism: &'static str,
    ) -> Self {
        let ForwardedSession { who, peer, key_bits, host_name, must_change, .. } = told;
        let is_secure = peer.secure;
        let mut session = Self::new(peer);
        if is_secure {
            session.set_tls(Tls { strength_bits: key_bits, ..Tls::default() });
        }
        session.host_name = host_name.map(Arc::from);
        session.access = Arc::new(access.from_origin(session.origin(mechanism)));
        session.who = Arc::new(Who { mechanism: mechanism.into(), ..who });
        session.must_change = must_change;
        session.is_elsewhere = true;
        session
    }

    /// What another node has to know of it to decide in its place. Of whom a single request is
    /// carried out for, that request tells.
    pub(crate) fn to_another(&self) -> ForwardedSession {
        let identity = match self.access.identity() {
            Identity::Anonymous => ForwardedIdentity::Anonymous,
            Identity::Root(dn) => ForwardedIdentity::Root(dn.as_str().to_owned()),
            Identity::Entry(dn) => ForwardedIdentity::Entry {
                name: dn.as_str().to_owned(),
                entry: self.access.entry().unwrap_or(EntryId::ROOT),
                prover: self.access.prover(),
            },
        };
        ForwardedSession {
            identity,
            who: Who::clone(&self.who),
            peer: Peer { secure: self.secure, ..self.peer.clone() },
            key_bits: self.tls.as_ref().map_or(0, |tls| tls.strength_bits),
            host_name: self.host_name.as_deref().map(str::to_owned),
            must_change: self.must_change,
        }
    }

    /// Whether the connection is another node's, which looks at what its settings say of it.
    pub(crate) fn is_elsewhere(&self) -> bool {
        self.is_elsewhere
    }

    /// The number of the connection since the server started.
    pub(crate) fn number(&self) -> u64 {
        self.who.session
    }

    /// Whether TLS protects the connection.
    pub fn is_secure(&self) -> bool {
        self.secure
    }

    /// TLS was negotiated: from the start, or after StartTLS (RFC 4511 §4.14).
    pub fn set_tls(&mut self, tls: Tls) {
        self.secure = true;
        self.tls = Some(Box::new(tls));
        // It came from elsewhere.
        self.nobody = None;
        // What was begun without protection does not go on under it.
        self.pending = None;
        let ClientOrigin { method, .. } = *self.access.origin();
        let origin = ClientOrigin { method, ..self.origin("") };
        self.access = Arc::new((*self.access).clone().from_origin(origin));
    }

    /// The name of the client's host is known, or that it has none.
    pub fn set_host_name(&mut self, name: Option<Arc<str>>) {
        self.host_name = name;
        self.nobody = None;
        let ClientOrigin { method, .. } = *self.access.origin();
        let origin = ClientOrigin { method, ..self.origin("") };
        self.access = Arc::new((*self.access).clone().from_origin(origin));
    }

    /// Where requests come from, as access rules ask about it.
    pub(crate) fn origin(&self, mechanism: &'static str) -> ClientOrigin {
        let address = match self.peer.local_user {
            Some(_) => None,
            None => match self.peer.ip {
                Some(ip) => Some(ip.to_canonical()),
                None => address_of(&self.peer.address),
            },
        };
        let method = match mechanism {
            "" => Method::Anonymous,
            SIMPLE => Method::Simple,
            EXTERNAL if self.secure => Method::Certificate,
            name => Method::Sasl(name),
        };
        ClientOrigin { address, host_name: self.host_name.clone(), ssf: self.ssf(), method }
    }

    /// The client's address; `None` on a Unix socket.
    pub fn ip(&self) -> Option<IpAddr> {
        self.peer.ip
    }

    /// How strongly the connection is protected: the bits of the key, 0 without protection.
    pub fn ssf(&self) -> u32 {
        match (self.secure, self.peer.local_user) {
            (true, _) => self.tls.as_ref().map_or(SSF_TLS, |tls| tls.strength_bits.max(SSF_TLS)),
            (false, Some(_)) => SSF_LOCAL,
            (false, None) => 0,
        }
    }

    /// How the client proved who it is: `simple`, or a SASL mechanism; empty when it did not.
    pub fn mechanism(&self) -> &str {
        &self.who.mechanism
    }

    /// The client certificate that TLS verified.
    pub(crate) fn client_certificate(&self) -> Option<&ClientCertificate> {
        self.tls.as_ref().and_then(|tls| tls.client.as_ref())
    }

    /// What only the two ends of this connection know.
    pub(crate) fn bindings(&self) -> Option<&ChannelBindings> {
        self.tls.as_ref().map(|tls| &tls.bindings)
    }

    /// Whether passwords may be taken: nobody on the way can read them, or the settings of the node
    /// say that it does not matter.
    pub(crate) fn is_confidential(&self, options: &AuthenticationOptions) -> bool {
        self.is_protected(options.confidentiality)
    }

    /// Whether PLAIN may be taken: where passwords may be, and its own setting says so, too.
    pub(crate) fn takes_plain(&self, options: &AuthenticationOptions) -> bool {
        self.is_confidential(options) && self.is_protected(options.plain_confidentiality)
    }

    /// Whether the connection is protected where it has to be.
    fn is_protected(&self, where_needed: Confidentiality) -> bool {
        let is_local = self.peer.local_user.is_some() || self.peer.ip.is_none();
        let is_near = is_local
            || (!self.peer.is_proxied
                && self.peer.ip.is_some_and(|ip| ip.to_canonical().is_loopback()));
        self.secure
            || match where_needed {
                Confidentiality::Always => is_local,
                Confidentiality::Remote => is_near,
                Confidentiality::Never => true,
            }
    }

    /// An exchange of SASL messages goes on with the next bind.
    pub(crate) fn set_pending(&mut self, pending: Pending) {
        self.pending = Some(pending);
    }

    /// The exchange that this bind may go on with; it is over unless it is set again.
    pub(crate) fn take_pending(&mut self) -> Option<Pending> {
        self.pending.take()
    }

    /// Who the client says it is, where an exchange of messages has come so far.
    pub(crate) fn proving(&self) -> Option<&str> {
        self.pending.as_ref().and_then(|pending| pending.exchange.username())
    }

    /// Whether the client is in the middle of a SASL bind.
    pub(crate) fn is_binding(&self) -> bool {
        self.pending.is_some()
    }

    /// Who is asking.
    pub fn identity(&self) -> &Identity {
        self.access().identity()
    }

    /// The entry that has signed in; none for the administrator and for strangers.
    pub fn entry(&self) -> Option<EntryId> {
        self.access.entry()
    }

    /// How long its client may stay silent, when it has a limit of its own; zero: for ever.
    pub fn idle_limit(&self) -> Option<Duration> {
        self.access.grants().idle_limit_s.map(|seconds| Duration::from_secs(seconds.into()))
    }

    /// Where the client is, as it was told when the connection began.
    pub fn client_address(&self) -> &str {
        &self.peer.address
    }

    /// Whether a request may begin to send an entry in parts: no other one is at that, see
    /// [`Job::waits_for_turn`].
    ///
    /// [`Job::waits_for_turn`]: crate::Job::waits_for_turn
    pub fn may_send_in_parts(&self) -> bool {
        self.large_turns.is_free()
    }

    /// The turns of its requests to send an entry in parts.
    pub(crate) fn large_turns(&self) -> LargeTurns {
        self.large_turns.clone()
    }

    /// Requests of this connection that are not answered yet.
    pub fn outstanding(&self) -> usize {
        self.outstanding.len()
    }

    /// Nobody waits any more, because the connection is gone or a bind came: stops what still
    /// works for it. Writes that were decided go on. The requests stay listed until whoever works
    /// on them says they are over, as with `abandon`.
    pub fn abandon_all(&mut self) {
        for request in &self.outstanding {
            request.cancel.set();
        }
    }

    /// The answer to a write of this connection has arrived.
    pub fn forget(&mut self, id: MessageId) {
        self.outstanding.retain(|request| request.id != id);
    }

    /// A whole message that will be handled later: when it gives up a request, that is done now
    /// already. Everything else about it waits, and the answer to a Cancel. What waits for hashes
    /// is not to be canceled: `may_cancel` is false then.
    pub fn look_ahead(&mut self, message: &[u8], may_cancel: bool) {
        if message.len() > AHEAD_MESSAGE_MAX_BYTES {
            return;
        }
        let Ok(decoded) = Message::<Request<'_>>::decode(message, &DecodeLimits::default()) else {
            return;
        };
        match decoded.op {
            Request::Abandon(id) => self.abandon(id),
            Request::Extended(request)
                if may_cancel
                    && decoded.controls.is_empty()
                    && self.canceled_ahead.len() < CANCELED_AHEAD_MAX
                    && let Some(id) = cancel::target(&request)
                    && self.cancel(id).is_ok() =>
            {
                self.canceled_ahead.push(decoded.id);
            }
            _ => {}
        }
    }

    /// Whether the Cancel with this id had its effect before it was handled; it is forgotten.
    pub(crate) fn was_canceled_ahead(&mut self, by: MessageId) -> bool {
        let found = self.canceled_ahead.iter().position(|id| *id == by);
        found.map(|place| self.canceled_ahead.swap_remove(place)).is_some()
    }

    pub(crate) fn peer(&self) -> &Peer {
        &self.peer
    }

    pub(crate) fn access(&self) -> &Arc<Access> {
        match &self.assumed {
            Some((access, _)) => access,
            None => &self.access,
        }
    }

    /// That of the session itself, whomever the request at hand is carried out for.
    pub(crate) fn own_access(&self) -> &Arc<Access> {
        &self.access
    }

    /// The request at hand is carried out with another access (RFC 4370).
    pub(crate) fn assume(&mut self, access: Access) {
        let access = access.from_origin(self.access.origin().clone());
        let authz = access.identity().authorization_id();
        let who = Who { authz, ..Who::clone(&self.who) };
        self.assumed = Some((Arc::new(access), Arc::new(who)));
    }

    /// The request at hand is done with: the session acts as itself.
    pub(crate) fn resume(&mut self) {
        self.assumed = None;
        self.counted_operation = None;
    }

    /// Whether the request at hand is carried out for somebody else.
    pub(crate) fn is_assumed(&self) -> bool {
        self.assumed.is_some()
    }

    /// Who asks, as the change records note it; another one as soon as somebody else does.
    pub fn who(&self) -> &Arc<Who> {
        match &self.assumed {
            Some((_, who)) => who,
            None => &self.who,
        }
    }

    /// The client has proved who it is: from now on it is that identity, with its place among the
    /// connections that are.
    pub(crate) fn bind_as(
        &mut self,
        access: Access,
        mechanism: &'static str,
        connection: Option<CountedConnection>,
    ) {
        self.counted_connection = connection;
        self.set_access(access, mechanism);
    }

    /// The entry that signed in gives this access now; says whether that is another one.
    pub(crate) fn refresh(&mut self, access: Access) -> bool {
        let access = access.from_origin(self.access.origin().clone());
        if *self.access == access {
            return false;
        }
        if self.access.identity() != access.identity() {
            let authz = access.identity().authorization_id();
            self.who = Arc::new(Who { authz, ..Who::clone(&self.who) });
        }
        self.access = Arc::new(access);
        true
    }

    /// Counts the request at hand among the operations of the identity, if there may be one more.
    pub(crate) fn count_operation(&mut self) -> Result<(), Refusal> {
        self.counted_operation = match &self.counted_connection {
            Some(connection) => connection.count_operation()?,
            None => None,
        };
        Ok(())
    }

    pub(crate) fn set_access(&mut self, access: Access, mechanism: &'static str) {
        let access = access.from_origin(self.origin(mechanism));
        if *self.access != access || self.who.mechanism != mechanism {
            let Who { session, .. } = *self.who;
            self.who = who(access.identity(), &self.peer.address, mechanism, session);
            self.access = Arc::new(access);
        }
    }

    /// The account that has to change its password before anything else.
    pub(crate) fn must_change(&self) -> Option<EntryId> {
        self.must_change
    }

    pub(crate) fn set_must_change(&mut self, account: Option<EntryId>) {
        self.must_change = account;
    }

    /// The policy that was found for it.
    pub(crate) fn policy(&mut self) -> &mut Option<ChosenPolicy> {
        &mut self.policy
    }

    /// Whether a right that an update of this transaction needs may come from those before it.
    pub(crate) fn may_gain_rights(&self, transaction: Option<&[u8]>) -> bool {
        transaction.is_some_and(|identifier| self.transactions.may_give_rights(identifier))
    }

    /// The transactions under way.
    pub(crate) fn transactions(&mut self) -> &mut Transactions {
        &mut self.transactions
    }

    pub(crate) fn is_outstanding(&self, id: MessageId) -> bool {
        self.outstanding.iter().any(|request| request.id == id)
    }

    /// A bind came that is refused before anybody looks at it: the client is nobody, as with every
    /// bind (RFC 4513 §4).
    pub(crate) fn refuse_bind(&mut self) {
        self.start_bind();
        self.pending = None;
    }

    /// A bind came: all other requests of the session are given up (RFC 4511 §4.2.1), and it is
    /// anonymous unless and until the bind succeeds (RFC 4513 §4). Its transactions are forgotten.
    pub(crate) fn start_bind(&mut self) {
        self.abandon_all();
        self.transactions.clear();
        self.counted_connection = None;
        self.must_change = None;
        match &self.nobody {
            Some((access, who)) => {
                (self.access, self.who) = (Arc::clone(access), Arc::clone(who));
            }
            None => {
                self.set_access(Access::of(Identity::Anonymous), "");
                self.nobody = Some((Arc::clone(&self.access), Arc::clone(&self.who)));
            }
        }
    }

    /// Notes a request that will be answered later, so that it can be abandoned.
    pub(crate) fn begin(&mut self, id: MessageId) -> Cancel {
        let cancel = Cancel::default();
        let counted = self.counted_operation.take();
        self.outstanding.push(Outstanding {
            id,
            cancel: cancel.clone(),
            is_bind: false,
            _counted: counted,
        });
        cancel
    }

    /// A request that was noted is a bind, which no request gives up (RFC 4511 §4.11): a password
    /// would have been tried, and a wrong one not be counted.
    pub(crate) fn hold_bind(&mut self, id: MessageId) {
        for request in self.outstanding.iter_mut().filter(|request| request.id == id) {
            request.is_bind = true;
        }
    }

    /// RFC 3909 §2.1: has a request answered `canceled`, unless it is too late for that.
    pub(crate) fn cancel(&self, id: MessageId) -> Result<(), ResultCode> {
        let found = self.outstanding.iter().find(|request| request.id == id);
        found.ok_or(ResultCode::NoSuchOperation)?.cancel.cancel()
    }

    /// RFC 4511 §4.11: an unknown id is silently ignored. The request stays listed until whoever
    /// works on it says it is over, so that its id cannot be used twice meanwhile.
    pub(crate) fn abandon(&mut self, id: MessageId) {
        let is_it = |request: &&Outstanding| request.id == id && !request.is_bind;
        for request in self.outstanding.iter().filter(is_it) {
            request.cancel.set();
        }
    }
}

impl Asker {
    /// Who asks in a session. Always the one who has signed in, even where a request is carried out
    /// for somebody else: so the requests of one connection stay in their order.
    pub fn of(session: &Session) -> Self {
        match (session.own_access().identity(), session.entry()) {
            (Identity::Root(_), _) => Self::Root,
            (Identity::Entry(_), Some(id)) => Self::Entry(id),
            (Identity::Entry(_) | Identity::Anonymous, _) => {
                session.ip().map_or(Self::Local, |ip| Self::Address(network(ip)))
            }
        }
    }
}

/// Who asks, as the change records note it. The authorization identity is that of the bind.
fn who(identity: &Identity, address: &str, mechanism: &'static str, session: u64) -> Arc<Who> {
    Arc::new(Who {
        dn: identity.dn().map(|dn| dn.as_str().to_owned()).unwrap_or_default(),
        authz: String::new(),
        address: address.to_owned(),
        mechanism: mechanism.into(),
        session,
    })
}

/// The address in the text that names a peer: with a port or without.
fn address_of(text: &str) -> Option<IpAddr> {
    let with_port = text.parse().map(|socket: SocketAddr| socket.ip());
    with_port.or_else(|_| text.parse()).ok().map(|address: IpAddr| address.to_canonical())
}

/// What TLS counts as: the weakest key that is taken is of so many bits.
const SSF_TLS: u32 = 128;
/// What a socket of this machine counts as, as OpenLDAP has it.
const SSF_LOCAL: u32 = 71;

/// The size of the longest Abandon or Cancel without controls, and some more.
const AHEAD_MESSAGE_MAX_BYTES: usize = 64;
/// So many Cancels have their effect before they are handled; more wait.
const CANCELED_AHEAD_MAX: usize = 64;

/// The mechanism of an identity that was proved with name and password.
pub(crate) const SIMPLE: &str = "simple";

/// Sessions of this process so far.
static SESSIONS: AtomicU64 = AtomicU64::new(1);
