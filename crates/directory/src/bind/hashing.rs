//! Slow hashes, away from the threads that read requests and from the writer.
//!
//! A request that needs one asks for it: what is to be computed becomes a [`HashJob`], which needs
//! nothing of the directory. When it is done the same request is handled once more, with the
//! answers at hand, on whatever the directory is by then.
//!
//! Invariant: an answer is good for the very question only. If the password was changed meanwhile,
//! the request asks again.
//! Invariant: clear-text passwords are wiped when they are done with, and no text shows them.

use std::fmt;
use std::sync::Arc;

use auth::password::{self, HashCostMax, PASSWORD_MAX_BYTES, PasswordStorage, Scheme, Verdict};
use environment::{Chance, MakeChance};
use ldap::message::{MessageId, OperationKind};
use ldap::result::ResultCode;
use zeroize::Zeroizing;

use crate::bind::password_cache::PasswordCacheOptions;
use crate::password_policy::PolicyError;
use crate::password_policy::attempt::Attempt;
use crate::request::cancel::Cancel;
use crate::request::completion::Completion;
use crate::request::received::Envelope;
use crate::request::refusal::Refusal;
use crate::request::seldom::SeldomLines;
use crate::request::sink;

/// How passwords are kept and verified.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PasswordOptions {
    /// How new clear-text passwords are stored.
    pub storage: PasswordStorage,
    /// Up to which cost a stored hash is computed.
    pub cost_max: HashCostMax,
    /// Whether a password that is stored otherwise than a new one is stored anew after a bind
    /// proved it.
    pub rehash_on_bind: bool,
    /// Whether the quality of a password that people give themselves is looked at where no
    /// password policy says what it has to be like.
    pub check_own: bool,
    /// How long passwords that took long to verify are good for further binds.
    pub cache: PasswordCacheOptions,
}

impl Default for PasswordOptions {
    fn default() -> Self {
        Self {
            storage: PasswordStorage::default(),
            cost_max: HashCostMax::default(),
            rehash_on_bind: true,
            check_own: true,
            cache: PasswordCacheOptions::default(),
        }
    }
}

/// What is to be computed.
#[derive(Clone, Eq, PartialEq)]
pub(crate) enum Question {
    /// The stored form of a new password, which the server may have made up itself.
    Stored { clear: Zeroizing<Vec<u8>>, storage: PasswordStorage, is_generated: bool },
    /// Which of these values the password is behind.
    Which { clear: Zeroizing<Vec<u8>>, stored: Vec<Vec<u8>> },
}

/// What was computed.
pub(crate) enum Answer {
    /// The stored form; `None` when it could not be computed.
    Stored(Option<Vec<u8>>),
    /// The place of the first value that is right.
    Which(Option<usize>),
}

/// What was found out about a password without waiting.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Behind {
    /// It is behind the value at this place.
    At(usize),
    /// It is behind none of them.
    Nowhere,
    /// That takes long: it was asked for.
    Pending,
}

/// The form in which a new password is to be stored.
pub(crate) enum Hashed {
    Now(Vec<u8>),
    /// It takes long: it was asked for.
    Pending,
}

/// What a request asks of the hash pool, and what it carries along until that has answered.
#[must_use]
pub(crate) struct Questions {
    asked: Vec<Question>,
    /// What the request has asked before: without these answers it would ask again, and so on for
    /// ever, where a password was changed meanwhile.
    answered: Vec<(Question, Answer)>,
    /// The guess that the request makes.
    attempt: Option<Box<Attempt>>,
    /// A right password would have been answered by now.
    silence_tells: bool,
}

/// The hashes of one request. Most requests need none, and have nothing here.
#[derive(Default)]
pub(crate) struct RequestHashes(Option<Box<Hashing>>);

/// How one request comes to hashes: what it asks for, and what it has been answered.
#[derive(Default)]
pub(crate) struct Hashing {
    asked: Vec<Question>,
    answered: Vec<(Question, Answer)>,
    attempt: Option<Box<Attempt>>,
    silence_tells: bool,
}

impl Hashing {
    /// What was asked for was found out otherwise.
    pub(crate) fn forget_questions(&mut self) {
        self.asked.clear();
        self.silence_tells = false;
    }

    fn questions(&mut self) -> Option<Questions> {
        if self.asked.is_empty() {
            return None;
        }
        let Self { asked, answered, attempt, silence_tells } = std::mem::take(self);
        Some(Questions { asked, answered, attempt, silence_tells })
    }

