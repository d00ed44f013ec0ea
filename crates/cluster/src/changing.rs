//! A change of the members on its way to whoever leads: as octets, and asked for until it is known
//! what came of it.
//!
//! Invariant: a change is asked for again only when nothing happened, or when asking twice is the
//! same as asking once: joining without a key is not.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use history::log::{CommitLog as _, MemberChange, MembersChanged, MembersDone, MembersError};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout_at};

use crate::asks::ASK_MEMBERS;
use crate::entry::{Malformed, Octets};
use crate::service::Service;
use crate::transport::AskError;

/// The form of a change, and of what came of one.
const FORM: u8 = 2;
/// What is waited before a change is asked for again.
const AGAIN_AFTER: Duration = Duration::from_millis(200);
/// The longest sentence that is told of a change, in bytes.
const REASON_MAX_BYTES: usize = 1024;

impl Service {
    /// Has whoever leads change the members, for `limit` at the most; `done` must not wait. It is
    /// not called when this member ends meanwhile.
    pub fn change_members(
        self: &Arc<Self>,
        change: MemberChange,
        limit: Duration,
        done: MembersDone,
    ) {
        let service = Arc::clone(self);
        self.spawn(async move { done(service.changed(change, Instant::now() + limit).await) });
    }

    async fn changed(
        &self,
        change: MemberChange,
        deadline: Instant,
    ) -> Result<MembersChanged, MembersError> {
        let (mut last, mut may_be_done) = (MembersError::NotDeciding, false);
        loop {
            let error = match timeout_at(deadline, self.change_once(&change, deadline)).await {
                Ok(Ok(changed)) => return Ok(changed),
                Ok(Err(error)) => conclusion(&change, error, may_be_done),
                Err(_) => return Err(last),
            };
            may_be_done |= matches!(error, MembersError::Unknown(_));
            let is_again = match &error {
                MembersError::NotDeciding => true,
                MembersError::Unknown(_) => {
                    !matches!(&change, MemberChange::Join { key, .. } if key.is_empty())
                }
                MembersError::Unsupported | MembersError::Refused(_) => false,
            };
            if !is_again || Instant::now() + AGAIN_AFTER >= deadline {
                return Err(error);
            }
            last = error;
            sleep(AGAIN_AFTER).await;
        }
    }

    /// Whether a change was that the one leads who does.
    fn has_the_lead(&self, change: &MemberChange) -> bool {
        matches!(change, MemberChange::Transfer { id } if self.leader() == Some(*id))
    }

    /// Asks whoever leads now.
    async fn change_once(
        &self,
        change: &MemberChange,
        deadline: Instant,
    ) -> Result<MembersChanged, MembersError> {
        match self.leader() {
            None => Err(MembersError::NotDeciding),
            Some(leader) if leader == self.id() => {
                let (told, heard) = oneshot::channel();
                let done = move |outcome| drop(told.send(outcome));
                self.log().members().change(change.clone(), Box::new(done));
                heard.await.unwrap_or_else(|_| Err(MembersError::Unknown(ENDED.to_owned())))
            }
            Some(leader) => {
                let mut octets = vec![ASK_MEMBERS];
                encode(change, &mut octets);
                let limit = deadline.saturating_duration_since(Instant::now());
                match self.asking(leader, octets, limit).await {
                    Ok(octets) => decode_outcome(&octets)
                        .unwrap_or_else(|error| Err(MembersError::Unknown(error.0.to_owned()))),
                    Err(AskError::NotSent(_)) => Err(MembersError::NotDeciding),
                    // Its answer may come later than that it leads.
                    Err(AskError::Unknown(_)) if self.has_the_lead(change) => {
                        Ok(MembersChanged::Done)
                    }
                    Err(AskError::Unknown(reason)) => Err(MembersError::Unknown(reason)),
                }
            }
        }
    }
}

/// What is known when `error` is what a change was answered that may have been carried out before.
fn conclusion(change: &MemberChange, error: MembersError, may_be_done: bool) -> MembersError {
    match error {
        // Of who was removed nobody can tell that it was this change.
        MembersError::Refused(reason)
            if may_be_done && matches!(change, MemberChange::Remove { .. }) =>
        {
            MembersError::Unknown(format!("it was asked for again, and refused: {reason}"))
        }
        error => error,
    }
}

