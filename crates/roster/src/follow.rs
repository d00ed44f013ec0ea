//! Following another LDAP server until one switches over: `roster follow`.
//!
//! A source tells what it has and what changes (`source`; `sync` is that of RFC 4533, `changelog`
//! that of a change log), `wanted` translates it, `apply` makes it so here. How far it has come
//! stands in the directory here (`line`): after a break it goes on from there, and does twice what
//! it had done since, which changes nothing. `rest` deletes what the source has not, `freeze` has
//! the source take no more changes when one switches over.
//!
//! Invariant: a position is noted only when everything before it is done here.
//! Invariant: whoever is not named in the line changes nothing in the branch.

mod apply;
mod changelog;
mod changes;
mod freeze;
mod goal;
mod line;
mod names;
mod parked;
mod refused;
mod rest;
mod source;
mod sync;
mod told;
mod wanted;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use client::Connection;
use ldap::dn::Dn;
use schema::{DnKey, Schema};

use self::apply::Applier;
use self::changelog::LogSource;
use self::freeze::Frozen;
use self::goal::Settle;
use self::line::{BEAT_EVERY, Begun, Claim, Held, Position};
use self::names::Names;
use self::refused::Refused;
use self::rest::Seen;
use self::source::{Lag, Source, Told};
use self::sync::SyncSource;
use self::told::Teller;
use self::wanted::{Renaming, Translation, key_of};
use crate::connect::Login;
use crate::diff::rules_of;
use crate::failure::Failure;
use crate::interrupt;
use crate::online::server::Server;
use crate::online::{now, wait};
use crate::output;

/// What is asked for.
pub(crate) struct Asked {
    /// The server here.
    pub(crate) here: Login,
    pub(crate) there: Login,
    /// The branch of the source, and what it is called here.
    pub(crate) from: Dn,
    pub(crate) to: Dn,
    /// Everything is compared, wherever one is.
    pub(crate) refresh: bool,
    /// What the branch holds here may go.
    pub(crate) replace: bool,
    /// Who follows by now is to end.
    pub(crate) take_over: bool,
    /// Clients here are sent to the source with their changes.
    pub(crate) refers: bool,
    pub(crate) cut_over: Option<CutOver>,
    pub(crate) way: Way,
    pub(crate) reject_file: Option<PathBuf>,
}

/// How a source is followed.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub(crate) enum Way {
    /// As it can be: by content synchronisation, else by its change log
    Auto,
    /// By content synchronisation (RFC 4533), as of OpenLDAP
    Sync,
    /// By its change log, as of 389 and OpenDJ
    Changelog,
}

/// How one switches over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CutOver {
    /// It was made so that it takes no changes.
    pub(crate) is_frozen: bool,
    /// The longest that nobody takes changes; then the source takes them again.
    pub(crate) within: Duration,
}

/// How following has ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum End {
    /// Here are the changes made now.
    CutOver,
    /// It was asked to end.
    Interrupted,
}

/// Follows until it is asked to end, or has switched over.
pub(crate) fn follow(asked: &Asked, interrupted: &AtomicBool) -> Result<(), Failure> {
    let mut connection = asked.here.connect()?;
    let schema = schema_of(&mut connection)?;
    let branch = asked.to.to_string();
    let key = key_of(&schema, &branch)?;
    if asked.cut_over.is_some_and(|how| !how.is_frozen) {
        // Before whoever follows is asked to end.
        Frozen::look(&asked.there, &asked.from.to_string())?;
    }
    let held = claim(asked, &mut connection, &schema, &key)?;
    let refused = Refused::new(asked.reject_file.as_deref())?;
    let goes_on = held.position().is_some() && !asked.refresh;
    let mut following = Following {
        asked,
        schema,
        held,
        refused: Some(refused),
        teller: Teller::new(),
        refreshes: asked.refresh,
        // Whoever followed before may not have compared what he was unsure of.
        is_unsure: goes_on,
        has_told_of_place: false,
        frozen: None,
        has_lifted: false,
        interrupted,
    };
    let ended = following.through_breaks(connection);
    following.teller.end();
    if let Some(refused) = &following.refused {
        refused.tell();
    }
    // What the source says is in it, and must not look like lines of this program.
    ended.map_err(|failure| Failure {
        message: output::within_line(&failure.message).into_owned(),
        ..failure
    })
}

