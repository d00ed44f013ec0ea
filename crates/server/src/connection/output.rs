//! What a connection has to send.

use std::pin::Pin;

use tokio::time::Sleep;

/// Answers, in the order in which they leave.
#[derive(Default)]
pub(super) struct Output {
    pub(super) bytes: Vec<u8>,
    pub(super) sent: usize,
    /// TLS may hold more than we gave it.
    pub(super) flushed: bool,
    /// Runs while the client does not read.
    pub(super) timer: Option<Pin<Box<Sleep>>>,
}

impl Output {
    /// What is not sent yet.
    pub(super) fn rest(&self) -> &[u8] {
        self.bytes.get(self.sent..).unwrap_or_default()
    }

    /// How many bytes are not sent yet.
    pub(super) fn waiting(&self) -> usize {
        self.bytes.len() - self.sent
    }

    pub(super) fn append(&mut self, answer: Vec<u8>) {
        if self.bytes.is_empty() {
            self.bytes = answer;
        } else {
            self.bytes.extend_from_slice(&answer);
        }
    }

    /// So many bytes more were sent.
    pub(super) fn note_sent(&mut self, count: usize) {
        self.sent += count;
    }
}
