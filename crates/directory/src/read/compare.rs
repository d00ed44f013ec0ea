//! Compare (RFC 4511 §4.10).

use aci::{Access, Rights};
use auth::password;
use ldap::message::{CompareRequest, Control, ControlsBuf, Scope, Values};
use ldap::result::ResultCode;
use schema::{
    Assertion, AssertionError, AttributeDescription, EntryRead, Meter, Schema, Selection, Truth,
    ValueKey, steps_of_name,
};

use crate::access::guard::{self, Guard, Viewer, guarded};
use crate::bind::hashing::Behind;
use crate::bind::recheck;
use crate::bind::refusals::require_confidentiality;
use crate::directory::State;
use crate::password_policy;
use crate::read::live_entry::LiveEntry;
use crate::read::lookup::Lookup;
use crate::read::root_dse::Offer;
use crate::read::search::cost;
use crate::read::special::special_entry;
use crate::read::target;
use crate::read::virtual_tree::{self, TreeEntries, TreeSearch};
use crate::request::completion::Completion;
use crate::request::controls::request::RequestControls;
use crate::request::controls::response::ResponseControl;
use crate::request::job::Job;
use crate::request::received::Envelope;
use crate::request::refusal::Refusal;
use crate::request::session::Session;
use crate::request::sink::ResponseSink;
use crate::request::snapshot::Snapshot;
use crate::request::stop::Stop;
use crate::request::worker::{Next, Worker};
use crate::write::{old_password, passwords};

/// Begins a compare: carries it out here when it is little work, else makes a job of it. It counts
/// only when nothing had to be asked for: a clear-text password is true where it is behind a stored
/// value.
pub(crate) fn start(
    worker: &mut Worker,
    session: &mut Session,
    request: &CompareRequest<'_>,
    controls: &RequestControls<'_>,
    envelope: Envelope<'_>,
    sink: &mut ResponseSink<'_>,
) -> Result<Next, Refusal> {
    let compare = Compare {
        access: session.access(),
        session: Some(session),
        request,
        controls,
        work_max: worker.directory.limits().inline_work_max,
        stop: None,
    };
    let outcome = compare.run(worker)?;
    if let Some(questions) = worker.request.hashing.questions() {
        let rules = worker.directory.hash_rules();
        return Ok(Next::Hash(questions.job(rules, session.begin(envelope.id), envelope)));
    }
    match outcome {
        Outcome::Done(code) => {
            let result = Refusal::new(code, "");
            Ok(Next::Answered(respond(worker, sink, result, controls)))
        }
        Outcome::TooMuch => {
            let denied = controls.denied.clone();
            Ok(Next::Later(Job::whole(session, envelope, denied, &worker.directory.clock)))
        }
    }
}

/// Carries out a compare on a pool thread, whole.
pub(crate) fn run_job(
    worker: &mut Worker,
    job: &Job,
    request: &CompareRequest<'_>,
    controls: &RequestControls<'_>,
    sink: &mut ResponseSink<'_>,
) -> Completion {
    let Worker { directory, snapshot, .. } = worker;
    // It has waited for its turn.
    let is_still_there = |snapshot: &mut Snapshot| {
        recheck::check(directory, &directory.state.load(), snapshot.view()?, &job.access)
    };
    let outcome = is_still_there(snapshot).and_then(|()| {
        let compare = Compare {
            access: &job.access,
            session: None,
            request,
            controls,
            work_max: cost::work_max(&worker.directory.limits(), &job.access),
            stop: Some(&job.stop),
        };
        compare.run(worker)
    });
    let result = match outcome {
        Ok(Outcome::Done(code)) => Refusal::new(code, ""),
        Ok(Outcome::TooMuch) if job.stop.is_abandoned() => return sink.nothing(),
        Ok(Outcome::TooMuch) => too_much_work(),
        Err(refusal) => refusal,
    };
    respond(worker, sink, result, controls)
}

/// Writes the answer. A password policy has nothing to say of compares.
fn respond(
    worker: &mut Worker,
    sink: &mut ResponseSink<'_>,
    result: Refusal,
    controls: &RequestControls<'_>,
) -> Completion {
    let mut list = ControlsBuf::new();
    if controls.position.is_some() {
        let ResponseControl { oid, value } = worker.position();
        list.push(Control { oid, critical: false, value: value.as_deref() });
    }
    if controls.password_policy {
        password_policy::add_to(&mut list, true, None);
    }
    sink.end(result, list.as_ref())
}

