//! What members say to each other when their data are compared, as octets.
//! `docs/cluster-protocol.md` has the form.
//!
//! Invariant: what is read is no longer than what was sent: a number of parts allocates nothing
//! before the parts are there.

use store::{Digest, HeldEntry, Lsn, Slice};

use crate::entry::{Malformed, Octets};

/// The version of the form.
pub(crate) const VERSION: u8 = 1;
/// The most entries that are described in one answer.
pub(crate) const DESCRIBED_MAX: usize = 32;
/// The most entries in one answer, each a number.
pub(crate) const ENTRIES_MAX: usize = 8192;
/// The most rows in one answer that are no entries.
pub(crate) const ROWS_MAX: usize = 65_536;
/// The most attributes of an entry that are compared each by itself.
const ATTRIBUTES_MAX: usize = 1024;
/// The longest name of an attribute or a row that is told, in bytes.
const LABEL_MAX_BYTES: usize = 128;
/// The longest other text, in bytes.
const TEXT_MAX_BYTES: usize = 16 << 10;

/// Which comparison it is.
pub(crate) type RunId = [u8; 16];

/// What one member asks another.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Asked {
    pub(crate) run: RunId,
    pub(crate) what: Question,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Question {
    /// Hold the state after this change, and wait for it for so long, in milliseconds.
    Hold { lsn: Lsn, wait_ms: u32 },
    /// The digest of the entries with these ids.
    Slice { from: u64, through: u64 },
    /// Each of them, in one number.
    Entries { from: u64, through: u64 },
    /// What these entries are.
    Describe(Vec<u64>),
    /// The digest of all rows that are no entries.
    Common,
    /// Each of them, in one number.
    CommonRows,
    /// What is held is of no use any more.
    LetGo,
    /// The comparison is over.
    End,
}

/// What it is answered.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Answer {
    /// The state is held; it has so many entries.
    Held { entries: u64 },
    /// A later one is there, and that one is not to be had any more; the last change there is.
    Passed(Lsn),
    /// The change did not come; the last change there is.
    NotReached(Lsn),
    /// Another comparison is under way, which this member asks for.
    Busy(u64),
    /// There is nothing to compare: why, in a sentence.
    Refused(String),
    /// Of a slice.
    Slice(Slice),
    /// Of entries: the id and what it is.
    Entries(Vec<(u64, Digest)>),
    /// In the order in which they were asked for.
    Described(Vec<HeldEntry>),
    /// Of other rows: the name of each, and what it is.
    Rows(Vec<(String, Digest)>),
    /// It was let go, or is over.
    Done,
    /// This comparison holds no state here.
    NotHeld,
}

impl Asked {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.push(VERSION);
        out.extend_from_slice(&self.run);
        match &self.what {
            Question::Hold { lsn, wait_ms } => {
                out.push(1);
                push_numbers(&[lsn.0], out);
                out.extend_from_slice(&wait_ms.to_le_bytes());
            }
            Question::Slice { from, through } => {
                out.push(2);
                push_numbers(&[*from, *through], out);
            }
            Question::Entries { from, through } => {
                out.push(3);
                push_numbers(&[*from, *through], out);
            }
            Question::Describe(ids) => {
                let ids = ids.get(..DESCRIBED_MAX).unwrap_or(ids);
                out.extend([4, u8::try_from(ids.len()).unwrap_or(0)]);
                push_numbers(ids, out);
            }
            Question::Common => out.push(5),
            Question::CommonRows => out.push(6),
            Question::LetGo => out.push(7),
            Question::End => out.push(8),
        }
    }

    pub(crate) fn decode(octets: &[u8]) -> Result<Self, Malformed> {
        let mut octets = Octets(octets);
        check_version(&mut octets)?;
        let run = octets.take(16)?.try_into().map_err(|_| Octets::SHORT)?;
        let what = match octets.one()? {
            1 => Question::Hold { lsn: Lsn(octets.number()?), wait_ms: small(&mut octets)? },
            2 => Question::Slice { from: octets.number()?, through: octets.number()? },
            3 => Question::Entries { from: octets.number()?, through: octets.number()? },
            4 => {
                let count = usize::from(octets.one()?);
                if count > DESCRIBED_MAX {
                    return Err(Malformed("it asks for too many entries"));
                }
                let ids = (0..count).map(|_| octets.number()).collect::<Result<_, _>>();
                Question::Describe(ids?)
            }
            5 => Question::Common,
            6 => Question::CommonRows,
            7 => Question::LetGo,
            8 => Question::End,
            _ => return Err(Malformed("it asks for what a later release knows")),
        };
        end(&octets, Self { run, what })
    }
}

