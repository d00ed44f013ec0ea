//! Join (an extended operation of this server): a machine with a token becomes a learner of the
//! cluster; `promotion.rs` has it be a voter later.
//!
//! The value of request and response is JSON; `roster cluster join` asks, without having signed in.
//!
//! Invariant: whoever asks has proved to know the secret of a token that is not over, and that no
//! other key has used, before anything is done for it.
//! Invariant: it is answered only under TLS: the answer has what members keep secret.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use aci::{Access, Identity};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use history::log::{MemberChange, MembersChanged};
use ldap::dn::DnText;
use ldap::message::{
    Controls, ExtendedRequest, Message, MessageId, Modification, ModificationsBuf, ModifyOperation,
    ModifyRequest, PartialAttribute, Request, ValuesBuf,
};
use ldap::result::ResultCode;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::asking::{self, malformed};
use super::change_members::{self, WAIT_MAX, WAIT_MORE};
use super::join_tokens::{self, HASH_BYTES, JoinPart, JoinToken, hex, octets};
use super::monitor_sources::{Admitted, ClusterTeller};
use crate::directory::Directory;
use crate::read::virtual_tree::names::JOIN_TOKENS_DN;
use crate::request::completion::Completion;
use crate::request::extended::call::Call;
use crate::request::job::Job;
use crate::request::refusal::Refusal;
use crate::request::session::{Peer, Session};
use crate::request::sink::ResponseSink;
use crate::request::worker::{Next, Worker};

/// The OID of the extended operation by which a machine joins a cluster.
pub const OID: &str = "2.25.240622864993748405525653984067480598434.3.3";

/// The longest value of the request, in bytes.
const VALUE_MAX_BYTES: usize = 16 << 10;
/// The longest key, in bytes: one of RSA with 8192 bits has less.
const KEY_MAX_BYTES: usize = 2 << 10;
/// The longest secret, in bytes.
const SECRET_MAX_BYTES: usize = 256;

/// What a machine asks that is to join; the value of the operation is this as JSON.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct JoinRequest {
    /// The name of its token, in hexadecimal digits.
    pub token: String,
    /// The secret of the token.
    pub secret: String,
    /// Its public key, as the SubjectPublicKeyInfo of RFC 5280 in DER, in Base64.
    pub key: String,
    /// Where the members are to reach it: `HOST:PORT`.
    pub address: String,
    /// Where clients are to reach it, an LDAP URL.
    pub url: String,
}

/// What it is told.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct JoinAnswer {
    /// Its number.
    pub member: u64,
    /// The number of the cluster, in hexadecimal digits.
    pub cluster: String,
    /// Its certificate, PEM.
    pub certificate: String,
    /// That of the authority.
    pub authority: String,
    /// The private key of the authority.
    pub authority_key: String,
    /// Files of the data directory that all members have, by their names in it.
    pub files: BTreeMap<String, String>,
    /// Whether it is to be a voter when it has caught up.
    pub is_for_voter: bool,
    /// In whose place, if that is a voter now.
    #[serde(default)]
    pub replaces: Option<u64>,
}

/// A request that was read.
struct Asked {
    token: [u8; join_tokens::NAME_BYTES],
    secret: String,
    key: Vec<u8>,
    /// The SHA-256 of the key.
    key_hash: [u8; HASH_BYTES],
    address: String,
    url: String,
}

impl Asked {
    fn read(value: Option<&[u8]>) -> Result<Self, Refusal> {
        let asked: JoinRequest = asking::value(value, VALUE_MAX_BYTES, "is not one of Join")?;
        let JoinRequest { token, secret, key, address, url } = asked;
        let token = octets(&token).map_err(|_| malformed("the token has no name".to_owned()))?;
        let key = BASE64.decode(key).map_err(|_| malformed("the key is not Base64".to_owned()))?;
        if key.is_empty() || key.len() > KEY_MAX_BYTES || secret.len() > SECRET_MAX_BYTES {
            return Err(malformed("the key or the secret is too long, or none".to_owned()));
        }
        check_places(&address, &url).map_err(malformed)?;
        let key_hash = Sha256::digest(&key).into();
        Ok(Self { token, secret, key, key_hash, address, url })
    }

    /// The token of those that are not over, if this one may use it.
    fn find(&self, directory: &Directory) -> Result<JoinToken, Refusal> {
        let now = directory.clock.now();
        let mut reader = directory.storage.store.reader();
        let tokens = join_tokens::tokens(reader.view()?, now)?;
        let token = tokens.into_iter().find(|token| token.name == self.token);
        let token = token.filter(|token| token.has_secret(self.secret.as_bytes()));
        let token = token.ok_or_else(|| {
            let why = "the token is not known here, or is over: make another one with 'roster \
                       cluster token'";
            Refusal::new(ResultCode::InvalidCredentials, why)
        })?;
        match token.key {
            Some(key) if key != self.key_hash => Err(used()),
            _ => Ok(token),
        }
    }
}

