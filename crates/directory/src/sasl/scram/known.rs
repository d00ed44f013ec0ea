//! For which hashes SCRAM can succeed: it is offered for those, and for no others, because clients
//! take it before anything else and then ask for a password that cannot be proved by it.
//!
//! Invariant: a question costs two loads. What is known comes from the settings and policies, from
//! a few entries at the start, and from the keys that are written and used since.

use std::sync::atomic::{AtomicBool, Ordering};

use aci::Permitted;
use schema::{Change, EntryId, Schema};
use store::{StoreError, View};

use super::{ScramHash, ScramKeys};
use crate::password::{self, Scheme};

/// Hashes of which some account has keys, as far as is known.
#[derive(Debug, Default)]
pub(crate) struct KnownKeys {
    sha256: AtomicBool,
    sha512: AtomicBool,
}

impl KnownKeys {
    /// Looks at the password of the administrator, and at the first entries.
    pub(crate) fn of(
        view: &View<'_>,
        schema: &Schema,
        root_password: &[u8],
    ) -> Result<Self, StoreError> {
        let known = Self::default();
        known.note(root_password);
        let types = schema.well_known();
        for entry in view.entries_after(EntryId::ROOT)?.take(LOOKED_AT_MAX) {
            let entry = entry?;
            for description in [&types.user_password, &types.auth_password] {
                for stored in password::stored_in(&entry, description) {
                    known.note(&stored);
                }
            }
        }
        Ok(known)
    }

    /// Whether some account has keys for `hash`.
    pub(crate) fn has(&self, hash: ScramHash) -> bool {
        self.flag(hash).is_some_and(|flag| flag.load(Ordering::Relaxed))
    }

    /// This is stored in an account.
    pub(crate) fn note(&self, stored: &[u8]) {
        let may_be = stored.strip_prefix(b"{").unwrap_or(stored).get(..NAMES.len());
        if may_be.is_some_and(|name| name.eq_ignore_ascii_case(NAMES))
            && let Some(keys) = ScramKeys::parse(stored)
            && let Some(flag) = self.flag(keys.hash)
        {
            flag.store(true, Ordering::Relaxed);
        }
    }

    /// These changes are decided.
    pub(crate) fn heed(&self, changes: &[Permitted<Change>]) {
        for change in changes {
            match change.get() {
                Change::Add(add) => {
                    let passwords = add.entry.attributes().iter();
                    let passwords = passwords.filter(|one| one.description.is_password());
                    passwords.flat_map(|one| &one.values).for_each(|stored| self.note(stored));
                }
                Change::Modify(modify) => {
                    let passwords =
                        modify.deltas.iter().filter(|one| one.description.is_password());
                    passwords.flat_map(|one| &one.added).for_each(|stored| self.note(stored));
                }
                _ => {}
            }
        }
    }

    fn flag(&self, hash: ScramHash) -> Option<&AtomicBool> {
        match hash {
            ScramHash::Sha1 => None,
            ScramHash::Sha256 => Some(&self.sha256),
            ScramHash::Sha512 => Some(&self.sha512),
        }
    }
}

impl ScramHash {
    /// The scheme that stores keys for it.
    pub(crate) fn scheme(self) -> Option<Scheme> {
        match self {
            Self::Sha1 => None,
            Self::Sha256 => Some(Scheme::ScramSha256),
            Self::Sha512 => Some(Scheme::ScramSha512),
        }
    }
}

/// What the names of all schemes with keys begin with.
const NAMES: &[u8] = b"SCRAM-SHA-";

/// Entries that are looked at when a directory is opened: a few milliseconds.
const LOOKED_AT_MAX: usize = 1_000;
