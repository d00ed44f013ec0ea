//! Entries of LDIF files into a serving directory: adds over one connection, many outstanding.
//!
//! A server carries out the updates of one connection in their order, so a superior that stands
//! before its subordinates is there for them although it is not answered yet. What finds its
//! superior missing waits for the end.
//!
//! Invariant: unless the import stops early, each record is counted once: as imported, replaced,
//! skipped or rejected.

use std::collections::{HashMap, VecDeque};
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use client::{Answer, Pipeline, Window};
use directory::Held;
use ldap::dn::Dn;
use ldap::filter::Filter;
use ldap::ldif::{LdifError, LdifLimits, LdifReader, LdifReason};
use ldap::message::{
    AddRequest, Controls, ControlsBuf, DeleteRequest, DerefAliases, Modification, ModificationsBuf,
    ModifyOperation, ModifyRequest, PartialAttribute, Request, Scope, SearchRequest, StringsBuf,
    Values, ValuesBuf,
};
use ldap::result::ResultCode;
use offline::{
    ImportObserver, ImportOptions, ImportPhase, ImportReport, OnRefusal, Progress, Refused,
    Skipped, Source,
};
use schema::{DnKey, Schema};

use super::addition::{Addition, Maker, SourceLine};
use super::probe::Probe;
use super::server::{Server, permissive, relax_rules};
use super::waiting::Waiting;
use super::{now, wait};
use crate::connect::Login;
use crate::failure::Failure;
use crate::output;

/// What is asked of an import, beyond what every import is asked.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pace {
    /// What a search may take beside the import; without, a multiple of what it takes before.
    pub(crate) latency_max: Option<Duration>,
}

/// An import under way.
pub(crate) struct Import<'w> {
    is_replacing: bool,
    /// A record that is refused is not the end.
    goes_on: bool,
    keeps_text: bool,
    /// Branches: only these, if there are any, and not those.
    include: Vec<DnKey>,
    exclude: Vec<DnKey>,
    pipeline: Pipeline,
    probe: Probe,
    maker: Maker,
    relax: ControlsBuf,
    schema: Arc<Schema>,
    /// Naming contexts, and whether there is nothing below.
    contexts: Vec<(DnKey, bool)>,
    under_way: HashMap<i32, Work>,
    /// What follows from answers, and is sent before anything new.
    next: VecDeque<Work>,
    waiting: Waiting,
    /// Superiors that are missing at the end will not come.
    is_last_pass: bool,
    report: ImportReport,
    /// ACIs of entries that are in.
    acis_count: u64,
    started: Instant,
    /// Their names.
    sources: Vec<String>,
    /// What was read of them so far, and their length if it is known.
    read_bytes: Arc<AtomicU64>,
    length_bytes: Option<u64>,
    stopped: Option<Failure>,
    /// Set by Ctrl-C, and when a file that is to be written cannot be.
    cancel: Option<Arc<AtomicBool>>,
    observer: &'w mut dyn ImportObserver,
}

/// A request that is, or is to be, outstanding.
struct Work {
    addition: Addition,
    step: Step,
    since: Instant,
}

/// What is done for an entry.
enum Step {
    Add,
    /// Values that were too many for the add.
    Rest {
        is_new: bool,
    },
    /// Which attributes does the entry that is there have?
    Look,
    /// It becomes as the file has it; these attributes go.
    Replace(Vec<String>),
    /// An entry of which a part was refused is not left behind.
    Undo(String),
}

/// Imports `sources` into the directory that a server serves.
pub(crate) fn import(
    login: &Login,
    sources: Vec<Source<'_>>,
    options: &ImportOptions,
    pace: Pace,
    observer: &mut dyn ImportObserver,
) -> Result<ImportReport, Failure> {
    let names: Vec<String> = sources.iter().map(|source| source.name().to_owned()).collect();
    let mut import = Import::start(login, names.clone(), pace, options, observer)?;
    import.length_bytes = sources.iter().map(Source::length_bytes).sum();
    for ((source, name), number) in sources.into_iter().zip(&names).zip(0..) {
        let failed = |error| Failure::path("read", Path::new(name), &error);
        let (_, octets) = source.counted(&import.read_bytes).plain().map_err(failed)?;
        import.read(number, BufReader::with_capacity(READ_BYTES, octets))?;
    }
    import.finish()
}