    /// The stored form of a new password, in the scheme of its policy or else in that of the
    /// settings.
    pub(crate) fn stored_form(
        &mut self,
        options: &PasswordOptions,
        clear: &[u8],
        scheme: Option<Scheme>,
        is_generated: bool,
        chance: &mut dyn Chance,
    ) -> Result<Hashed, Refusal> {
        if clear.len() > PASSWORD_MAX_BYTES {
            return Err(Refusal::new(
                ResultCode::ConstraintViolation,
                format!("a password has at most {PASSWORD_MAX_BYTES} bytes"),
            )
            .because(PolicyError::PasswordTooLong));
        }
        let PasswordStorage { scheme: usual, costs } = options.storage;
        let storage = PasswordStorage { scheme: scheme.unwrap_or(usual), costs };
        if !storage.is_slow() {
            return storage.hash(clear, chance).map(Hashed::Now).ok_or_else(not_computed);
        }
        let known = self.answered.iter().find_map(|(question, answer)| match (question, answer) {
            (Question::Stored { clear: other, storage: by, .. }, Answer::Stored(form))
                if **other == *clear && *by == storage =>
            {
                Some(form.clone())
            }
            _ => None,
        });
        if let Some(form) = known {
            return form.map(Hashed::Now).ok_or_else(not_computed);
        }
        let clear = Zeroizing::new(clear.to_vec());
        self.asked.push(Question::Stored { clear, storage, is_generated });
        Ok(Hashed::Pending)
    }

    /// The password that the server made up when this request was handled first.
    pub(crate) fn generated(&self) -> Option<Zeroizing<Vec<u8>>> {
        self.answered.iter().find_map(|(question, _)| match question {
            Question::Stored { clear, is_generated: true, .. } => Some(clear.clone()),
            Question::Stored { is_generated: false, .. } | Question::Which { .. } => None,
        })
    }

    /// Which of the stored values the password is behind, of which one at least takes long: all are
    /// asked for.
    fn ask_which(&mut self, clear: &[u8], stored: &[Vec<u8>]) -> Behind {
        let question =
            Question::Which { clear: Zeroizing::new(clear.to_vec()), stored: stored.to_vec() };
        let known = self.answered.iter().find(|(other, _)| *other == question);
        if let Some((_, Answer::Which(place))) = known {
            return place.map_or(Behind::Nowhere, Behind::At);
        }
        self.asked.push(question);
        Behind::Pending
    }

    /// A right password would have been answered by now.
    pub(crate) fn set_silence_tells(&mut self, tells: bool) {
        self.silence_tells = tells;
    }

    /// The guess that the request makes.
    pub(crate) fn attempt(&mut self) -> &mut Option<Box<Attempt>> {
        &mut self.attempt
    }
}

impl RequestHashes {
    /// Those of a request which goes on with what it was answered, and with its guess.
    pub(crate) fn resumed(
        answered: Vec<(Question, Answer)>,
        attempt: Option<Box<Attempt>>,
    ) -> Self {
        Self(Some(Box::new(Hashing { answered, attempt, ..Hashing::default() })))
    }

    /// What is known of them, from the first time on that something is.
    pub(crate) fn known(&mut self) -> &mut Hashing {
        self.0.get_or_insert_default()
    }

    /// Which of the stored values the password is behind. Where one of them takes long, all are
    /// asked for.
    pub(crate) fn which(
        &mut self,
        rules: HashRules<'_>,
        clear: &[u8],
        stored: &[Vec<u8>],
    ) -> Behind {
        let HashRules { options, seldom, .. } = rules;
        let max = &options.cost_max;
        if stored.iter().any(|one| password::is_slow(one, max)) {
            return self.known().ask_which(clear, stored);
        }
        which(clear, stored, max, seldom).map_or(Behind::Nowhere, Behind::At)
    }

    /// What the request has to wait for; none where it goes on.
    pub(crate) fn questions(&mut self) -> Option<Questions> {
        self.0.as_mut()?.questions()
    }

    /// Whether the request has waited for answers.
    pub(crate) fn has_waited(&self) -> bool {
        self.0.as_ref().is_some_and(|known| !known.answered.is_empty())
    }

    /// The guess that the request has made.
    pub(crate) fn take_attempt(&mut self) -> Option<Box<Attempt>> {
        self.0.as_mut()?.attempt.take()
    }
}

impl Questions {
    /// Makes them the work of the hash pool: the session lists the request as outstanding, with
    /// `cancel`, until the pool is done with it.
    pub(crate) fn job(
        self,
        rules: HashRules<'_>,
        cancel: Cancel,
        envelope: Envelope<'_>,
    ) -> Box<HashJob> {
        let Envelope { id, operation, bytes, .. } = envelope;
        Box::new(HashJob {
            id,
            operation,
            message: Zeroizing::new(bytes.to_vec()),
            questions: self,
            cancel,
            options: rules.options,
            seldom: Arc::clone(rules.seldom),
            chance: rules.chance,
        })
    }
}

