//! Readings one after the other, also across the end of a server and the start of the next.
//!
//! Invariant: a refusal ends it. Only a server that is not there, or says that it cannot answer
//! now, is asked again: a password that is wrong by now must not be tried every second, which would
//! lock the account.

use std::sync::Arc;
use std::time::{Duration, Instant};

use client::Connection;

use super::reading::{Reading, now};
use crate::connect::Login;
use crate::failure::Failure;

/// Who asks the server, and connects anew when it has to.
pub(super) struct Watch {
    login: Arc<Login>,
    connection: Option<Connection>,
    away: Option<Away>,
    has_read: bool,
}

/// What came of asking.
pub(super) enum Look {
    Reading(Reading),
    /// The first after the server was away: nothing is known of what lies between.
    Back(Reading, Away),
    Away(Away),
}

/// A server that is not there, since it was asked first and did not answer.
#[derive(Clone, Debug)]
pub(super) struct Away {
    pub(super) since: Instant,
    pub(super) reason: String,
}

impl Watch {
    pub(super) const fn new(login: Arc<Login>) -> Self {
        Self { login, connection: None, away: None, has_read: false }
    }

    /// Asks the server. One that is not there at the beginning is a failure.
    pub(super) fn look(&mut self) -> Result<Look, Failure> {
        let asked = now();
        let reading = self.reading();
        self.has_read |= reading.is_ok();
        match reading {
            Ok(reading) => Ok(match self.away.take() {
                None => Look::Reading(reading),
                Some(away) => Look::Back(reading, away),
            }),
            Err(failure) if failure.is_passing && self.has_read => {
                self.connection = None;
                let since = self.away.as_ref().map_or(asked, |away| away.since);
                let away = Away { since, reason: failure.message };
                self.away = Some(away.clone());
                Ok(Look::Away(away))
            }
            Err(failure) => Err(failure),
        }
    }

    fn reading(&mut self) -> Result<Reading, Failure> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            none => none.insert(self.login.connect()?),
        };
        Reading::take(connection)
    }

    /// How long to wait before the next look.
    pub(super) fn pause(&self, every: Duration) -> Duration {
        match self.away {
            None => every,
            Some(_) => every.clamp(AWAY_PAUSE_MIN, AWAY_PAUSE_MAX),
        }
    }
}

impl Away {
    pub(super) fn seconds(&self) -> u64 {
        now().saturating_duration_since(self.since).as_secs()
    }
}

/// For how many seconds there has been no answer; none while that is nothing unusual.
pub(super) fn silence_s(asked: Option<Instant>) -> Option<u64> {
    let silence = now().saturating_duration_since(asked?);
    (silence >= SILENCE_MIN).then_some(silence.as_secs())
}

/// Answers come within milliseconds: from here on it is told that there is none.
const SILENCE_MIN: Duration = Duration::from_secs(1);
/// How often a server that is away is asked for.
const AWAY_PAUSE_MIN: Duration = Duration::from_secs(1);
const AWAY_PAUSE_MAX: Duration = Duration::from_secs(2);