impl Answer {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        match self {
            Self::Held { entries } => push(1, &[*entries], &mut out),
            Self::Passed(at) => push(2, &[at.0], &mut out),
            Self::NotReached(at) => push(3, &[at.0], &mut out),
            Self::Busy(by) => push(4, &[*by], &mut out),
            Self::Refused(reason) => {
                out.push(5);
                push_text(reason, TEXT_MAX_BYTES, &mut out);
            }
            Self::Slice(slice) => {
                let Slice { through, entries, bytes, digest, next } = slice;
                // No entry has the id 0.
                push(6, &[*through, *entries, *bytes, next.unwrap_or(0)], &mut out);
                push_digest(*digest, &mut out);
            }
            Self::Entries(all) => {
                let all = all.get(..ENTRIES_MAX).unwrap_or(all);
                push_count(7, all.len(), &mut out);
                for (id, digest) in all {
                    push_numbers(&[*id], &mut out);
                    push_digest(*digest, &mut out);
                }
            }
            Self::Described(all) => {
                let all = all.get(..DESCRIBED_MAX).unwrap_or(all);
                push_count(8, all.len(), &mut out);
                all.iter().for_each(|entry| push_entry(entry, &mut out));
            }
            Self::Rows(all) => {
                let all = all.get(..ROWS_MAX).unwrap_or(all);
                push_count(9, all.len(), &mut out);
                for (name, digest) in all {
                    push_text(name, LABEL_MAX_BYTES, &mut out);
                    push_digest(*digest, &mut out);
                }
            }
            Self::Done => out.push(10),
            Self::NotHeld => out.push(11),
        }
        out
    }

    pub(crate) fn decode(octets: &[u8]) -> Result<Self, Malformed> {
        let mut octets = Octets(octets);
        check_version(&mut octets)?;
        let octets = &mut octets;
        let answer = match octets.one()? {
            1 => Self::Held { entries: octets.number()? },
            2 => Self::Passed(Lsn(octets.number()?)),
            3 => Self::NotReached(Lsn(octets.number()?)),
            4 => Self::Busy(octets.number()?),
            5 => Self::Refused(text(octets, TEXT_MAX_BYTES)?),
            6 => Self::Slice(Slice {
                through: octets.number()?,
                entries: octets.number()?,
                bytes: octets.number()?,
                next: Some(octets.number()?).filter(|next| *next > 0),
                digest: digest(octets)?,
            }),
            7 => Self::Entries(many(octets, ENTRIES_MAX, |octets| {
                Ok((octets.number()?, digest(octets)?))
            })?),
            8 => Self::Described(many(octets, DESCRIBED_MAX, entry)?),
            9 => Self::Rows(many(octets, ROWS_MAX, labelled)?),
            10 => Self::Done,
            11 => Self::NotHeld,
            _ => return Err(Malformed("it is an answer of a later release")),
        };
        end(octets, answer)
    }
}

fn push_entry(entry: &HeldEntry, out: &mut Vec<u8>) {
    match entry {
        HeldEntry::Missing => out.push(0),
        HeldEntry::Unreadable(reason) => {
            out.push(1);
            push_text(reason, TEXT_MAX_BYTES, out);
        }
        HeldEntry::Readable { dn, uuid, name, attributes } => {
            out.push(2);
            out.push(u8::from(dn.is_some()));
            push_text(dn.as_deref().unwrap_or_default(), TEXT_MAX_BYTES, out);
            push_text(uuid, LABEL_MAX_BYTES, out);
            push_digest(*name, out);
            let attributes = attributes.get(..ATTRIBUTES_MAX).unwrap_or(attributes);
            out.extend_from_slice(&(attributes.len() as u32).to_le_bytes());
            for (attribute, digest) in attributes {
                push_text(attribute, LABEL_MAX_BYTES, out);
                push_digest(*digest, out);
            }
        }
    }
}