/// How a compare ended.
enum Outcome {
    /// It is compareTrue or compareFalse.
    Done(ResultCode),
    /// Finding out takes more steps than may be done here.
    TooMuch,
}

/// One compare, with everything it depends on.
struct Compare<'a> {
    access: &'a Access,
    /// Whose connection it came on; none on a pool thread, where neither passwords nor the root DSE
    /// are compared.
    session: Option<&'a Session>,
    request: &'a CompareRequest<'a>,
    controls: &'a RequestControls<'a>,
    /// Steps that it may take.
    work_max: u64,
    /// What ends it from outside; none on the thread that reads requests.
    stop: Option<&'a Stop>,
}

impl Compare<'_> {
    fn run(&self, worker: &mut Worker) -> Result<Outcome, Refusal> {
        let Self { access, session, request, controls, .. } = *self;
        let directory = &worker.directory;
        let state = directory.state.load();
        let schema = &state.schema;
        let first = self.work_max.min(cost::LOOK_EVERY_STEPS);
        let mut left = self.work_max - first;
        let mut more = || self.more(&mut left);
        let mut meter = Meter::new(first, &mut more);
        if !meter.spend(steps_of_name(request.name)) {
            return self.too_much();
        }
        let key = worker
            .names
            .key(schema, request.name)
            .map_err(|error| Refusal::new(ResultCode::InvalidDnSyntax, error.to_string()))?;
        let Some(assertion) = resolve(request, schema, &mut meter)? else {
            return self.too_much();
        };
        let is_password = passwords::is_hashable(&assertion.description);
        let of_password = is_password.then(|| key.clone());
        match session {
            Some(session) if is_password => {
                require_confidentiality(&directory.credentials.authentication(), session)?
            }
            None if is_password => return Err(too_much_work()),
            Some(_) | None => {}
        }
        let (view, referrals) =
            worker.snapshot.view_for(schema.well_known(), controls.manage_dsa_it)?;
        let viewer = Viewer { directory, access, view, schema };
        let lookup = Lookup { name: request.name, key: &key, referrals, scope: None };
        let (truth, values) = guarded(&viewer, &key, |guard| {
            self.ask(&viewer, &state, &lookup, &assertion, guard, &mut meter)
        })?;
        if meter.is_over() {
            return match is_password {
                true => Err(too_much_work()),
                false => self.too_much(),
            };
        }
        let behind = worker.which(request.value, &values);
        let mut is_true = matches!(behind, Behind::At(_)) || truth == Truth::True;
        if let Some(key) = of_password
            && !matches!(behind, Behind::Pending)
        {
            // A guess, as the old password is that comes with a new one.
            is_true = old_password::counts(worker, &key, &state, is_true)?;
        }
        Ok(Outcome::Done(match is_true {
            true => ResultCode::CompareTrue,
            false => ResultCode::CompareFalse,
        }))
    }

    /// What the assertion says of the entry; where it is not true of passwords, with those.
    fn ask(
        &self,
        viewer: &Viewer<'_>,
        state: &State,
        lookup: &Lookup<'_>,
        assertion: &Assertion,
        guard: &Guard<'_>,
        meter: &mut Meter<'_>,
    ) -> Result<(Truth, Vec<Vec<u8>>), Refusal> {
        let Self { session, controls, .. } = *self;
        let (&Viewer { directory, view, .. }, key) = (viewer, lookup.key);
        let schema = &state.schema;
        let check = |entry: &dyn EntryRead, rights: &Rights<'_>, meter: &mut Meter<'_>| {
            let work_max = directory.limits().inline_work_max;
            controls.check_assertion(entry, rights, schema, work_max)?;
            evaluate(entry, rights, assertion, schema, meter)
        };
        // The values of what the server makes are of the server.
        let mut unlimited = Meter::unlimited();
        let offer = || session.map(|session| Offer::to(session, directory)).unwrap_or_default();
        if let Some(special) = special_entry(directory, state, key, offer) {
            let rights = guard.on(special.entry());
            return Ok((check(special.entry(), &rights, &mut unlimited)?, Vec::new()));
        }
        let nothing = Selection::none();
        let asked =
            TreeSearch { base: key, scope: Scope::Base, selection: &nothing, may_wait: true };
        if let Some(found) = virtual_tree::find(directory, state, guard, &asked)
            && let TreeEntries::Found { base, .. } = found?
        {
            return Ok((check(&base, &guard.on(&base), &mut unlimited)?, Vec::new()));
        }
        let id = target::find(view, state, guard, lookup)?;
        let stored = guard::stored(view, id)?;
        let rights = guard.on(&stored);
        if !rights.is_disclosed() {
            return Err(guard.hidden(view, id)?);
        }
        let live = LiveEntry::new(view, &stored, schema.well_known(), false).seen_by(guard);
        let truth = check(&live, &rights, meter)?;
        let is_password = passwords::is_hashable(&assertion.description);
        let values = match is_password && truth != Truth::True {
            true => password::stored_in(&live, &assertion.description),
            false => Vec::new(),
        };
        Ok((truth, values))
    }

    /// How many steps more may be done until the next question; 0: none.
    fn more(&self, left: &mut u64) -> u64 {
        if self.stop.is_some_and(Stop::is_abandoned) {
            return 0;
        }
        let given = (*left).min(cost::LOOK_EVERY_STEPS);
        *left -= given;
        given
    }

    /// What the root DSE offers depends on the connection, so it is never a job.
    fn too_much(&self) -> Result<Outcome, Refusal> {
        match self.request.name.is_empty() {
            true => Err(too_much_work()),
            false => Ok(Outcome::TooMuch),
        }
    }
}

