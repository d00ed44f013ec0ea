//! Makes entries here as they are wanted: over one connection, with many requests outstanding.
//!
//! Entries are found by their `entryUUID`; one that has another name is renamed, with all below
//! it. The server carries out updates of one connection in their order, but a search may overtake
//! them: what was found and is not so any more is looked for again.
//!
//! Invariant: nothing is begun for an entry before the last thing that was begun for it is over.
//! Invariant: what cannot be made yet, as an entry without its superior, waits and is tried again
//! by [`Applier::settle`]; what the server refuses is counted and told, and stops nothing.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use client::{Answer, Connection, FoundEntry, Outcome, Pipeline, Window};
use ldap::control_value::following;
use ldap::control_value::sync::uuid_of_text;
use ldap::dn::Dn;
use ldap::filter::{AvaFilter, Filter};
use ldap::message::{
    AddRequest, Control, ControlsBuf, DeleteRequest, DerefAliases, Modification, ModifyDnRequest,
    ModifyRequest, Request, Scope, SearchRequest, StringsBuf,
};
use ldap::result::ResultCode;
use schema::{DnKey, Schema};

use super::changes::changes;
use super::goal::{Counts, Goal, Renamed, Settle};
use super::line::lost;
use super::parked::{decode, encode, spill_failed};
use super::refused::Refused;
use super::source::Source;
use super::wanted::{Uuid, Wanted, key_of, other_name, settable, text_of_uuid};
use crate::diff::body::{Body, BodyWriter};
use crate::diff::entry::deletes_old_rdn;
use crate::diff::known::Attributes;
use crate::failure::Failure;
use crate::online::server::relax_rules;
use crate::online::wait;
use crate::online::waiting::{Taken, Waiting};

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Step {
    /// It is looked for by its identity.
    Look,
    /// It is looked for among subentries, which such a search shows to who asks for them alone.
    LookAmongSubentries,
    /// It is added; whether it is known that it is not there.
    Add {
        looked: bool,
    },
    /// The entry that has its name is looked at.
    LookByName,
    /// It is made as it is to be.
    Modify,
    Rename,
    Delete,
}

/// Where is searched.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Place {
    Entry,
    Below { subentries: bool },
}

struct Work {
    goal: Goal,
    step: Step,
    /// How often it was begun.
    turns: u32,
}

/// Carries changes to the server here.
pub(super) struct Applier {
    pipeline: Pipeline,
    /// The branch.
    base: String,
    key: DnKey,
    schema: Arc<Schema>,
    attributes: Attributes,
    /// Controls of updates, and of searches.
    of_updates: ControlsBuf,
    of_searches: ControlsBuf,
    under_way: HashMap<i32, Work>,
    busy: HashSet<Uuid>,
    next: VecDeque<Work>,
    parked: Waiting,
    /// Of what waits, the last thing for each entry; what came before it is void.
    last_parked: HashMap<Uuid, u64>,
    parkings: u64,
    /// What the server refused for what it is, not for what is missing or in its way.
    refused_for_good: HashSet<Uuid>,
    /// Whether all entries come, so that one in the place of another is that one made anew.
    pub(super) is_whole: bool,
    /// Whether the source may have told of later things, or of some that were done before.
    pub(super) is_behind: bool,
    /// Whether each thing is told as it was then, and not as it is by now.
    pub(super) tells_in_order: bool,
    /// An entry may be below another one than at the source: superiors are found by their names,
    /// which others may have had at that time.
    pub(super) is_unsure: bool,
    pub(super) counts: Counts,
    pub(super) refused: Refused,
}

