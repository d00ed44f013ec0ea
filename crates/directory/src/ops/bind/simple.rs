//! Simple bind: anonymous, or by name and password (RFC 4513 §5.1).

use aci::{Access, Identity};
use ldap::result::ResultCode;
use schema::EntryRead as _;

use super::invalid_credentials;
use crate::identity_mapper::{self, Found, UserName};
use crate::password;
use crate::refusal::Refusal;
use crate::worker::Worker;

/// How far a simple bind came on the thread that read it.
pub(crate) enum Simple {
    /// To its end.
    Verified(Access),
    /// The password is stored in a form that takes long to verify.
    Slow,
}

/// Begins a simple bind.
pub(super) fn start(
    worker: &mut Worker,
    name: UserName<'_>,
    password: &[u8],
) -> Result<Simple, Refusal> {
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
fn without_password(name: UserName<'_>, password: &[u8]) -> Result<Option<Identity>, Refusal> {
    match (name == UserName::Dn(""), password.is_empty()) {
        (true, true) => Ok(Some(Identity::Anonymous)),
        (false, true) => Err(Refusal::new(
            ResultCode::UnwillingToPerform,
            "a bind with a name needs a password; an empty one proves nothing",
        )),
        (true, false) => Err(invalid_credentials()),
        (false, false) => Ok(None),
    }
}

/// Verifies name and password on a pool thread.
pub(super) fn verify(
    worker: &mut Worker,
    name: UserName<'_>,
    clear: &[u8],
) -> Result<Access, Refusal> {
    Candidate::verify(candidate(worker, name)?, clear)
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

/// Looks `name` up; `None` when it stands for nobody.
fn candidate(worker: &mut Worker, name: UserName<'_>) -> Result<Option<Candidate>, Refusal> {
    let directory = &worker.directory;
    let state = directory.state.load();
    let view = worker.snapshot.view()?;
    let entry = match identity_mapper::find(directory, &state, view, name)? {
        None => return Ok(None),
        Some(Found::Root) => {
            let access = Access::of(Identity::Root(directory.root.dn.clone()));
            let access = access.keyed(directory.root.key.clone());
            return Ok(Some(Candidate {
                access,
                passwords: vec![directory.root.password.clone()],
            }));
        }
        Some(Found::Entry(id)) => view.entry(id)?,
    };
    let Some(entry) = entry else {
        return Ok(None);
    };
    let mut passwords = Vec::new();
    entry.visit_values(&state.schema.well_known().user_password, &mut |_, value| {
        passwords.push(value.to_vec());
        true
    });
    Ok(Some(Candidate { access: identity_mapper::access(&state, &entry)?, passwords }))
}
