//! What identities are verified with: how they may prove who they are, how passwords are kept, the
//! keys of SCRAM and of bearer tokens, and the administrator, who has no entry.

use std::sync::Arc;

use aci::{Access, Grants, Identity, Privileges};
use arc_swap::{ArcSwap, ArcSwapOption, Guard};
use auth::jwt::TokenKeys;
use environment::Chance;
use ldap::dn::{Dn, DnText};
use schema::DnKey;
use zeroize::Zeroizing;

use crate::bind::authentication::AuthenticationOptions;
use crate::bind::hashing::PasswordOptions;
use crate::bind::password_cache::{PasswordCache, PasswordCacheCounts};
use crate::bind::sasl::scram::{KeySearch, KnownKeys};
use crate::error::DirectoryError;
use crate::live::Live;
use crate::write::rehash::queue::Rehasher;

/// What a directory verifies identities with.
pub(crate) struct Credentials {
    pub(crate) root: RootIdentity,
    /// The user id that owns the data directory: an administrator on the Unix socket.
    pub(crate) owner_uid: u32,
    pub(crate) authentication: Live<AuthenticationOptions>,
    pub(crate) passwords: Live<PasswordOptions>,
    /// A stored password that nobody has: names that do not exist are verified against it.
    pub(crate) decoy: Live<Vec<u8>>,
    /// See [`Self::rehasher`].
    pub(crate) rehasher: Rehasher,
    /// None where every bind computes its hash.
    pub(crate) password_cache: Option<Arc<PasswordCache>>,
    /// What salts of names that have no keys are made of. It stays the same as long as the data
    /// directory and the administrator's password do.
    pub(crate) scram_secret: Vec<u8>,
    /// For which hashes SCRAM has keys to verify with.
    pub(crate) scram_keys: Arc<KnownKeys>,
    pub(crate) _scram_key_search: KeySearch,
    /// What bearer tokens are verified with; none: they are not taken.
    pub(crate) token_keys: ArcSwapOption<TokenKeys>,
}

/// The administrator.
pub(crate) struct RootIdentity {
    pub(crate) dn: Dn,
    pub(crate) key: DnKey,
    /// The stored form of the password; it may be changed while the directory is served.
    pub(crate) password: ArcSwap<Vec<u8>>,
    pub(crate) privileges: Privileges,
}

impl Credentials {
    /// How clients may prove who they are.
    pub(crate) fn authentication(&self) -> Guard<Arc<AuthenticationOptions>> {
        self.authentication.get()
    }

    /// What stores passwords anew; none when they stay as they are stored.
    pub(crate) fn rehasher(&self) -> Option<&Rehasher> {
        self.passwords().rehash_on_bind.then_some(&self.rehasher)
    }

    /// How passwords are kept and verified.
    pub(crate) fn passwords(&self) -> PasswordOptions {
        **self.passwords.get()
    }

    /// What was counted of slow passwords, and how many are held.
    pub(crate) fn password_cache_counts(&self) -> PasswordCacheCounts {
        self.password_cache.as_ref().map(|cache| cache.counts()).unwrap_or_default()
    }

    /// Sets the keys that bearer tokens are verified with; the ones before stay when they cannot be
    /// used.
    pub(crate) fn set_token_keys(&self, text: &str) -> Result<(), String> {
        self.token_keys.store(Some(Arc::new(TokenKeys::read(text)?)));
        Ok(())
    }

    /// Whether a bearer token can be accepted.
    pub(crate) fn takes_tokens(&self) -> bool {
        let authentication = self.authentication();
        let tokens = &authentication.tokens;
        !tokens.issuer.is_empty() && !tokens.audience.is_empty() && self.token_keys.load().is_some()
    }
}

impl RootIdentity {
    /// The stored form of the password, as it is now.
    pub(crate) fn password(&self) -> Vec<u8> {
        self.password.load().to_vec()
    }

    /// What it may do.
    pub(crate) fn access(&self) -> Access {
        let grants = Grants { privileges: self.privileges, ..Grants::default() };
        Access::with(Identity::Root(DnText::from(&self.dn)), grants).keyed(self.key.clone())
    }
}

/// The stored form of a password that nobody knows.
pub(crate) fn decoy(
    options: &PasswordOptions,
    chance: &mut dyn Chance,
) -> Result<Vec<u8>, DirectoryError> {
    let mut clear = Zeroizing::new([0; 32]);
    chance.fill(&mut *clear);
    options.storage.hash(&*clear, chance).ok_or(DirectoryError::PasswordCosts)
}
