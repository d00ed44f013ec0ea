//! One client: sends random writes for its own entries, several in flight, until the server is
//! gone or it is told to stop, and keeps exact account of the answers.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::model::{Owner, Which, differences};
use crate::chance::Chance;
use crate::client::{Client, ClientError, Control, Request, Search, end_of_transaction};

/// Requests of one client in flight at the same time.
const IN_FLIGHT_MAX: usize = 4;
/// One answer in so many is followed by a search for the entry on another connection.
const READ_BACK_EVERY: u64 = 16;
/// Attempts to find an entry with nothing in flight before an answer is awaited.
const ATTEMPTS_MAX: usize = 4;
/// One request in so many is committed lazily.
const LAZY_EVERY: u64 = 8;
/// A transaction takes turns with so many requests.
const TRANSACTION_EVERY: u64 = 50;
/// The most writes of a transaction.
const PARTS_MAX: u64 = 5;
/// One transaction in so many is given up.
const GIVE_UP_EVERY: u64 = 4;
/// Lazy commit.
const LAZY_COMMIT: &str = "1.2.840.113556.1.4.619";
/// Starting a transaction, being part of one, ending it (RFC 5805).
const START: &str = "1.3.6.1.1.21.1";
const SPECIFICATION: &str = "1.3.6.1.1.21.2";
const END: &str = "1.3.6.1.1.21.3";
/// Result codes that say that nothing was done: busy, unavailable.
const NOT_DONE: [i64; 2] = [51, 52];

/// How to reach the server.
#[derive(Clone, Debug)]
pub(super) struct Door {
    pub(super) address: SocketAddr,
    pub(super) dn: String,
    pub(super) password: String,
}

/// What the clients of a round share.
#[derive(Debug, Default)]
pub(super) struct Signals {
    /// No more requests are to be sent; those in flight are waited for.
    pub(super) stop: AtomicBool,
    /// Answers so far.
    pub(super) answered: AtomicU64,
}

/// What came of one client.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) owner: Owner,
    pub(super) acknowledged: u64,
    /// Answers that say that nothing was done.
    pub(super) refused: u64,
    pub(super) read_back: u64,
    /// Whether the server has transactions.
    transactions: bool,
    pub(super) faults: Vec<String>,
}

impl Door {
    pub(super) fn enter(&self) -> Result<Client, ClientError> {
        let mut client = Client::connect(self.address)?;
        client.bind(&self.dn, &self.password)?;
        Ok(client)
    }
}

/// Runs one client to its end.
pub(super) fn run(door: &Door, owner: Owner, chance: Chance, signals: &Arc<Signals>) -> Told {
    let (acknowledged, refused, read_back, faults) = (0, 0, 0, Vec::new());
    let mut told = Told { owner, acknowledged, refused, read_back, transactions: true, faults };
    let end = Load { door, chance, signals, told: &mut told }.run();
    match end {
        // The server is gone, as it should be some time.
        Ok(()) | Err(ClientError::Gone(_)) => {}
        Err(error) => told.faults.push(format!("client {}: {error}", told.owner.number)),
    }
    told
}

struct Load<'l> {
    door: &'l Door,
    chance: Chance,
    signals: &'l Arc<Signals>,
    told: &'l mut Told,
}

