//! GSSAPI (RFC 4752): Kerberos tickets, accepted with the keys of the service's keytab.
//!
//! A principal of the service's own realm stands for the user of its name, and every principal for
//! the user whose name is the whole principal; who that is, the identity mapper says. There is no
//! security layer: TLS protects connections.
//!
//! Invariant: only tickets for the service `ldap` are accepted, whatever else is in the keytab.

use std::sync::Arc;

use aci::Access;
use ldap::result::ResultCode;
use libgssapi::context::{SecurityContext as _, ServerCtx};
use libgssapi::credential::{Cred, CredUsage};
use libgssapi::error::Error;
use libgssapi::name::Name;
use libgssapi::oid::{GSS_MECH_KRB5, OidSet};

use super::exchange::{Exchange, GssapiExchange, Stage};
use super::mechanism::{Message, Step, authorize, malformed};
use crate::bind::identity_mapper;
use crate::bind::user_name::UserName;
use crate::request::refusal::Refusal;
use crate::request::seldom::SeldomLines;
use crate::request::session::Session;
use crate::request::worker::Worker;

/// A Kerberos name.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Principal<'n> {
    whole: &'n str,
    /// The part before the realm.
    name: &'n str,
    realm: &'n str,
}

impl<'n> Principal<'n> {
    /// Reads `anna@EXAMPLE.ORG` or `ldap/host@EXAMPLE.ORG`. A name that has to be quoted, because
    /// it has one of these signs in it, is nobody's here.
    fn read(whole: &'n str) -> Option<Self> {
        let (name, realm) = whole.rsplit_once('@')?;
        let is_plain = !name.is_empty()
            && !realm.is_empty()
            && !whole.contains(['\\', '\0'])
            && !name.contains('@');
        is_plain.then_some(Self { whole, name, realm })
    }
}

/// Whether there are keys to accept tickets with; if not, why.
pub(crate) fn check() -> Result<(), String> {
    credentials().map(|_| ()).map_err(|error| error.to_string())
}

/// Those of the keytab, which is read anew each time: it may have changed.
fn credentials() -> Result<Cred, Error> {
    let mut kerberos = OidSet::new();
    kerberos.add(GSS_MECH_KRB5)?;
    Cred::acquire(None, None, CredUsage::Accept, Some(&kerberos))
}

pub(super) fn step(
    worker: &mut Worker,
    session: &Session,
    message: Message<'_>,
) -> Result<Step, Refusal> {
    if message.octets.len() > MESSAGE_MAX_BYTES {
        return Err(malformed("the GSSAPI message is too long"));
    }
    let (mut context, stage) = match message.exchange {
        Some(Exchange::Gssapi(exchange)) => (exchange.context, exchange.stage),
        Some(_) | None => {
            let keys = credentials().map_err(|error| {
                worker.directory.seldom.proof.line(|left_out| {
                    let why = "there are no keys to accept Kerberos tickets with";
                    tracing::error!(%error, left_out, "{why}");
                });
                Refusal::new(ResultCode::Unavailable, "Kerberos is not available here now")
            })?;
            (ServerCtx::new(Some(keys)), Stage::Token)
        }
    };
    let directory = Arc::clone(&worker.directory);
    let seldom = &*directory.seldom;
    match stage {
        Stage::Token => {
            let token =
                context.step(message.octets, None).map_err(|error| refused(seldom, &error))?;
            let token = token.as_deref().unwrap_or_default().to_vec();
            match (context.is_complete(), token.is_empty()) {
                (false, _) => Ok(go_on(context, Stage::Token, token)),
                (true, false) => Ok(go_on(context, Stage::Acknowledgement, token)),
                (true, true) => offer(context, seldom),
            }
        }
        Stage::Acknowledgement if message.octets.is_empty() => offer(context, seldom),
        Stage::Acknowledgement => Err(wrong()),
        Stage::Layer => {
            let sent = context.unwrap(message.octets).map_err(|error| refused(seldom, &error))?;
            let asked = read_layer(&sent).ok_or_else(wrong)?;
            let proven = proven(worker, &context)?;
            let proven = proven.from_origin(session.origin(message.mechanism));
            Ok(Step::Done { access: authorize(worker, proven, asked)?, answer: None })
        }
    }
}

fn go_on(context: ServerCtx, stage: Stage, challenge: Vec<u8>) -> Step {
    let exchange = Exchange::Gssapi(Box::new(GssapiExchange { context, stage }));
    Step::Continue { exchange, challenge }
}