/// How hashes are computed, and where is told what is not.
#[derive(Clone, Copy)]
pub(crate) struct HashRules<'d> {
    pub(crate) options: PasswordOptions,
    /// What salts are made of.
    pub(crate) chance: MakeChance,
    pub(crate) seldom: &'d Arc<SeldomLines>,
}

/// The first of the stored values that the password is behind. All are looked at: the time it
/// takes does not tell which it was.
fn which(
    clear: &[u8],
    stored: &[Vec<u8>],
    max: &HashCostMax,
    seldom: &SeldomLines,
) -> Option<usize> {
    let mut found = None;
    for (place, one) in stored.iter().enumerate() {
        match password::verify(one, clear, max) {
            Verdict::Right => found = found.or(Some(place)),
            Verdict::Wrong => {}
            Verdict::TooCostly(cost) => seldom.hash.line(|left_out| {
                tracing::warn!(
                    ?cost,
                    ?max,
                    left_out,
                    "a stored password was not verified: its hash costs more than the limits allow"
                );
            }),
        }
    }
    found
}

fn not_computed() -> Refusal {
    Refusal::new(ResultCode::Other, "the password could not be hashed; the server's log says why")
}

/// Hashes to be computed by a thread of the hash pool, and the request that waits for them.
pub struct HashJob {
    id: MessageId,
    operation: OperationKind,
    message: Zeroizing<Vec<u8>>,
    questions: Questions,
    cancel: Cancel,
    options: PasswordOptions,
    seldom: Arc<SeldomLines>,
    chance: MakeChance,
}

impl HashJob {
    /// Which request it is.
    pub fn id(&self) -> MessageId {
        self.id
    }

    /// Whether the client of a bind learns that its password is wrong from not being answered at
    /// once.
    pub fn silence_tells(&self) -> bool {
        self.operation == OperationKind::Bind && self.questions.silence_tells
    }

    /// Refuses the request: there is no room for the job.
    pub fn refuse(&self, out: &mut Vec<u8>, code: ResultCode, why: String) -> Completion {
        sink::refuse(out, self.id, Some(self.operation), Refusal::new(code, why))
    }

    /// The outcome of a request that was abandoned while it waited.
    pub fn abandoned(&self) -> Completion {
        Completion::of(self.id, Some(self.operation))
    }

    /// How many octets the job holds while it waits.
    pub fn octets(&self) -> usize {
        let of_question = |question: &Question| match question {
            Question::Stored { clear, .. } => clear.len(),
            Question::Which { clear, stored } => {
                clear.len() + stored.iter().map(Vec::len).sum::<usize>()
            }
        };
        self.message.len() + self.questions.asked.iter().map(of_question).sum::<usize>()
    }

    /// Whether nobody wants the answer any more.
    pub fn is_abandoned(&self) -> bool {
        self.cancel.is_set()
    }

    /// Computes, unless nobody waits for it any more; takes milliseconds, or much longer.
    pub fn run(self) -> HashDone {
        let Self { id, operation, message, questions, cancel, options, seldom, chance } = self;
        let Questions { asked, mut answered, mut attempt, .. } = questions;
        for question in asked {
            if cancel.is_set() {
                break;
            }
            let answer = match &question {
                Question::Stored { clear, storage, .. } => {
                    let form = storage.hash(clear, &mut *chance());
                    if form.is_none() {
                        tracing::error!(?storage, "a password could not be hashed");
                    }
                    Answer::Stored(form)
                }
                Question::Which { clear, stored } => {
                    let place = which(clear, stored, &options.cost_max, &seldom);
                    if let Some(attempt) = attempt.as_mut().filter(|_| place.is_some()) {
                        attempt.set_right();
                    }
                    Answer::Which(place)
                }
            };
            answered.push((question, answer));
        }
        HashDone { id, operation, message, answered, cancel, attempt }
    }
}

// The message holds a password.
impl fmt::Debug for HashJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HashJob")
            .field("id", &self.id)
            .field("message_bytes", &self.message.len())
            .field("questions", &self.questions.asked.len())
            .finish_non_exhaustive()
    }
}

/// A request whose hashes are computed; give it to `Worker::resume`.
#[must_use]
pub struct HashDone {
    pub(crate) id: MessageId,
    pub(crate) operation: OperationKind,
    pub(crate) message: Zeroizing<Vec<u8>>,
    pub(crate) answered: Vec<(Question, Answer)>,
    pub(crate) cancel: Cancel,
    pub(crate) attempt: Option<Box<Attempt>>,
}

impl HashDone {
    /// Which request it is.
    pub fn id(&self) -> MessageId {
        self.id
    }

    /// What it asks for.
    pub fn operation(&self) -> OperationKind {
        self.operation
    }
}

impl fmt::Debug for HashDone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HashDone").field("id", &self.id).finish_non_exhaustive()
    }
}