/// Has one server stop to follow, and take changes.
pub(crate) fn end(here: &Login, branch: &Dn) -> Result<(), Failure> {
    let mut connection = here.connect()?;
    let schema = schema_of(&mut connection)?;
    let key = key_of(&schema, &branch.to_string())?;
    match line::end(&mut connection, &schema, &key)? {
        Some(source) => {
            output::line(format_args!("{branch} does not follow {source} any more"))?;
            Ok(())
        }
        None => Err(Failure::refused(format!("{branch} follows no server"))),
    }
}

/// The schema here: what the server shows, and what every server has.
fn schema_of(connection: &mut Connection) -> Result<Arc<Schema>, Failure> {
    let builtin = Schema::builtin();
    Ok(rules_of::of_server(connection, &builtin)?.unwrap_or(builtin))
}

/// The right to change the branch.
fn claim(
    asked: &Asked,
    connection: &mut Connection,
    schema: &Arc<Schema>,
    key: &DnKey,
) -> Result<Held, Failure> {
    let branch = asked.to.to_string();
    if let Some(line) = Held::look(connection, schema, key)? {
        if line.source != asked.there.uri() {
            output::note(format_args!(
                "roster: note: it followed {} before, which must be the same directory",
                line.source
            ));
        }
        let claim = match asked.take_over || asked.cut_over.is_some() {
            true => Claim::InAnyCase,
            false => Claim::IfFree,
        };
        return Held::take(connection, line, schema, key, claim);
    }
    if asked.cut_over.is_some() {
        let why = format!("{branch} follows no server, so there is nothing to switch over");
        return Err(Failure::refused(why).hint("begin with 'roster follow' without --cut-over"));
    }
    let is_top = Server::look(connection)?
        .contexts
        .iter()
        .any(|context| DnKey::from_text(schema, context).is_ok_and(|context| context == *key));
    let may_hold_others = !is_top || !Server::is_bare(connection, &branch)?;
    if may_hold_others && !asked.replace {
        let why = format!("{branch} holds entries, and those that the source has not would go");
        return Err(Failure::refused(why).hint("run it with --replace if they may"));
    }
    let begun = Begun { branch: &branch, source: asked.there.uri(), refers: asked.refers };
    Held::begin(connection, begun, schema, key)
}

/// Following under way.
struct Following<'f> {
    asked: &'f Asked,
    schema: Arc<Schema>,
    held: Held,
    /// None while the applier has it.
    refused: Option<Refused>,
    teller: Teller,
    refreshes: bool,
    /// The names here are to be compared with those of the source.
    is_unsure: bool,
    /// That no position can be noted.
    has_told_of_place: bool,
    /// The source takes no changes since then.
    frozen: Option<(Instant, Option<Frozen>)>,
    /// It was asked for that changes be made here, whatever became of it.
    has_lifted: bool,
    interrupted: &'f AtomicBool,
}

