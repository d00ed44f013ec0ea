//! What one thread needs to serve requests: a reader of the store, chance, scratch space.

use std::sync::Arc;

use auth::password::{PasswordStorage, Scheme};
use environment::Chance;

use crate::bind::hashing::{Behind, HashJob, Hashed, RequestHashes};
use crate::bind::remark::BindRemark;
use crate::directory::Directory;
use crate::read::analyser::Recorder;
use crate::read::fresh::waiting::WaitingRead;
use crate::request::completion::Completion;
use crate::request::controls::response::ResponseControl;
use crate::request::job::Job;
use crate::request::name_memo::NameMemo;
use crate::request::refusal::Refusal;
use crate::request::snapshot::Snapshot;
use crate::write::queue::PendingWrite;

/// One thread's way into the directory.
pub struct Worker {
    pub(crate) directory: Arc<Directory>,
    pub(crate) snapshot: Snapshot,
    pub(crate) chance: Box<dyn Chance>,
    /// Names that were asked for.
    pub(crate) names: NameMemo,
    pub(crate) recorder: Recorder,
    /// The request that is handled: replaced as a whole when the next one is.
    pub(crate) request: RequestState,
}

/// What is known of the request at hand beside its message.
#[derive(Default)]
pub(crate) struct RequestState {
    /// Password hashes that it asks for, and those it was answered.
    pub(crate) hashing: RequestHashes,
    /// What a bind is told of its account.
    pub(crate) remark: BindRemark,
    /// Who the client of a SASL bind says it is, for the access log.
    pub(crate) claimed: Option<Box<str>>,
    /// An old password that it sends is not right.
    pub(crate) is_wrong_guess: bool,
    /// The data are as fresh as it asked for.
    pub(crate) is_fresh: bool,
}

/// What the connection has to do after a message was handled.
#[must_use]
pub enum Next {
    /// Everything to send is in the buffer; there may be nothing to send (abandon).
    Answered(Completion),
    /// Submit it; the answer comes when the change is durable.
    Write(PendingWrite),
    /// Give it to a pool thread.
    Later(Job),
    /// Give it to a thread of the hash pool, and what comes of it to `Worker::resume`. Nothing was
    /// answered yet, and no further message of the connection may be handled until then: a bind
    /// decides who the following requests come from (RFC 4511 §4.2.1), and an update may be what
    /// they build upon.
    Hash(Box<HashJob>),
    /// Submit it, and give what comes of it to `Worker::resume_read`. Nothing was answered yet;
    /// further messages of the connection may be handled meanwhile.
    Wait(Box<WaitingRead>),
    /// Send the buffer, discard what was received already, then begin the TLS handshake.
    StartTls(Completion),
    /// Send the buffer, then close.
    Close(Completion),
}

impl Worker {
    pub(crate) fn new(directory: Arc<Directory>, chance: Box<dyn Chance>) -> Self {
        let reader = directory.storage.store.reader();
        let snapshot = Snapshot::new(reader);
        let recorder = directory.monitors.analyser.recorder();
        let (names, request) = (NameMemo::default(), RequestState::default());
        Self { directory, snapshot, chance, names, recorder, request }
    }

    /// Which of the stored values a password is behind.
    pub(crate) fn which(&mut self, clear: &[u8], stored: &[Vec<u8>]) -> Behind {
        self.request.hashing.which(self.directory.hash_rules(), clear, stored)
    }

    /// Whether the stored form of a new password takes long to make, in this scheme or that of the
    /// settings.
    pub(crate) fn hashes_slowly(&self, scheme: Option<Scheme>) -> bool {
        let PasswordStorage { scheme: usual, costs } =
            self.directory.credentials.passwords().storage;
        PasswordStorage { scheme: scheme.unwrap_or(usual), costs }.is_slow()
    }

    /// The stored form of a new password.
    pub(crate) fn stored_form(
        &mut self,
        clear: &[u8],
        scheme: Option<Scheme>,
        is_generated: bool,
    ) -> Result<Hashed, Refusal> {
        let Self { directory, request, chance, .. } = self;
        let (known, options) = (request.hashing.known(), &directory.credentials.passwords());
        known.stored_form(options, clear, scheme, is_generated, &mut **chance)
    }

    /// The response control that tells up to which change the data are that are visible here.
    pub(crate) fn position(&mut self) -> ResponseControl {
        let lsn = self.directory.storage.store.published().lsn;
        self.directory.position(lsn, &mut *self.chance)
    }

    /// The thread has nothing to do: gives up its snapshot, so that old pages can be reused.
    pub fn idle(&mut self) {
        self.snapshot.release();
    }
}