impl Applier {
    /// Over a connection, for the session that follows with this name.
    pub(super) fn new(
        connection: Connection,
        base: &str,
        schema: &Arc<Schema>,
        session: &str,
        refused: Refused,
    ) -> Result<Self, Failure> {
        let window = Window { requests_max: REQUESTS_MAX, bytes_max: WINDOW_BYTES };
        let manage = Control { oid: MANAGE_DSA_IT, critical: true, value: None };
        let mut of_updates = relax_rules();
        of_updates.push(manage);
        let value = Some(session.as_bytes());
        of_updates.push(Control { oid: following::OID, critical: true, value });
        let mut of_searches = ControlsBuf::new();
        of_searches.push(manage);
        of_searches.push(Control { oid: REAL_ATTRIBUTES_ONLY, critical: true, value: None });
        Ok(Self {
            pipeline: Pipeline::new(connection, window),
            base: base.to_owned(),
            key: key_of(schema, base)?,
            schema: Arc::clone(schema),
            attributes: settable(schema),
            of_updates,
            of_searches,
            under_way: HashMap::new(),
            busy: HashSet::new(),
            next: VecDeque::new(),
            parked: Waiting::default(),
            last_parked: HashMap::new(),
            parkings: 0,
            refused_for_good: HashSet::new(),
            is_whole: false,
            is_behind: true,
            tells_in_order: false,
            is_unsure: false,
            counts: Counts::default(),
            refused,
        })
    }

    /// Has an entry be like this.
    pub(super) fn put(&mut self, wanted: Wanted) -> Result<(), Failure> {
        let step = if self.is_whole { Step::Add { looked: false } } else { Step::Look };
        self.forget(&wanted.uuid)?;
        let wrong = match key_of(&self.schema, &wanted.dn)?.is_within(&self.key) {
            // The source may tell of others; here they are no part of the branch.
            false => Some("it is not within the branch"),
            // The server would end the connection, and so it would be sent for ever.
            true if wanted.body.len() > ENTRY_MAX_BYTES => {
                Some("it is larger than a request may be")
            }
            true => None,
        };
        if let Some(wrong) = wrong {
            self.refuse_for_good(&Goal::Be(wanted), wrong);
            return Ok(());
        }
        self.begin(Work { goal: Goal::Be(wanted), step, turns: 0 })
    }

    /// What waits for an entry is void, also what is under way and is to wait.
    fn forget(&mut self, uuid: &Uuid) -> Result<(), Failure> {
        if self.busy.contains(uuid) {
            self.drain()?;
        }
        self.last_parked.remove(uuid);
        self.refused_for_good.remove(uuid);
        Ok(())
    }

    /// Whether the server would refuse it again.
    pub(super) fn is_refused(&self, uuid: &Uuid) -> bool {
        self.refused_for_good.contains(uuid)
    }

    /// Has the entry with this identity go.
    pub(super) fn remove(&mut self, uuid: Uuid) -> Result<(), Failure> {
        self.forget(&uuid)?;
        self.begin(Work { goal: Goal::Go(uuid), step: Step::Look, turns: 0 })
    }

    /// Has the entry of this name go, if there is one.
    pub(super) fn remove_name(&mut self, dn: &str) -> Result<(), Failure> {
        self.drain()?;
        self.is_unsure |= self.is_behind;
        let goal = Goal::GoByName(dn.to_owned());
        self.begin(Work { goal, step: Step::Delete, turns: 0 })
    }

    /// Has the entry of this name go with all below it, if there is one.
    pub(super) fn remove_tree_of_name(&mut self, dn: &str) -> Result<(), Failure> {
        self.drain()?;
        self.is_unsure = true;
        let goal = Goal::GoWithAllBelow(dn.to_owned());
        self.begin(Work { goal, step: Step::Delete, turns: 0 })?;
        self.drain()
    }

    /// Has the entry with this identity go with all below it.
    pub(super) fn remove_tree(&mut self, uuid: Uuid) -> Result<(), Failure> {
        self.forget(&uuid)?;
        self.drain()?;
        self.begin(Work { goal: Goal::GoTree(uuid), step: Step::Look, turns: 0 })?;
        self.drain()
    }

    /// Renames the entry of this name, if there is one and it is that one.
    pub(super) fn rename(&mut self, renamed: Renamed) -> Result<(), Failure> {
        self.drain()?;
        if let Some(uuid) = renamed.uuid
            && self.uuid_here(&renamed.dn)?.is_some_and(|other| other != uuid)
        {
            return Ok(());
        }
        let goal = Goal::Rename(renamed);
        self.begin(Work { goal, step: Step::Rename, turns: 0 })?;
        self.drain()
    }

    /// Whether something is outstanding.
    pub(super) fn is_busy(&self) -> bool {
        !self.under_way.is_empty() || !self.next.is_empty()
    }

    /// What could not be made yet.
    pub(super) fn parked(&self) -> usize {
        self.last_parked.len()
    }

