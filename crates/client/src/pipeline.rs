//! Many requests outstanding on one connection, and their answers as they come.
//!
//! For updates, and for searches with small answers: requests are written without looking whether
//! answers wait, so all outstanding ones together must fit into the buffers of the way.
//!
//! Invariant: no more is outstanding than the window allows, except one request that is larger than
//! the window.
//! Invariant: each request has one answer, whatever the order in which answers come.

use std::collections::HashMap;

use ldap::message::{Controls, MessageId, Request, Response};

use crate::answer::{FoundEntry, Outcome};
use crate::connection::{Connection, misplaced, single};
use crate::error::ClientError;

/// What may be outstanding at a time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Window {
    /// Requests.
    pub requests_max: usize,
    /// Octets of requests.
    pub bytes_max: usize,
}

/// The end of a request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Answer {
    /// Which request, as [`Pipeline::send`] said.
    pub id: MessageId,
    /// What a search found.
    pub entries: Vec<FoundEntry>,
    /// How it ended.
    pub outcome: Outcome,
}

/// A connection with many requests outstanding.
pub struct Pipeline {
    connection: Connection,
    window: Window,
    outstanding: HashMap<i32, Outstanding>,
    outstanding_bytes: usize,
    /// Requests that are not sent yet.
    outgoing: Vec<u8>,
}

#[derive(Debug, Default)]
struct Outstanding {
    bytes: usize,
    entries: Vec<FoundEntry>,
}

impl Pipeline {
    /// Over a connection on which nothing is outstanding.
    pub fn new(connection: Connection, window: Window) -> Self {
        Self {
            connection,
            window,
            outstanding: HashMap::new(),
            outstanding_bytes: 0,
            outgoing: Vec::new(),
        }
    }

    /// Changes the window. What is outstanding beyond a smaller one is waited for.
    pub fn set_window(&mut self, window: Window) {
        self.window = window;
    }

    /// How many requests have no answer yet.
    pub fn outstanding(&self) -> usize {
        self.outstanding.len()
    }

    /// Whether one more request may be sent now.
    pub fn has_room(&self) -> bool {
        self.outstanding.is_empty()
            || (self.outstanding.len() < self.window.requests_max
                && self.outstanding_bytes < self.window.bytes_max)
    }

    /// Sends a request, with others or at the latest when an answer is waited for.
    pub fn send(
        &mut self,
        op: Request<'_>,
        controls: Controls<'_>,
    ) -> Result<MessageId, ClientError> {
        let before = self.outgoing.len();
        let id = self.connection.encode(op, controls, &mut self.outgoing);
        let bytes = self.outgoing.len() - before;
        self.outstanding.insert(id.0, Outstanding { bytes, entries: Vec::new() });
        self.outstanding_bytes += bytes;
        if self.outgoing.len() >= SEND_BYTES {
            self.flush()?;
        }
        Ok(id)
    }

    /// Sends what was not sent yet.
    pub fn flush(&mut self) -> Result<(), ClientError> {
        if self.outgoing.is_empty() {
            return Ok(());
        }
        let sent = self.connection.write(&self.outgoing);
        self.outgoing.clear();
        self.outgoing.shrink_to(SEND_BYTES);
        sent
    }

    /// The next answer, which is waited for; none when nothing is outstanding.
    pub fn answer(&mut self) -> Result<Option<Answer>, ClientError> {
        if self.outstanding.is_empty() {
            return Ok(None);
        }
        self.flush()?;
        let outstanding = &mut self.outstanding;
        loop {
            let answer = self.connection.next_response(|message| {
                let id = message.id;
                let Some(asked) = outstanding.get_mut(&id.0) else {
                    return Err(ClientError::Malformed(format!("an answer to message {id}")));
                };
                let result = match &message.op {
                    Response::SearchEntry { dn, attributes } => {
                        asked.entries.push(FoundEntry::of(dn, *attributes));
                        return Ok(None);
                    }
                    Response::SearchReference(_) | Response::Intermediate { .. } => {
                        return Ok(None);
                    }
                    Response::SearchDone(result) => result,
                    other => single(other).ok_or_else(misplaced)?,
                };
                Ok(Some((id, Outcome::of(result))))
            })?;
            let Some((id, outcome)) = answer else { continue };
            let Outstanding { bytes, entries } = outstanding.remove(&id.0).unwrap_or_default();
            self.outstanding_bytes -= bytes;
            return Ok(Some(Answer { id, entries, outcome }));
        }
    }
}

/// Requests are sent when they are this many octets together.
const SEND_BYTES: usize = 32 * 1024;

#[cfg(test)]
mod tests;
