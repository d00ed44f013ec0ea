//! Whose password a message tries, before it is handled: for those who count guesses.

use auth::{plain, scram};
use ldap::message::{Authentication, ModifyOperation, Request};
use schema::DnKey;

use crate::bind::user_name::{Found, UserName};
use crate::bind::{identity_mapper, sasl, simple};
use crate::request::received::Received;
use crate::request::session::Session;
use crate::request::worker::Worker;
use crate::write::password_modify::value as password_modify;

impl Received<'_> {
    /// Whether it sends a password, or a proof of one, that may be wrong: a bind, a change of a
    /// password that sends the old one, and a compare of passwords. The first message of SCRAM does
    /// not.
    pub fn guesses_password(&self) -> bool {
        match self.request() {
            Some(Request::Bind(request)) => match request.authentication {
                Authentication::Sasl { mechanism, credentials }
                    if mechanism.starts_with(scram::PREFIX) =>
                {
                    scram::carries_proof(credentials)
                }
                Authentication::Simple(_)
                | Authentication::Sasl { .. }
                | Authentication::Other(_) => true,
            },
            Some(Request::Extended(request)) => {
                request.oid == password_modify::OID && password_modify::sends_old(request.value)
            }
            Some(Request::Modify(request)) => request.changes.iter().any(|change| {
                change.operation == ModifyOperation::Delete
                    && is_password(change.attribute.description)
                    && change.attribute.values.iter().next().is_some()
            }),
            Some(Request::Compare(request)) => is_password(request.description),
            _ => false,
        }
    }
}

/// By its name; options make no difference.
fn is_password(description: &str) -> bool {
    let name = description.split(';').next().unwrap_or_default();
    PASSWORD.iter().any(|known| name.eq_ignore_ascii_case(known))
}

impl Worker {
    /// What stands for the account whose password a message tries, however it is named: one text
    /// for each entry, and one for each name that is nobody's. None where nobody is named.
    pub fn account_of_guess(
        &mut self,
        session: &Session,
        received: &Received<'_>,
    ) -> Option<Vec<u8>> {
        match received.request()? {
            Request::Bind(request) => match request.authentication {
                Authentication::Simple(_) => {
                    let name = simple::bind_name(self, request.name);
                    self.account_named(name)
                }
                Authentication::Sasl { mechanism: plain::PLAIN, credentials } => {
                    let name = plain::read(credentials?).ok()?.authcid;
                    self.account_named(UserName::of_sasl(name))
                }
                Authentication::Sasl { .. } => {
                    self.account_named(UserName::of_sasl(session.proving()?))
                }
                Authentication::Other(_) => None,
            },
            Request::Extended(request) => match password_modify::named(request.value) {
                Some(name) => self.account_named(UserName::Dn(name)),
                None => session.entry().map(|id| account(Found::Entry(id))),
            },
            Request::Modify(request) => self.account_named(UserName::Dn(request.name)),
            Request::Compare(request) => self.account_named(UserName::Dn(request.name)),
            _ => None,
        }
    }

    fn account_named(&mut self, name: UserName<'_>) -> Option<Vec<u8>> {
        let Self { directory, snapshot, names, .. } = self;
        let state = directory.state.load();
        let view = snapshot.view().ok()?;
        let found = match name {
            UserName::Dn(text) => names.key(&state.schema, text).ok().and_then(|key: DnKey| {
                identity_mapper::find_dn(&directory.credentials.root, view, &key).ok().flatten()
            }),
            UserName::User(_) => {
                identity_mapper::find(directory, &state, view, name).ok().flatten()
            }
        };
        let nobody = || [NOBODY, &sasl::scram::prepared(directory, name)].concat();
        Some(found.map_or_else(nobody, account))
    }
}

fn account(found: Found) -> Vec<u8> {
    match found {
        Found::Root => ROOT.to_vec(),
        Found::Entry(id) => [ENTRY, &id.0.to_be_bytes()].concat(),
    }
}

const ROOT: &[u8] = b"root";
const ENTRY: &[u8] = b"entry ";
const NOBODY: &[u8] = b"nobody ";

/// The names of userPassword (RFC 4519 §2.41).
const PASSWORD: [&str; 2] = ["userPassword", "2.5.4.35"];
