//! The transactions under way on one connection (RFC 5805).
//!
//! Invariant: an update of a transaction is kept, not decided: nobody sees anything of it until the
//! transaction ends. Where one of its updates was refused, the transaction is gone, so that what
//! is committed is all that was sent.
//! Invariant: what a connection can make the server keep is limited by the constants below; what
//! all of them can, and all of one who asks, by `Limits::transactions_max_bytes`. What counts is
//! what the updates take in memory, which may be many times what they were sent in.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use environment::{Chance, Clock, random_uuid};
use ldap::result::ResultCode;
use zeroize::Zeroizing;

use crate::request::asker_bytes::{AskerBytes, AskerHeld};
use crate::request::asker_queues::Asker;
use crate::request::refusal::Refusal;
use crate::write::request::{Transaction, WriteRequest};

/// Starts a transaction.
pub(crate) const START: &str = "1.3.6.1.1.21.1";
/// Ends a transaction.
pub(crate) const END: &str = "1.3.6.1.1.21.3";

/// The message of an update.
#[derive(Clone, Copy)]
pub(crate) struct UpdateMessage<'m> {
    pub(crate) bytes: &'m [u8],
    /// It is kept beside the update.
    pub(crate) is_kept: bool,
}

/// The transactions of one connection.
#[derive(Debug, Default)]
pub(crate) struct Transactions {
    open: Vec<Transaction>,
}

impl Transactions {
    /// Starts one of `asker`; returns its identifier, which tells nothing: neither how many
    /// connections there are nor how many transactions.
    pub(crate) fn start(
        &mut self,
        chance: &mut dyn Chance,
        all: &Arc<Mutex<AskerBytes>>,
        asker: Asker,
        now: Duration,
    ) -> Result<&[u8], Refusal> {
        if self.open.len() >= OPEN_MAX {
            return Err(Refusal::new(
                ResultCode::Busy,
                format!("{OPEN_MAX} transactions of this connection are open; end one"),
            ));
        }
        let identifier = random_uuid(chance).into_bytes();
        let held = AskerHeld::new(all, asker);
        self.open.push(Transaction::new(identifier, held, now));
        Ok(self.open.last().map_or(&[], |transaction| &transaction.identifier))
    }

    /// Opens the transaction that was started under this identifier on a connection of another
    /// node.
    pub(crate) fn open_as(
        &mut self,
        identifier: &[u8],
        all: &Arc<Mutex<AskerBytes>>,
        asker: Asker,
        now: Duration,
    ) {
        let held = AskerHeld::new(all, asker);
        self.open.push(Transaction::new(identifier.to_vec(), held, now));
    }

    /// Keeps an update, whose message is this, for the end of its transaction; the message as well
    /// where another node may be the one to decide.
    pub(crate) fn add(
        &mut self,
        identifier: &[u8],
        update: WriteRequest,
        message: UpdateMessage<'_>,
        now: Duration,
    ) -> Result<(), Refusal> {
        let UpdateMessage { bytes, is_kept } = message;
        let all = self.open.iter().map(|one| one.held.octets()).sum::<usize>();
        let octets = update.held_bytes(bytes.len()) + if is_kept { bytes.len() } else { 0 };
        let transaction = self
            .open
            .iter_mut()
            .find(|transaction| transaction.identifier == identifier)
            .ok_or_else(unknown)?;
        if transaction.updates.len() >= UPDATES_MAX {
            return Err(Refusal::new(
                ResultCode::AdminLimitExceeded,
                format!("a transaction has at most {UPDATES_MAX} updates"),
            ));
        }
        if all.saturating_add(octets) > HELD_MAX_BYTES {
            return Err(Refusal::new(
                ResultCode::AdminLimitExceeded,
                format!(
                    "the transactions of a connection take at most {HELD_MAX_BYTES} bytes of \
                     memory"
                ),
            ));
        }
        if !transaction.held.grow(octets) {
            return Err(Refusal::new(
                ResultCode::AdminLimitExceeded,
                "the open transactions take too much memory; end some, or try again later",
            ));
        }
        transaction.updates.push(update);
        if is_kept {
            transaction.messages.push(Zeroizing::new(bytes.to_vec()));
        }
        transaction.used = now;
        Ok(())
    }

    /// Whether updates that came before in a transaction may give its asker a right: there are
    /// some, and none of them lets it fail for sure.
    pub(crate) fn may_give_rights(&self, identifier: &[u8]) -> bool {
        let found = self.open.iter().find(|one| one.identifier == identifier);
        found.is_some_and(|one| {
            !one.updates.is_empty() && !one.updates.iter().any(|update| update.op.is_refused())
        })
    }

    /// Takes a transaction out, to end it.
    pub(crate) fn take(&mut self, identifier: &[u8]) -> Result<Transaction, Refusal> {
        let found = self.open.iter().position(|one| one.identifier == identifier);
        found.map(|at| self.open.swap_remove(at)).ok_or_else(unknown)
    }

    /// Whether there are any.
    pub(crate) fn any(&self) -> bool {
        !self.open.is_empty()
    }

    /// Forgets all of them, as when the client binds.
    pub(crate) fn clear(&mut self) {
        self.open.clear();
    }

    /// Gives up all of them; returns their identifiers.
    pub(crate) fn abort_all(&mut self) -> Vec<Vec<u8>> {
        self.open.drain(..).map(|transaction| transaction.identifier).collect()
    }

    /// Gives up those that were not used for [`IDLE_MAX`]; returns their identifiers.
    pub(crate) fn expire(&mut self, clock: &dyn Clock) -> Vec<Vec<u8>> {
        if self.open.is_empty() {
            return Vec::new();
        }
        let now = clock.elapsed();
        let is_old = |one: &mut Transaction| now.saturating_sub(one.used) > IDLE_MAX;
        self.open.extract_if(.., is_old).map(|transaction| transaction.identifier).collect()
    }
}

fn unknown() -> Refusal {
    Refusal::new(
        ResultCode::OperationsError,
        "there is no such transaction on this connection: start one first",
    )
}

/// Transactions that one connection may have open at once.
const OPEN_MAX: usize = 8;

/// Updates of one transaction.
const UPDATES_MAX: usize = 1_000;

/// Octets of memory that the updates of one connection take while they wait.
const HELD_MAX_BYTES: usize = 8 << 20;

/// A transaction that is not used for longer is given up.
const IDLE_MAX: Duration = Duration::from_secs(300);
