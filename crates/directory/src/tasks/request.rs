//! Requests about tasks: an entry below `cn=Scheduled Tasks,cn=tasks` has one begin, in OpenDJ's
//! form, or below `cn=KIND,cn=tasks,cn=config`, in that of 389 Directory Server; another state or a
//! delete has it end. What is done again and again is a setting of the directory instead, see
//! `recurring.rs`.
//!
//! Invariant: a task is one of the server that was asked, so no other one decides about it.

use std::sync::Arc;

use aci::{Access, Privilege};
use ldap::message::{AddRequest, ModifyOperation, ModifyRequest, Request};
use ldap::result::ResultCode;

use super::entries::{self, Place};
use super::form;
use super::kind::{TASK_KINDS, TaskKind};
use super::task::{Task, TaskCancel, TaskState, TaskTeller};
use super::text::TaskWork;
use crate::bind::recheck;
use crate::directory::Directory;
use crate::request::controls::request::RequestControls;
use crate::request::refusal::Refusal;
use crate::request::session::{Session, Who};
use crate::request::worker::Worker;
use crate::write::named::{self, Named};

/// Carries out what a request asks about a task of this server; nothing, when it is about anything
/// else.
pub(crate) fn asked(
    worker: &mut Worker,
    session: &Session,
    request: &Request<'_>,
    controls: &RequestControls<'_>,
) -> Result<Option<ResultCode>, Refusal> {
    let name = match request {
        Request::Add(add) => add.name,
        Request::Delete(delete) => delete.name,
        Request::Modify(modify) => modify.name,
        _ => return Ok(None),
    };
    // Nearly every other name is told apart by this.
    if !has_word(name) {
        return Ok(None);
    }
    let named = named::named(&worker.directory, name)?;
    let Some(place) = entries::place(&named) else { return Ok(None) };
    let directory = Arc::clone(&worker.directory);
    let access = session.access();
    recheck::check(&directory, &named.state, worker.snapshot.view()?, access)?;
    let has_conditions =
        controls.assertion.is_some() || controls.pre_read.is_some() || controls.post_read.is_some();
    if has_conditions || controls.no_op || controls.transaction.is_some() {
        return Err(refuse("a task begins and ends at once, and without conditions"));
    }
    let Some(teller) = directory.monitors.tasks.get() else {
        return Err(refuse("this server does no tasks"));
    };
    // Of whom no kind of task takes what he has, nothing is looked at.
    let is_known = |kind: &TaskKind| kind.privileges.iter().any(|&one| access.has(one));
    if !access.has(Privilege::ConfigWrite) && !TASK_KINDS.iter().any(is_known) {
        return Err(match request {
            Request::Add(_) => Refusal::new(
                ResultCode::InsufficientAccessRights,
                "a task takes privileges, such as backend-backup for a backup",
            ),
            _ => missing(),
        });
    }
    let asked = Asked { directory: &directory, teller, access, who: session.who(), named: &named };
    match request {
        Request::Add(add) => asked.add(&place, add)?,
        Request::Modify(modify) => asked.modify(&place, modify)?,
        _ => asked.delete(&place)?,
    }
    Ok(Some(ResultCode::Success))
}

/// Whether a name may be that of a task.
fn has_word(name: &str) -> bool {
    let is_word = |octets: &[u8]| octets.eq_ignore_ascii_case(WORD);
    name.as_bytes().windows(WORD.len()).any(is_word)
}

/// What all names of tasks have in them.
const WORD: &[u8] = b"tasks";

struct Asked<'a> {
    directory: &'a Directory,
    teller: &'a TaskTeller,
    access: &'a Access,
    who: &'a Who,
    named: &'a Named,
}

