//! A source that is followed by its change log, as 389, Sun and Oracle servers have it by numbers
//! (the retro change log), and OpenDJ and its relatives by cookies.
//!
//! What a change did is not done here once more: the entry that it was about is read, as it is now,
//! by its identity if the log tells that, else by its name. So the same change may be told twice,
//! and what changed often is read as it is at the end. Renames are told as such, since all below
//! moves with them.
//!
//! Invariant: a position is given only when everything before it was told.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use client::{Connection, FoundEntry, SearchAnswer, SearchFor};
use ldap::control_value::changelog_cookie;
use ldap::control_value::sync::uuid_of_text;
use ldap::filter::{AvaFilter, Filter};
use ldap::message::{Control, ControlsBuf, Scope};
use ldap::result::ResultCode;
use offline::PlainEntry;
use schema::{DnKey, Schema};

use super::goal::Renamed;
use super::line::Position;
use super::source::{Lag, Source, Told, has_entry};
use super::sync::{begin_anew, plain};
use super::wanted::Uuid;
use crate::changes::names::{Names, Then, parsed};
use crate::changes::{CHANGELOG, ToldChange, told};
use crate::connect::Login;
use crate::failure::Failure;
use crate::online::server::Server;
use crate::online::{now, wait};

/// Where one is in a change log.
#[derive(Clone, Debug, Eq, PartialEq)]
enum LogPlace {
    /// Behind this number.
    Number(u64),
    /// Behind what this cookie stands for.
    Cookie(String),
}

impl LogPlace {
    fn octets(&self) -> Vec<u8> {
        match self {
            Self::Number(number) => format!("n{number}").into_bytes(),
            Self::Cookie(cookie) => format!("c{cookie}").into_bytes(),
        }
    }

    fn read(octets: &[u8]) -> Option<Self> {
        let text = str::from_utf8(octets).ok()?;
        match text.strip_prefix('n') {
            Some(number) => number.parse().ok().map(Self::Number),
            None => text.strip_prefix('c').map(|cookie| Self::Cookie(cookie.to_owned())),
        }
    }
}

/// What is being read.
enum Reading {
    /// All entries: the next page of this pass, with this cookie.
    All { pass: usize, cookie: Vec<u8> },
    /// The change log.
    Log,
}

/// A source with a change log.
pub(super) struct LogSource {
    connection: Connection,
    base: String,
    key: DnKey,
    reading: Reading,
    queue: VecDeque<Told>,
    /// Changes that were read and not told of.
    changes: VecDeque<ToldChange>,
    /// Everything up to here was told.
    done: LogPlace,
    /// Where one is when the queue is empty.
    reached: LogPlace,
    /// The log had an end when it was read last.
    is_at_end: bool,
    /// A number was missing since then, when this one was the last.
    hole: Option<(u64, Instant)>,
    knows_subentries: bool,
    /// What is called otherwise by now, as the log told it a short while ago.
    names: Option<(Names, Instant)>,
    is_complete: bool,
    /// An entry was told of by a name that a later change gave it, or what is above it.
    is_ahead: bool,
}

impl LogSource {
    /// Begins at a position, or with everything.
    pub(super) fn begin(
        login: &Login,
        base: &str,
        position: Option<&[u8]>,
    ) -> Result<Self, Failure> {
        let mut connection = login.connect()?;
        let known = position.and_then(LogPlace::read);
        let (first, last) = ends(&mut connection)?;
        let is_lost = match (&known, &first) {
            // What was trimmed cannot be made up for.
            (Some(LogPlace::Number(number)), Some(first)) => *first > number.saturating_add(1),
            _ => false,
        };
        if let (Some(LogPlace::Number(number)), LogPlace::Number(last)) = (&known, &last)
            && last < number
        {
            return Err(begin_anew(ANEW));
        }
        if is_lost {
            return Err(begin_anew("the changes behind the position are not kept any more"));
        }
        let knows_subentries = Server::look(&mut connection)?.knows(SUBENTRIES);
        let key = DnKey::from_text(&Schema::builtin(), base);
        let key = key.map_err(|error| Failure::local(format!("'{base}': {error}")))?;
        let is_complete = known.is_some();
        let reading = match is_complete {
            true => Reading::Log,
            false => Reading::All { pass: 0, cookie: Vec::new() },
        };
        let done = known.unwrap_or(last);
        Ok(Self {
            connection,
            base: base.to_owned(),
            key,
            reading,
            // Nothing has to be told when one goes on: what there is was told before.
            queue: is_complete
                .then_some(Told::Complete { without_the_rest: false })
                .into_iter()
                .collect(),
            reached: done.clone(),
            done,
            is_at_end: false,
            hole: None,
            changes: VecDeque::new(),
            knows_subentries,
            names: None,
            is_complete,
            is_ahead: false,
        })
    }