fn used() -> Refusal {
    let why = "another machine has used the token: make another one with 'roster cluster token'";
    Refusal::new(ResultCode::InvalidCredentials, why)
}

/// Whether an address of IPv4, if it is one, is that of one machine.
fn is_one(host: &str) -> bool {
    host.parse().map_or(true, |four: Ipv4Addr| {
        !four.is_unspecified() && !four.is_multicast() && !four.is_broadcast()
    })
}

/// Whether members and clients could find the machine there.
pub(super) fn check_places(address: &str, url: &str) -> Result<(), String> {
    let is_host = |host: &str| match host.strip_prefix('[') {
        Some(six) => six.strip_suffix(']').is_some_and(|six| six.parse::<Ipv6Addr>().is_ok()),
        None => {
            let is_of_names = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
            !host.is_empty() && host.bytes().all(is_of_names) && is_one(host)
        }
    };
    let is_port = |port: &str| {
        port.bytes().all(|byte| byte.is_ascii_digit())
            && port.parse().is_ok_and(|port: u16| port > 0)
    };
    let host = |text: &str| {
        text.rsplit_once(':').is_some_and(|(host, port)| is_host(host) && is_port(port))
    };
    let is_plain =
        |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"\\".contains(&byte));
    if !host(address) || !is_plain(address) {
        return Err("the address for the members is not HOST:PORT".to_owned());
    }
    let place = url.strip_prefix("ldap://").or_else(|| url.strip_prefix("ldaps://"));
    let place = place.map(|place| place.strip_suffix('/').unwrap_or(place));
    let is_ldap = place.is_some_and(|place| is_host(place) || host(place));
    if !is_plain(url) || !(url.is_empty() || is_ldap) {
        return Err("the URL for clients is not one of LDAP".to_owned());
    }
    Ok(())
}

/// Checks the token, and gives the request to a pool thread.
pub(crate) fn start(
    worker: &mut Worker,
    session: &mut Session,
    request: &ExtendedRequest<'_>,
    call: &Call<'_>,
    _sink: &mut ResponseSink<'_>,
) -> Result<Next, Refusal> {
    if !session.is_secure() {
        return Err(Refusal::new(
            ResultCode::ConfidentialityRequired,
            "a machine joins under TLS alone",
        ));
    }
    let asked = Asked::read(request.value)?;
    let directory = &worker.directory;
    teller(directory)?;
    if let Err(refusal) = asked.find(directory) {
        let address = &session.peer().address;
        directory.seldom.proof.line(|left_out| {
            tracing::warn!(address, reason = %refusal.diagnostic, left_out, "no machine joined");
        });
        return Err(refusal);
    }
    let denied = call.controls.denied.clone();
    Ok(Next::Later(Job::whole(session, call.envelope, denied, &worker.directory.clock)))
}

/// Has the machine join, on a pool thread.
pub(crate) fn run_job(
    worker: &mut Worker,
    request: &ExtendedRequest<'_>,
    sink: &mut ResponseSink<'_>,
) -> Completion {
    worker.snapshot.release();
    match Asked::read(request.value).and_then(|asked| join(worker, &asked)) {
        Ok(answer) => {
            let json = serde_json::to_vec(&answer).unwrap_or_default();
            sink.extended(Some(OID), Some(&json))
        }
        Err(refusal) => sink.end(refusal, Controls::EMPTY),
    }
}

fn join(worker: &mut Worker, asked: &Asked) -> Result<JoinAnswer, Refusal> {
    let directory = Arc::clone(&worker.directory);
    let token = asked.find(&directory)?;
    // Before anything is done: without the authority's key nothing would come of it.
    let teller = teller(&directory)?;
    (teller.can_admit)(&asked.key).map_err(no_authority)?;
    // Taking waits as well: who asks on many connections gets one thread, and the rest is busy.
    let _changing = change_members::begin(&directory)?;
    if token.key.is_none() {
        take(worker, &token, asked)?;
    }
    let change = MemberChange::Join {
        address: asked.address.clone(),
        url: asked.url.clone(),
        key: hex(&asked.key_hash),
        replaces: token.part.replaces(),
    };
    let MembersChanged::Joined(member) = change_members::ask(&directory, change)? else {
        return Err(Refusal::new(ResultCode::Other, "the cluster gave the machine no number"));
    };
    let Admitted { cluster, certificate, authority, authority_key, files } =
        (teller.admit)(member, &asked.key).map_err(no_authority)?;
    tracing::info!(member, address = asked.address, "a machine joined with a token");
    let is_for_voter = token.part != JoinPart::Learner;
    let replaces = token.part.replaces();
    Ok(JoinAnswer {
        member,
        cluster: hex(&cluster),
        certificate,
        authority,
        authority_key,
        files,
        is_for_voter,
        replaces,
    })
}

