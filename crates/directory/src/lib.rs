//! The operations of a directory server, without a socket.
//!
//! Start at `dispatch.rs`, then `ops/search.rs`, `decide.rs` and `write_queue.rs`.
//!
//! Invariant: no socket, no async, no thread but the writer; clock and chance are handed in.
//! Invariant: a client is answered after its change is durable and visible, never before.

mod acis;
mod acis_in_force;
mod administrator;
mod analyser;
mod asker_bytes;
mod asker_queues;
mod authentication;
mod controls;
mod cookie;
mod decide;
mod directory;
mod dispatch;
mod error;
mod figure_monitor;
mod grants;
mod groups;
mod guard;
mod guessed;
mod hashing;
mod identity_limits;
mod identity_mapper;
mod index_monitor;
mod job;
mod limits;
mod live_entry;
pub mod loading;
mod log_monitor;
mod name_memo;
mod note;
mod ops;
mod password_cache;
pub mod password_policy;
mod policy;
mod protection;
mod referral;
mod refusal;
mod root_dse;
mod sasl;
mod schema_times;
mod search_counters;
mod seldom;
mod session;
mod session_monitor;
mod sink;
mod space;
mod stamp;
mod stop;
mod subentry;
mod subschema;
mod surroundings;
mod tls_monitor;
mod transactions;
mod virtual_tree;
mod worker;
mod write_queue;

pub use aci::{GlobalAcis, Identity, Network};
pub use administrator::check_administrator;
pub use asker_queues::{Asker, AskerQueues, QueueSize, network};
pub use authentication::{
    AuthenticationOptions, CertificateMapper, Confidentiality, FingerprintDigest, IdentityMapper,
};
pub use cookie::opens_as_cookie;
pub use directory::{AdminPassword, Directory, DirectoryOptions, JournalHold};
pub use error::DirectoryError;
pub use figure_monitor::{FigureEntry, Figures};
pub use grants::takes_privilege;
pub use guessed::guesses_password;
pub use hashing::{HashDone, HashJob, PasswordOptions};
pub use job::{Job, JobDone, Ran};
pub use journal::JournalStatus;
pub use limits::Limits;
pub use log_monitor::{LogState, LogStates};
pub use note::Noted;
pub use password_cache::{PasswordCacheCounts, PasswordCacheOptions};
pub use password_policy::PasswordPolicyOptions;
pub use policy::{Policy, PolicyAddress, PolicyOperation};
pub use protection::{ChannelBindings, ClientCertificate, Tls};
pub use search_counters::SearchCounts;
pub use seldom::Seldom;
pub use session::{LocalUser, Peer, Session};
pub use session_monitor::{Closer, SessionState, SessionTeller};
pub use sink::{Flow, Receiver};
pub use space::{DiskSpace, FileSystemSpace, SpaceLimits};
pub use stop::Stop;
pub use store::Held;
pub use tls_monitor::{CertificateState, CertificateTeller};
pub use worker::{Next, Worker};
pub use write_queue::{Outbox, PendingWrite, Reply};
