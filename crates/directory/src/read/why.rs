//! Why (an extended operation of this server): whether somebody may do something with an entry,
//! which ACI decides, and why the others do not, and which privileges it takes.
//!
//! The value of request and response is JSON; `roster why` prints it. Only who has the privileges
//! `config-read` and `modify-acl` is told, since the answer shows ACIs.

mod privileges;

use std::sync::Arc;

use aci::{AccessExplanation, EntryRights, Privilege, Question, Right, ValueChange};
use ldap::message::ExtendedRequest;
use ldap::result::ResultCode;
use schema::{DnKey, EntryRead};
use serde::{Deserialize, Serialize};
use store::{Resolved, StoredEntry, View};

use self::privileges::{About, Needed};
use crate::access::guard::{self, Viewer, guarded};
use crate::directory::State;
use crate::read::effective_rights::access_of;
use crate::request::extended::call::Call;
use crate::request::refusal::Refusal;
use crate::request::session::Session;
use crate::request::sink::ResponseSink;
use crate::request::worker::{Next, Worker};

/// The OID of the operation.
pub(crate) const OID: &str = "2.25.240622864993748405525653984067480598434.3.1";

/// What is asked.
#[derive(Deserialize)]
struct WhyRequest {
    /// Who: a DN; empty for anonymous.
    identity: String,
    /// The entry.
    entry: String,
    /// The right, as ACIs name it.
    right: String,
    /// The attribute, for rights that are of attributes.
    #[serde(default)]
    attribute: Option<String>,
    /// A value that is to be added, or to be deleted.
    #[serde(default)]
    add: Option<String>,
    #[serde(default)]
    delete: Option<String>,
}

/// What is answered.
#[derive(Serialize)]
struct WhyResponse {
    /// An ACI allows it, or none is asked, and no privilege is missing.
    allowed: bool,
    /// The privileges that it takes, whatever ACIs say.
    privileges: Vec<Needed>,
    /// Why no ACI was asked.
    bypass: Option<&'static str>,
    /// The place in `considered` of the one that decides.
    decided_by: Option<usize>,
    considered: Vec<Considered>,
}

#[derive(Serialize)]
struct Considered {
    /// Where the ACI stands: the DN of an entry, or the configuration.
    holder: String,
    name: String,
    aci: String,
    allows: bool,
    outcome: String,
    applies: bool,
}

/// Carries it out.
pub(crate) fn start(
    worker: &mut Worker,
    session: &mut Session,
    request: &ExtendedRequest<'_>,
    _call: &Call<'_>,
    sink: &mut ResponseSink<'_>,
) -> Result<Next, Refusal> {
    let access = session.access();
    if !access.has(Privilege::ConfigRead) || !access.has(Privilege::ModifyAcl) {
        return Err(aci::Denied.into());
    }
    let malformed = |why: String| Refusal::new(ResultCode::ProtocolError, why);
    let asked: WhyRequest = serde_json::from_slice(request.value.unwrap_or_default())
        .map_err(|error| malformed(format!("the value is not what is asked: {error}")))?;
    let state = worker.directory.state.load_full();
    let directory = Arc::clone(&worker.directory);
    let view = worker.snapshot.view()?;
    let access = access_of(&asked.identity, view, &state, &directory.credentials.root)?
        .from_origin(session.access().origin().clone());
    let viewer = Viewer { directory: &directory, access: &access, view, schema: &state.schema };
    let answer = answer(&viewer, &state, &asked)?;
    let json = serde_json::to_vec(&answer).unwrap_or_default();
    Ok(Next::Answered(sink.extended(Some(OID), Some(&json))))
}