impl Following<'_> {
    /// Goes on after each break, until there is an end or something that time does not heal.
    fn through_breaks(&mut self, mut connection: Connection) -> Result<(), Failure> {
        let mut pause = PAUSE_MIN;
        loop {
            let begun = now();
            let failure = match self.attempt(&mut connection) {
                Ok(End::Interrupted) => return self.leave(&mut connection).map(drop),
                Ok(End::CutOver) => return Ok(()),
                Err(failure) => failure,
            };
            if sync::is_begin_anew(&failure) {
                self.refreshes = true;
            } else if !failure.is_passing {
                return self.fail(&mut connection, failure);
            }
            if begun.elapsed() > PAUSE_MAX {
                pause = PAUSE_MIN;
            }
            self.teller.note(format_args!(
                "{}; trying again in {:.0} s",
                failure.message,
                pause.as_secs_f64().ceil()
            ));
            let until = now() + pause;
            pause = (pause * 2).min(PAUSE_MAX);
            while now() < until {
                if self.is_interrupted() {
                    let _ = self.leave(&mut connection);
                    return Ok(());
                }
                if let Some(failure) = self.overdue() {
                    return self.fail(&mut connection, failure);
                }
                wait(TICK_MIN);
            }
            // Its place is kept by beats only while it is connected: another one may take it.
            if let Ok(other) = self.asked.here.connect() {
                connection = other;
                // The answer to the last step may be what was lost.
                if self.has_lifted && matches!(self.held.is_there(&mut connection), Ok(false)) {
                    self.has_switched();
                    return Ok(());
                }
            }
        }
    }

    /// Ends with a failure, unless it shows that changes are made here already.
    fn fail(&mut self, connection: &mut Connection, failure: Failure) -> Result<(), Failure> {
        // That this is told matters more than what comes of the leaving.
        match self.leave(connection) {
            Ok(End::CutOver) => Ok(()),
            Ok(End::Interrupted) | Err(_) => Err(failure),
        }
    }

    /// Has whoever comes next not wait, and the source take changes again if it was this that made
    /// it take none. It must not where changes are made here, or may be: the line decides, and
    /// once it was changed anew, what was asked for before has no effect any more.
    fn leave(&mut self, connection: &mut Connection) -> Result<End, Failure> {
        let mut released = self.held.release(connection);
        if self.frozen.is_none() {
            return released.map(|()| End::Interrupted);
        }
        if released.as_ref().is_err_and(|failure| failure.is_passing) {
            released = self.asked.here.connect().and_then(|mut it| self.held.release(&mut it));
        }
        match released {
            Err(failure) if line::is_gone(&failure) => {
                self.has_switched();
                return Ok(End::CutOver);
            }
            Err(failure) if line::is_lost(&failure) => {
                self.teller.note(format_args!(
                    "the source may be read-only still: that is up to whoever follows now"
                ));
                return Err(failure);
            }
            Err(failure) if self.has_lifted => {
                self.teller.note(format_args!(
                    "it is not known whether changes are made here, so the source stays \
                     read-only: make it writable by hand if the branch here follows still"
                ));
                return Err(failure);
            }
            Ok(()) | Err(_) => {}
        }
        self.thaw();
        Ok(End::Interrupted)
    }

    /// Says that changes are made here, of which the answer was lost.
    fn has_switched(&mut self) {
        if let Some((since, _)) = self.frozen.take() {
            self.teller.switched(since.elapsed(), self.refused.as_ref().map_or(0, |it| it.count));
        }
    }

    /// That nobody takes changes for longer than is allowed.
    fn overdue(&self) -> Option<Failure> {
        let within = self.asked.cut_over?.within;
        let (since, _) = self.frozen.as_ref()?;
        (since.elapsed() > within).then(|| {
            let seconds = within.as_secs();
            Failure::refused(format!("the lag did not end within {seconds} s"))
                .hint("nothing was switched over: the source takes changes, and here none")
        })
    }

    /// What is left of the time for which nobody takes changes, while that is so.
    fn left(&self) -> Option<Duration> {
        let within = self.asked.cut_over?.within;
        let (since, _) = self.frozen.as_ref()?;
        Some(within.saturating_sub(since.elapsed()) + TICK)
    }

    fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// Follows over one connection to each side.
    fn attempt(&mut self, connection: &mut Connection) -> Result<End, Failure> {
        let asked = self.asked;
        let position = self.held.position().filter(|_| !self.refreshes).cloned();
        let is_whole = position.is_none();
        let mut source = source_of(asked, position)?;
        let refused = self.refused.take().unwrap_or_default();
        let to = asked.to.to_string();
        let here = asked.here.connect();
        let here = match here {
            Ok(here) => here,
            Err(failure) => {
                self.refused = Some(refused);
                return Err(failure);
            }
        };
        let mut applier = Applier::new(here, &to, &self.schema, self.held.session(), refused)?;
        applier.is_whole = is_whole;
        applier.is_unsure = self.is_unsure;
        applier.tells_in_order = source.tells_in_order();
        let ended = self.run(&mut *source, &mut applier, connection);
        if ended.is_err() {
            self.teller.add(&applier.counts);
        }
        self.is_unsure = applier.is_unsure;
        self.refused = Some(std::mem::take(&mut applier.refused));
        ended
    }

    fn run(
        &mut self,
        source: &mut dyn Source,
        applier: &mut Applier,
        connection: &mut Connection,
    ) -> Result<End, Failure> {
        let renaming = (self.asked.from != self.asked.to)
            .then(|| Renaming { from: self.asked.from.clone(), to: self.asked.to.clone() });
        let mut run = Run {
            translation: Translation::new(&self.schema, renaming)?,
            seen: Some(Seen::default()),
            is_complete: false,
            parked_since: None,
            saved: now(),
            beaten: now(),
            looked: None,
            unsure_since: None,
            compared: None,
        };
        self.teller.begin(applier.is_whole);
        loop {
            if self.is_interrupted() {
                applier.drain()?;
                self.save(source, applier, connection, &mut run)?;
                return Ok(End::Interrupted);
            }
            if let Some(failure) = self.overdue() {
                return Err(failure);
            }
            source.end_within(self.left());
            let tick = if applier.is_busy() || self.frozen.is_some() { TICK_MIN } else { TICK };
            match source.next(tick)? {
                Some(told) => {
                    applier.is_unsure |= source.has_told_ahead();
                    self.take(told, source, applier, connection, &mut run)?;
                }
                None => {
                    applier.drain()?;
                    self.settle(source, applier, connection, &mut run)?;
                    if let Some(end) = self.quiet(source, applier, connection, &mut run)? {
                        return Ok(end);
                    }
                }
            }
            if run.saved.elapsed() >= SAVE_EVERY {
                self.save(source, applier, connection, &mut run)?;
                if let Some(end) = self.quiet(source, applier, connection, &mut run)? {
                    return Ok(end);
                }
                self.teller.show(applier, &run.lag());
            }
        }
    }

    /// Does what the source tells.
    fn take(
        &mut self,
        told: Told,
        source: &mut dyn Source,
        applier: &mut Applier,
        connection: &mut Connection,
        run: &mut Run,
    ) -> Result<(), Failure> {
        match told {
            Told::Entry(uuid, entry) => {
                let dn = entry.dn.clone();
                match run.translation.wanted(uuid, entry)? {
                    Some(wanted) => {
                        run.see(wanted.uuid);
                        applier.put(wanted)?;
                    }
                    None => self.teller.left_out(&dn),
                }
            }
            Told::Present(uuids) => uuids.into_iter().for_each(|uuid| run.see(uuid)),
            Told::Gone(uuids) => uuids.into_iter().try_for_each(|uuid| applier.remove(uuid))?,
            Told::GoneWithAllBelow(Some(uuid), _) => applier.remove_tree(uuid)?,
            // What was done before may be told of again, and another entry have the name by now.
            Told::GoneByName(dn) | Told::GoneWithAllBelow(None, dn)
                if applier.is_behind && names::is_taken(source, &dn)? =>
            {
                applier.is_unsure = true;
            }
            Told::GoneByName(dn) => applier.remove_name(&run.translation.name_here(&dn))?,
            Told::GoneWithAllBelow(None, dn) => {
                applier.remove_tree_of_name(&run.translation.name_here(&dn))?;
            }
            Told::Renamed(mut renamed) => {
                renamed.dn = run.translation.name_here(&renamed.dn);
                let above = renamed.new_superior.take();
                renamed.new_superior = above.map(|above| run.translation.name_here(&above));
                applier.rename(renamed)?;
            }
            Told::Elsewhere(urls) => self.teller.note(format_args!(
                "a part of the directory is elsewhere and is not followed: {}",
                urls.join(" or ")
            )),
            Told::Moved => {}
            Told::Complete { without_the_rest } => {
                applier.settle(source, Settle::Try)?;
                if let Some(mut seen) = run.seen.take().filter(|_| without_the_rest) {
                    let (to, with) = (self.asked.to.to_string(), source.tells_subentries());
                    seen.remove_others(connection, &to, applier, with)?;
                }
                if applier.is_unsure {
                    self.compare_names(source, applier, connection, run)?;
                }
                applier.settle(source, Settle::Last)?;
                applier.is_whole = false;
                run.is_complete = true;
                self.refreshes = false;
                self.teller.complete(applier);
                self.save(source, applier, connection, run)?;
            }
        }
        Ok(())
    }

    /// Notes where it is, if that has changed, or that it is there still.
    fn save(
        &mut self,
        source: &dyn Source,
        applier: &mut Applier,
        connection: &mut Connection,
        run: &mut Run,
    ) -> Result<(), Failure> {
        applier.drain()?;
        run.saved = now();
        let is_sure = applier.parked() == 0 && !applier.is_unsure;
        let position = match run.is_complete && is_sure {
            true => source.position(),
            false => None,
        };
        let position = position.or_else(|| self.held.position().cloned());
        if position.as_ref() != self.held.position() || run.beaten.elapsed() >= BEAT_EVERY {
            let is_known = position.is_some();
            self.held.save(connection, position)?;
            run.beaten = now();
            if is_known && self.held.position().is_none() && !self.has_told_of_place {
                self.has_told_of_place = true;
                self.teller.note(format_args!(
                    "where it is takes more room than the directory has for it: after a break \
                     everything is compared"
                ));
            }
        }
        Ok(())
    }

    /// What waits for others is tried again; what waits too long is refused, unless that is for
    /// names that are not those of the source.
    fn settle(
        &mut self,
        source: &mut dyn Source,
        applier: &mut Applier,
        connection: &mut Connection,
        run: &mut Run,
    ) -> Result<(), Failure> {
        if !run.is_complete || applier.parked() == 0 {
            run.parked_since = None;
            return Ok(());
        }
        if run.parked_since.get_or_insert_with(now).elapsed() < PARKED_MAX {
            return applier.settle(source, Settle::Try);
        }
        applier.settle(source, Settle::Displace)?;
        if applier.parked() > 0 && run.may_compare() {
            self.compare_names(source, applier, connection, run)?;
        }
        applier.settle(source, Settle::Last)
    }

    /// Makes the names here those of the source.
    fn compare_names(
        &mut self,
        source: &mut dyn Source,
        applier: &mut Applier,
        connection: &mut Connection,
        run: &mut Run,
    ) -> Result<(), Failure> {
        let (begun, to_text) = (now(), self.asked.to.to_string());
        let names = &mut Names {
            source,
            translation: &mut run.translation,
            applier,
            here: connection,
            from: &self.asked.from.to_string(),
            to: &key_of(&self.schema, &to_text)?,
            to_text: &to_text,
        };
        names.make_equal()?;
        applier.is_unsure = false;
        // What is told next may have been seen already.
        applier.is_behind = !source.lag()?.is_none;
        (run.unsure_since, run.compared) = (None, Some((now(), begun.elapsed())));
        Ok(())
    }

    /// Nothing comes at the moment: how far it is, and whether one can switch over.
    fn quiet(
        &mut self,
        source: &mut dyn Source,
        applier: &mut Applier,
        connection: &mut Connection,
        run: &mut Run,
    ) -> Result<Option<End>, Failure> {
        if !run.is_complete {
            return Ok(None);
        }
        let every = if self.asked.cut_over.is_some() { TICK_MIN } else { LOOK_EVERY };
        if run.looked.as_ref().is_some_and(|(at, _)| at.elapsed() < every) {
            return Ok(None);
        }
        let lag = source.lag()?;
        if applier.is_unsure {
            let since = run.unsure_since.get_or_insert_with(now).elapsed();
            if self.frozen.is_some() && lag.is_none
                || (lag.is_none || since >= UNSURE_MAX) && run.may_compare()
            {
                self.compare_names(source, applier, connection, run)?;
            }
        } else if lag.is_none && !applier.is_busy() {
            applier.is_behind = false;
        }
        if lag.is_none && self.frozen.is_some() {
            // Nothing more comes that it could wait for.
            applier.settle(source, Settle::Last)?;
        }
        let is_at_rest = applier.parked() == 0 && !applier.is_busy() && !applier.is_unsure;
        let is_none = lag.is_none && is_at_rest;
        // One comparison comes before the source is frozen: it may take as long as that.
        let is_sure = !applier.is_unsure || run.compared.is_some();
        let is_near = is_sure && (is_none || lag.is_small());
        run.looked = Some((now(), lag));
        let Some(cut_over) = self.asked.cut_over else { return Ok(None) };
        match &self.frozen {
            None if is_near => {
                let from = self.asked.from.to_string();
                let find = || Frozen::find(&self.asked.there, &from);
                let frozen = (!cut_over.is_frozen).then(find).transpose()?;
                self.frozen = Some((now(), frozen));
                self.freeze()?;
                // What came until now is asked for once more.
                run.looked = None;
                Ok(None)
            }
            // Whether it was done is not known: the answer was lost.
            Some((_, Some(frozen))) if !frozen.is_sure => {
                self.freeze()?;
                run.looked = None;
                Ok(None)
            }
            Some((since, _)) if is_none => {
                let since = *since;
                self.save(source, applier, connection, run)?;
                self.has_lifted = true;
                self.held.lift(connection)?;
                interrupt::leaves_behind(None);
                self.teller.switched(since.elapsed(), applier.refused.count);
                Ok(Some(End::CutOver))
            }
            Some(_) | None => Ok(None),
        }
    }

    /// Has the source take no changes, if that is up to this.
    fn freeze(&mut self) -> Result<(), Failure> {
        let left = self.left().unwrap_or_default();
        let Some((_, Some(frozen))) = &mut self.frozen else { return Ok(()) };
        interrupt::leaves_behind(Some(LEFT_FROZEN));
        let done = frozen.freeze(&self.asked.there, left);
        if done.as_ref().is_err_and(|failure| !failure.is_passing) {
            self.frozen = None;
            interrupt::leaves_behind(None);
        }
        done
    }

    /// The source takes changes again, if it was this that made it take none.
    fn thaw(&mut self) {
        let Some((_, Some(frozen))) = self.frozen.take() else { return };
        let done = frozen.thaw(&self.asked.there);
        interrupt::leaves_behind(None);
        if let Err(failure) = done {
            self.teller.note(format_args!(
                "the source could not be made writable again, do it by hand: {}",
                failure.message
            ));
        }
    }
}