    /// Reads a page of all entries.
    fn read_page(&mut self, pass: usize, cookie: &[u8]) -> Result<(), Failure> {
        let mut controls = ControlsBuf::new();
        controls.push(Control { oid: MANAGE_DSA_IT, critical: false, value: None });
        if pass == 1 {
            controls.push(Control { oid: SUBENTRIES, critical: true, value: Some(VISIBLE) });
        }
        let all = match self.knows_subentries {
            true => Filter::Present("objectClass"),
            // Those servers show them to who names their class.
            false => Filter::Or(vec![Filter::Present("objectClass"), equal(CLASS, SUBENTRY)]),
        };
        let asked = SearchFor {
            attributes: WANTED,
            stored_only: false,
            ..SearchFor::below(&self.base, all)
        };
        let (queue, mut bytes) = (&mut self.queue, 0);
        let mut each = |answer: SearchAnswer<'_>| {
            count(&mut bytes, &answer)?;
            queue.push_back(match answer {
                SearchAnswer::Entry { dn, attributes } => Told::Entry(None, plain(dn, attributes)),
                SearchAnswer::Reference(urls) => {
                    Told::Elsewhere(urls.iter().map(str::to_owned).collect())
                }
            });
            Ok::<_, Failure>(())
        };
        let page = self.connection.search_page_with(
            &asked,
            PAGE_ENTRIES,
            cookie,
            controls.as_ref(),
            &mut each,
        )?;
        if matches!(
            page.outcome.code,
            ResultCode::SizeLimitExceeded
                | ResultCode::AdminLimitExceeded
                | ResultCode::TimeLimitExceeded
        ) {
            return Err(Failure::refused(format!(
                "the source limits what is read: {}",
                page.outcome
            ))
            .hint("bind there as the administrator, or lift the limits of this entry"));
        }
        page.outcome.into_result("search")?;
        self.reading = if !page.cookie.is_empty() {
            Reading::All { pass, cookie: page.cookie }
        } else if pass == 0 && self.knows_subentries {
            Reading::All { pass: 1, cookie: Vec::new() }
        } else {
            self.queue.push_back(Told::Complete { without_the_rest: true });
            Reading::Log
        };
        Ok(())
    }

    /// Reads what is next in the log.
    fn read_log(&mut self) -> Result<(), Failure> {
        let changes = match self.reached.clone() {
            LogPlace::Number(number) => self.by_number(number)?,
            LogPlace::Cookie(cookie) => self.by_cookie(&cookie)?,
        };
        self.names = None;
        self.changes.extend(changes);
        Ok(())
    }

    /// Tells of the changes that were read until there is something to do, their end or `until`.
    fn tell_changes(&mut self, until: Instant) -> Result<(), Failure> {
        while self.queue.is_empty() && now() < until {
            let Some(change) = self.changes.pop_front() else { break };
            self.tell(change)?;
        }
        if self.is_told() {
            self.done = self.reached.clone();
        }
        Ok(())
    }

    /// Whether everything that was read of the log was told.
    fn is_told(&self) -> bool {
        self.queue.is_empty() && self.changes.is_empty()
    }

    fn by_number(&mut self, number: u64) -> Result<Vec<ToldChange>, Failure> {
        let (first, last) = ends(&mut self.connection)?;
        let LogPlace::Number(last) = last else { return Ok(Vec::new()) };
        if first.is_some_and(|first| first > number.saturating_add(1)) && last > number {
            return Err(begin_anew("the changes behind the position are not kept any more"));
        }
        if last < number {
            return Err(begin_anew(ANEW));
        }
        self.is_at_end = last == number;
        if self.is_at_end {
            return Ok(Vec::new());
        }
        let until = last.min(number.saturating_add(CHANGES_MAX));
        let bound = |value: u64| AvaFilter {
            description: "changeNumber",
            value: value.to_string().into_bytes().into(),
        };
        let filter = Filter::And(vec![
            Filter::GreaterOrEqual(bound(number + 1)),
            Filter::LessOrEqual(bound(until)),
        ]);
        let asked = SearchFor {
            scope: Scope::One,
            attributes: OF_CHANGES,
            ..SearchFor::below(CHANGELOG, filter)
        };
        let found = self.connection.search(&asked)?;
        found.outcome.into_result("search of the change log")?;
        let mut changes: Vec<_> = found.entries.iter().filter_map(told).collect();
        changes.sort_by_key(|change| change.number);
        let number_of = |entry: &FoundEntry| entry.text("changeNumber")?.parse().ok();
        let mut numbers: Vec<u64> = found.entries.iter().filter_map(number_of).collect();
        numbers.sort_unstable();
        let settled = match self.hole {
            Some((upto, since)) if since.elapsed() >= HOLE_AFTER => upto,
            _ => 0,
        };
        let at = passable(number, until, &numbers, settled);
        self.hole = match self.hole.filter(|(upto, _)| at < *upto) {
            Some(hole) => Some(hole),
            None if at == until => None,
            None => Some((last, now())),
        };
        // It comes, or is passed over later.
        self.is_at_end = at == last || at < until;
        changes.retain(|change| change.number <= at);
        self.reached = LogPlace::Number(at);
        Ok(changes)
    }

    fn by_cookie(&mut self, cookie: &str) -> Result<Vec<ToldChange>, Failure> {
        let mut controls = ControlsBuf::new();
        let value = Some(cookie.as_bytes());
        controls.push(Control { oid: changelog_cookie::OID, critical: true, value });
        let asked = SearchFor {
            scope: Scope::Subtree,
            attributes: OF_CHANGES,
            size_limit_entries: CHANGES_MAX as u32,
            ..SearchFor::below(CHANGELOG, equal(CLASS, "changeLogEntry"))
        };
        let (mut entries, mut bytes) = (Vec::new(), 0);
        let mut each = |answer: SearchAnswer<'_>| {
            count(&mut bytes, &answer)?;
            if let SearchAnswer::Entry { dn, attributes } = answer {
                entries.push(FoundEntry::of(dn, attributes));
            }
            Ok::<_, Failure>(())
        };
        let outcome = self.connection.search_with(&asked, controls.as_ref(), &mut each)?;
        match outcome.code {
            ResultCode::Success => self.is_at_end = true,
            ResultCode::SizeLimitExceeded => self.is_at_end = false,
            // As OpenDJ says that it does not have what is behind a cookie.
            ResultCode::UnwillingToPerform => return Err(begin_anew(&outcome.to_string())),
            _ => outcome.into_result("search of the change log")?,
        }
        if let Some(cookie) = entries.last().and_then(|entry| entry.text("changeLogCookie")) {
            self.reached = LogPlace::Cookie(cookie.to_owned());
        }
        let with_number = |mut entry: FoundEntry| {
            if entry.text("changeNumber").is_none() {
                entry.attributes.push(("changeNumber".to_owned(), vec![b"0".to_vec()]));
            }
            told(&entry)
        };
        Ok(entries.into_iter().filter_map(with_number).collect())
    }

    /// Tells what a change comes to.
    fn tell(&mut self, change: ToldChange) -> Result<(), Failure> {
        let is_in = |dn: &str| {
            DnKey::from_text(&Schema::builtin(), dn).is_ok_and(|key| key.is_within(&self.key))
        };
        let new = (change.kind == "modrdn").then(|| change.new_dn()).flatten();
        let (was_in, is_now_in) = (is_in(&change.dn), new.as_deref().map(is_in));
        let uuid = change.uuid.as_deref().and_then(|text| uuid_of_text(text.as_bytes()));
        match (&*change.kind, uuid) {
            ("delete", _) if !was_in => {}
            ("delete", Some(uuid)) => self.queue.push_back(Told::Gone(vec![uuid])),
            ("delete", None) => self.queue.push_back(Told::GoneByName(change.dn)),
            ("modrdn", _) if was_in && is_now_in == Some(false) => {
                self.queue.push_back(Told::GoneWithAllBelow(uuid, change.dn));
            }
            ("modrdn", _) if is_now_in == Some(true) => {
                if was_in {
                    self.queue.push_back(Told::Renamed(Renamed {
                        uuid,
                        dn: change.dn.clone(),
                        new_rdn: change.new_rdn.clone().unwrap_or_default(),
                        delete_old_rdn: change.deletes_old_rdn,
                        new_superior: change.new_superior.clone(),
                    }));
                }
                let dn = new.unwrap_or_default();
                let before = self.queue.len();
                self.tell_entry(&dn, &change)?;
                // What is below it was not told of, and is not again.
                if !was_in && let Some(Told::Entry(_, top)) = self.queue.get(before) {
                    let top = top.dn.clone();
                    let all =
                        Filter::Or(vec![Filter::Present("objectClass"), equal(CLASS, SUBENTRY)]);
                    if self.find(&top, Scope::One, all)?.is_some() {
                        return Err(begin_anew("entries were moved into the branch"));
                    }
                }
            }
            ("add" | "modify", _) if was_in => self.tell_entry(&change.dn.clone(), &change)?,
            _ => {}
        }
        Ok(())
    }

    /// Tells what the entry of a change is by now; nothing, if it is gone: that comes.
    fn tell_entry(&mut self, dn: &str, change: &ToldChange) -> Result<(), Failure> {
        let by = [("entryUUID", &change.uuid), ("nsUniqueId", &change.unique_id)];
        for (attribute, identity) in by {
            let Some(identity) = identity else { continue };
            let filter = Filter::Or(vec![
                equal(attribute, identity),
                Filter::And(vec![equal(attribute, identity), equal(CLASS, SUBENTRY)]),
            ]);
            let base = self.base.clone();
            let mut found = self.find(&base, Scope::Subtree, filter.clone())?;
            if found.is_none() && self.knows_subentries {
                found = self.find_among(&base, Scope::Subtree, filter, true)?;
            }
            if let Some(found) = &found {
                let [now, then] = [parsed(&found.dn)?, parsed(dn)?].map(|name| name.to_string());
                self.is_ahead |= !now.eq_ignore_ascii_case(&then);
            }
            self.queue.extend(found.map(|entry| Told::Entry(None, entry)));
            return Ok(());
        }
        let any = || Filter::Or(vec![Filter::Present("objectClass"), equal(CLASS, SUBENTRY)]);
        let mut found = self.find(dn, Scope::Base, any())?;
        if found.is_none() && change.number > 0 {
            // It may be called otherwise since, when what is above it was renamed.
            let names = match self.names.take() {
                Some((names, read)) if read.elapsed() < TURN_MAX => (names, read),
                _ => (Names::of(&mut self.connection)?, now()),
            };
            let (names, _) = self.names.insert(names);
            let now = names.now(&parsed(dn)?, change.number, Then::There).to_string();
            if now != dn {
                found = self.find(&now, Scope::Base, any())?;
                self.is_ahead |= found.is_some();
            }
        }
        self.queue.extend(found.map(|entry| Told::Entry(None, entry)));
        Ok(())
    }

    fn find(
        &mut self,
        base: &str,
        scope: Scope,
        filter: Filter<'_>,
    ) -> Result<Option<PlainEntry>, Failure> {
        self.find_among(base, scope, filter, false)
    }

    /// Finds an entry: a subentry, or any other one.
    fn find_among(
        &mut self,
        base: &str,
        scope: Scope,
        filter: Filter<'_>,
        subentries: bool,
    ) -> Result<Option<PlainEntry>, Failure> {
        let asked = SearchFor { scope, attributes: WANTED, ..SearchFor::below(base, filter) };
        let mut controls = ControlsBuf::new();
        controls.push(Control { oid: MANAGE_DSA_IT, critical: false, value: None });
        if subentries {
            controls.push(Control { oid: SUBENTRIES, critical: true, value: Some(VISIBLE) });
        }
        let mut found = None;
        let mut each = |answer: SearchAnswer<'_>| {
            if let SearchAnswer::Entry { dn, attributes } = answer {
                found = Some(plain(dn, attributes));
            }
            Ok::<_, Failure>(())
        };
        let outcome = self.connection.search_with(&asked, controls.as_ref(), &mut each)?;
        match outcome.code {
            ResultCode::Success | ResultCode::NoSuchObject => Ok(found),
            _ => Err(outcome
                .into_result("search")
                .map_or_else(Failure::from, |()| Failure::refused("the search has no end"))),
        }
    }
}

