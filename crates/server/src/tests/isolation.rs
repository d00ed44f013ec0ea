//! No octet of an answer reaches another client than the one that asked.
//!
//! Each client asks for an entry that nobody else asks for, with message ids that nobody else
//! uses. What it is answered when it behaves is the measure for what it may receive when it, and
//! everybody around it, does not.

mod in_process;
mod sockets;

use std::collections::BTreeMap;
use std::ops::RangeFrom;

use ldap::message::{CompareRequest, DeleteRequest};
use testing::chance::Chance;

use super::*;

/// What one client asks, and what it is answered when nothing disturbs it.
struct Script {
    /// One behind the other.
    requests: Vec<u8>,
    /// What ends the session behind them; nothing: the client ends its side.
    ending: &'static [u8],
    /// Whole messages of answers, by message id, in their order. The notice of disconnection has 0.
    answers: BTreeMap<i32, Vec<Vec<u8>>>,
    /// Whose answer the ending may overtake.
    updates: Vec<i32>,
}

impl Script {
    /// Requests for the entry of `owner` only, with ids from `ids`.
    fn draw(chance: &mut Chance, owner: usize, ids: &mut RangeFrom<i32>) -> Self {
        let mut requests = Vec::new();
        let mut updates = Vec::new();
        let name = format!("ou=e{owner},dc=example,dc=org");
        let mut next = || ids.next().unwrap();
        if chance.once_in(2) {
            requests.extend(bind(next(), ROOT, "secret"));
        }
        for _ in 0..1 + chance.below(REQUESTS_MAX) {
            let id = next();
            requests.extend(match chance.below(20) {
                0 => extended(id, WHO_AM_I),
                1 => compare(id, &name),
                2 => {
                    updates.push(id);
                    delete(id, &format!("ou=none,{name}"))
                }
                3 => search(id, &format!("ou=none,{name}"), Scope::Base),
                4 => search_by(id, "dc=example,dc=org", Scope::Subtree, &format!("(ou=e{owner})")),
                _ => search(id, &name, Scope::Base),
            });
        }
        let endings: [&[u8]; 6] = [UNBIND, NONSENSE[0], NONSENSE[1], b"", b"", b""];
        let ending = *chance.pick(&endings).unwrap();
        Self { requests, ending, answers: BTreeMap::new(), updates }
    }

    /// What is to be asked, each on a connection of its own, to learn what is answered.
    fn parts(&self) -> [Vec<u8>; 2] {
        [self.requests.clone(), self.ending.to_vec()]
    }

    /// Takes what was received when nothing else went on as the measure.
    fn learn(&mut self, received: &[u8]) {
        let (messages, rest) = messages(received);
        assert!(rest.is_empty());
        for message in messages {
            self.answers.entry(id(message)).or_default().push(message.to_vec());
        }
    }

    /// All that the client sends.
    fn octets(&self) -> Vec<u8> {
        [&self.requests, self.ending].concat()
    }

    /// Every octet of `received` is of an answer to a request of this client, and none of them is
    /// missing if it was `undisturbed`. Otherwise it says what is wrong.
    fn check(&self, received: &[u8], undisturbed: bool) -> Result<(), String> {
        let (messages, rest) = messages(received);
        let mut answers = self.answers.clone();
        for message in messages {
            let id = id(message);
            let expected = answers.get_mut(&id).filter(|list| !list.is_empty());
            let Some(list) = expected else {
                return Err(format!("an answer nobody asked for: {}", describe(message)));
            };
            if list.remove(0) != message {
                return Err(format!("another answer than expected: {}", describe(message)));
            }
        }
        let mut nexts = answers.values().filter_map(|list| list.first());
        if !rest.is_empty() && !nexts.any(|next| next.starts_with(rest)) {
            return Err(format!("at the end, octets of no own answer: {rest:x?}"));
        }
        if !self.ending.is_empty() {
            answers.retain(|id, _| !self.updates.contains(id));
        }
        let missing = answers.values().map(Vec::len).sum::<usize>();
        match undisturbed && missing > 0 {
            true => Err(format!("{missing} messages are missing")),
            false => Ok(()),
        }
    }
}

/// Cuts whole messages off; what remains is the beginning of one. What is no message is all rest.
fn messages(mut octets: &[u8]) -> (Vec<&[u8]>, &[u8]) {
    let mut list = Vec::new();
    while let Ok(Frame::Complete(length)) = frame(octets, usize::MAX) {
        let (message, rest) = octets.split_at(length);
        list.push(message);
        octets = rest;
    }
    (list, octets)
}

fn id(message: &[u8]) -> i32 {
    Message::<Response<'_>>::decode(message, &DecodeLimits::default()).unwrap().id.0
}

fn compare(id: i32, name: &str) -> Vec<u8> {
    request(id, Request::Compare(CompareRequest { name, description: "ou", value: b"x" }))
}

fn delete(id: i32, name: &str) -> Vec<u8> {
    request(id, Request::Delete(DeleteRequest { name }))
}

/// Adds the entry of an owner; some are larger than what a socket takes at once.
fn add_for(id: i32, owner: usize) -> Vec<u8> {
    let size = [10, 300, 5_000, 70_000][owner % 4];
    let text = format!("for e{owner} only ").repeat(size / 15 + 1);
    let name = format!("ou=e{owner},dc=example,dc=org");
    add_entry(id, &name, &[("objectClass", "organizationalUnit"), ("description", &*text)])
}

const UNBIND: &[u8] = b"\x30\x05\x02\x01\x05\x42\x00";

/// No LDAP at all.
const NONSENSE: [&[u8]; 2] = [b"\x30\x80nonsense", b"\x16nonsense"];

/// Requests of one script.
const REQUESTS_MAX: u64 = 30;
