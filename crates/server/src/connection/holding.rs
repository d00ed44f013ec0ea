//! What a connection holds while its client does not take it, and its slot among the others.
//!
//! Invariant: who takes what it is sent, at once, is not counted.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::connection::presence::{Presence, Why};
use crate::limits::budget::{Account, Held};
use crate::limits::connection_slots::Slot;
use crate::worker::Shared;

/// One connection among the others.
pub(crate) struct Holding {
    address: Option<IpAddr>,
    presence: Arc<Presence>,
    /// None for local ones: connections are reserved for them.
    slot: Option<Slot>,
    /// From when something is held for the first time.
    account: Option<Arc<Account>>,
    /// What the connection itself holds.
    own: Option<Held>,
    is_anonymous: bool,
}

impl Holding {
    /// A connection begins, as an anonymous one.
    pub(crate) fn new(shared: &Shared, address: Option<IpAddr>, now: Duration) -> Self {
        let presence = Arc::new(Presence::new(now));
        let slot = address.map(|address| shared.connection_slots.take(address, &presence));
        Self { address, presence, slot, account: None, own: None, is_anonymous: true }
    }

    /// Whether it is one of the Unix socket.
    pub(super) fn is_local(&self) -> bool {
        self.address.is_none()
    }

    /// What others know of it.
    pub(crate) fn presence(&self) -> &Arc<Presence> {
        &self.presence
    }

    /// The client did something.
    pub(super) fn is_active(&self, now: impl FnOnce() -> Duration) {
        if self.is_anonymous {
            self.presence.is_active(now());
        }
    }

    /// The client has taken a part of what waits.
    pub(super) fn taken(&self, now: impl FnOnce() -> Duration) {
        if let Some(account) = &self.account {
            account.taken(now());
        }
    }

    /// Whether one more request may be begun.
    pub(super) fn has_room(&self) -> bool {
        self.account.as_ref().is_none_or(|account| account.has_room())
    }

    /// So many octets are held now, by a client that is anonymous or not.
    pub(super) fn update(
        &mut self,
        octets: usize,
        is_anonymous: bool,
        shared: &Shared,
        now: impl Fn() -> Duration,
    ) {
        if self.is_anonymous != is_anonymous {
            self.is_anonymous = is_anonymous;
            if let Some(slot) = &mut self.slot {
                shared.connection_slots.update(slot, is_anonymous);
            }
            if let Some(account) = &self.account {
                account.set_anonymous(is_anonymous);
                // It is counted anew, as what it is now.
                self.own = None;
            }
        }
        match &mut self.own {
            Some(own) if octets > 0 => own.resize(octets),
            Some(_) => self.own = None,
            None if octets > 0 => {
                let account = self.account(shared, &now);
                account.taken(now());
                self.own = Some(account.hold(octets));
            }
            None => {}
        }
    }

    /// What is counted for the connection.
    pub(super) fn account(&mut self, shared: &Shared, now: impl Fn() -> Duration) -> Arc<Account> {
        let Self { address, presence, account, is_anonymous, .. } = self;
        let account = account.get_or_insert_with(|| {
            let account = shared.budget.open(*address, presence, now());
            account.set_anonymous(*is_anonymous);
            account
        });
        Arc::clone(account)
    }

    /// The connection is gone; says why, when others have ended it.
    pub(super) fn leave(&mut self, shared: &Shared) -> Option<Why> {
        self.own = None;
        if let Some(account) = self.account.take() {
            shared.budget.close(&account);
        }
        if let Some(slot) = &mut self.slot {
            shared.connection_slots.give_back(slot);
        }
        self.presence.ended()
    }
}
