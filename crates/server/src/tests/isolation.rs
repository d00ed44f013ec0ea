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
    ending: Vec<u8>,
    /// Whole messages of answers, by message id, in their order. The notice of disconnection has 0.
    answers: BTreeMap<i32, Vec<Vec<u8>>>,
    /// The message ids of all requests, and what the first of its answers must be.
    asked: BTreeMap<i32, &'static str>,
    /// Whose answers come when they are ready, not in the order of the requests; the ending may
    /// overtake them.
    out_of_order: Vec<i32>,
}

/// How scripts may end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Endings {
    /// Endings that there are over all kinds of sockets.
    Common,
    /// StartTLS, too.
    All,
}

impl Script {
    /// Requests for the entry of `owner` only, with ids from `ids`.
    fn draw(chance: &mut Chance, owner: usize, ids: &mut RangeFrom<i32>, endings: Endings) -> Self {
        let name = format!("ou=e{owner},dc=example,dc=org");
        let is_large = SIZES[owner % SIZES.len()] > INLINE_MAX_BYTES;
        let mut requests = Vec::new();
        let (mut asked, mut updates, mut pooled) = (BTreeMap::new(), Vec::new(), Vec::new());
        let mut ask = |first: &'static str, make: &dyn Fn(i32) -> Vec<u8>| {
            let id = ids.next().unwrap();
            asked.insert(id, first);
            requests.extend(make(id));
            id
        };
        match chance.below(4) {
            0 => _ = ask("bind success", &|id| bind(id, ROOT, "secret")),
            // On the hash pool.
            1 => _ = ask("bind success", &|id| bind(id, &name, "secret")),
            _ => {}
        }
        for _ in 0..1 + chance.below(REQUESTS_MAX) {
            match chance.below(20) {
                0 => _ = ask("extended success", &|id| extended(id, WHO_AM_I)),
                1 => _ = ask("compare compareFalse", &|id| compare(id, &name)),
                2 => updates.push(ask("delete ", &|id| delete(id, &format!("ou=no,{name}")))),
                3 => {
                    let missing = format!("ou=no,{name}");
                    ask("done noSuchObject", &|id| search(id, &missing, Scope::Base));
                }
                kind => {
                    let (suffix, filter) = ("dc=example,dc=org", format!("(ou=e{owner})"));
                    let id = ask("entry ", &|id| match kind {
                        4 => search_by(id, suffix, Scope::Subtree, &filter),
                        _ => search(id, &name, Scope::Base),
                    });
                    pooled.extend(is_large.then_some(id));
                }
            }
        }
        let ending = match chance.below(8) {
            0 => request(9, Request::Unbind),
            1 => b"\x30\x80nonsense".to_vec(),
            2 => b"\x16nonsense".to_vec(),
            // Refused while anything is outstanding.
            3 if endings == Endings::All && updates.is_empty() && pooled.is_empty() => {
                let id = ids.next().unwrap();
                asked.insert(id, "extended success");
                extended(id, START_TLS)
            }
            _ => Vec::new(),
        };
        let out_of_order = [updates.as_slice(), &pooled].concat();
        Self { requests, ending, answers: BTreeMap::new(), asked, out_of_order }
    }

    /// What is to be asked, each on a connection of its own, to learn what is answered.
    fn parts(&self) -> [Vec<u8>; 2] {
        [self.requests.clone(), self.ending.clone()]
    }

    /// Takes what was received when nothing else went on as the measure.
    fn learn(&mut self, received: &[u8]) {
        let (messages, rest) = messages(received);
        assert!(rest.is_empty());
        for message in messages {
            self.answers.entry(id(message)).or_default().push(message.to_vec());
        }
    }

    /// What was learned is what the requests ask for.
    fn check_learned(&self) {
        for (id, first) in &self.asked {
            let answer = self.answers.get(id).and_then(|list| list.first()).unwrap();
            assert!(describe(answer).starts_with(&format!("{id} {first}")), "{}", describe(answer));
        }
        assert!(self.answers.keys().all(|id| *id == 0 || self.asked.contains_key(id)));
    }

    /// All that the client sends.
    fn octets(&self) -> Vec<u8> {
        [&*self.requests, &self.ending].concat()
    }

    /// Every octet of `received` is of an answer to a request of this client, and none of them is
    /// missing if it was `undisturbed`. Otherwise it says what is wrong.
    fn check(&self, received: &[u8], undisturbed: bool) -> Result<(), String> {
        let (messages, rest) = messages(received);
        let mut answers = self.answers.clone();
        let mut last = 0;
        for message in messages {
            let id = id(message);
            if id != 0 && !self.out_of_order.contains(&id) {
                if id < last {
                    return Err(format!("{} after an answer to {last}", describe(message)));
                }
                last = id;
            }
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
            let start = rest.get(..64).unwrap_or(rest);
            return Err(format!("at the end, octets of no own answer: {start:x?}"));
        }
        if !self.ending.is_empty() {
            answers.retain(|id, _| !self.out_of_order.contains(id));
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
    let size = SIZES[owner % SIZES.len()];
    let text = format!("for e{owner} only ").repeat(size / 15 + 1);
    let name = format!("ou=e{owner},dc=example,dc=org");
    let entry = [
        ("objectClass", "organizationalUnit"),
        ("objectClass", "simpleSecurityObject"),
        ("description", &*text),
        ("userPassword", SLOW_SECRET),
    ];
    add_entry(id, &name, &entry)
}

/// A server for many clients, with searches of large entries on the pool.
fn many(settings: &mut Settings, options: &mut DirectoryOptions) {
    // They all come from one address, and are not to be ended for it.
    settings.limits.undelivered_per_address_max_bytes = 1 << 30;
    settings.limits.undelivered_anonymous_max_bytes = 1 << 30;
    settings.limits.connections_per_address_max = 0;
    options.limits.inline_output_max_bytes = INLINE_MAX_BYTES;
    options.passwords.rehash_on_bind = false;
}

/// How much there is in the entries.
const SIZES: [usize; 5] = [10, 300, 5_000, 30_000, 70_000];

/// What is more comes from the pool.
const INLINE_MAX_BYTES: usize = 40_000;

/// `secret`, so that it is verified on the hash pool, and nobody waits long.
const SLOW_SECRET: &str =
    "{PBKDF2-SHA256}1000$AAECAwQFBgcICQoLDA0ODw$Tvsru20utY6o3q7VRBeuL9h/1QqKhWhwk2PaYNRWBgY";

/// Requests of one script.
const REQUESTS_MAX: u64 = 30;
