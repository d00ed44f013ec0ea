//! Where answers go. An entry leaves only as a `VisibleEntry`.

use aci::VisibleEntry;
use ldap::encode::{self, EntryWriter};
use ldap::message::{Controls, LdapResult, Message, MessageId, Response, ResponseKind, StringsBuf};

/// Whether the receiver wants more.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[must_use]
pub enum Flow {
    /// Go on.
    Continue,
    /// The receiver has taken this, and has no room for more: the search may give up its thread
    /// (see `Ran::Parked`). It may as well go on; then the next chunk waits.
    Park,
    /// The receiver is gone, full, or asked to stop.
    Stop,
}

/// What takes the answer of a search on a pool thread.
pub trait Receiver {
    /// Takes a filled chunk of encoded answers; may block, which is the back-pressure.
    fn take(&mut self, chunk: Vec<u8>) -> Flow;

    /// Whether the search is to give its thread to others who wait for one; asked about once a
    /// millisecond.
    fn should_yield(&mut self) -> bool {
        false
    }
}

impl<F: FnMut(Vec<u8>) -> Flow> Receiver for F {
    fn take(&mut self, chunk: Vec<u8>) -> Flow {
        self(chunk)
    }
}

/// The answers to one request, encoded as they come.
pub(crate) struct ResponseSink<'b> {
    out: &'b mut Vec<u8>,
    id: MessageId,
    types_only: bool,
    /// An entry or a reference was sent.
    has_sent: bool,
    capacity: Capacity<'b>,
}

enum Capacity<'b> {
    /// Everything stays in `out`; beyond the limit (octets, counted from where this request
    /// began) the search is started again on the scan pool.
    Bounded { start: usize, limit: usize },
    /// Full chunks are handed on.
    Flushed { chunk: usize, receiver: &'b mut dyn Receiver },
}

impl<'b> ResponseSink<'b> {
    /// A sink that keeps at most `limit_bytes` of entries in `out`.
    pub(crate) fn bounded(out: &'b mut Vec<u8>, id: MessageId, limit_bytes: usize) -> Self {
        let start = out.len();
        Self {
            out,
            id,
            types_only: false,
            has_sent: false,
            capacity: Capacity::Bounded { start, limit: limit_bytes },
        }
    }

    /// A sink that hands on chunks of about `chunk_bytes`.
    pub(crate) fn flushed(
        out: &'b mut Vec<u8>,
        id: MessageId,
        chunk_bytes: usize,
        receiver: &'b mut dyn Receiver,
    ) -> Self {
        Self {
            out,
            id,
            types_only: false,
            has_sent: false,
            capacity: Capacity::Flushed { chunk: chunk_bytes, receiver },
        }
    }

    /// Leaves values out of the entries that follow (RFC 4511 §4.5.1.6).
    pub(crate) fn set_types_only(&mut self, types_only: bool) {
        self.types_only = types_only;
    }

    /// One SearchResultEntry (RFC 4511 §4.5.2).
    pub(crate) fn entry(&mut self, entry: &VisibleEntry<'_>) -> Flow {
        self.entry_with(entry, Controls::EMPTY)
    }

    /// Likewise, with controls of its own.
    pub(crate) fn entry_with(&mut self, entry: &VisibleEntry<'_>, controls: Controls<'_>) -> Flow {
        let types_only = self.types_only;
        let mut writer = EntryWriter::begin(self.out, self.id, entry.dn());
        entry.visit(&mut |description, values| {
            if types_only {
                writer.attribute_types_only(description);
            } else {
                writer.attribute(description, values);
            }
        });
        writer.finish(controls);
        self.has_sent = true;
        self.flow()
    }

    /// One SearchResultReference (RFC 4511 §4.5.3).
    pub(crate) fn reference(&mut self, urls: &[String]) -> Flow {
        let mut list = StringsBuf::new();
        for url in urls {
            list.push(url);
        }
        let op = Response::SearchReference(list.as_ref());
        Message { id: self.id, op, controls: Controls::EMPTY }.encode(self.out);
        self.has_sent = true;
        self.flow()
    }

    /// Whether an entry or a reference was sent.
    pub(crate) fn has_sent(&self) -> bool {
        self.has_sent
    }

    /// The final answer.
    pub(crate) fn result(
        &mut self,
        kind: ResponseKind,
        result: &LdapResult<'_>,
        controls: Controls<'_>,
    ) {
        encode::result(self.out, self.id, kind, result, controls);
    }

    /// Takes back what was written for this request; only for a bounded sink, which has handed
    /// nothing on yet.
    pub(crate) fn take_back(&mut self) {
        match self.capacity {
            Capacity::Bounded { start, .. } => self.out.truncate(start),
            Capacity::Flushed { .. } => {}
        }
    }

    /// Whether the search is to give its thread to others; then what it has so far is on its way.
    pub(crate) fn turn(&mut self) -> Flow {
        match &mut self.capacity {
            Capacity::Bounded { .. } => Flow::Continue,
            Capacity::Flushed { receiver, .. } => {
                if !receiver.should_yield() {
                    return Flow::Continue;
                }
                if self.out.is_empty() {
                    return Flow::Park;
                }
                match receiver.take(std::mem::take(self.out)) {
                    Flow::Continue | Flow::Park => Flow::Park,
                    Flow::Stop => Flow::Stop,
                }
            }
        }
    }

    fn flow(&mut self) -> Flow {
        match &mut self.capacity {
            Capacity::Bounded { start, limit } => {
                if self.out.len() - *start > *limit {
                    Flow::Stop
                } else {
                    Flow::Continue
                }
            }
            Capacity::Flushed { chunk, receiver } => {
                if self.out.len() < *chunk {
                    return Flow::Continue;
                }
                receiver.take(std::mem::take(self.out))
            }
        }
    }
}