impl<'w> Import<'w> {
    /// Connects, and looks how fast searches are.
    fn start(
        login: &Login,
        sources: Vec<String>,
        pace: Pace,
        options: &ImportOptions,
        observer: &'w mut dyn ImportObserver,
    ) -> Result<Self, Failure> {
        let mut connection = login.connect()?;
        let server = Server::look(&mut connection)?;
        let relax = server.may_relax(&mut connection)?;
        let schema = Schema::builtin();
        let key = |name: &str| DnKey::from_text(&schema, name).ok();
        let mut contexts = Vec::new();
        for context in &server.contexts {
            let is_bare = Server::is_bare(&mut connection, context)?;
            contexts.extend(key(context).map(|key| (key, is_bare)));
        }
        let mut probes = Vec::new();
        for _ in 0..PROBE_CONNECTIONS {
            probes.push(login.connect()?);
        }
        let base = server.contexts.first().map_or("", String::as_str);
        let probe = Probe::start(probes, base, pace.latency_max, REQUESTS_MAX)?;
        let window = Window { requests_max: 1, bytes_max: WINDOW_BYTES };
        let keys = |names: &[Dn]| names.iter().filter_map(|dn| key(&dn.to_string())).collect();
        let (include, exclude) = (keys(&options.include), keys(&options.exclude));
        Ok(Self {
            is_replacing: options.held == Held::Replace,
            goes_on: options.on_refusal == OnRefusal::Continue,
            keeps_text: options.keep_text,
            include,
            exclude,
            pipeline: Pipeline::new(connection, window),
            probe,
            maker: Maker::new(relax),
            relax: if relax { relax_rules() } else { ControlsBuf::new() },
            schema,
            contexts,
            under_way: HashMap::new(),
            next: VecDeque::new(),
            waiting: Waiting::default(),
            is_last_pass: false,
            report: ImportReport::default(),
            acis_count: 0,
            started: now(),
            sources,
            read_bytes: Arc::default(),
            length_bytes: None,
            stopped: None,
            cancel: options.cancel.clone(),
            observer,
        })
    }