/// Writes that the machine has the token: whoever comes first.
fn take(worker: &mut Worker, token: &JoinToken, asked: &Asked) -> Result<(), Refusal> {
    let taken = JoinToken { key: Some(asked.key_hash), ..token.clone() };
    let changes =
        [(ModifyOperation::Delete, token.to_string()), (ModifyOperation::Add, taken.to_string())];
    change_tokens(worker, &changes).map_err(|refusal| match refusal.code {
        // Somebody else took it, or it was deleted.
        ResultCode::NoSuchAttribute => used(),
        _ => refusal,
    })
}

/// Changes the tokens on the server's own account, whoever leads.
pub(super) fn change_tokens(
    worker: &mut Worker,
    changes: &[(ModifyOperation, String)],
) -> Result<(), Refusal> {
    let mut list = ModificationsBuf::new();
    for (operation, text) in changes {
        let values: ValuesBuf = [text.as_bytes()].into_iter().collect();
        let (description, values) = (join_tokens::ATTRIBUTE, values.as_ref());
        let attribute = PartialAttribute { description, values };
        list.push(Modification { operation: *operation, attribute });
    }
    let modify = ModifyRequest { name: JOIN_TOKENS_DN, changes: list.as_ref() };
    let mut message = Vec::new();
    let id = MessageId(1);
    Message { id, op: Request::Modify(modify), controls: Controls::EMPTY }.encode(&mut message);
    let peer = Peer { address: "join".to_owned(), secure: true, ..Peer::default() };
    let mut session = Session::new(peer);
    let root = &worker.directory.credentials.root.dn;
    session.set_access(Access::of(Identity::Root(DnText::from(root))), "");
    let mut out = Vec::new();
    let Next::Write(pending) = worker.handle(&mut session, &message, &mut out) else {
        return Err(Refusal::new(ResultCode::Other, "the token cannot be written here"));
    };
    let (told, heard) = sync_channel(1);
    pending.submit(Box::new(move |done| drop(told.try_send(done.completion))));
    let done = heard.recv_timeout(WAIT_MAX + WAIT_MORE).map_err(|_| {
        Refusal::new(ResultCode::Other, "whether the token was used is not known: run it again")
    })?;
    match done.code {
        Some(ResultCode::Success) => Ok(()),
        code => Err(Refusal::new(code.unwrap_or(ResultCode::Other), done.diagnostic)),
    }
}

fn teller(directory: &Directory) -> Result<&ClusterTeller, Refusal> {
    directory.monitors.cluster.get().ok_or_else(change_members::no_member)
}

fn no_authority(why: String) -> Refusal {
    Refusal::new(ResultCode::UnwillingToPerform, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(address: &str, url: &str, key: &str) -> Result<Asked, Refusal> {
        let request = JoinRequest {
            token: "0".repeat(32),
            secret: "secret".to_owned(),
            key: key.to_owned(),
            address: address.to_owned(),
            url: url.to_owned(),
        };
        Asked::read(Some(&serde_json::to_vec(&request).unwrap()))
    }

    #[test]
    fn what_no_member_could_use_is_refused() {
        let good = |address: &str, url: &str| asked(address, url, "AAAA").is_ok();
        assert!(good("192.0.2.1:7636", ""));
        assert!(good("[2001:db8::1]:7636", "ldaps://a.example.com"));
        assert!(good("a:1", "ldap://[2001:db8::1]") && good("a:1", "ldap://a:389/"));
        for address in ["", "192.0.2.1", ":7636", "a:0", "a:65536", "a b:1", "a\":1", "a\n:1"] {
            assert!(!good(address, ""), "{address}");
        }
        for address in ["[::1", "::1:7636", "[::1]", "[a]:1", "[::1]7636", "a]:1"] {
            assert!(!good(address, ""), "{address}");
        }
        for url in ["ldap://", "ldap://a:99999", "ldap://a/b", "ldap://::1", "ldap://a@b"] {
            assert!(!good("a:1", url), "{url}");
        }
        assert!(!good("a:1", "http://a"));
        assert!(!good("a:1", "ldap://a\n"));
        assert!(asked("a:1", "", "").is_err());
        assert!(asked("a:1", "", "?").is_err());
        assert!(asked("a:1", "", &"A".repeat(4096)).is_err());
        assert!(Asked::read(None).is_err());
        assert!(Asked::read(Some(&[b' '; VALUE_MAX_BYTES + 1])).is_err());
        assert!(Asked::read(Some(br#"{"token": 1}"#)).is_err());
    }
}
