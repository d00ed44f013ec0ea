//! The operations of a directory server, without a socket.
//!
//! Start at `request/dispatch.rs`, then `read/search.rs`, `write/decide.rs` and `write/queue.rs`.
//!
//! Invariant: no socket, no async, no thread but the writer; clock and chance are handed in.
//! Invariant: a client is answered after its change is durable and visible, never before.

mod access;
mod adjusting;
mod archiving;
pub mod assignment;
mod bind;
mod changelog;
mod config;
pub mod constraint;
mod directory;
pub mod enforcement;
mod error;
mod flush_failures;
mod following;
pub mod forward;
mod groups;
mod lines;
mod live;
pub mod loading;
mod member_machine;
mod opening;
mod options;
pub mod password_policy;
mod quarantine;
mod read;
mod request;
mod rules;
pub mod sinks;
mod storage;
pub mod tasks;
pub mod virtual_attributes;
mod write;

pub use access::grants::takes_privilege;
pub use aci::{GlobalAcis, Identity, Network};
pub use adjusting::LiveOptions;
pub use archiving::ArchiveAt;
pub use bind::administrator::check_administrator;
pub use bind::authentication::{
    AuthenticationOptions, CertificateMapper, Confidentiality, FingerprintDigest, IdentityMapper,
};
pub use bind::failure::BindFailure;
pub use bind::hashing::{HashDone, HashJob, PasswordOptions};
pub use bind::password_cache::{PasswordCacheCounts, PasswordCacheOptions};
#[cfg(any(test, feature = "test-support"))]
pub use changelog::opens_as_change_cookie;
pub use changelog::told::{ToldChange, ToldDelta, shown, verb};
pub use config::change_members::{
    MembersRequest, OID as CHANGE_MEMBERS, WAIT_MAX as CHANGE_WAIT_MAX,
};
pub use config::init_cluster::OID as INIT_CLUSTER;
pub use config::join::{JoinAnswer, JoinRequest, OID as JOIN};
pub use config::join_tokens::{
    ATTRIBUTE as JOIN_TOKEN_ATTRIBUTE, JoinPart, JoinToken, hex, octets as octets_of_hex,
};
pub use config::lockdown::{AskedLockdown, LockdownState, OID as LOCKDOWN};
pub use config::monitor_sources::{
    AdmissionCheck, Admitted, Admitter, CertificateState, CertificateTeller, Closer,
    ClusterCopyState, ClusterInit, ClusterMemberState, ClusterState, ClusterTeller,
    ClusterVerified, FigureEntry, Figures, FirstMember, LogState, LogStates, ServerRun,
    ServerStopper, SessionState, SessionTeller, SettingsReload, SettingsReloader, StopKind,
    Verifier, VerifyAsked,
};
pub use config::promotion::promote_joined;
pub use config::record_level::raise_record_level;
pub use config::reload_settings::OID as RELOAD_SETTINGS;
pub use config::setting_rows::{
    BeginLines, CheckLines, SettingForm, SettingRow, SettingsTeller, TellTexts,
};
pub use config::stop_server::{AskedStop, OID as STOP_SERVER};
pub use config::verify::{
    OID as VERIFY, VerifyAnswer, VerifyDifference, VerifyMember, VerifyOdd, VerifyRequest,
};
pub use directory::Directory;
pub use error::DirectoryError;
pub use journal::JournalStatus;
pub use live::Live;
pub use options::{AdminPassword, DirectoryOptions, LogParts, MakeLog};
pub use password_policy::PasswordPolicyOptions;
pub use read::dangling::{DANGLING_LISTED_MAX, Dangling, DanglingValue};
pub use read::explanation;
pub use read::fresh::level::DefaultReadLevel;
pub use read::fresh::waiting::{ReadDone, ReadReady, WaitingRead};
pub use read::search::ChangeWait;
pub use read::search_counters::SearchCounts;
pub use read::streams::Passed;
pub use request::asker_bytes::{AskerBytes, AskerHeld};
pub use request::asker_queues::{Asker, AskerQueues, QueueSize, network};
pub use request::completion::{Completion, WriteDone};
#[cfg(any(test, feature = "test-support"))]
pub use request::cookie::opens_as_cookie;
pub use request::job::{Job, JobDone, Ran};
pub use request::limits::Limits;
pub use request::outbox::{Outbox, Reply};
pub use request::policy::{Policy, PolicyAddress, PolicyOperation};
pub use request::protection::{ChannelBindings, ClientCertificate, Tls};
pub use request::received::Received;
pub use request::seldom::Seldom;
pub use request::session::{LocalUser, Peer, Session};
pub use request::sink::{Flow, Part, Receiver, disconnect};
pub use request::stop::Stop;
pub use request::worker::{Next, Worker};
pub use storage::JournalHold;
pub use store::Held;
pub use write::followed::Followed;
pub use write::queue::PendingWrite;
pub use write::space::{DiskSpace, FileSystemSpace, SpaceLimits};
pub use write::suffix::of_name as suffix_entry;