/// Tells the client that there is no security layer, and so no message of one (RFC 4752 §3.2).
fn offer(mut context: ServerCtx, seldom: &SeldomLines) -> Result<Step, Refusal> {
    let offer =
        context.wrap(false, &[NO_LAYER, 0, 0, 0]).map_err(|error| refused(seldom, &error))?;
    let offer = offer.to_vec();
    Ok(go_on(context, Stage::Layer, offer))
}

/// The authorization identity behind the choice of no security layer.
fn read_layer(octets: &[u8]) -> Option<&str> {
    let (choice, asked) = octets.split_first_chunk::<4>()?;
    std::str::from_utf8(asked).ok().filter(|_| *choice == [NO_LAYER, 0, 0, 0])
}

/// Who has proved to be the principal of the context.
fn proven(worker: &mut Worker, context: &ServerCtx) -> Result<Access, Refusal> {
    let directory = Arc::clone(&worker.directory);
    let seldom = &*directory.seldom;
    let text = |name: Result<Name, Error>| {
        let text = name.and_then(|name| name.display_name());
        let text = text.map_err(|error| refused(seldom, &error))?;
        String::from_utf8(text.to_vec()).map_err(|_| nobody(seldom, ""))
    };
    let (client, service) = (text(context.source_name())?, text(context.target_name())?);
    let principals = Principal::read(&client).zip(Principal::read(&service));
    let (principal, service) = principals.ok_or_else(|| nobody(seldom, &client))?;
    if !service.name.starts_with(SERVICE) {
        seldom.proof.line(|left_out| {
            let service = service.whole;
            tracing::info!(service, left_out, "a Kerberos ticket is for another service");
        });
        return Err(Refusal::new(ResultCode::InvalidCredentials, ""));
    }
    let own = (principal.realm == service.realm).then_some(principal.name);
    let state = directory.state.load_full();
    let view = worker.snapshot.view()?;
    worker.request.claimed = Some(principal.whole.into());
    for name in own.into_iter().chain([principal.whole]) {
        let name = UserName::User(name);
        if let Some(found) = identity_mapper::find_vouched(&directory, &state, view, name)? {
            let access = identity_mapper::access_without_password(&directory, &state, view, found)?;
            return access.ok_or_else(|| nobody(seldom, principal.whole));
        }
    }
    Err(nobody(seldom, principal.whole))
}

fn nobody(seldom: &SeldomLines, principal: &str) -> Refusal {
    seldom.proof.line(|left_out| {
        tracing::info!(principal, left_out, "no entry belongs to a Kerberos principal");
    });
    Refusal::new(ResultCode::InvalidCredentials, "")
}

fn refused(seldom: &SeldomLines, error: &Error) -> Refusal {
    seldom
        .proof
        .line(|left_out| tracing::info!(%error, left_out, "a Kerberos message was not accepted"));
    Refusal::new(ResultCode::InvalidCredentials, "")
}

fn wrong() -> Refusal {
    malformed("the GSSAPI message does not follow RFC 4752")
}

/// The bit of no security layer.
const NO_LAYER: u8 = 1;

/// What the principals of this service begin with.
const SERVICE: &str = "ldap/";

/// Octets of one message: tickets of Active Directory have up to 48 KiB.
const MESSAGE_MAX_BYTES: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn principals_have_a_name_and_a_realm() {
        let parts = |whole| Principal::read(whole).map(|one| (one.name, one.realm));
        assert_eq!(parts("anna@EXAMPLE.ORG"), Some(("anna", "EXAMPLE.ORG")));
        assert_eq!(parts("ldap/host.example@R"), Some(("ldap/host.example", "R")));
        for none in ["", "anna", "@R", "anna@", "a\\@b@R", "a@b@R", "a\0@R"] {
            assert_eq!(parts(none), None, "{none}");
        }
    }

    #[test]
    fn only_the_choice_of_no_layer_is_taken() {
        assert_eq!(read_layer(b"\x01\0\0\0"), Some(""));
        assert_eq!(read_layer(b"\x01\0\0\0u:anna"), Some("u:anna"));
        for wrong in [
            &b""[..],
            b"\x01\0\0",
            b"\x00\0\0\0",
            b"\x02\0\0\0",
            b"\x03\0\0\0",
            b"\x01\0\0\x01",
            b"\x01\0\0\0\xff",
        ] {
            assert_eq!(read_layer(wrong), None, "{wrong:02x?}");
        }
    }
}