fn answer(viewer: &Viewer<'_>, state: &State, asked: &WhyRequest) -> Result<WhyResponse, Refusal> {
    let schema = &state.schema;
    let refuse = |why: String| Refusal::new(ResultCode::UnwillingToPerform, why);
    let right = Right::ALL
        .into_iter()
        .find(|right| right.name() == asked.right)
        .ok_or_else(|| refuse(format!("'{}' is not a right", asked.right)))?;
    let attribute = asked.attribute.as_ref().map(|name| schema.describe(name)).transpose();
    let attribute = attribute.map_err(|error| refuse(error.to_string()))?;
    let key = DnKey::from_text(schema, &asked.entry)
        .map_err(|error| Refusal::new(ResultCode::InvalidDnSyntax, error.to_string()))?;
    let about = About { right, attribute: attribute.as_deref(), key: &key };
    let by_privileges = |privileges: Vec<Needed>, bypass| WhyResponse {
        allowed: privileges.iter().all(|one| one.has),
        privileges,
        bypass: Some(bypass),
        decided_by: None,
        considered: Vec::new(),
    };
    let is_bypassed = viewer.access.has(Privilege::BypassAcl);
    if state.virtual_trees.hold(&key) {
        return match privileges::for_configuration(viewer, &about) {
            (needed, Some(decided)) => Ok(by_privileges(needed, decided)),
            (needed, None) if needed.iter().any(|one| !one.has) => {
                Ok(by_privileges(needed, "no ACI is asked: without the privilege nothing is there"))
            }
            (needed, None) if is_bypassed => Ok(by_privileges(needed, BYPASSED)),
            (_, None) => Err(refuse(
                "entries of cn=config and cn=monitor are made when they are read: ask with the \
                 get effective rights control which ACIs decide"
                    .to_owned(),
            )),
        };
    }
    let stored;
    let entry: &dyn EntryRead = if key == state.subschema_key {
        &*state.subschema
    } else {
        stored = found(viewer, &key)?;
        &stored
    };
    let needed = privileges::for_entry(viewer, state, &about, entry);
    if is_bypassed {
        return Ok(by_privileges(needed, BYPASSED));
    }
    let question = match (&attribute, &asked.add, &asked.delete) {
        (Some(attribute), Some(value), _) => {
            Question::Value(ValueChange::Add, attribute, value.as_bytes())
        }
        (Some(attribute), None, Some(value)) => {
            Question::Value(ValueChange::Delete, attribute, value.as_bytes())
        }
        (Some(attribute), None, None) => Question::Attribute(right, attribute),
        (None, _, _) => Question::Entry(right),
    };
    let explanation = guarded(viewer, &key, |guard| {
        guard.explained(entry, |rights: &EntryRights<'_>| rights.explain(&question))
    });
    let explanation = explanation.ok_or_else(|| refuse("no rules are in force".to_owned()))?;
    let AccessExplanation { allowed, decided_by, considered } = explanation;
    let mut told = Vec::new();
    for one in considered {
        told.push(Considered {
            holder: place(viewer.view, &one.holder)?,
            name: one.aci.name().to_owned(),
            aci: one.aci.text().to_owned(),
            allows: one.allows,
            applies: one.outcome.applies(),
            outcome: one.outcome.to_string(),
        });
    }
    let allowed = allowed && needed.iter().all(|one| one.has);
    Ok(WhyResponse { allowed, privileges: needed, bypass: None, decided_by, considered: told })
}

const BYPASSED: &str = "the identity has the privilege bypass-acl: no ACI is asked";

fn found<'v>(viewer: &Viewer<'v>, key: &DnKey) -> Result<StoredEntry<'v>, Refusal> {
    match viewer.view.resolve(key)? {
        Resolved::Found(id) => guard::stored(viewer.view, id),
        Resolved::Missing { .. } | Resolved::NoContext => {
            Err(Refusal::no_such_object(String::new(), "there is no such entry"))
        }
    }
}

/// Where an ACI stands.
fn place(view: &View<'_>, holder: &DnKey) -> Result<String, Refusal> {
    if holder.is_root() {
        return Ok(crate::read::virtual_tree::names::ACCESS_CONFIG_DN.to_owned());
    }
    Ok(match view.resolve(holder)? {
        Resolved::Found(id) => guard::stored(view, id)?.dn().to_owned(),
        Resolved::Missing { .. } | Resolved::NoContext => String::new(),
    })
}
