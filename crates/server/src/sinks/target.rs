//! Where a sink sends to, whatever it is.

use directory::sinks::{Sink, SinkMessage, SinkTarget};
use environment::Timestamp;

use super::file::FileSender;
use super::files::SinkFiles;
use super::kafka::KafkaSender;
use super::nats::NatsSender;
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
    /// The target takes others, but not this one of those that are left.
    Refused { at: usize, why: String },
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

    /// Sends some messages, and takes those away that are confirmed: of one entry never a later one
    /// before an earlier one. It returns often, for where the sink is to be stored. `now` is what
    /// the clock says.
    pub(super) async fn send(
        &mut self,
        pending: &mut Vec<SinkMessage>,
        now: &dyn Fn() -> Timestamp,
    ) -> Result<(), NotSent> {
        match self {
            Self::File(file) => file.send(pending),
            Self::Webhook(webhook) => webhook.send(pending, now).await,
            Self::Nats(nats) => nats.send(pending).await,
            Self::Kafka(kafka) => kafka.send(pending).await,
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
