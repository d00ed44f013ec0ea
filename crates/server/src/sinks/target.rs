//! Where a sink sends to, whatever it is.

use directory::sinks::{Sink, SinkMessage, SinkTarget};
use environment::Timestamp;
use tokio::time::Instant;

use super::file::FileSender;
use super::files::SinkFiles;
use super::kafka::KafkaSender;
use super::nats::NatsSender;
use super::received::Received;
use super::webhook::WebhookSender;

/// What sends.
pub(super) enum Sender {
    File(FileSender),
    Webhook(WebhookSender),
    Nats(Box<NatsSender>),
    Kafka(KafkaSender),
}

/// Why not all was sent.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum NotSent {
    /// The target takes nothing now: it is tried again until it does.
    Away(String),
    /// Likewise, and nothing is known of any message.
    Lost(String),
    /// What is left is to be made anew, by the rights of now: that its connection was made, or that
    /// others were sent, took too long.
    Stale,
    /// The target takes others, but not this one of those that are left.
    Refused { at: usize, why: String },
}

/// When something is sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct SendTime {
    /// What the clock says.
    pub(super) now: Timestamp,
    /// Nothing begins to be sent behind that: the identity may have lost its rights.
    pub(super) until: Instant,
}

impl SendTime {
    /// Refuses to send what is too old.
    pub(super) fn check(&self) -> Result<(), NotSent> {
        match Instant::now() < self.until {
            true => Ok(()),
            false => Err(NotSent::Stale),
        }
    }
}

impl NotSent {
    /// Likewise, in a text that fits into a line of a log: a target may say anything.
    pub(super) fn shortened(self) -> Self {
        let short = |why: String| -> String {
            let shown = |char: char| if char.is_control() { ' ' } else { char };
            let mut text: String = why.chars().take(WHY_MAX_CHARS).map(shown).collect();
            if text.len() < why.len() {
                text.push('…');
            }
            text
        };
        match self {
            Self::Away(why) => Self::Away(short(why)),
            Self::Lost(why) => Self::Lost(short(why)),
            Self::Stale => Self::Stale,
            Self::Refused { at, why } => Self::Refused { at, why: short(why) },
        }
    }
}

impl Sender {
    /// That of a sink; it connects when there is something to send.
    pub(super) fn of(sink: &Sink, files: &SinkFiles) -> Self {
        let files = files.clone();
        match &sink.target {
            SinkTarget::File(target) => Self::File(FileSender::new(target.clone(), files)),
            SinkTarget::Webhook(target) => {
                Self::Webhook(WebhookSender::new(target.clone(), &sink.name, files))
            }
            SinkTarget::Nats(target) => {
                Self::Nats(Box::new(NatsSender::new(target.clone(), &sink.name, files)))
            }
            SinkTarget::Kafka(target) => Self::Kafka(KafkaSender::new(target.clone(), files)),
        }
    }

    /// What comes from the target meanwhile.
    pub(super) fn received(&self) -> Received {
        match self {
            Self::Nats(nats) => nats.received(),
            Self::File(_) | Self::Webhook(_) | Self::Kafka(_) => Received::default(),
        }
    }

    /// Sends some messages, and takes those away that are confirmed: of one entry never a later one
    /// before an earlier one. It returns often, for where the sink is to be stored.
    pub(super) async fn send(
        &mut self,
        pending: &mut Vec<SinkMessage>,
        time: SendTime,
    ) -> Result<(), NotSent> {
        time.check()?;
        match self {
            Self::File(file) => file.send(pending),
            Self::Webhook(webhook) => webhook.send(pending, time).await,
            Self::Nats(nats) => nats.send(pending, time).await,
            Self::Kafka(kafka) => kafka.send(pending, time).await,
        }
    }
}

/// Takes those away that are confirmed.
pub(super) fn take_confirmed(pending: &mut Vec<SinkMessage>, confirmed: &[bool]) {
    let mut at = 0;
    pending.retain(|_| {
        let is_confirmed = confirmed.get(at).copied().unwrap_or(false);
        at += 1;
        !is_confirmed
    });
}

/// The longest reason that is shown and logged, in characters.
const WHY_MAX_CHARS: usize = 300;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_target_says_fits_into_a_line() {
        let said = format!("no\u{1b}]0;title\u{7}\n2026 ERROR {}", "ä".repeat(5_000));
        let NotSent::Away(why) = NotSent::Away(said).shortened() else { unreachable!() };
        assert_eq!(why.chars().count(), WHY_MAX_CHARS + 1);
        assert!(why.starts_with("no ]0;title  2026 ERROR ") && why.ends_with("ä…"), "{why}");
    }
}
