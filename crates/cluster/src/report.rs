//! What a member says of itself to the others, once a second.
//!
//! Invariant: what an earlier release says is read, and what a later one adds is passed over.

use history::record::RECORD_LEVEL_FIRST;
use store::Lsn;

/// What a member says of itself.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct MemberReport {
    /// The term it is in.
    pub term: u64,
    /// The last change that is visible on it.
    pub applied_lsn: u64,
    /// Index of the last entry of its log.
    pub last_index: u64,
    /// Index of the last entry that it knows to be committed.
    pub committed_index: u64,
    /// Whether its log failed.
    pub is_failed: bool,
    /// Whether it should not lead.
    pub is_unfit: bool,
    /// The time there, in microseconds since 1970.
    pub clock_us: u64,
    /// The version of the form of what is asked of its directory.
    pub asks_version: u16,
    /// The members that it lists, by number, itself included; empty where it does not say.
    pub members: Vec<u64>,
    /// The first change after which its data are not those of the others; none if that is not
    /// known of them.
    pub diverged: Option<Lsn>,
    /// Where its log says so, as the journal counts; 0 for those with whom the cluster began.
    pub listed_at: u64,
    /// Whether it knows that whoever asks was removed from the cluster.
    pub has_removed_asker: bool,
    /// Whether it knows that whoever asks has lost what it had confirmed.
    pub is_asker_forgetful: bool,
    /// So many octets are there of the copy of the data that it is sent, of so many; none while it
    /// is sent none.
    pub copy: Option<(u64, u64)>,
    /// What it tells of itself beside its log; none where it does not say.
    pub facts: Option<MemberFacts>,
}

impl MemberReport {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let numbers = [self.term, self.applied_lsn, self.last_index, self.committed_index];
        let mut out: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        out.extend([u8::from(self.is_failed), u8::from(self.is_unfit)]);
        out.extend_from_slice(&self.clock_us.to_le_bytes());
        out.extend_from_slice(&self.asks_version.to_le_bytes());
        // There are no more than fit.
        out.push(u8::try_from(self.members.len()).unwrap_or(u8::MAX));
        let members = self.members.iter().take(usize::from(u8::MAX));
        members.for_each(|id| out.extend_from_slice(&id.to_le_bytes()));
        // 1 more, so that there is a number for none.
        let diverged = self.diverged.map_or(0, |lsn| lsn.0.saturating_add(1));
        out.extend_from_slice(&diverged.to_le_bytes());
        out.extend_from_slice(&self.listed_at.to_le_bytes());
        out.push(u8::from(self.has_removed_asker) | u8::from(self.is_asker_forgetful) << 1);
        // No copy has no octets.
        let (bytes, of_bytes) = self.copy.unwrap_or((0, 0));
        [bytes, of_bytes].iter().for_each(|it| out.extend_from_slice(&it.to_le_bytes()));
        self.facts.iter().for_each(|facts| facts.encode(&mut out));
        out
    }

    /// Later releases may say more, and earlier ones do not say which version they speak, whom they
    /// list, or since when.
    pub(crate) fn decode(octets: &[u8]) -> Option<Self> {
        let (numbers, rest) = octets.split_at_checked(32)?;
        let ([is_failed, is_unfit], rest) = rest.split_first_chunk()?;
        let (is_failed, is_unfit) = (*is_failed != 0, *is_unfit != 0);
        let mut numbers = numbers
            .chunks_exact(8)
            .map(|octets| octets.first_chunk().map_or(0, |octets| u64::from_le_bytes(*octets)));
        let (clock_us, rest) = rest.split_first_chunk()?;
        let (asks_version, rest) = rest.split_first_chunk().unzip();
        let asks_version = asks_version.map(|octets| u16::from_le_bytes(*octets));
        let listed = rest.and_then(<[u8]>::split_first);
        let listed = listed.and_then(|(count, rest)| first_numbers(rest, usize::from(*count)));
        let (members, rest) = listed.unwrap_or_default();
        let (diverged, rest) = rest.split_first_chunk().unzip();
        let diverged = diverged.map_or(0, |octets| u64::from_le_bytes(*octets));
        let (listed_at, rest) = rest.and_then(<[u8]>::split_first_chunk).unzip();
        let listed_at = listed_at.map_or(0, |octets| u64::from_le_bytes(*octets));
        let (of_asker, rest) = rest.and_then(<[u8]>::split_first).unzip();
        let (copy, rest) = rest.and_then(|rest| first_numbers(rest, 2)).unzip();
        let facts = rest.and_then(MemberFacts::decode);
        let copy = copy.and_then(|numbers| Some((*numbers.first()?, *numbers.get(1)?)));
        Some(Self {
            term: numbers.next()?,
            applied_lsn: numbers.next()?,
            last_index: numbers.next()?,
            committed_index: numbers.next()?,
            is_failed,
            is_unfit,
            clock_us: u64::from_le_bytes(*clock_us),
            asks_version: asks_version.unwrap_or(ASKS_VERSION_UNTOLD),
            members,
            diverged: diverged.checked_sub(1).map(Lsn),
            listed_at,
            has_removed_asker: of_asker.is_some_and(|octet| octet & 1 != 0),
            is_asker_forgetful: of_asker.is_some_and(|octet| octet & 2 != 0),
            copy: copy.filter(|(_, of_bytes)| *of_bytes > 0),
            facts,
        })
    }
}