impl Source for LogSource {
    fn next(&mut self, pause: Duration) -> Result<Option<Told>, Failure> {
        if self.queue.is_empty() {
            match std::mem::replace(&mut self.reading, Reading::Log) {
                Reading::All { pass, cookie } => self.read_page(pass, &cookie)?,
                // Who follows has other things to do, such as to say that it is there still.
                Reading::Log => {
                    let until = now() + TURN_MAX;
                    self.tell_changes(until)?;
                    if self.is_told() && self.is_at_end {
                        wait(pause);
                    }
                    while self.is_told() && now() < until {
                        self.read_log()?;
                        self.tell_changes(until)?;
                        if self.is_at_end {
                            break;
                        }
                    }
                }
            }
        }
        let told = self.queue.pop_front();
        self.is_complete |= matches!(told, Some(Told::Complete { .. }));
        Ok(told)
    }

    fn position(&self) -> Option<Position> {
        self.is_complete.then(|| Position::Log(self.done.octets()))
    }

    fn is_there(&mut self, uuid: &Uuid) -> Result<bool, Failure> {
        has_entry(&mut self.connection, &self.base, uuid)
    }

    fn is_stale(&mut self, uuid: &Uuid) -> Result<bool, Failure> {
        Ok(!self.is_there(uuid)?)
    }