fn entry(octets: &mut Octets<'_>) -> Result<HeldEntry, Malformed> {
    Ok(match octets.one()? {
        0 => HeldEntry::Missing,
        1 => HeldEntry::Unreadable(text(octets, TEXT_MAX_BYTES)?),
        2 => {
            let has_dn = match octets.one()? {
                0 => false,
                1 => true,
                _ => return Err(Malformed("a name is neither there nor missing")),
            };
            let dn = text(octets, TEXT_MAX_BYTES)?;
            if !has_dn && !dn.is_empty() {
                return Err(Malformed("a name that is missing is there"));
            }
            HeldEntry::Readable {
                dn: has_dn.then_some(dn),
                uuid: text(octets, LABEL_MAX_BYTES)?,
                name: digest(octets)?,
                attributes: many(octets, ATTRIBUTES_MAX, labelled)?,
            }
        }
        _ => return Err(Malformed("an entry is of a later release")),
    })
}

fn labelled(octets: &mut Octets<'_>) -> Result<(String, Digest), Malformed> {
    Ok((text(octets, LABEL_MAX_BYTES)?, digest(octets)?))
}

fn check_version(octets: &mut Octets<'_>) -> Result<(), Malformed> {
    match octets.one()? == VERSION {
        true => Ok(()),
        false => Err(Malformed("data are compared in another way by another release")),
    }
}

fn end<T>(octets: &Octets<'_>, read: T) -> Result<T, Malformed> {
    match octets.0.is_empty() {
        true => Ok(read),
        false => Err(Malformed("octets follow what compares data")),
    }
}