    /// Of which entries something could not be made yet.
    pub(super) fn who_waits(&self) -> HashSet<Uuid> {
        self.last_parked.keys().copied().collect()
    }

    /// What waits is void: what it was for is told of again, or is done.
    pub(super) fn forget_all(&mut self) {
        self.last_parked.clear();
        self.parked = Waiting::default();
    }

    /// Waits until nothing is outstanding.
    pub(super) fn drain(&mut self) -> Result<(), Failure> {
        loop {
            self.make_room()?;
            if !self.take_answer()? && self.next.is_empty() {
                return Ok(());
            }
        }
    }

    /// Tries again what waits, as long as that helps, and does what else is allowed.
    pub(super) fn settle(&mut self, source: &mut dyn Source, how: Settle) -> Result<(), Failure> {
        self.drain()?;
        let mut has_displaced = false;
        while self.parked() > 0 {
            let before = self.parked();
            let mut taken = self.taken()?;
            while let Some((goal, _)) = self.next_parked(&mut taken)? {
                if let Goal::Be(Wanted { uuid, .. }) = &goal
                    && source.is_stale(uuid)?
                {
                    continue;
                }
                self.begin(Work { goal, step: Step::Look, turns: 0 })?;
            }
            self.drain()?;
            if self.parked() < before {
                continue;
            }
            match (how, has_displaced) {
                (Settle::Try, _) | (Settle::Displace, true) => return Ok(()),
                (Settle::Displace | Settle::Last, false) => {
                    has_displaced = true;
                    self.displace(source)?;
                }
                (Settle::Last, true) => {
                    let mut taken = self.taken()?;
                    while let Some((goal, reason)) = self.next_parked(&mut taken)? {
                        self.refuse(&goal, &reason);
                    }
                }
            }
        }
        Ok(())
    }

    /// What waits; what is to wait again comes behind it.
    fn taken(&mut self) -> Result<Taken, Failure> {
        self.parked.take().map_err(|error| spill_failed(&error))
    }

    /// The next of it that is not void, and why it waits.
    fn next_parked(&mut self, taken: &mut Taken) -> Result<Option<(Goal, String)>, Failure> {
        for octets in taken {
            let parked = decode(&octets.map_err(|error| spill_failed(&error))?)?;
            let Some(uuid) = parked.goal.uuid() else { continue };
            if self.last_parked.get(&uuid) == Some(&parked.number) {
                self.last_parked.remove(&uuid);
                return Ok(Some((parked.goal, parked.reason)));
            }
        }
        Ok(None)
    }

    /// Has entries that are in the way of what waits go, or gives them other names.
    fn displace(&mut self, source: &mut dyn Source) -> Result<(), Failure> {
        let mut taken = self.taken()?;
        while let Some((goal, reason)) = self.next_parked(&mut taken)? {
            if let Goal::Be(wanted) = &goal
                && let Some(other) = self.uuid_here(&wanted.dn)?
                && other != wanted.uuid
            {
                let is_there = source.is_there(&other)?;
                if !is_there {
                    self.begin(Work { goal: Goal::Go(other), step: Step::Look, turns: 0 })?;
                    self.drain()?;
                }
                // It may hold others that have another place.
                if is_there || self.last_parked.contains_key(&other) {
                    let new_rdn = other_name(&wanted.dn, &other);
                    let (uuid, dn, new_superior) = (Some(other), wanted.dn.clone(), None);
                    let delete_old_rdn = false;
                    self.rename(Renamed { uuid, dn, new_rdn, delete_old_rdn, new_superior })?;
                    self.is_unsure = true;
                }
            }
            self.park(&goal, &reason)?;
        }
        Ok(())
    }

    /// The identity of the entry of this name, if there is one.
    fn uuid_here(&mut self, dn: &str) -> Result<Option<Uuid>, Failure> {
        self.drain()?;
        self.search(dn, Place::Entry, Filter::Present("objectClass"))?;
        let answer = self.pipeline.answer()?;
        let entry = answer.iter().flat_map(|answer| &answer.entries).next();
        let text = entry.and_then(|entry| entry.text("entryUUID"));
        Ok(text.and_then(|text| uuid_of_text(text.as_bytes())))
    }

