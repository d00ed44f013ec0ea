//! How new passwords are stored: one row for each scheme that is written.

use environment::Chance;
use sha1::Sha1;
use sha2::{Sha256, Sha384, Sha512};

use super::argon2::{self, Argon2Cost};
use super::crypt::{self, ShaCrypt};
use super::pbkdf2::{self, Layout, Prf};
use super::stored::Parameters;
use super::{digest, read, scram, scrypt};
use crate::scram::{ITERATIONS_DEFAULT, ScramHash};

/// How new passwords are stored.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Scheme {
    /// `{SSHA}`: SHA-1 with a salt. Only for systems that know nothing better.
    Ssha,
    /// `{SSHA256}`: SHA-256 with a salt.
    Ssha256,
    /// `{SSHA384}`: SHA-384 with a salt.
    Ssha384,
    /// `{SSHA512}`: SHA-512 with a salt; the fast one.
    Ssha512,
    /// `{PBKDF2-SHA1}` as OpenLDAP and 389 write it.
    Pbkdf2Sha1,
    /// `{PBKDF2-SHA256}` as OpenLDAP and 389 write it.
    Pbkdf2Sha256,
    /// `{PBKDF2-SHA512}` as OpenLDAP and 389 write it.
    Pbkdf2Sha512,
    /// `{PBKDF2_SHA256}` of 389.
    Pbkdf2Octets,
    /// `{PBKDF2}` of OpenDJ.
    Pbkdf2,
    /// `{PBKDF2-HMAC-SHA256}` of OpenDJ.
    Pbkdf2HmacSha256,
    /// `{PBKDF2-HMAC-SHA512}` of OpenDJ.
    Pbkdf2HmacSha512,
    /// `{PKCS5S2}` of Atlassian.
    Pkcs5s2,
    /// `{BCRYPT}`.
    Bcrypt,
    /// `{SCRYPT}` in the PHC string format.
    Scrypt,
    /// `{ARGON2}`: Argon2id, the default for people.
    #[default]
    Argon2id,
    /// `{SCRAM-SHA-256}`: for SASL SCRAM as well as for simple binds.
    ScramSha256,
    /// `{SCRAM-SHA-512}`, likewise.
    ScramSha512,
    /// `{CRYPT}$5$`.
    CryptSha256,
    /// `{CRYPT}$6$`.
    CryptSha512,
    /// `{CRYPT}$y$`.
    CryptYescrypt,
}

/// What new hashes cost; each scheme takes its own.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct HashCosts {
    /// Of Argon2id.
    pub argon2: Argon2Cost,
    /// Iterations of PBKDF2.
    pub pbkdf2_iterations: u32,
    /// Iterations of SCRAM; a client computes as many at each of its binds.
    pub scram_iterations: u32,
    /// Cost of bcrypt: two to this power is the number of steps.
    pub bcrypt_cost: u32,
    /// N of scrypt is two to this power.
    pub scrypt_log_n: u32,
    /// Rounds of `$5$` and `$6$`.
    pub crypt_rounds: u32,
}

impl Default for HashCosts {
    fn default() -> Self {
        Self {
            argon2: Argon2Cost::default(),
            pbkdf2_iterations: 600_000,
            scram_iterations: ITERATIONS_DEFAULT,
            bcrypt_cost: 12,
            scrypt_log_n: 15,
            crypt_rounds: 100_000,
        }
    }
}

/// How new passwords are stored: in which scheme, and at what cost.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct PasswordStorage {
    /// The scheme.
    pub scheme: Scheme,
    /// What hashes of it cost.
    pub costs: HashCosts,
}

/// One scheme that is written.
struct Row {
    scheme: Scheme,
    /// What settings and flags call it.
    word: &'static str,
    /// The name in braces, as stored.
    name: &'static str,
    /// Makes what follows the name.
    make: fn(&[u8], &HashCosts, &mut dyn Chance) -> Option<String>,
    /// What a value made with these costs is told by.
    parameters: fn(&HashCosts) -> Parameters,
}

/// A row of a digest.
macro_rules! digest {
    ($scheme:ident, $word:literal, $digest:ty) => {
        Row {
            scheme: Scheme::$scheme,
            word: $word,
            name: $word,
            make: |clear, _, chance| Some(digest::make::<$digest>(clear, chance)),
            parameters: |_| Parameters::default(),
        }
    };
}

/// A row of PBKDF2.
macro_rules! pbkdf2 {
    ($scheme:ident, $word:literal, $prf:ident, $layout:ident) => {
        Row {
            scheme: Scheme::$scheme,
            word: $word,
            name: $word,
            make: |clear, costs, chance| {
                let iterations = costs.pbkdf2_iterations;
                Some(pbkdf2::make(clear, Prf::$prf, Layout::$layout, iterations, chance))
            },
            parameters: |costs| pbkdf2::parameters(Layout::$layout, costs.pbkdf2_iterations),
        }
    };
}

/// A row of SHA-crypt.
macro_rules! sha_crypt {
    ($scheme:ident, $word:literal, $kind:ident) => {
        Row {
            scheme: Scheme::$scheme,
            word: $word,
            name: "CRYPT",
            make: |clear, costs, chance| {
                crypt::make_sha(clear, ShaCrypt::$kind, costs.crypt_rounds, chance)
            },
            parameters: |costs| crypt::sha_parameters(ShaCrypt::$kind, costs.crypt_rounds),
        }
    };
}

/// A row of SCRAM.
macro_rules! scram {
    ($scheme:ident, $word:literal, $hash:ident) => {
        Row {
            scheme: Scheme::$scheme,
            word: $word,
            name: $word,
            make: |clear, costs, chance| {
                Some(scram::make(clear, ScramHash::$hash, costs.scram_iterations, chance))
            },
            parameters: |costs| scram::parameters(costs.scram_iterations),
        }
    };
}

