//! What a node is told at its start, and the settings of the engine that follow from it.
//!
//! Invariant: the settings on which safety rests are checked after they are made, so that neither
//! a later edit nor another release of the engine changes them unnoticed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use openraft::{Config, SnapshotPolicy};

use crate::copies::COPY_RATE_BYTES;
pub use history::log::VOTERS_MAX;

use crate::engine::CHOSEN_MAX;
use crate::entry::check_members;
use crate::types::Node;

/// How long the others wait for a leader that is silent before they elect another, by default.
pub const SILENCE_MAX: Duration = Duration::from_secs(1);
/// The shortest time that may be set: below it, the noise of a busy machine causes elections.
pub(crate) const SILENCE_MAX_MIN: Duration = Duration::from_millis(200);
/// The longest.
pub(crate) const SILENCE_MAX_MAX: Duration = Duration::from_secs(60);
/// How often the members compare their states, by default.
const COMPARE_EVERY: Duration = Duration::from_secs(5);
/// How long a batch waits for its outcome after the lead is lost, by default.
pub const OUTCOME_WAIT: Duration = Duration::from_secs(10);
/// Heartbeats in the time after which a silent leader is replaced.
const HEARTBEATS: u32 = 10;
/// The most entries sent at once.
const APPEND_ENTRIES_MAX: u64 = 1024;

/// What a node is told at its start.
#[derive(Clone, Debug)]
pub struct Options {
    /// Its own number.
    pub id: u64,
    /// Who takes part when the cluster begins. Once the members were changed the log says who does,
    /// and where they are.
    pub members: BTreeMap<u64, Node>,
    /// How long the others wait for a leader that is silent before they elect another.
    pub silence_max: Duration,
    /// How long a batch waits for its outcome after the lead is lost.
    pub outcome_wait: Duration,
    /// How often the members compare their states.
    pub compare_every: Duration,
    /// What elections draw their moments from.
    pub seed: u64,
    /// How much of the log is kept for members that fall behind, in bytes.
    pub log_keep_bytes: u64,
    /// The most octets of copies that it sends in a second.
    pub copy_rate_bytes: u64,
    /// The most octets in a second that a comparison of the data which is begun here reads on each
    /// member.
    pub verify_rate_bytes: u64,
    /// Who should lead as long as one of them can; empty: all alike.
    pub preferred: BTreeSet<u64>,
    /// A node that was leader goes on as that after a restart, in the same term. That loses
    /// acknowledged writes, and tests show that they would see it.
    #[cfg(any(test, feature = "test-support", feature = "planted-faults"))]
    pub restores_leader: bool,
}

/// The octets that a comparison of the data reads in a second on each member, by default.
pub const VERIFY_RATE_BYTES: u64 = 32 << 20;

/// How much of the log is kept for members that fall behind, by default, in bytes.
pub const LOG_KEEP_BYTES: u64 = 1 << 30;

impl Options {
    /// The defaults of node `id` in a cluster that begins with `members`.
    #[must_use]
    pub fn new(id: u64, members: BTreeMap<u64, Node>, seed: u64) -> Self {
        Self {
            id,
            members,
            silence_max: SILENCE_MAX,
            outcome_wait: OUTCOME_WAIT,
            compare_every: COMPARE_EVERY,
            seed,
            log_keep_bytes: LOG_KEEP_BYTES,
            copy_rate_bytes: COPY_RATE_BYTES,
            verify_rate_bytes: VERIFY_RATE_BYTES,
            preferred: BTreeSet::new(),
            #[cfg(any(test, feature = "test-support", feature = "planted-faults"))]
            restores_leader: false,
        }
    }

    /// The heartbeat's interval.
    #[must_use]
    pub fn heartbeat(&self) -> Duration {
        self.silence_max / HEARTBEATS
    }

    /// How long a question to a majority may take: a leader that is silent for so long has been
    /// replaced, and another one can be asked.
    #[must_use]
    pub fn read_wait(&self) -> Duration {
        2 * self.silence_max
    }

    /// The engine's settings.
    ///
    /// # Errors
    /// A sentence, when something is not possible or not safe.
    pub(crate) fn config(&self) -> Result<Config, String> {
        self.check()?;
        let election_timeout_max = millis(self.silence_max);
        let config = Config {
            cluster_name: "roster".to_owned(),
            heartbeat_interval: millis(self.heartbeat()),
            election_timeout_min: election_timeout_max / 2,
            election_timeout_max,
            quorum_loss_probe_interval: Some(3 * election_timeout_max),
            enable_pre_vote: Some(true),
            enable_leader_restore: Some(self.restores_leader()),
            allow_log_reversion: None,
            snapshot_policy: SnapshotPolicy::Never,
            // Nothing goes but what it is asked to purge: all that is in the base would.
            max_in_snapshot_log_to_keep: u64::MAX,
            max_payload_entries: APPEND_ENTRIES_MAX,
            backoff: "50ms 100ms 200ms ..500ms".to_owned(),
            ..Config::default()
        };
        let config = config.validate().map_err(|error| error.to_string())?;
        self.check_safe(&config)?;
        Ok(config)
    }