    /// Entries are read as they are by now.
    fn tells_in_order(&self) -> bool {
        false
    }

    fn has_told_ahead(&mut self) -> bool {
        let is_ahead = self.is_ahead;
        // What was read with it is told after it.
        self.is_ahead &= !self.is_told();
        is_ahead
    }

    fn end_within(&mut self, left: Option<Duration>) {
        self.connection.end_within(left);
    }

    fn questions(&mut self) -> Result<&mut Connection, Failure> {
        Ok(&mut self.connection)
    }

    fn tells_subentries(&self) -> bool {
        true
    }

    fn lag(&mut self) -> Result<Lag, Failure> {
        let (_, last) = ends(&mut self.connection)?;
        let is_none = self.is_complete && self.is_told() && last == self.reached;
        let changes = match (&last, &self.done) {
            (LogPlace::Number(last), LogPlace::Number(done)) => Some(last.saturating_sub(*done)),
            // How many a cookie stands for is not known: few, when the end was seen just now.
            _ => self.is_at_end.then_some(1),
        };
        Ok(Lag { seconds: None, changes, is_none })
    }
}

/// The first number of the change log, if it has numbers, and its end.
fn ends(connection: &mut Connection) -> Result<(Option<u64>, LogPlace), Failure> {
    let attributes = [LAST_COOKIE, "firstChangeNumber", "lastChangeNumber"];
    let asked = SearchFor {
        scope: Scope::Base,
        attributes: &attributes,
        ..SearchFor::below("", Filter::Present("objectClass"))
    };
    let found = connection.search(&asked)?;
    let entry = found.entries.first();
    let text = |name: &str| entry.and_then(|entry| entry.text(name)).map(str::to_owned);
    let number = |name: &str| text(name).and_then(|text| text.parse::<u64>().ok());
    if let Some(cookie) = text(LAST_COOKIE) {
        return Ok((None, LogPlace::Cookie(cookie)));
    }
    match number("lastChangeNumber") {
        Some(last) => Ok((number("firstChangeNumber"), LogPlace::Number(last))),
        None => Err(Failure::refused("the source has no change log that this entry may see").hint(
            "switch on the retro change log ('dsconf INSTANCE plugin retro-changelog enable' and \
             a restart of 389), or the replication of OpenDJ, or bind there as the administrator",
        )),
    }
}