    fn begin(&mut self, work: Work) -> Result<(), Failure> {
        if let Some(uuid) = work.goal.uuid() {
            if self.busy.contains(&uuid) {
                self.drain()?;
            }
            self.busy.insert(uuid);
        }
        self.make_room()?;
        self.send(work)
    }

    /// Until something new may be sent.
    fn make_room(&mut self) -> Result<(), Failure> {
        loop {
            if !self.pipeline.has_room() {
                self.take_answer()?;
            } else if let Some(work) = self.next.pop_front() {
                self.send(work)?;
            } else {
                return Ok(());
            }
        }
    }

    fn send(&mut self, mut work: Work) -> Result<(), Failure> {
        work.turns += 1;
        if let (Goal::Be(wanted), Step::Add { .. }) = (&work.goal, work.step) {
            self.make_way(wanted.body.len())?;
        }
        let updates = self.of_updates.as_ref();
        let id = match (&work.goal, work.step) {
            (Goal::Be(wanted), Step::Add { .. }) => {
                let attributes = wanted.attributes()?;
                let request = AddRequest { name: &wanted.dn, attributes: attributes.as_ref() };
                self.pipeline.send(Request::Add(request), updates)?
            }
            (
                Goal::Be(Wanted { uuid, .. }) | Goal::Go(uuid) | Goal::GoTree(uuid),
                step @ (Step::Look | Step::LookAmongSubentries),
            ) => {
                let subentries = step == Step::LookAmongSubentries;
                let uuid = text_of_uuid(uuid);
                let value = uuid.as_bytes().into();
                let filter = Filter::Equality(AvaFilter { description: "entryUUID", value });
                self.search(&self.base.clone(), Place::Below { subentries }, filter)?
            }
            (Goal::Be(wanted), Step::LookByName) => {
                self.search(&wanted.dn, Place::Entry, Filter::Present("objectClass"))?
            }
            (Goal::Rename(renamed), _) => {
                let request = ModifyDnRequest {
                    name: &renamed.dn,
                    new_rdn: &renamed.new_rdn,
                    delete_old_rdn: renamed.delete_old_rdn,
                    new_superior: renamed.new_superior.as_deref(),
                };
                self.pipeline.send(Request::ModifyDn(request), updates)?
            }
            (Goal::GoByName(name), _) => {
                self.pipeline.send(Request::Delete(DeleteRequest { name }), updates)?
            }
            (Goal::GoWithAllBelow(name), _) => {
                let mut controls: ControlsBuf = updates.iter().collect();
                controls.push(Control { oid: TREE_DELETE, critical: true, value: None });
                let request = Request::Delete(DeleteRequest { name });
                self.pipeline.send(request, controls.as_ref())?
            }
            (
                Goal::Be(_) | Goal::Go(_) | Goal::GoTree(_),
                Step::Modify | Step::Rename | Step::Delete,
            )
            | (Goal::Go(_) | Goal::GoTree(_), Step::Add { .. } | Step::LookByName) => {
                return Err(Failure::local("a step of following comes out of order"));
            }
        };
        self.under_way.insert(id.0, work);
        Ok(())
    }

    /// Before a large request, answers are read: a server that cannot send what was searched for
    /// reads nothing, and so neither side would.
    fn make_way(&mut self, bytes: usize) -> Result<(), Failure> {
        if bytes > LARGE_BYTES {
            while self.take_answer()? {}
        }
        Ok(())
    }

    fn search(
        &mut self,
        base: &str,
        place: Place,
        filter: Filter<'_>,
    ) -> Result<ldap::message::MessageId, Failure> {
        let scope = if place == Place::Entry { Scope::Base } else { Scope::Subtree };
        let mut controls: ControlsBuf = self.of_searches.as_ref().iter().collect();
        if place == (Place::Below { subentries: true }) {
            controls.push(Control { oid: SUBENTRIES, critical: true, value: Some(VISIBLE) });
        }
        let mut attributes = StringsBuf::new();
        ["*", "+", "ref"].iter().for_each(|one| attributes.push(one));
        let request = SearchRequest {
            base,
            scope,
            deref: DerefAliases::Never,
            size_limit_entries: 2,
            time_limit_s: 0,
            types_only: false,
            filter,
            attributes: attributes.as_ref(),
        };
        Ok(self.pipeline.send(Request::Search(request), controls.as_ref())?)
    }