/// So many parts as are said, and no more than `max`.
fn many<T>(
    octets: &mut Octets<'_>,
    max: usize,
    mut one: impl FnMut(&mut Octets<'_>) -> Result<T, Malformed>,
) -> Result<Vec<T>, Malformed> {
    let count = small(octets)? as usize;
    if count > max {
        return Err(Malformed("it has too many parts"));
    }
    let mut all = Vec::new();
    for _ in 0..count {
        all.push(one(octets)?);
    }
    Ok(all)
}

fn small(octets: &mut Octets<'_>) -> Result<u32, Malformed> {
    let (number, rest) = octets.0.split_first_chunk().ok_or(Octets::SHORT)?;
    octets.0 = rest;
    Ok(u32::from_le_bytes(*number))
}

fn digest(octets: &mut Octets<'_>) -> Result<Digest, Malformed> {
    let (number, rest) = octets.0.split_first_chunk().ok_or(Octets::SHORT)?;
    octets.0 = rest;
    Ok(Digest::from_number(u128::from_le_bytes(*number)))
}

fn text(octets: &mut Octets<'_>, max: usize) -> Result<String, Malformed> {
    let (length, rest) = octets.0.split_first_chunk().ok_or(Octets::SHORT)?;
    octets.0 = rest;
    let length = usize::from(u16::from_le_bytes(*length));
    if length > max {
        return Err(Malformed("a text is too long"));
    }
    let text = std::str::from_utf8(octets.take(length)?);
    text.map(str::to_owned).map_err(|_| Malformed("a text is not UTF-8"))
}

fn push(kind: u8, numbers: &[u64], out: &mut Vec<u8>) {
    out.push(kind);
    push_numbers(numbers, out);
}

fn push_numbers(numbers: &[u64], out: &mut Vec<u8>) {
    numbers.iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
}

fn push_count(kind: u8, count: usize, out: &mut Vec<u8>) {
    out.push(kind);
    out.extend_from_slice(&u32::try_from(count).unwrap_or(0).to_le_bytes());
}

fn push_digest(digest: Digest, out: &mut Vec<u8>) {
    out.extend_from_slice(&digest.number().to_le_bytes());
}

/// What is longer than `max` bytes is cut.
fn push_text(text: &str, max: usize, out: &mut Vec<u8>) {
    let text = text.get(..text.floor_char_boundary(max)).unwrap_or_default();
    out.extend_from_slice(&u16::try_from(text.len()).unwrap_or(0).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(number: u128) -> Digest {
        Digest::from_number(number)
    }

    fn questions() -> Vec<Question> {
        vec![
            Question::Hold { lsn: Lsn(7), wait_ms: 250 },
            Question::Slice { from: 1, through: 4096 },
            Question::Entries { from: 1, through: u64::MAX },
            Question::Describe(vec![3, 9]),
            Question::Common,
            Question::CommonRows,
            Question::LetGo,
            Question::End,
        ]
    }

    fn answers() -> Vec<Answer> {
        let attributes = vec![("cn".to_owned(), number(1)), ("sn;lang-de".to_owned(), number(2))];
        let (dn, uuid) = (Some("cn=é".to_owned()), "u".to_owned());
        let readable = HeldEntry::Readable { dn, uuid, name: number(8), attributes };
        let nameless = HeldEntry::Readable {
            dn: None,
            uuid: String::new(),
            name: number(9),
            attributes: Vec::new(),
        };
        let slice = Slice { through: 4, entries: 3, bytes: 2, digest: number(5), next: None };
        vec![
            Answer::Held { entries: 9 },
            Answer::Passed(Lsn(8)),
            Answer::NotReached(Lsn(0)),
            Answer::Busy(3),
            Answer::Refused("why".to_owned()),
            Answer::Slice(slice),
            Answer::Slice(Slice { next: Some(7), ..slice }),
            Answer::Entries(vec![(1, number(u128::MAX)), (2, number(0))]),
            Answer::Described(vec![
                HeldEntry::Missing,
                HeldEntry::Unreadable("is empty".to_owned()),
                readable,
                nameless,
            ]),
            Answer::Rows(vec![("setting colour".to_owned(), number(4))]),
            Answer::Done,
            Answer::NotHeld,
        ]
    }

    #[test]
    fn what_is_said_reads_back_the_same_and_nothing_else_does() {
        for what in questions() {
            let (asked, mut octets) = (Asked { run: [7; 16], what }, Vec::new());
            asked.encode(&mut octets);
            assert_eq!(Asked::decode(&octets).as_ref(), Ok(&asked));
            (0..octets.len()).for_each(|cut| assert!(Asked::decode(&octets[..cut]).is_err()));
            octets.push(0);
            assert!(Asked::decode(&octets).is_err());
        }
        for answer in answers() {
            let mut octets = answer.encode();
            assert_eq!(Answer::decode(&octets).as_ref(), Ok(&answer));
            (0..octets.len()).for_each(|cut| assert!(Answer::decode(&octets[..cut]).is_err()));
            octets.push(0);
            assert!(Answer::decode(&octets).is_err());
            octets[0] = VERSION + 1;
            assert!(Answer::decode(&octets).unwrap_err().0.contains("another release"));
        }
    }

    proptest::proptest! {
        #[test]
        fn any_octets_read_back_the_same_or_are_refused(kind: u8, rest: Vec<u8>) {
            let asked = [&[VERSION][..], &[7; 16], &[kind % 9]].concat();
            for head in [vec![VERSION, kind % 12], asked] {
                crate::test_support::check_comparison(&[&head[..], &rest].concat());
            }
        }
    }

    #[test]
    fn what_is_too_much_is_cut_or_refused() {
        let long = "é".repeat(TEXT_MAX_BYTES);
        let read = Answer::decode(&Answer::Refused(long).encode());
        let Ok(Answer::Refused(cut)) = read else { panic!("{read:?}") };
        assert_eq!(cut.len(), TEXT_MAX_BYTES);
        let many = Answer::Entries(vec![(1, number(1)); ENTRIES_MAX + 1]);
        let Ok(Answer::Entries(cut)) = Answer::decode(&many.encode()) else { panic!() };
        assert_eq!(cut.len(), ENTRIES_MAX);
        let mut octets = Answer::Entries(Vec::new()).encode();
        octets[2..6].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(Answer::decode(&octets).is_err());
        let ids = (0..=DESCRIBED_MAX as u64).collect();
        let (asked, mut octets) = (Asked { run: [0; 16], what: Question::Describe(ids) }, vec![]);
        asked.encode(&mut octets);
        let Ok(Asked { what: Question::Describe(ids), .. }) = Asked::decode(&octets) else {
            panic!()
        };
        assert_eq!(ids.len(), DESCRIBED_MAX);
    }

    #[test]
    fn the_longest_answers_fit() {
        let attributes = vec![("a".repeat(LABEL_MAX_BYTES), number(1)); ATTRIBUTES_MAX];
        let longest = HeldEntry::Readable {
            dn: Some("x".repeat(TEXT_MAX_BYTES)),
            uuid: "u".repeat(LABEL_MAX_BYTES),
            name: number(1),
            attributes,
        };
        let rows = vec![("a".repeat(LABEL_MAX_BYTES), number(1)); ROWS_MAX];
        for answer in [Answer::Described(vec![longest; DESCRIBED_MAX]), Answer::Rows(rows)] {
            assert!(answer.encode().len() < crate::transport::ASK_MAX_BYTES);
        }
    }
}