impl Asked<'_> {
    fn add(&self, place: &Place, request: &AddRequest<'_>) -> Result<(), Refusal> {
        let schema = &self.named.state.schema;
        let form = form::read(request, place, schema)?;
        self.may(form.work.kind)?;
        let tells = ["notify", "notify-error"].iter().any(|one| form.work.value(one).is_some());
        if tells && !self.access.has(Privilege::ConfigWrite) {
            // It has the server connect to wherever that is, and send e-mail.
            let why = "'notify' takes the privilege config-write";
            return Err(Refusal::new(ResultCode::InsufficientAccessRights, why));
        }
        let id = place.id.clone();
        if !is_id(&id) {
            let why =
                format!("'{id}' is no name of a task: up to 128 letters, digits, '-', '_', '.'");
            return Err(Refusal::new(ResultCode::InvalidDnSyntax, why));
        }
        if self.find(&id).is_some() {
            return Err(Refusal::new(ResultCode::EntryAlreadyExists, "there is such a task"));
        }
        let Who { dn, authz, .. } = self.who;
        let task = Task {
            id: id.clone(),
            work: form.work.text(),
            by: if authz.is_empty() { dn.clone() } else { authz.clone() },
            asked_us: self.directory.clock.now().0,
            start_us: form.start.map(|start| start.0),
            after: form.after,
            ..Task::default()
        };
        tracing::info!(task = %id, work = %task.work, by = %task.by, "a task was asked for");
        (self.teller.add)(task).map_err(refuse)
    }

    /// Another state ends it: nothing else of a task changes.
    fn modify(&self, place: &Place, request: &ModifyRequest<'_>) -> Result<(), Refusal> {
        let task = self.existing(place)?;
        if request.changes.iter().next().is_none() {
            return Err(refuse("nothing is to change"));
        }
        for modification in request.changes.iter() {
            let attribute = modification.attribute;
            let is = |name: &str| attribute.description.eq_ignore_ascii_case(name);
            let ends = |value: &[u8]| {
                let states = [TaskState::CanceledBeforeStarting, TaskState::StoppedByAdministrator];
                let is_state =
                    |state: TaskState| value.eq_ignore_ascii_case(state.name().as_bytes());
                match is(entries::STATE) {
                    true => states.into_iter().any(is_state),
                    false => is(entries::CANCEL_389) && value.eq_ignore_ascii_case(b"true"),
                }
            };
            let operation = modification.operation;
            let is_set = matches!(operation, ModifyOperation::Replace | ModifyOperation::Add);
            if !is_set || !attribute.values.iter().any(ends) {
                return Err(refuse(
                    "of a task nothing changes but its ds-task-state, to \
                     CANCELED_BEFORE_STARTING or STOPPED_BY_ADMINISTRATOR",
                ));
            }
        }
        self.cancel(&task)
    }

    fn cancel(&self, task: &Task) -> Result<(), Refusal> {
        match (self.teller.cancel)(&task.id, &self.who.dn) {
            TaskCancel::Done => Ok(()),
            TaskCancel::WasOver => Err(refuse("the task has ended")),
            TaskCancel::Missing => Err(missing()),
            TaskCancel::NotKept => Err(refuse(NOT_KEPT)),
        }
    }

    fn delete(&self, place: &Place) -> Result<(), Refusal> {
        let task = self.existing(place)?;
        match (self.teller.forget)(&task.id) {
            TaskCancel::Done => Ok(()),
            TaskCancel::WasOver => Err(refuse(
                "the task is at work: set its ds-task-state to STOPPED_BY_ADMINISTRATOR first",
            )),
            TaskCancel::Missing => Err(missing()),
            TaskCancel::NotKept => Err(refuse(NOT_KEPT)),
        }
    }

    fn find(&self, id: &str) -> Option<Task> {
        (self.teller.get)(id)
    }

    /// The task, if whoever asks may end it.
    fn existing(&self, place: &Place) -> Result<Task, Refusal> {
        let task = self.find(&place.id).ok_or_else(missing)?;
        let work = TaskWork::parse(&task.work, &self.named.state.schema);
        match work {
            Ok(work) => match self.may(work.kind) {
                // Who may not see tasks does not learn of one either.
                Err(_) if !self.access.has(Privilege::ConfigRead) => return Err(missing()),
                may => may?,
            },
            Err(_) if self.access.has(Privilege::ConfigWrite) => {}
            Err(_) => return Err(missing()),
        }
        Ok(task)
    }

    /// Refuses who has not got the privileges that a kind of task takes.
    fn may(&self, kind: &TaskKind) -> Result<(), Refusal> {
        let lacks = kind.privileges.iter().find(|&&privilege| !self.access.has(privilege));
        match lacks {
            None => Ok(()),
            Some(privilege) => Err(Refusal::new(
                ResultCode::InsufficientAccessRights,
                format!("a task '{}' takes the privilege {}", kind.name, privilege.name()),
            )),
        }
    }
}

/// Whether a text can be the name of a task: it is that of a file, too.
fn is_id(id: &str) -> bool {
    let is_plain = |octet: u8| octet.is_ascii_alphanumeric() || b"-_.".contains(&octet);
    id.len() <= ID_MAX_BYTES
        && !id.starts_with(['.', '-'])
        && id.bytes().all(is_plain)
        && !id.is_empty()
}

/// Why nothing has changed.
const NOT_KEPT: &str = "that cannot be kept on the disk of the server: its log says why";
/// The longest name of a task, in bytes.
const ID_MAX_BYTES: usize = 128;

fn refuse(why: impl Into<String>) -> Refusal {
    Refusal::new(ResultCode::UnwillingToPerform, why.into())
}

fn missing() -> Refusal {
    Refusal::no_such_object(entries::SCHEDULED_DN.to_owned(), "there is no such task")
}