    /// Takes one answer; says whether there was one to wait for.
    fn take_answer(&mut self) -> Result<bool, Failure> {
        let Some(answer) = self.pipeline.answer()? else { return Ok(false) };
        let Some(work) = self.under_way.remove(&answer.id.0) else { return Ok(true) };
        if answer.outcome.code == ResultCode::Busy {
            self.next.push_back(work);
            if self.pipeline.outstanding() == 0 {
                wait(BUSY_WAIT);
            }
            return Ok(true);
        }
        if answer.outcome.code == ResultCode::UnwillingToPerform
            && answer.outcome.diagnostic.starts_with(SESSION_IS_LOST)
        {
            return Err(lost());
        }
        if is_passing(answer.outcome.code) {
            // Nobody knows whether it was done: from the last position on it is done again.
            let failure = Failure::refused(format!("the server here cannot: {}", answer.outcome));
            return Err(Failure { is_passing: true, ..failure });
        }
        self.answered(work, answer)?;
        Ok(true)
    }

    fn answered(&mut self, mut work: Work, answer: Answer) -> Result<(), Failure> {
        let outcome = answer.outcome;
        let (code, is_success) = (outcome.code, outcome.is_success());
        match (&work.goal, work.step) {
            (Goal::Be(_), Step::Add { .. }) if is_success => {
                self.counts.added += 1;
                self.over(&work.goal);
            }
            // Its name is taken, or its identity.
            (Goal::Be(_), Step::Add { looked: false })
                if matches!(
                    code,
                    ResultCode::EntryAlreadyExists | ResultCode::ConstraintViolation
                ) =>
            {
                self.again(work, Step::Look);
            }
            (Goal::Be(_), Step::Add { looked: true })
                if code == ResultCode::EntryAlreadyExists && self.is_whole =>
            {
                self.again(work, Step::LookByName);
            }
            (Goal::Be(_), Step::Add { .. })
                if matches!(code, ResultCode::EntryAlreadyExists | ResultCode::NoSuchObject) =>
            {
                self.park(&work.goal, &outcome.to_string())?;
            }
            (Goal::Be(_) | Goal::Go(_) | Goal::GoTree(_), Step::Look)
                if is_success && answer.entries.is_empty() =>
            {
                self.again(work, Step::LookAmongSubentries);
            }
            (Goal::Be(_), Step::Look | Step::LookAmongSubentries | Step::LookByName)
                if is_success =>
            {
                match answer.entries.into_iter().next() {
                    Some(found) => self.found(work, &found)?,
                    None => self.again(work, Step::Add { looked: true }),
                }
            }
            // Where the branch itself is not there, nothing of it is.
            (Goal::Be(_), Step::Look | Step::LookAmongSubentries | Step::LookByName)
                if code == ResultCode::NoSuchObject =>
            {
                self.again(work, Step::Add { looked: true });
            }
            (Goal::Be(_), Step::Modify) if is_success => {
                self.counts.modified += 1;
                self.over(&work.goal);
            }
            (Goal::Be(_), Step::Rename) if is_success => {
                self.counts.renamed += 1;
                self.is_unsure |= self.is_behind || !self.tells_in_order;
                work.turns = 0;
                self.again(work, Step::Look);
            }
            (Goal::Be(_), Step::Rename)
                if matches!(code, ResultCode::EntryAlreadyExists | ResultCode::NoSuchObject)
                    && work.turns > 1 =>
            {
                self.park(&work.goal, &outcome.to_string())?;
            }
            // The one that is to be above it is to come out first.
            (Goal::Be(_), Step::Rename) if outcome.diagnostic.starts_with(BELOW_ITSELF) => {
                self.park(&work.goal, &outcome.to_string())?;
            }
            // It is not as it was found any more.
            (
                Goal::Be(_) | Goal::Go(_) | Goal::GoTree(_),
                Step::Modify | Step::Rename | Step::Delete,
            ) if is_stale(code) && work.turns < TURNS_MAX => {
                self.again(work, Step::Look);
            }
            // It was made before, or there is nothing to rename.
            (Goal::Rename(_), _)
                if is_success
                    || matches!(
                        code,
                        ResultCode::NoSuchObject | ResultCode::EntryAlreadyExists
                    ) =>
            {
                self.counts.renamed += u64::from(is_success);
                self.is_unsure |= is_success && self.is_behind;
            }
            (Goal::Be(_) | Goal::Rename(_), _) => {
                self.refuse_for_good(&work.goal, &outcome.to_string());
                self.over(&work.goal);
            }
            (Goal::Go(_) | Goal::GoTree(_) | Goal::GoByName(_) | Goal::GoWithAllBelow(_), _) => {
                return self.answered_to_go(work, &outcome, answer.entries.first());
            }
        }
        Ok(())
    }