const ENDED: &str = "the server is shutting down";

/// Appends a change: its form, which one, and what it names.
pub(crate) fn encode(change: &MemberChange, out: &mut Vec<u8>) {
    out.push(FORM);
    let mut named = |kind: u8, ids: &BTreeSet<u64>| {
        out.extend([kind, u8::try_from(ids.len()).unwrap_or(u8::MAX)]);
        let ids = ids.iter().take(usize::from(u8::MAX));
        ids.for_each(|id| out.extend_from_slice(&id.to_le_bytes()));
    };
    match change {
        MemberChange::Promote { ids } => named(1, ids),
        MemberChange::Demote { ids } => named(2, ids),
        MemberChange::Remove { ids } => named(3, ids),
        MemberChange::Join { address, url, key, replaces } => {
            out.push(if replaces.is_some() { 6 } else { 0 });
            replaces.iter().for_each(|id| out.extend_from_slice(&id.to_le_bytes()));
            [address, url, key].iter().for_each(|text| push_text(text, out));
        }
        MemberChange::Rename { id, address, url } => {
            out.push(7);
            out.extend_from_slice(&id.to_le_bytes());
            [address, url].iter().for_each(|text| push_text(text, out));
        }
        MemberChange::Replace { old, new } => {
            out.push(4);
            [old, new].iter().for_each(|id| out.extend_from_slice(&id.to_le_bytes()));
        }
        MemberChange::Transfer { id } => {
            out.push(5);
            out.extend_from_slice(&id.to_le_bytes());
        }
    }
}

/// Reads a change.
pub(crate) fn decode(octets: &[u8]) -> Result<MemberChange, Malformed> {
    let mut octets = Octets(octets);
    check_form(&mut octets)?;
    let change = match octets.one()? {
        0 => joining(&mut octets, None)?,
        1 => MemberChange::Promote { ids: ids(&mut octets)? },
        2 => MemberChange::Demote { ids: ids(&mut octets)? },
        3 => MemberChange::Remove { ids: ids(&mut octets)? },
        4 => MemberChange::Replace { old: octets.number()?, new: octets.number()? },
        5 => MemberChange::Transfer { id: octets.number()? },
        6 => {
            let replaces = Some(octets.number()?);
            joining(&mut octets, replaces)?
        }
        7 => {
            let id = octets.number()?;
            MemberChange::Rename { id, address: octets.text()?, url: octets.text()? }
        }
        _ => return Err(Malformed("a change of the members of a later release")),
    };
    match octets.0.is_empty() {
        true => Ok(change),
        false => Err(Malformed("octets follow a change of the members")),
    }
}

fn joining(octets: &mut Octets<'_>, replaces: Option<u64>) -> Result<MemberChange, Malformed> {
    let (address, url, key) = (octets.text()?, octets.text()?, octets.text()?);
    Ok(MemberChange::Join { address, url, key, replaces })
}

fn ids(octets: &mut Octets<'_>) -> Result<BTreeSet<u64>, Malformed> {
    let count = octets.one()?;
    (0..count).map(|_| octets.number()).collect()
}

fn check_form(octets: &mut Octets<'_>) -> Result<(), Malformed> {
    match octets.one()? == FORM {
        true => Ok(()),
        false => Err(Malformed("a change of the members is written in a form of a later release")),
    }
}