fn too_much_work() -> Refusal {
    Refusal::new(
        ResultCode::AdminLimitExceeded,
        "comparing the value with those of the entry is more work than allowed",
    )
}

const SHORT_VALUE_BYTES: usize = 256;

/// The assertion of the request, with its value checked and prepared; none when that is too much
/// work.
fn resolve(
    request: &CompareRequest<'_>,
    schema: &Schema,
    meter: &mut Meter<'_>,
) -> Result<Option<Assertion>, Refusal> {
    let description = schema
        .describe(request.description)
        .map_err(|error| Refusal::new(ResultCode::UndefinedAttributeType, error.to_string()))?;
    // A short one costs some microseconds, whatever it is made of.
    if request.value.len() > SHORT_VALUE_BYTES
        && description.kind.equality.is_some_and(|rule| !meter.spend(rule.steps(request.value)))
    {
        return Ok(None);
    }
    let assertion = Assertion::equality(schema, description, request.value);
    assertion.map(Some).map_err(|error| {
        let code = match &error {
            AssertionError::NoRule(_) => ResultCode::InappropriateMatching,
            AssertionError::Value(_) => ResultCode::InvalidAttributeSyntax,
        };
        Refusal::new(code, error.to_string())
    })
}

fn evaluate(
    entry: &dyn EntryRead,
    rights: &Rights<'_>,
    assertion: &Assertion,
    schema: &Schema,
    meter: &mut Meter<'_>,
) -> Result<Truth, Refusal> {
    if !rights.may_compare(&assertion.description) {
        return Err(Refusal::new(
            ResultCode::InsufficientAccessRights,
            "values of this attribute may not be compared",
        ));
    }
    let entry = &Comparable { entry, rights };
    let mut present = false;
    entry.visit_values(&assertion.description, &mut |_, _| {
        present = true;
        false
    });
    if !present {
        return Err(Refusal::new(
            ResultCode::NoSuchAttribute,
            "the entry does not have the attribute",
        ));
    }
    Ok(assertion.holds_within(schema, entry, meter))
}

/// An entry as a compare may see it: an attribute that may be compared may have values with options
/// or subtypes that may not.
struct Comparable<'e> {
    entry: &'e dyn EntryRead,
    rights: &'e Rights<'e>,
}

impl EntryRead for Comparable<'_> {
    fn dn(&self) -> &str {
        self.entry.dn()
    }

    fn visit_matching(
        &self,
        asked: &AttributeDescription,
        only: Option<&ValueKey<'_>>,
        visit: &mut dyn FnMut(&AttributeDescription, &[u8]) -> bool,
    ) -> bool {
        self.entry.visit_matching(asked, only, &mut |description, value| {
            (description != asked && !self.rights.may_compare(description))
                || visit(description, value)
        })
    }

    fn visit_wanted(
        &self,
        wants: &dyn Fn(&AttributeDescription) -> bool,
        visit: &mut dyn FnMut(&AttributeDescription, Option<Values<'_>>),
    ) {
        self.entry.visit_wanted(wants, &mut |description, values| {
            if self.rights.may_compare(description) {
                visit(description, values);
            }
        });
    }
}
