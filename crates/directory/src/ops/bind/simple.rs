//! Simple bind: anonymous, or by name and password (RFC 4513 §5.1).

use aci::{Access, Identity};
use ldap::dn::Dn;
use ldap::message::{Authentication, BindRequest};
use ldap::result::ResultCode;
use schema::{DnKey, EntryRead as _};
use store::Resolved;

use super::invalid_credentials;
use crate::password;
use crate::refusal::Refusal;
use crate::worker::Worker;

/// How far a simple bind came on the thread that read it.
pub(super) enum Simple {
    /// To its end.
    Verified(Access),
    /// The password is stored in a form that takes long to verify.
    Slow,
}

/// Begins a simple bind.
pub(super) fn start(worker: &mut Worker, name: &str, password: &[u8]) -> Result<Simple, Refusal> {
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
        let access = Access::of(Identity::Root(directory.root.dn.clone())).keyed(key);
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
    Ok(Some(Candidate {
        access: Access::with(identity, state.grants.read(&entry)).keyed(key),
        passwords,
    }))
}