impl MemberFacts {
    fn encode(&self, out: &mut Vec<u8>) {
        let release = self.release.get(..self.release.floor_char_boundary(RELEASE_MAX_BYTES));
        let release = release.unwrap_or_default();
        out.push(u8::try_from(release.len()).unwrap_or(0));
        out.extend_from_slice(release.as_bytes());
        for number in [self.disk_free_bytes, self.certificate_ends_s, self.applied_us] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&self.record_level.to_le_bytes());
    }

    /// Earlier releases do not say which records they read: as few as any.
    fn decode(octets: &[u8]) -> Option<Self> {
        let (length, rest) = octets.split_first()?;
        let length = usize::from(*length);
        let (release, rest) = rest.split_at_checked(length)?;
        let release = std::str::from_utf8(release).ok().filter(|_| length <= RELEASE_MAX_BYTES)?;
        let (numbers, rest) = first_numbers(rest, 3)?;
        let [disk_free_bytes, certificate_ends_s, applied_us] = numbers[..] else { return None };
        let release = release.to_owned();
        let level = rest.first_chunk().map(|octets| u16::from_le_bytes(*octets));
        let record_level = level.unwrap_or(RECORD_LEVEL_FIRST);
        Some(Self { release, record_level, disk_free_bytes, certificate_ends_s, applied_us })
    }
}

/// The form of updates that members speak who do not say which.
const ASKS_VERSION_UNTOLD: u16 = 1;
/// The longest name of a release that is told, in bytes.
const RELEASE_MAX_BYTES: usize = 64;

/// So many numbers from the beginning of `octets`, and what follows; none if they are not there.
fn first_numbers(octets: &[u8], count: usize) -> Option<(Vec<u64>, &[u8])> {
    let (numbers, rest) = octets.split_at_checked(8 * count)?;
    let (numbers, _) = numbers.as_chunks();
    Some((numbers.iter().map(|number| u64::from_le_bytes(*number)).collect(), rest))
}

/// What a member tells of itself beside its log.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct MemberFacts {
    /// Which release it runs; the others are told 64 bytes of it at the most.
    pub release: String,
    /// Change records up to this level it can read; [`crate::Service`] says it of itself.
    pub record_level: u16,
    /// What its disk has left, in bytes.
    pub disk_free_bytes: u64,
    /// When its certificate ends, in seconds since 1970.
    pub certificate_ends_s: u64,
    /// When the last change was made that is visible there, in microseconds since 1970.
    pub applied_us: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_reads_back_the_same_and_later_ones_may_say_more() {
        let report = MemberReport {
            term: 1,
            applied_lsn: 2,
            last_index: 3,
            committed_index: u64::MAX,
            is_failed: false,
            is_unfit: true,
            clock_us: 6,
            asks_version: 7,
            members: vec![1, 300],
            diverged: Some(Lsn(0)),
            listed_at: 70,
            has_removed_asker: true,
            is_asker_forgetful: true,
            copy: Some((4, 5)),
            facts: Some(MemberFacts {
                release: "1.2".to_owned(),
                record_level: 7,
                disk_free_bytes: 8,
                certificate_ends_s: 9,
                applied_us: 10,
            }),
        };
        let mut octets = report.encode();
        let decode = MemberReport::decode;
        assert_eq!(decode(&octets).as_ref(), Some(&report));
        // A release that does not say which records it reads reads as few as any.
        let facts = MemberFacts { record_level: 3, ..report.facts.clone().unwrap() };
        let first = MemberReport { facts: Some(facts), ..report.clone() };
        assert_eq!(decode(&octets[..octets.len() - 2]).as_ref(), Some(&first));
        octets.truncate(octets.len() - 2);
        // What is said of itself is said as a whole.
        let report = MemberReport { facts: None, ..report };
        assert_eq!(decode(&octets[..octets.len() - 1]).as_ref(), Some(&report));
        octets.truncate(report.encode().len());
        let uncopied = MemberReport { copy: None, ..report.clone() };
        assert_eq!(decode(&octets[..octets.len() - 1]).as_ref(), Some(&uncopied));
        let end = octets.len() - 25;
        let (lists, before) = (end - 25, end - 27);
        let first = MemberReport {
            listed_at: 0,
            has_removed_asker: false,
            is_asker_forgetful: false,
            ..uncopied
        };
        assert_eq!(decode(&octets[..end]).as_ref(), Some(&first));
        let alike = MemberReport { diverged: None, ..first };
        assert_eq!(decode(&octets[..end - 8]).as_ref(), Some(&alike));
        let unlisted = MemberReport { members: Vec::new(), ..alike };
        // A list that is not whole says nothing.
        assert_eq!(decode(&octets[..end - 9]).as_ref(), Some(&unlisted));
        assert_eq!(decode(&octets[..lists]).as_ref(), Some(&unlisted));
        let untold = MemberReport { asks_version: 1, ..unlisted };
        assert_eq!(decode(&octets[..before]), Some(untold));
        assert_eq!(decode(&octets[..before - 1]), None);
        octets.push(9);
        assert_eq!(decode(&octets).as_ref(), Some(&report));
        let long = MemberFacts { release: "é".repeat(40), ..MemberFacts::default() };
        let told = decode(&MemberReport { facts: Some(long), ..report.clone() }.encode());
        let told = told.and_then(|report| report.facts);
        assert_eq!(told.map(|facts| facts.release), Some("é".repeat(32)));
        let failed = MemberReport { is_failed: true, is_unfit: false, ..report };
        assert_eq!(decode(&failed.encode()), Some(failed));
    }
}