    /// What comes of what is to go.
    fn answered_to_go(
        &mut self,
        work: Work,
        outcome: &Outcome,
        found: Option<&FoundEntry>,
    ) -> Result<(), Failure> {
        let (code, is_success) = (outcome.code, outcome.is_success());
        match (&work.goal, work.step) {
            (Goal::Go(_) | Goal::GoTree(_), Step::Look | Step::LookAmongSubentries)
                if code == ResultCode::NoSuchObject =>
            {
                self.over(&work.goal);
            }
            (Goal::Go(_) | Goal::GoTree(_), Step::Look | Step::LookAmongSubentries)
                if is_success =>
            {
                self.go(work, found)?;
            }
            (
                Goal::Go(_) | Goal::GoTree(_) | Goal::GoByName(_) | Goal::GoWithAllBelow(_),
                Step::Delete,
            ) if is_success || code == ResultCode::NoSuchObject => {
                self.counts.deleted += u64::from(is_success);
                self.over(&work.goal);
            }
            (Goal::Go(_), Step::Delete) if code == ResultCode::NotAllowedOnNonLeaf => {
                self.park(&work.goal, &outcome.to_string())?;
            }
            _ => {
                self.refuse(&work.goal, &outcome.to_string());
                self.over(&work.goal);
            }
        }
        Ok(())
    }

    /// The entry that is to go was found, or is not there.
    fn go(&mut self, mut work: Work, found: Option<&FoundEntry>) -> Result<(), Failure> {
        let Some(found) = found else {
            self.over(&work.goal);
            return Ok(());
        };
        let request = Request::Delete(DeleteRequest { name: &found.dn });
        work.step = Step::Delete;
        work.turns += 1;
        let mut controls: ControlsBuf = self.of_updates.as_ref().iter().collect();
        if matches!(work.goal, Goal::GoTree(_)) {
            controls.push(Control { oid: TREE_DELETE, critical: true, value: None });
        }
        let id = self.pipeline.send(request, controls.as_ref())?;
        self.under_way.insert(id.0, work);
        Ok(())
    }

    /// The entry was found, or one that has its name: it is renamed, or made as it is to be.
    fn found(&mut self, mut work: Work, found: &FoundEntry) -> Result<(), Failure> {
        let Goal::Be(wanted) = &work.goal else { return Ok(()) };
        let updates = self.of_updates.as_ref();
        if key_of(&self.schema, &found.dn)? != key_of(&self.schema, &wanted.dn)? {
            let dn = Dn::parse(&wanted.dn).map_err(Failure::refused)?;
            let above = dn.parent().unwrap_or_default().to_string();
            let only = |one: &ldap::dn::Rdn| Dn::default().child(one.clone()).to_string();
            let new_rdn = dn.rdns().first().map(only).unwrap_or_default();
            let mut had = Vec::new();
            let _ = BodyWriter::new(&mut had, &[], &found.dn);
            let (had, body) = (Body::read(&had)?, Body::read(&wanted.body)?);
            let delete_old_rdn = deletes_old_rdn(&body, &had, &mut self.attributes);
            let request = ModifyDnRequest {
                name: &found.dn,
                new_rdn: &new_rdn,
                delete_old_rdn,
                new_superior: Some(&above),
            };
            let id = self.pipeline.send(Request::ModifyDn(request), updates)?;
            work.step = Step::Rename;
            self.under_way.insert(id.0, work);
            return Ok(());
        }
        let changes = changes(wanted, found, &mut self.attributes)?;
        if changes.as_ref().iter().next().is_none() {
            self.counts.unchanged += 1;
            self.over(&work.goal);
            return Ok(());
        }
        let octets = |one: Modification<'_>| one.attribute.values.iter().map(<[u8]>::len).sum();
        let bytes: usize = changes.as_ref().iter().map::<usize, _>(octets).sum();
        if bytes > ENTRY_MAX_BYTES {
            self.refuse_for_good(&work.goal, "the change is larger than a request may be");
            self.over(&work.goal);
            return Ok(());
        }
        self.make_way(bytes)?;
        let request = ModifyRequest { name: &found.dn, changes: changes.as_ref() };
        let id = self.pipeline.send(Request::Modify(request), self.of_updates.as_ref())?;
        work.step = Step::Modify;
        self.under_way.insert(id.0, work);
        Ok(())
    }

