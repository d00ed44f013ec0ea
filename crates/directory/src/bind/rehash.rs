//! Whether a password that a bind has proved is to be stored in another form.

use aci::Access;
use auth::password::{PasswordStorage, Scheme};
use ldap::dn::Dn;
use schema::DnKey;
use store::Resolved;
use zeroize::Zeroizing;

use crate::groups::member_entry::MemberEntry;
use crate::request::worker::Worker;
use crate::write::rehash::queue::ProvedPassword;

/// After a successful bind of an account whose password is stored as `old`: if that is not as a new
/// one would be stored, it will be soon. When many are waiting, the next bind does it.
pub(crate) fn after_bind(
    worker: &mut Worker,
    access: &Access,
    key: &DnKey,
    old: &[u8],
    clear: &[u8],
) {
    let scheme = scheme(worker, key);
    let directory = &worker.directory;
    let options = &directory.credentials.passwords();
    let PasswordStorage { scheme: usual, costs } = options.storage;
    let storage = PasswordStorage { scheme: scheme.unwrap_or(usual), costs };
    let (Some(rehasher), Some(dn)) = (directory.credentials.rehasher(), access.identity().dn())
    else {
        return;
    };
    if !options.rehash_on_bind || storage.is_current(old) || is_kept(old) {
        return;
    }
    let Ok(dn) = Dn::parse(dn.as_str()) else { return };
    let (key, old) = (key.clone(), old.to_vec());
    let clear = Zeroizing::new(clear.to_vec());
    rehasher.offer(ProvedPassword { key, dn, old, clear, storage });
}

/// In which scheme the policy of an account wants its passwords, if in any.
fn scheme(worker: &mut Worker, key: &DnKey) -> Option<Scheme> {
    let policies = worker.directory.rules.password_policies.load_full();
    if policies.is_empty() || !worker.directory.credentials.passwords().rehash_on_bind {
        return None;
    }
    let view = worker.snapshot.view().ok()?;
    let Resolved::Found(id) = view.resolve(key).ok()? else { return None };
    let entry = view.entry(id).ok()??;
    policies.of(&MemberEntry::new(view, view.schema(), &entry).keyed(key)).ok()??.policy.scheme
}

/// Keys of SCRAM stay: another form would end the binds that use them.
fn is_kept(stored: &[u8]) -> bool {
    stored.get(..SCRAM.len()).is_some_and(|start| start.eq_ignore_ascii_case(SCRAM))
}

/// What the names of SCRAM's schemes begin with.
const SCRAM: &[u8] = b"{SCRAM-";