    #[cfg(any(test, feature = "test-support", feature = "planted-faults"))]
    const fn restores_leader(&self) -> bool {
        self.restores_leader
    }

    #[cfg(not(any(test, feature = "test-support", feature = "planted-faults")))]
    #[allow(clippy::unused_self, reason = "a test may say otherwise")]
    const fn restores_leader(&self) -> bool {
        false
    }

    fn check(&self) -> Result<(), String> {
        check_members(self.members.iter())?;
        if !(SILENCE_MAX_MIN..=SILENCE_MAX_MAX).contains(&self.silence_max) {
            return Err(format!(
                "a silent leader is replaced after {SILENCE_MAX_MIN:?} to \
                 {SILENCE_MAX_MAX:?}, not {:?}",
                self.silence_max
            ));
        }
        if self.members.len() > VOTERS_MAX {
            return Err(format!(
                "{} servers would decide together; {VOTERS_MAX} are the most",
                self.members.len()
            ));
        }
        let begins = |id: &u64| *id <= CHOSEN_MAX && !self.members.is_empty();
        let is_stranger = |id: &&u64| begins(id) && !self.members.contains_key(id);
        if let Some(id) = self.preferred.iter().find(is_stranger) {
            return Err(format!("server {id} is preferred, but not among the members"));
        }
        Ok(())
    }

    /// Whether the server is one with whom the cluster begins, or joins it later.
    ///
    /// # Errors
    /// A sentence, when it is neither.
    pub(crate) fn check_own(&self) -> Result<(), String> {
        let is_known = self.members.contains_key(&self.id);
        match is_known || self.members.is_empty() || self.id > CHOSEN_MAX {
            true => Ok(()),
            false => Err(format!("server {} is not among the members", self.id)),
        }
    }

    /// What acknowledged writes depend on.
    fn check_safe(&self, config: &Config) -> Result<(), String> {
        let is_safe = config.enable_leader_restore == Some(self.restores_leader())
            && config.enable_pre_vote == Some(true)
            && config.quorum_loss_probe_interval >= Some(2 * config.election_timeout_max)
            && config.allow_log_reversion.is_none()
            && matches!(config.snapshot_policy, SnapshotPolicy::Never)
            && config.max_in_snapshot_log_to_keep == u64::MAX
            && config.enable_tick
            && config.enable_elect
            && config.enable_heartbeat;
        if is_safe {
            Ok(())
        } else {
            Err("the engine of the cluster is not set up safely; this is a bug".to_owned())
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(members: u64) -> Options {
        let members = (1..=members).map(|id| (id, Node::default())).collect();
        Options::new(1, members, 7)
    }

    #[test]
    fn the_settings_on_which_safety_rests_are_as_they_must_be() {
        let config = options(3).config().unwrap();
        assert_eq!(config.enable_leader_restore, Some(false));
        assert_eq!(config.enable_pre_vote, Some(true));
        assert_eq!(config.quorum_loss_probe_interval, Some(3000));
        assert_eq!(config.allow_log_reversion, None);
        assert!(matches!(config.snapshot_policy, SnapshotPolicy::Never));
        assert_eq!((config.heartbeat_interval, config.election_timeout_min), (100, 500));
    }

    #[test]
    fn a_setting_that_loses_writes_is_refused() {
        let options = options(3);
        let config = options.config().unwrap();
        let unsafe_ones: [fn(&mut Config); 7] = [
            |config| config.enable_leader_restore = None,
            |config| config.enable_leader_restore = Some(true),
            |config| config.enable_pre_vote = None,
            |config| config.quorum_loss_probe_interval = None,
            |config| config.allow_log_reversion = Some(true),
            |config| config.snapshot_policy = SnapshotPolicy::LogsSinceLast(1),
            |config| config.max_in_snapshot_log_to_keep = 1000,
        ];
        for change in unsafe_ones {
            let mut changed = config.clone();
            change(&mut changed);
            assert!(options.check_safe(&changed).is_err(), "{changed:?}");
        }
    }

    #[test]
    fn impossible_clusters_are_refused() {
        assert!(options(9).config().is_err());
        assert!(Options { id: 4, ..options(3) }.check_own().is_err());
        assert!(Options { id: CHOSEN_MAX + 4, ..options(3) }.check_own().is_ok());
        let quick = Options { silence_max: Duration::from_millis(10), ..options(3) };
        assert!(quick.config().is_err());
    }
}