fn push_text(text: &str, out: &mut Vec<u8>) {
    let length = u16::try_from(text.len()).unwrap_or(u16::MAX);
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

/// What came of a change, as octets: the form, what it is, and a number or a sentence.
pub(crate) fn encode_outcome(outcome: &Result<MembersChanged, MembersError>) -> Vec<u8> {
    let mut out = vec![FORM];
    let mut sentence = |kind: u8, reason: &str| {
        out.push(kind);
        push_text(
            reason.get(..reason.floor_char_boundary(REASON_MAX_BYTES)).unwrap_or(""),
            &mut out,
        );
    };
    match outcome {
        Err(MembersError::Refused(reason)) => sentence(3, reason),
        Err(MembersError::Unknown(reason)) => sentence(4, reason),
        Ok(MembersChanged::Done) => out.push(0),
        Ok(MembersChanged::AlreadySo) => out.push(1),
        Ok(MembersChanged::Joined(id)) => {
            out.push(2);
            out.extend_from_slice(&id.to_le_bytes());
        }
        Err(MembersError::NotDeciding) => out.push(5),
        Err(MembersError::Unsupported) => out.push(6),
    }
    out
}

/// Reads what came of a change.
pub(crate) fn decode_outcome(
    octets: &[u8],
) -> Result<Result<MembersChanged, MembersError>, Malformed> {
    let mut octets = Octets(octets);
    check_form(&mut octets)?;
    let outcome = match octets.one()? {
        0 => Ok(MembersChanged::Done),
        1 => Ok(MembersChanged::AlreadySo),
        2 => Ok(MembersChanged::Joined(octets.number()?)),
        3 => Err(MembersError::Refused(octets.text()?)),
        4 => Err(MembersError::Unknown(octets.text()?)),
        5 => Err(MembersError::NotDeciding),
        6 => Err(MembersError::Unsupported),
        _ => return Err(Malformed("what came of a change is told by a later release")),
    };
    match octets.0.is_empty() {
        true => Ok(outcome),
        false => Err(Malformed("octets follow what came of a change")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_reads_back_the_same_and_not_in_part() {
        let ids = BTreeSet::from([2, 65_600]);
        let changes = [
            MemberChange::Join {
                address: "192.0.2.4:7636".to_owned(),
                url: String::new(),
                key: "a key".to_owned(),
                replaces: None,
            },
            MemberChange::Join {
                address: "192.0.2.4:7636".to_owned(),
                url: "ldap://192.0.2.4".to_owned(),
                key: "a key".to_owned(),
                replaces: Some(3),
            },
            MemberChange::Rename {
                id: 65_600,
                address: "192.0.2.5:7636".to_owned(),
                url: String::new(),
            },
            MemberChange::Promote { ids: ids.clone() },
            MemberChange::Demote { ids: ids.clone() },
            MemberChange::Remove { ids },
            MemberChange::Replace { old: 3, new: 65_600 },
            MemberChange::Transfer { id: 2 },
        ];
        for change in changes {
            let mut octets = Vec::new();
            encode(&change, &mut octets);
            assert_eq!(decode(&octets), Ok(change.clone()));
            for end in 0..octets.len() {
                assert!(decode(&octets[..end]).is_err(), "{change:?} up to {end}");
            }
            octets.push(0);
            assert!(decode(&octets).is_err(), "{change:?} and more");
        }
        assert!(decode(&[3, 5, 0, 0, 0, 0, 0, 0, 0, 0]).is_err());
        assert!(decode(&[2, 8]).is_err());
    }

    /// A removal that nobody has heard of was told to be one of nobody.
    #[test]
    fn what_may_have_happened_is_not_called_refused() {
        let ids = BTreeSet::from([3]);
        let refused = || MembersError::Refused("no member has the number 3".to_owned());
        let (remove, demote) =
            (MemberChange::Remove { ids: ids.clone() }, MemberChange::Demote { ids });
        assert!(matches!(conclusion(&remove, refused(), true), MembersError::Unknown(reason)
            if reason.ends_with("no member has the number 3")));
        assert_eq!(conclusion(&remove, refused(), false), refused());
        assert_eq!(conclusion(&demote, refused(), true), refused());
    }

    #[test]
    fn an_outcome_reads_back_the_same_and_not_in_part() {
        let outcomes = [
            Ok(MembersChanged::Done),
            Ok(MembersChanged::AlreadySo),
            Ok(MembersChanged::Joined(65_600)),
            Err(MembersError::Refused("no".to_owned())),
            Err(MembersError::Unknown("who knows".to_owned())),
            Err(MembersError::NotDeciding),
            Err(MembersError::Unsupported),
        ];
        for outcome in outcomes {
            let mut octets = encode_outcome(&outcome);
            assert_eq!(decode_outcome(&octets), Ok(outcome));
            for end in 0..octets.len() {
                assert!(decode_outcome(&octets[..end]).is_err());
            }
            octets.push(0);
            assert!(decode_outcome(&octets).is_err());
        }
        let long = encode_outcome(&Err(MembersError::Refused("ä".repeat(REASON_MAX_BYTES))));
        assert!(matches!(decode_outcome(&long), Ok(Err(MembersError::Refused(reason)))
            if reason.len() == REASON_MAX_BYTES));
    }
}