/// How far one may go on from a number: over those that were found, and over others as far as they
/// are `settled`. A number that is not found may be that of a change that is not made yet.
fn passable(number: u64, until: u64, found: &[u64], settled: u64) -> u64 {
    let mut at = number;
    for &one in found {
        if one > at.saturating_add(1).max(settled.saturating_add(1)) {
            break;
        }
        at = at.max(one);
    }
    at.max(settled.min(until))
}

/// Counts what one answer takes in memory: a source that does not end would take all.
fn count(bytes: &mut usize, answer: &SearchAnswer<'_>) -> Result<(), Failure> {
    *bytes += answer.bytes();
    match *bytes > PAGE_MAX_BYTES {
        true => {
            let why = format!("the source sends more than {} MiB at once", PAGE_MAX_BYTES >> 20);
            Err(Failure::refused(why)
                .hint(format!("it was asked for {PAGE_ENTRIES} entries at a time (RFC 2696)")))
        }
        false => Ok(()),
    }
}

fn equal<'a>(description: &'a str, value: &'a str) -> Filter<'a> {
    Filter::Equality(AvaFilter { description, value: value.as_bytes().into() })
}

const ANEW: &str = "the change log of the source has begun anew";
const LAST_COOKIE: &str = "lastExternalChangelogCookie";
const CLASS: &str = "objectClass";
const SUBENTRY: &str = "ldapSubEntry";
/// What is asked for of entries; some servers show their identity to who names it alone.
const WANTED: &[&str] = &["*", "+", "entryUUID", "nsUniqueId", "aci", "ref"];
/// What is asked for of changes.
const OF_CHANGES: &[&str] = &["*", "+", "targetEntryUUID", "targetUniqueId", "changeLogCookie"];
/// A number without a change that is there for so long, though the source told of it or of later
/// ones, is of no change: 389 tells of numbers before their changes are made.
const HOLE_AFTER: Duration = Duration::from_secs(5);
/// The longest that one looks for something to tell of.
const TURN_MAX: Duration = Duration::from_secs(1);
/// Changes that are read at a time.
const CHANGES_MAX: u64 = 500;
const PAGE_ENTRIES: u32 = 500;
/// The most that is kept of one page of entries or changes.
const PAGE_MAX_BYTES: usize = 256 << 20;
/// RFC 3296 §3.
const MANAGE_DSA_IT: &str = "2.16.840.1.113730.3.4.2";
/// RFC 3672 §3.
const SUBENTRIES: &str = "1.3.6.1.4.1.4203.1.10.1";
/// The BOOLEAN TRUE.
const VISIBLE: &[u8] = b"\x01\x01\xFF";

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_is_missing_is_waited_for_until_it_is_settled() {
        assert_eq!(passable(7, 10, &[8, 9, 10], 0), 10);
        assert_eq!(passable(7, 10, &[8, 10], 0), 8);
        assert_eq!(passable(7, 10, &[], 0), 7);
        assert_eq!(passable(8, 12, &[10, 12], 10), 10);
        assert_eq!(passable(8, 12, &[10, 11, 12], 10), 12);
        assert_eq!(passable(8, 10, &[], 10), 10);
        assert_eq!(passable(8, 10, &[], 40), 10);
        assert_eq!(passable(10, 12, &[11, 12], 10), 12);
    }

    #[test]
    fn a_place_is_read_as_it_was_written() {
        for place in [LogPlace::Number(7), LogPlace::Cookie("dc=x:0001 2;".to_owned())] {
            assert_eq!(LogPlace::read(&place.octets()), Some(place));
        }
        assert_eq!(LogPlace::read(b"x"), None);
        assert_eq!(LogPlace::read(b"n-1"), None);
    }
}
