//! How fresh the data are that a search or a compare reads, where one of several servers is asked.
//!
//! The control of the request says so, or else the stricter of what settings say of the listener
//! and of the naming context. What is fresh enough goes on at once; everything else waits in
//! `fresh/waiting.rs`, and is handled once more when the data are.
//!
//! Invariant: on a server that is alone nothing waits: its data are the newest there are.
//! Invariant: binds, and what a server says of itself, are answered from what is here.

pub(crate) mod level;
pub(crate) mod reads;
pub(crate) mod waiting;

use std::sync::Arc;
use std::time::Duration;

use ldap::control_value::read_level::{AskedLevel, ReadLevelRequest};
use ldap::message::{Request, Scope};
use ldap::result::ResultCode;

use self::level::{DefaultReadLevel, Freshness};
use self::waiting::WaitingRead;
use crate::directory::Directory;
use crate::request::asker_queues::Asker;
use crate::request::controls::request::RequestControls;
use crate::request::received::Envelope;
use crate::request::refusal::Refusal;
use crate::request::session::Session;
use crate::request::worker::{Next, Worker};

/// Has a read wait until the data are as fresh as it has to be; none where they are.
pub(crate) fn wait(
    worker: &mut Worker,
    session: &mut Session,
    request: &Request<'_>,
    controls: &RequestControls<'_>,
    envelope: Envelope<'_>,
) -> Result<Option<Next>, Refusal> {
    if worker.request.is_fresh {
        return Ok(None);
    }
    let asked = controls.read_level.as_deref();
    let level = match asked {
        Some(asked) => level(&worker.directory, asked)?,
        None => default_level(worker, session, request),
    };
    let Some(level) = level else { return Ok(None) };
    let directory = &worker.directory;
    let Some(fresh) = &directory.fresh_reads else {
        return check_alone(directory, level).map(|()| None);
    };
    let is_met = match level {
        Freshness::AtLeast(lsn) => directory.storage.store.published().lsn >= lsn,
        Freshness::Bounded { staleness_ms } => fresh.waiting.is_within(staleness_ms),
        Freshness::Linearizable => false,
    };
    if is_met {
        return Ok(None);
    }
    let (wait_max, late_code) = wait_max(directory, asked, request);
    let cancel = session.begin(envelope.id);
    Ok(Some(Next::Wait(Box::new(WaitingRead {
        id: envelope.id,
        operation: envelope.operation,
        message: envelope.bytes.to_vec().into(),
        level,
        asker: Asker::of(session),
        wait_max,
        late_code,
        cancel,
        reads: Arc::clone(&fresh.waiting),
    }))))
}

/// What a control asks for; none for what is here.
fn level(
    directory: &Directory,
    asked: &ReadLevelRequest<'_>,
) -> Result<Option<Freshness>, Refusal> {
    Ok(Some(match asked.level {
        AskedLevel::Local => return Ok(None),
        AskedLevel::AtLeast { cookie } => Freshness::AtLeast(directory.position_key.open(cookie)?),
        AskedLevel::Bounded { bound_ms } => Freshness::Bounded { staleness_ms: bound_ms },
        AskedLevel::Linearizable => Freshness::Linearizable,
    }))
}

/// What holds for a request that says nothing: what is in no naming context is of this server.
fn default_level(
    worker: &mut Worker,
    session: &Session,
    request: &Request<'_>,
) -> Option<Freshness> {
    let of_listener = session.peer().read_level;
    let Worker { directory, names, .. } = worker;
    let fresh = directory.fresh_reads.as_ref()?;
    if of_listener == DefaultReadLevel::Local && fresh.contexts.is_empty() {
        return None;
    }
    let (name, is_one_entry) = match request {
        Request::Search(search) => (search.base, search.scope == Scope::Base),
        Request::Compare(compare) => (compare.name, true),
        _ => return None,
    };
    let state = directory.state.load();
    // What is no name is refused for that.
    let base = names.base(&state.schema, name).ok()?;
    // A naming context that is not there yet may come with what is waited for.
    let is_of_server = match base.depth() {
        0 => is_one_entry,
        _ => state.virtual_trees.hold(&base) || base == state.subschema_key,
    };
    if is_of_server {
        return None;
    }
    match of_listener.stricter(fresh.of_context(&base)) {
        DefaultReadLevel::Local => None,
        DefaultReadLevel::Bounded { staleness_ms } => Some(Freshness::Bounded { staleness_ms }),
        DefaultReadLevel::Linearizable => Some(Freshness::Linearizable),
    }
}

/// How long a read waits, and what it is told then.
fn wait_max(
    directory: &Directory,
    asked: Option<&ReadLevelRequest<'_>>,
    request: &Request<'_>,
) -> (Duration, ResultCode) {
    let of_client = asked.and_then(|asked| asked.wait_ms).map(u64::from).map(Duration::from_millis);
    let most = directory.limits().read_wait_max;
    let wait_max = of_client.map_or(most, |own| own.min(most));
    match request {
        Request::Search(search) if search.time_limit_s > 0 => {
            let limit = Duration::from_secs(search.time_limit_s.into());
            match limit < wait_max {
                true => (limit, ResultCode::TimeLimitExceeded),
                false => (wait_max, ResultCode::Unavailable),
            }
        }
        _ => (wait_max, ResultCode::Unavailable),
    }
}

/// A server that is alone has all there is; a change that it has not will not come.
fn check_alone(directory: &Directory, level: Freshness) -> Result<(), Refusal> {
    match level {
        Freshness::AtLeast(lsn) if lsn > directory.storage.store.published().lsn => {
            Err(Refusal::new(
                ResultCode::UnwillingToPerform,
                "the change that the cookie names is not in this directory, and this server is \
                 alone: was it set back to an older state?",
            ))
        }
        Freshness::AtLeast(_) | Freshness::Bounded { .. } | Freshness::Linearizable => Ok(()),
    }
}
