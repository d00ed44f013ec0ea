//! What is served while the data are not those of the cluster: next to nothing.
//!
//! Invariant: no entry that is stored is read or written.

use ldap::message::{Authentication, BindRequest, Request};
use ldap::result::ResultCode;
use schema::DnKey;

use crate::directory::Directory;
use crate::request::extended::START_TLS;
use crate::request::refusal::Refusal;
use crate::request::session::Session;

/// Refuses what is not served in quarantine: all but what the administrator reads of the state of
/// the server, and what leads there.
pub(crate) fn check(
    directory: &Directory,
    session: &Session,
    request: &Request<'_>,
) -> Result<(), Refusal> {
    let Some(reason) = directory.quarantine.reason() else { return Ok(()) };
    let key = |text: &str| DnKey::from_text(&directory.schema(), text).ok();
    let is_served = match request {
        Request::Bind(bind) => may_bind(directory, bind),
        Request::Search(search) => {
            let is_state = || {
                let (base, monitor) = (key(search.base), key(MONITOR));
                base.zip(monitor).is_some_and(|(base, monitor)| base.is_within(&monitor))
            };
            session.access().is_root() && (search.base.is_empty() || is_state())
        }
        Request::Extended(extended) => extended.oid == START_TLS,
        _ => false,
    };
    if is_served {
        return Ok(());
    }
    Err(Refusal::new(ResultCode::Unavailable, reason.to_owned()))
}

/// Whether the administrator may be who binds; nobody in particular may.
fn may_bind(directory: &Directory, bind: &BindRequest<'_>) -> bool {
    match bind.authentication {
        Authentication::Simple(_) => {
            let key = DnKey::from_text(&directory.schema(), bind.name);
            bind.name.is_empty() || key.is_ok_and(|key| key == directory.credentials.root.key)
        }
        Authentication::Other(_) => false,
        // By the Unix socket; others find no entry with a certificate's name in the root DSE.
        Authentication::Sasl { mechanism, .. } => mechanism == "EXTERNAL",
    }
}

const MONITOR: &str = "cn=monitor";