const ROWS: &[Row] = &[
    Row {
        scheme: Scheme::Argon2id,
        word: "ARGON2",
        name: "ARGON2",
        make: |clear, costs, chance| argon2::make(clear, costs.argon2, chance),
        parameters: |costs| costs.argon2.parameters(),
    },
    digest!(Ssha512, "SSHA512", Sha512),
    digest!(Ssha384, "SSHA384", Sha384),
    digest!(Ssha256, "SSHA256", Sha256),
    digest!(Ssha, "SSHA", Sha1),
    pbkdf2!(Pbkdf2Sha1, "PBKDF2-SHA1", Sha1, Fields),
    pbkdf2!(Pbkdf2Sha256, "PBKDF2-SHA256", Sha256, Fields),
    pbkdf2!(Pbkdf2Sha512, "PBKDF2-SHA512", Sha512, Fields),
    pbkdf2!(Pbkdf2Octets, "PBKDF2_SHA256", Sha256, Octets),
    pbkdf2!(Pbkdf2, "PBKDF2", Sha1, HashAndSalt),
    pbkdf2!(Pbkdf2HmacSha256, "PBKDF2-HMAC-SHA256", Sha256, HashAndSalt),
    pbkdf2!(Pbkdf2HmacSha512, "PBKDF2-HMAC-SHA512", Sha512, HashAndSalt),
    pbkdf2!(Pkcs5s2, "PKCS5S2", Sha1, SaltAndHash),
    scram!(ScramSha256, "SCRAM-SHA-256", Sha256),
    scram!(ScramSha512, "SCRAM-SHA-512", Sha512),
    Row {
        scheme: Scheme::Bcrypt,
        word: "BCRYPT",
        name: "BCRYPT",
        make: |clear, costs, chance| crypt::make_bcrypt(clear, costs.bcrypt_cost, chance),
        parameters: |costs| crypt::bcrypt_parameters(costs.bcrypt_cost),
    },
    Row {
        scheme: Scheme::Scrypt,
        word: "SCRYPT",
        name: "SCRYPT",
        make: |clear, costs, chance| scrypt::make(clear, costs.scrypt_log_n, chance),
        parameters: |costs| scrypt::parameters(costs.scrypt_log_n),
    },
    sha_crypt!(CryptSha256, "CRYPT-SHA256", Sha256),
    sha_crypt!(CryptSha512, "CRYPT-SHA512", Sha512),
    Row {
        scheme: Scheme::CryptYescrypt,
        word: "CRYPT-YESCRYPT",
        name: "CRYPT",
        make: |clear, _, chance| crypt::make_yescrypt(clear, chance),
        parameters: |_| crypt::yescrypt_parameters(),
    },
];

impl Scheme {
    /// What settings and flags call it.
    pub fn word(self) -> &'static str {
        self.row().word
    }

    /// The scheme that settings and flags call so.
    pub fn of_word(word: &str) -> Option<Self> {
        ROWS.iter().find(|row| row.word == word).map(|row| row.scheme)
    }

    /// All words, the default first.
    pub fn words() -> impl Iterator<Item = &'static str> {
        ROWS.iter().map(|row| row.word)
    }

    fn row(self) -> &'static Row {
        ROWS.iter().find(|row| row.scheme == self).expect("a test looks at every scheme")
    }
}

impl From<Scheme> for PasswordStorage {
    /// The scheme at its usual cost.
    fn from(scheme: Scheme) -> Self {
        Self { scheme, costs: HashCosts::default() }
    }
}

impl PasswordStorage {
    /// The stored form of a clear-text password.
    ///
    /// `None` when the costs are such that nothing can be computed: no memory, or costs outside of
    /// what the scheme allows.
    pub fn hash(&self, clear: &[u8], chance: &mut dyn Chance) -> Option<Vec<u8>> {
        let row = self.scheme.row();
        let made = (row.make)(clear, &self.costs, chance)?;
        Some(format!("{{{}}}{made}", row.name).into_bytes())
    }

    /// Whether making a value takes so long that it must not delay other requests.
    pub fn is_slow(&self) -> bool {
        match self.scheme {
            Scheme::Ssha | Scheme::Ssha256 | Scheme::Ssha384 | Scheme::Ssha512 => false,
            Scheme::Pbkdf2Sha1
            | Scheme::Pbkdf2Sha256
            | Scheme::Pbkdf2Sha512
            | Scheme::Pbkdf2Octets
            | Scheme::Pbkdf2
            | Scheme::Pbkdf2HmacSha256
            | Scheme::Pbkdf2HmacSha512
            | Scheme::Pkcs5s2
            | Scheme::Bcrypt
            | Scheme::Scrypt
            | Scheme::Argon2id
            | Scheme::ScramSha256
            | Scheme::ScramSha512
            | Scheme::CryptSha256
            | Scheme::CryptSha512
            | Scheme::CryptYescrypt => true,
        }
    }

    /// Whether `stored` is what [`Self::hash`] would make by now, but for the salt.
    pub fn is_current(&self, stored: &[u8]) -> bool {
        let row = self.scheme.row();
        read(stored).is_some_and(|(known, read)| {
            known.name == row.name && read.parameters() == (row.parameters)(&self.costs)
        })
    }
}

impl ScramHash {
    /// The scheme that stores keys for it.
    pub fn scheme(self) -> Option<Scheme> {
        match self {
            Self::Sha1 => None,
            Self::Sha256 => Some(Scheme::ScramSha256),
            Self::Sha512 => Some(Scheme::ScramSha512),
        }
    }
}
