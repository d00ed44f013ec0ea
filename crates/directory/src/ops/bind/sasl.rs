//! SASL binds (RFC 4513 §5.2): EXTERNAL behind a Unix socket.

use aci::Identity;
use ldap::result::ResultCode;
use schema::DnKey;

use crate::refusal::Refusal;
use crate::session::{LocalUser, Session};
use crate::worker::Worker;

/// The SASL mechanism that takes the identity from the transport (RFC 4422 Appendix A).
pub(crate) const EXTERNAL: &str = "EXTERNAL";

/// SASL binds. EXTERNAL makes a local administrator the root identity.
pub(super) fn start(
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
