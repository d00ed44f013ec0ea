//! Bind (RFC 4511 §4.2, RFC 4513): simple, and SASL EXTERNAL behind a Unix socket.

use std::sync::Arc;

use aci::{Access, Identity};
use ldap::dn::Dn;
use ldap::message::{Authentication, BindRequest, MessageId, ResponseKind};
use ldap::result::ResultCode;
use schema::{DnKey, EntryRead as _};
use store::Resolved;

use crate::dispatch::answer;
use crate::job::Job;
use crate::password;
use crate::refusal::Refusal;
use crate::session::{LocalUser, SIMPLE, Session};
use crate::stop::Stop;
use crate::worker::{Next, Worker};

/// The SASL mechanism that takes the identity from the transport (RFC 4422 Appendix A).
pub(crate) const EXTERNAL: &str = "EXTERNAL";

/// Begins a bind of a session that `start_bind` made anonymous.
pub(crate) fn start(
    worker: &mut Worker,
    session: &mut Session,
    request: &BindRequest<'_>,
    id: MessageId,
    bytes: &[u8],
    out: &mut Vec<u8>,
) -> Result<Next, Refusal> {
    if request.version != 3 {
        return Err(Refusal::new(
            ResultCode::ProtocolError,
            "only version 3 of the protocol is spoken here",
        ));
    }
    let (access, mechanism) = match &request.authentication {
        Authentication::Simple(password) => match simple(worker, request.name, password)? {
            Simple::Verified(access) if *access.identity() == Identity::Anonymous => (access, ""),
            Simple::Verified(access) => (access, SIMPLE),
            Simple::Slow => {
                let stop = Stop::new(session.begin(id), Arc::clone(&worker.directory.clock));
                return Ok(Next::Later(Job {
                    id,
                    message: bytes.to_vec(),
                    access: Arc::clone(session.access()),
                    stop,
                    exclusive: true,
                }));
            }
        },
        Authentication::Sasl { mechanism, credentials } => {
            (Access::of(sasl(worker, session, mechanism, *credentials)?), EXTERNAL)
        }
        Authentication::Other(_) => {
            return Err(Refusal::new(
                ResultCode::AuthMethodNotSupported,
                "only simple and SASL authentication are known",
            ));
        }
    };
    session.set_access(access, mechanism);
    Ok(answer(out, id, ResponseKind::Bind, Ok(ResultCode::Success)))
}

/// How far a simple bind came on the thread that read it.
enum Simple {
    /// To its end.
    Verified(Access),
    /// The password is stored in a form that takes long to verify.
    Slow,
}

fn simple(worker: &mut Worker, name: &str, password: &[u8]) -> Result<Simple, Refusal> {
    if let Some(identity) = without_password(name, password)? {
        return Ok(Simple::Verified(Access::of(identity)));
    }
    let candidate = candidate(worker, name)?;
    if candidate.as_ref().is_some_and(Candidate::is_slow) {
        return Ok(Simple::Slow);
    }
    Candidate::verify(candidate, password).map(Simple::Verified)
}

/// The binds that carry no password: anonymous (RFC 4513 §5.1.1) and unauthenticated (§5.1.2).
fn without_password(name: &str, password: &[u8]) -> Result<Option<Identity>, Refusal> {
    match (name.is_empty(), password.is_empty()) {
        (true, true) => Ok(Some(Identity::Anonymous)),
        (false, true) => Err(Refusal::new(
            ResultCode::UnwillingToPerform,
            "a bind with a name needs a password; an empty one proves nothing",
        )),
        (true, false) => Err(invalid_credentials()),
        (false, false) => Ok(None),
    }
}

/// Carries out a simple bind with name and password on a pool thread.
pub(crate) fn verify(worker: &mut Worker, request: &BindRequest<'_>) -> Result<Access, Refusal> {
    let Authentication::Simple(clear) = &request.authentication else {
        return Err(invalid_credentials());
    };
    Candidate::verify(candidate(worker, request.name)?, clear)
}

/// Who a name is, and what its password must match one of.
struct Candidate {
    access: Access,
    passwords: Vec<Vec<u8>>,
}

impl Candidate {
    /// Whether a password is stored in a form that takes long to verify.
    fn is_slow(&self) -> bool {
        self.passwords.iter().any(|stored| password::is_slow(stored))
    }

    /// Refuses with `invalidCredentials` alike when the name does not exist, has no password, or
    /// the password is wrong.
    fn verify(candidate: Option<Self>, clear: &[u8]) -> Result<Access, Refusal> {
        match candidate {
            Some(one) if !one.passwords.is_empty() => {
                let right = one.passwords.iter().any(|stored| password::verify(stored, clear));
                right.then_some(one.access).ok_or_else(invalid_credentials)
            }
            Some(_) | None => {
                password::verify_nothing(clear);
                Err(invalid_credentials())
            }
        }
    }
}

/// Looks `name` up; `None` when there is no such entry.
fn candidate(worker: &mut Worker, name: &str) -> Result<Option<Candidate>, Refusal> {
    let directory = &worker.directory;
    let state = directory.state.load();
    let key = DnKey::from_text(&state.schema, name)
        .map_err(|error| Refusal::new(ResultCode::InvalidDnSyntax, error.to_string()))?;
    if key == directory.root.key {
        let access = Access::of(Identity::Root(directory.root.dn.clone()));
        return Ok(Some(Candidate { access, passwords: vec![directory.root.password.clone()] }));
    }
    let view = worker.snapshot.view()?;
    let Resolved::Found(id) = view.resolve(&key)? else {
        return Ok(None);
    };
    let Some(entry) = view.entry(id)? else {
        return Ok(None);
    };
    let mut passwords = Vec::new();
    entry.visit_values(&state.schema.well_known().user_password, &mut |_, value| {
        passwords.push(value.to_vec());
        true
    });
    let identity = Identity::Entry(Dn::parse(entry.dn())?);
    Ok(Some(Candidate { access: Access::with(identity, state.grants.read(&entry)), passwords }))
}

/// SASL binds. EXTERNAL makes a local administrator the root identity.
fn sasl(
    worker: &Worker,
    session: &Session,
    mechanism: &str,
    credentials: Option<&[u8]>,
) -> Result<Identity, Refusal> {
    if mechanism != EXTERNAL {
        return Err(Refusal::new(
            ResultCode::AuthMethodNotSupported,
            "the SASL mechanism is not supported; the root DSE lists those that are",
        ));
    }
    let Some(user) = session.peer().local_user else {
        return Err(Refusal::new(
            ResultCode::InappropriateAuthentication,
            "EXTERNAL needs a transport that knows who you are: connect with ldapi://",
        ));
    };
    let root = &worker.directory.root;
    let asked = credentials.unwrap_or_default();
    let names_root = asked.is_empty()
        || asked.strip_prefix(b"dn:").and_then(|name| std::str::from_utf8(name).ok()).is_some_and(
            |name| {
                let state = worker.directory.state.load();
                DnKey::from_text(&state.schema, name).is_ok_and(|key| key == root.key)
            },
        );
    if !is_administrator(worker, user) || !names_root {
        return Err(Refusal::new(
            ResultCode::InvalidCredentials,
            "only root and the user the server runs as are administrators here",
        ));
    }
    Ok(Identity::Root(root.dn.clone()))
}

/// Root, and the user who owns the data directory.
fn is_administrator(worker: &Worker, user: LocalUser) -> bool {
    user.uid == 0 || user.uid == worker.directory.owner_uid
}

fn invalid_credentials() -> Refusal {
    // The same words whether the name or the password is wrong.
    Refusal::new(ResultCode::InvalidCredentials, "")
}