    /// Sends the entries of one source.
    fn read(&mut self, source: u32, text: impl BufRead) -> Result<(), Failure> {
        let mut reader = LdifReader::new(text, LdifLimits::default());
        while !self.is_stopped() {
            match reader.next_entry() {
                Ok(None) => break,
                Ok(Some(entry)) => {
                    let addition = self.maker.addition(source, &entry);
                    self.report.processed += 1;
                    if self.is_asked_for(&addition) {
                        self.begin(addition)?;
                    } else {
                        self.skip(&addition, "it is in an excluded branch");
                    }
                }
                Err(LdifError { line, reason }) => {
                    let is_end = matches!(reason, LdifReason::Io(_));
                    self.report.processed += u64::from(!is_end);
                    self.reject(SourceLine { source, line }, None, &reason.to_string());
                    if is_end {
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether nothing more is sent, but what those need that were begun.
    fn is_stopped(&mut self) -> bool {
        let is_set = |flag: &Arc<AtomicBool>| flag.load(Ordering::Relaxed);
        if self.stopped.is_none() && self.cancel.as_ref().is_some_and(is_set) {
            self.stopped = Some(Failure::interrupted("interrupted"));
        }
        self.stopped.is_some()
    }

    fn is_asked_for(&self, addition: &Addition) -> bool {
        if self.include.is_empty() && self.exclude.is_empty() {
            return true;
        }
        // What is no name is for the server to refuse.
        let Ok(key) = DnKey::from_text(&self.schema, &addition.dn) else { return true };
        let is_in = |branches: &[DnKey]| branches.iter().any(|branch| key.is_within(branch));
        (self.include.is_empty() || is_in(&self.include)) && !is_in(&self.exclude)
    }

    /// Waits for all answers, and tries again what waits for its superior, as long as that helps.
    fn finish(mut self) -> Result<ImportReport, Failure> {
        self.drain()?;
        while self.waiting.count() > 0 && !self.is_stopped() {
            let before = self.waiting.count();
            for octets in self.waiting.take().map_err(spill_failed)? {
                if self.is_stopped() {
                    break;
                }
                let addition = octets.map(|octets| Addition::decode(&octets));
                let damaged = || io::ErrorKind::InvalidData.into();
                let addition = addition.and_then(|one| one.ok_or_else(damaged));
                self.begin(addition.map_err(spill_failed)?)?;
            }
            self.drain()?;
            self.is_last_pass = self.waiting.count() == before;
        }
        self.report.elapsed = self.started.elapsed();
        self.tell_progress();
        self.report.tell_of_acis(self.acis_count);
        if let Some(failure) = self.stopped {
            if let Some(access) = &self.report.access {
                output::note(format_args!("roster: note: {access}"));
            }
            let there = self.report.imported;
            if self.cancel.is_some_and(|flag| flag.load(Ordering::Relaxed)) {
                output::note(format_args!(
                    "roster: note: {there} entries of the file are in the directory now"
                ));
                return Err(failure);
            }
            return Err(failure.hint(format!(
                "{there} entries of the file are in the directory now; with --reject-file FILE the \
                 import continues after refused entries"
            )));
        }
        self.tell_of_searches();
        Ok(self.report)
    }

    /// How searches fared.
    fn tell_of_searches(&self) {
        let lowered = self.probe.throttle(|throttle| throttle.lowered());
        let (probes, latency_max) = (self.probe.probes(), self.probe.latency_max());
        output::note(format_args!(
            "latency limit for searches {latency_max:.1?}, {probes} probes: the import slowed down \
             {lowered} times"
        ));
    }

    /// Sends the add as soon as there is room.
    fn begin(&mut self, addition: Addition) -> Result<(), Failure> {
        self.make_room()?;
        self.send(Work { addition, step: Step::Add, since: now() })
    }

    /// Until something new may be sent.
    fn make_room(&mut self) -> Result<(), Failure> {
        loop {
            let requests_max = self.probe.throttle(|throttle| throttle.requests());
            self.pipeline.set_window(Window { requests_max, bytes_max: WINDOW_BYTES });
            if !self.pipeline.has_room() {
                self.take_answer()?;
            } else if let Some(work) = self.next.pop_front() {
                self.send(work)?;
            } else {
                return Ok(());
            }
        }
    }

    /// Until nothing is outstanding.
    fn drain(&mut self) -> Result<(), Failure> {
        loop {
            self.make_room()?;
            if !self.take_answer()? && self.next.is_empty() {
                return Ok(());
            }
        }
    }

    fn send(&mut self, mut work: Work) -> Result<(), Failure> {
        work.since = now();
        let Work { addition, step, .. } = &work;
        let name = addition.dn.as_str();
        let relax = self.relax.as_ref();
        let id = match step {
            Step::Add => {
                let request = AddRequest { name, attributes: addition.first() };
                let controls = addition.controls_with(relax);
                self.pipeline.send(Request::Add(request), controls.as_ref())?
            }
            Step::Rest { .. } => {
                let changes = addition.next_part();
                let request = ModifyRequest { name, changes: changes.as_ref() };
                self.pipeline.send(Request::Modify(request), relax)?
            }
            Step::Look => {
                let attributes = StringsBuf::new();
                let request = SearchRequest {
                    base: name,
                    scope: Scope::Base,
                    deref: DerefAliases::Never,
                    size_limit_entries: 0,
                    time_limit_s: 0,
                    // The answer must be small, however large the entry is.
                    types_only: true,
                    filter: Filter::Present("objectClass"),
                    attributes: attributes.as_ref(),
                };
                self.pipeline.send(Request::Search(request), Controls::EMPTY)?
            }
            Step::Replace(gone) => {
                let changes = replacement(addition, gone);
                let request = ModifyRequest { name, changes: changes.as_ref() };
                let controls = permissive(relax);
                self.pipeline.send(Request::Modify(request), controls.as_ref())?
            }
            Step::Undo(_) => {
                self.pipeline.send(Request::Delete(DeleteRequest { name }), Controls::EMPTY)?
            }
        };
        self.under_way.insert(id.0, work);
        Ok(())
    }

    /// Takes one answer; says whether there was one to wait for.
    fn take_answer(&mut self) -> Result<bool, Failure> {
        let Some(answer) = self.pipeline.answer()? else { return Ok(false) };
        let Some(work) = self.under_way.remove(&answer.id.0) else { return Ok(true) };
        let pause = self.probe.throttle(|throttle| throttle.pause(work.since.elapsed()));
        if answer.outcome.code == ResultCode::Busy {
            self.probe.throttle(|throttle| throttle.lower());
            self.next.push_back(work);
            // Together with the others that are answered so.
            if self.pipeline.outstanding() == 0 {
                wait(BUSY_WAIT);
            }
            return Ok(true);
        }
        self.answered(work, answer)?;
        self.tell_progress();
        if !pause.is_zero() {
            self.pipeline.flush()?;
            wait(pause);
        }
        Ok(true)
    }

    /// What follows from an answer.
    fn answered(&mut self, work: Work, answer: Answer) -> Result<(), Failure> {
        let Work { mut addition, step, since } = work;
        let outcome = &answer.outcome;
        let refused = !outcome.is_success();
        let step = match step {
            Step::Add if outcome.code == ResultCode::NoSuchObject && !self.is_last_pass => {
                return self.waiting.push(&addition.encode()).map_err(spill_failed);
            }
            Step::Add if outcome.code == ResultCode::EntryAlreadyExists => {
                match self.already_there(&addition) {
                    There::Replace if addition.has_critical_control() => {
                        let reason = "an entry with this name exists already already, and the \
                                      critical \
                                      control applies only to an add";
                        self.reject(addition.place, Some(&addition), reason);
                        return Ok(());
                    }
                    There::Replace => Step::Look,
                    There::Skip => {
                        let reason = "the entry of the naming context exists, with others below it";
                        self.skip(&addition, reason);
                        return Ok(());
                    }
                    There::Reject => {
                        let reason = "an entry with this name exists already already";
                        self.reject(addition.place, Some(&addition), reason);
                        return Ok(());
                    }
                }
            }
            Step::Rest { is_new: true } if refused => Step::Undo(outcome.to_string()),
            Step::Undo(reason) => {
                self.reject(addition.place, Some(&addition), &reason);
                return Ok(());
            }
            Step::Look if !refused => {
                let entry = answer.entries.into_iter().next().unwrap_or_default();
                Step::Replace(entry.attributes.into_iter().map(|(name, _)| name).collect())
            }
            _ if refused => {
                let reason = outcome.to_string();
                self.reject(addition.place, Some(&addition), &reason);
                return Ok(());
            }
            done => {
                let is_new = matches!(done, Step::Add | Step::Rest { is_new: true });
                addition.taken += 1;
                if addition.is_complete() {
                    self.acis_count += addition.acis_count(&self.schema);
                    self.report.imported += 1;
                    self.report.replaced += u64::from(!is_new);
                    return Ok(());
                }
                Step::Rest { is_new }
            }
        };
        self.next.push_back(Work { addition, step, since });
        Ok(())
    }

    fn already_there(&self, addition: &Addition) -> There {
        if self.is_replacing {
            return There::Replace;
        }
        let key = DnKey::from_text(&self.schema, &addition.dn).ok();
        match self.contexts.iter().find(|(context, _)| Some(context) == key.as_ref()) {
            None => There::Reject,
            // As it was made with the directory, for others to go below it.
            Some((_, true)) => There::Replace,
            Some((_, false)) => There::Skip,
        }
    }

    fn reject(&mut self, place: SourceLine, addition: Option<&Addition>, reason: &str) {
        self.report.rejected += 1;
        let source = self.sources.get(place.source as usize).map_or("", String::as_str);
        let text = addition.filter(|_| self.keeps_text).map(Addition::text);
        let dn = addition.map_or("", |addition| &addition.dn);
        let ldif = text.as_deref();
        self.observer.refused(&Refused { source, line: place.line, dn, reason, ldif });
        if !self.goes_on && self.stopped.is_none() {
            let what = if dn.is_empty() { String::new() } else { format!("entry '{dn}': ") };
            let message = format!("{source}:{}: {what}{reason}", place.line);
            self.stopped = Some(Failure::refused(message));
        }
    }

    fn skip(&mut self, addition: &Addition, reason: &str) {
        self.report.skipped += 1;
        let SourceLine { source, line } = addition.place;
        let source = self.sources.get(source as usize).map_or("", String::as_str);
        let text = self.keeps_text.then(|| addition.text());
        self.observer.skipped(&Skipped {
            source,
            line,
            dn: &addition.dn,
            reason,
            ldif: text.as_deref(),
        });
    }

    fn tell_progress(&mut self) {
        let ImportReport { processed, rejected, skipped, .. } = self.report;
        self.observer.progress(&Progress {
            phase: ImportPhase::Load,
            done: self.read_bytes.load(Ordering::Relaxed),
            total: self.length_bytes,
            records: processed,
            rejected,
            skipped,
            elapsed: self.started.elapsed(),
        });
    }
}

/// What is done about an entry that is there already.
enum There {
    Replace,
    Skip,
    Reject,
}

/// What makes an entry as the file has it, when it has the attributes `there`.
fn replacement(addition: &Addition, there: &[String]) -> ModificationsBuf {
    let mut changes = ModificationsBuf::new();
    let mut push = |operation, description: &str, values: Values<'_>| {
        let attribute = PartialAttribute { description, values };
        changes.push(Modification { operation, attribute });
    };
    let is_same = |one: &str, other: &str| one.eq_ignore_ascii_case(other);
    let rdn = Dn::parse(&addition.dn).ok().and_then(|dn| dn.rdns().first().cloned());
    let naming = || rdn.iter().flat_map(|rdn| rdn.avas());
    for old in there {
        let stays = addition.first().iter().any(|new| is_same(new.description, old))
            || naming().any(|ava| is_same(&ava.attribute, old));
        if !stays {
            push(ModifyOperation::Delete, old, Values::EMPTY);
        }
    }
    for new in addition.first() {
        push(ModifyOperation::Replace, new.description, new.values);
    }
    for ava in naming() {
        let mut value = ValuesBuf::new();
        value.push(&ava.value);
        push(ModifyOperation::Add, &ava.attribute, value.as_ref());
    }
    changes
}

fn spill_failed(error: io::Error) -> Failure {
    let reason = crate::failure::plain(&error);
    Failure::local(format!("cannot keep entries that wait for their superiors: {reason}"))
}

/// The most updates outstanding; servers stop reading at a number of their own (roster: 64).
const REQUESTS_MAX: usize = 64;
/// The most octets of them.
const WINDOW_BYTES: usize = 8 << 20;
/// Connections that probes take turns on.
const PROBE_CONNECTIONS: usize = 4;
/// Octets of a source that are read at a time.
const READ_BYTES: usize = 256 * 1024;
/// How long a server that is busy is left alone.
const BUSY_WAIT: Duration = Duration::from_millis(200);