/// The source, from a position on.
fn source_of(asked: &Asked, position: Option<Position>) -> Result<Box<dyn Source + '_>, Failure> {
    let (there, base) = (&asked.there, asked.from.to_string());
    let is_sync = match (asked.way, &position) {
        (Way::Sync, _) | (Way::Auto, Some(Position::Cookie(_))) => true,
        (Way::Changelog, _) | (Way::Auto, Some(Position::Log(_))) => false,
        (Way::Auto, None) => source::prefers_sync(&mut there.connect()?)?,
    };
    Ok(match (is_sync, position) {
        (true, Some(Position::Cookie(cookie))) => {
            Box::new(SyncSource::begin(there, &base, Some(&cookie))?)
        }
        (true, None) => Box::new(SyncSource::begin(there, &base, None)?),
        (false, Some(Position::Log(place))) => {
            Box::new(LogSource::begin(there, &base, Some(&place))?)
        }
        (false, None) => Box::new(LogSource::begin(there, &base, None)?),
        (true, Some(Position::Log(_))) | (false, Some(Position::Cookie(_))) => {
            let why = "it was followed in another way before";
            return Err(Failure::refused(why).hint("begin anew with --refresh"));
        }
    })
}

/// Where one run is.
struct Run {
    translation: Translation,
    /// What was told of, until all was.
    seen: Option<Seen>,
    is_complete: bool,
    parked_since: Option<Instant>,
    saved: Instant,
    beaten: Instant,
    looked: Option<(Instant, Lag)>,
    /// The names are to be compared since then.
    unsure_since: Option<Instant>,
    /// When names were compared last, and how long it took.
    compared: Option<(Instant, Duration)>,
}