    fn again(&mut self, mut work: Work, step: Step) {
        work.step = step;
        self.next.push_back(work);
    }

    fn over(&mut self, goal: &Goal) {
        if let Some(uuid) = goal.uuid() {
            self.busy.remove(&uuid);
        }
    }

    fn park(&mut self, goal: &Goal, reason: &str) -> Result<(), Failure> {
        self.over(goal);
        self.parkings += 1;
        if let Some(uuid) = goal.uuid() {
            self.last_parked.insert(uuid, self.parkings);
        }
        let octets = encode(goal, reason, self.parkings);
        self.parked.push(&octets).map_err(|error| spill_failed(&error))
    }

    /// Refuses what would be refused again.
    fn refuse_for_good(&mut self, goal: &Goal, reason: &str) {
        if let Goal::Be(Wanted { uuid, .. }) = goal
            && self.refused_for_good.len() < REFUSED_MAX
        {
            self.refused_for_good.insert(*uuid);
        }
        self.refuse(goal, reason);
    }

    fn refuse(&mut self, goal: &Goal, reason: &str) {
        match goal {
            Goal::Be(wanted) => self.refused.note(&wanted.dn, reason, Some(&wanted.text())),
            Goal::Go(uuid) | Goal::GoTree(uuid) => {
                self.refused.note(&text_of_uuid(uuid), reason, None);
            }
            Goal::GoByName(dn) | Goal::GoWithAllBelow(dn) | Goal::Rename(Renamed { dn, .. }) => {
                self.refused.note(dn, reason, None)
            }
        }
    }
}

/// Whether an outcome says nothing about the change itself: the server ends, whoever takes the
/// writes of its cluster does not answer, or is another one by now.
fn is_passing(code: ResultCode) -> bool {
    matches!(code, ResultCode::Unavailable | ResultCode::Other | ResultCode::Referral)
}

fn is_stale(code: ResultCode) -> bool {
    matches!(
        code,
        ResultCode::NoSuchObject
            | ResultCode::NoSuchAttribute
            | ResultCode::AttributeOrValueExists
            | ResultCode::EntryAlreadyExists
    )
}

/// What a server says to a session that does not follow any more.
const SESSION_IS_LOST: &str = "the session does not follow";
/// What it says of a new superior that is below the entry.
const BELOW_ITSELF: &str = "an entry cannot be moved below itself";
/// Entries whose refusal is remembered.
const REFUSED_MAX: usize = 100_000;
/// RFC 3672 §3.
const SUBENTRIES: &str = "1.3.6.1.4.1.4203.1.10.1";
/// The BOOLEAN TRUE.
const VISIBLE: &[u8] = b"\x01\x01\xFF";
/// That all below an entry is deleted with it.
const TREE_DELETE: &str = "1.2.840.113556.1.4.805";
/// RFC 3296 §3.
const MANAGE_DSA_IT: &str = "2.16.840.1.113730.3.4.2";
const REAL_ATTRIBUTES_ONLY: &str = "2.16.840.1.113730.3.4.17";
/// The most requests outstanding; servers stop reading at a number of their own (roster: 64).
const REQUESTS_MAX: usize = 64;
/// The most octets of them.
const WINDOW_BYTES: usize = 8 << 20;
/// The largest entry that is sent: a request may have 16 MiB, with some room for its frame.
const ENTRY_MAX_BYTES: usize = (16 << 20) - (64 << 10);
/// A request beyond that may not fit into the buffers of the way; 64 smaller ones do.
const LARGE_BYTES: usize = 16 << 10;
/// What changes under the hands of who looks for it is looked for so often.
const TURNS_MAX: u32 = 8;
/// How long a server that is busy is left alone.
const BUSY_WAIT: std::time::Duration = std::time::Duration::from_millis(200);
