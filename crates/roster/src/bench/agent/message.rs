//! What coordinator and agents tell each other, as JSON.
//!
//! Invariant: what was read may be used: sizes and numbers have been looked at.

use serde::{Deserialize, Serialize};

use super::super::crew::rehearse;
use super::super::own::Toll;
use super::super::plan::{Part, Plan};
use super::super::tally::Delta;
use crate::connect::LoginText;
use crate::failure::{Exit, Failure};

/// From the coordinator.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ToAgent {
    /// Connect to the servers and be ready for this part of a plan; it is shared out already.
    Prepare { plan: Box<Plan>, part: Part, logins: Vec<LoginText> },
    /// Begin.
    Begin,
    /// End before the time is over, and report.
    End,
}

/// From an agent.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum FromAgent {
    /// The connections are open, or why they are not.
    Ready { failure: Option<Said> },
    /// What was counted in a second of the measured time, by the number of the server and the kind
    /// of operation.
    Second { second: u64, deltas: Vec<(usize, String, Delta)> },
    /// It is done: why it failed, and of each server that was lost its number, how many connections
    /// were, and why.
    End { failure: Option<Said>, lost: Vec<(usize, u64, Said)>, last_us: Option<u64>, toll: Toll },
}

/// A failure, told.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Said {
    /// Whether the server refused, rather than something on this side.
    is_refusal: bool,
    message: String,
    hint: Option<String>,
}

impl Said {
    pub(crate) fn of(failure: &Failure) -> Self {
        Self {
            is_refusal: failure.exit == Exit::Refused,
            message: failure.message.clone(),
            hint: failure.hint.clone(),
        }
    }

    pub(crate) fn into_failure(self) -> Failure {
        let shown = |text: String| text.chars().take(TEXT_CHARS_MAX).collect::<String>();
        let message = shown(self.message);
        let failure =
            if self.is_refusal { Failure::refused(message) } else { Failure::local(message) };
        Failure { hint: self.hint.map(shown), ..failure }
    }
}

/// Reads what came over a line, from whichever side; whether it was a message. For those who try
/// what happens to octets of any kind.
pub fn read(octets: &[u8]) -> bool {
    match serde_json::from_slice::<ToAgent>(octets) {
        Ok(ToAgent::Prepare { plan, part, .. }) => {
            let checked = part.check().and_then(|()| plan.check());
            checked.and_then(|()| rehearse(&plan, part)).is_ok()
        }
        Ok(ToAgent::Begin | ToAgent::End) => true,
        Err(_) => serde_json::from_slice::<FromAgent>(octets).is_ok(),
    }
}

/// Characters of a failure that are shown.
const TEXT_CHARS_MAX: usize = 2_000;