impl Run {
    fn see(&mut self, uuid: wanted::Uuid) {
        if let Some(seen) = &mut self.seen {
            seen.put(uuid);
        }
    }

    /// Whether names may be compared again: most of the time is for what comes.
    fn may_compare(&self) -> bool {
        self.compared.is_none_or(|(at, took)| at.elapsed() >= took * COMPARED_SHARE)
    }

    fn lag(&self) -> Lag {
        self.looked.as_ref().map(|(_, lag)| lag.clone()).unwrap_or_default()
    }
}

/// What is told where one is ended by force while nobody takes changes.
const LEFT_FROZEN: &str =
    "the source is read-only still: run it again, or make it writable by hand";
/// How long to wait for the source when nothing is outstanding, and when something is.
const TICK: Duration = Duration::from_millis(200);
const TICK_MIN: Duration = Duration::from_millis(5);
/// The position is noted that often.
const SAVE_EVERY: Duration = Duration::from_secs(1);
/// The source is asked how far it is that often.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// Names that are to be compared wait so long for a source that is at rest.
const UNSURE_MAX: Duration = Duration::from_secs(30);
/// Of that time, one part is for comparing names.
const COMPARED_SHARE: u32 = 10;
/// What waits for another change waits so long.
const PARKED_MAX: Duration = Duration::from_secs(5);
/// Pauses before one connects anew.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(30);