impl Load<'_> {
    fn run(&mut self) -> Result<(), ClientError> {
        let mut client = self.door.enter()?;
        let mut reader = self.door.enter()?;
        let mut in_flight: BTreeMap<i64, Which> = BTreeMap::new();
        let mut wants_transaction = false;
        loop {
            let stopped = self.signals.stop.load(Ordering::Relaxed);
            wants_transaction |= self.chance.once_in(TRANSACTION_EVERY);
            if !stopped && !wants_transaction {
                self.fill(&mut client, &mut in_flight)?;
            }
            if in_flight.is_empty() {
                if stopped {
                    return Ok(());
                }
                if wants_transaction {
                    self.transaction(&mut client)?;
                    wants_transaction = false;
                }
                continue;
            }
            let answer = client.receive()?;
            let Some(which) = in_flight.remove(&answer.id) else {
                let what = format!("an answer to request {}, not in flight", answer.id);
                return Err(ClientError::Malformed(what));
            };
            self.signals.answered.fetch_add(1, Ordering::Relaxed);
            self.answered(which, answer.code, &answer.diagnostic);
            if self.chance.once_in(READ_BACK_EVERY) {
                self.read_back(&mut reader, which)?;
            }
        }
    }

    fn fill(
        &mut self,
        client: &mut Client,
        in_flight: &mut BTreeMap<i64, Which>,
    ) -> Result<(), ClientError> {
        let mut attempts = 0;
        while in_flight.len() < IN_FLIGHT_MAX && attempts < ATTEMPTS_MAX {
            let Some((which, request)) = self.told.owner.next(&mut self.chance) else {
                attempts += 1;
                continue;
            };
            // Acknowledged lazily, a write survives the end of the process all the same.
            let lazy = Control { oid: LAZY_COMMIT, critical: false, value: None };
            let controls = if self.chance.once_in(LAZY_EVERY) { vec![lazy] } else { Vec::new() };
            let id = client.send(&request, &controls)?;
            in_flight.insert(id, which);
        }
        Ok(())
    }

    /// Several writes that are done together, or given up together.
    fn transaction(&mut self, client: &mut Client) -> Result<(), ClientError> {
        if !self.told.transactions {
            return Ok(());
        }
        let answer = client.call(&Request::Extended { oid: START, value: None })?;
        let Some(id) = answer.value.filter(|_| answer.code == 0) else {
            self.told.transactions = NOT_DONE.contains(&answer.code);
            return Ok(());
        };
        let mut parts = Vec::new();
        let sent = self.send_parts(client, &id, &mut parts);
        if sent.is_err() {
            // It was never ended: nothing of it may be there, ever.
            self.settle_all(&parts, false, "in a transaction that was never ended");
            return sent.map(drop);
        }
        let commits = sent? && !self.chance.once_in(GIVE_UP_EVERY);
        let value = Some(end_of_transaction(&id, commits));
        if !commits {
            self.settle_all(&parts, false, "in a transaction that was given up");
        }
        let answer = client.call(&Request::Extended { oid: END, value })?;
        if answer.code == 0 {
            self.settle_all(&parts, commits, "acknowledged in a transaction");
            self.told.acknowledged += if commits { parts.len() as u64 } else { 0 };
        } else {
            let what = format!("transaction answered {}: {}", answer.code, answer.diagnostic);
            self.settle_all(&parts, false, &what);
            if NOT_DONE.contains(&answer.code) {
                self.told.refused += parts.len() as u64;
            } else {
                self.told.faults.push(what);
            }
        }
        Ok(())
    }

    /// Sends the writes of a transaction; whether all of them were accepted.
    fn send_parts(
        &mut self,
        client: &mut Client,
        id: &[u8],
        parts: &mut Vec<Which>,
    ) -> Result<bool, ClientError> {
        let number = self.told.owner.take_transaction();
        let wanted = 2 + self.chance.below(PARTS_MAX - 1);
        for _ in 0..wanted {
            let Some((which, request)) = self.told.owner.next(&mut self.chance) else { continue };
            parts.push(which);
            if let Some(pending) = self.told.owner.slot(which).and_then(|one| one.pending.as_mut())
            {
                pending.transaction = Some(number);
            }
            let value = Some(id.to_vec());
            client.send(&request, &[Control { oid: SPECIFICATION, critical: true, value }])?;
        }
        let mut accepted = true;
        for _ in 0..parts.len() {
            let answer = client.receive()?;
            if answer.code != 0 && !NOT_DONE.contains(&answer.code) {
                let (code, diagnostic) = (answer.code, &answer.diagnostic);
                self.told.faults.push(format!("in a transaction: {code}: {diagnostic}"));
            }
            accepted &= answer.code == 0;
        }
        Ok(accepted)
    }

    fn settle_all(&mut self, parts: &[Which], done: bool, how: &str) {
        for which in parts {
            if let Some(slot) = self.told.owner.slot(*which) {
                slot.settle(done, how);
            }
        }
    }

    fn answered(&mut self, which: Which, code: i64, diagnostic: &str) {
        let Some(slot) = self.told.owner.slot(which) else { return };
        if code == 0 {
            self.told.acknowledged += 1;
            slot.settle(true, "acknowledged");
        } else if NOT_DONE.contains(&code) {
            self.told.refused += 1;
            slot.settle(false, &format!("answered {code}: {diagnostic}"));
        } else {
            let text = slot.pending.as_ref().map_or("", |pending| pending.text.as_str());
            let fault = format!("answered {code} ({diagnostic}): {text}");
            self.told.faults.push(fault);
            slot.settle(false, &format!("answered {code}: {diagnostic}"));
        }
    }

    /// After an answer every connection sees the change.
    fn read_back(&mut self, reader: &mut Client, which: Which) -> Result<(), ClientError> {
        let owner = &mut self.told.owner;
        let Some(state) = owner.slot(which).and_then(|slot| slot.state.clone()) else {
            return Ok(());
        };
        let dn = owner.dn(which, &state);
        let search = Search {
            base: dn.clone(),
            scope: 0,
            filter: "(objectClass=*)".to_owned(),
            attributes: Vec::new(),
        };
        let found = reader.search(&search)?;
        if NOT_DONE.contains(&found.code) {
            return Ok(());
        }
        self.told.read_back += 1;
        match found.entries.first() {
            None => self.told.faults.push(format!(
                "not seen on another connection after the answer (code {}): {dn}",
                found.code
            )),
            Some((_, attributes)) if *attributes != state.attributes => {
                let difference = differences(&state.attributes, attributes);
                self.told.faults.push(format!(
                    "not as answered when read on another connection: {dn}: {difference}"
                ));
            }
            Some(_) => {}
        }
        Ok(())
    }
}
