//! A search that goes on, as one that follows changes: what it tells is taken when it comes, and
//! whoever waits for it does not wait longer than asked.

use std::time::Duration;

use ldap::ber::{Frame, frame};
use ldap::message::{Attributes, Controls, MessageId, Response, Strings};

use super::{Connection, SearchFor, misplaced};
use crate::answer::Outcome;
use crate::error::ClientError;

/// One thing that such a search tells, while the connection holds it.
#[derive(Clone, Debug)]
pub enum StreamAnswer<'a> {
    /// An entry.
    Entry {
        /// Its name.
        dn: &'a str,
        /// Its attributes.
        attributes: Attributes<'a>,
        /// What else is said of it.
        controls: Controls<'a>,
    },
    /// Where the search would go on, which it does not.
    Reference(Strings<'a>),
    /// Something between the entries.
    Between {
        /// What it is.
        oid: Option<&'a str>,
        /// What it says.
        value: Option<&'a [u8]>,
    },
    /// The end.
    Done {
        /// How it ended.
        outcome: Outcome,
        /// What else is said.
        controls: Controls<'a>,
    },
}

impl Connection {
    /// Begins a search. What it tells is asked for with [`Self::next_told`], and nothing else is
    /// asked on this connection until its end.
    pub fn begin_search(
        &mut self,
        asked: &SearchFor<'_>,
        controls: Controls<'_>,
    ) -> Result<MessageId, ClientError> {
        self.send_search(asked, controls)
    }

    /// What the search tells next; none if that has not come within `wait`.
    ///
    /// # Errors
    /// When the connection is lost or the server sends what is no answer; and what `take` fails
    /// with.
    pub fn next_told<T, E: From<ClientError>>(
        &mut self,
        id: MessageId,
        wait: Duration,
        take: impl FnOnce(StreamAnswer<'_>) -> Result<T, E>,
    ) -> Result<Option<T>, E> {
        if !self.has_message(wait)? {
            return Ok(None);
        }
        let told = self.receive::<_, E>(id, |message| {
            let controls = message.controls;
            let told = match &message.op {
                Response::SearchEntry { dn, attributes } => {
                    StreamAnswer::Entry { dn, attributes: *attributes, controls }
                }
                Response::SearchReference(urls) => StreamAnswer::Reference(*urls),
                Response::Intermediate { oid, value } => {
                    StreamAnswer::Between { oid: *oid, value: *value }
                }
                Response::SearchDone(result) => {
                    StreamAnswer::Done { outcome: Outcome::of(result), controls }
                }
                _ => return Err(misplaced().into()),
            };
            take(told)
        })?;
        Ok(Some(told))
    }

    /// Whether a whole message is there, or comes within `wait`.
    fn has_message(&mut self, wait: Duration) -> Result<bool, ClientError> {
        let begin = self.clock.elapsed();
        loop {
            let rest = self.incoming.get(self.taken..).unwrap_or_default();
            let found = frame(rest, self.options.message_size_max_bytes)
                .map_err(|error| ClientError::Malformed(error.to_string()))?;
            if let Frame::Complete(_) = found {
                return Ok(true);
            }
            let left = wait.saturating_sub(self.clock.elapsed().saturating_sub(begin));
            if left.is_zero() {
                return Ok(false);
            }
            let stream = self.stream.as_ref().ok_or(ClientError::Closed(None))?;
            stream.set_read_timeout(left).map_err(ClientError::Lost)?;
            self.is_shortened = true;
            match self.read() {
                Err(ClientError::TimedOut(_)) => return Ok(false),
                done => done?,
            }
        }
    }
}
