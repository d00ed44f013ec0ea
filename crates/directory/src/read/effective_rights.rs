//! What get effective rights answers (draft-ietf-ldapext-acl-model, as OpenDJ does): a search that
//! asks for `aclRights` returns with each entry what an identity may do with it.
//!
//! Invariant: what is returned of the entry itself is what the asker may see, whoever the rights
//! are of; that it has an attribute is told of those that the asker may read.

use std::borrow::Borrow;
use std::sync::Arc;

use aci::{
    Access, Considered, Identity, Privilege, Question, Right, Rights, RuleOutcome, ValueChange,
};
use ldap::dn::{Dn, DnText};
use ldap::message::{Values, ValuesBuf};
use ldap::result::ResultCode;
use schema::{AttributeDescription, DnKey, EntryRead, Schema, Selection, ValueKey};
use store::{Resolved, View};

use crate::access::guard::Guard;
use crate::bind::credentials::RootIdentity;
use crate::directory::State;
use crate::request::controls::request::EffectiveRights;
use crate::request::refusal::Refusal;

impl EffectiveRights<'_> {
    /// The access whose rights are wanted. Those of others are told to whom access control does
    /// not apply, or who may change it.
    pub(crate) fn access(
        &self,
        asker: &Access,
        view: &View<'_>,
        state: &State,
        root: &RootIdentity,
    ) -> Result<Access, Refusal> {
        let Some(name) = self.identity else { return Ok(asker.clone()) };
        if !asker.has(Privilege::BypassAcl) && !asker.has(Privilege::ModifyAcl) {
            return Err(aci::Denied.into());
        }
        let access = access_of(name, view, state, root)?;
        Ok(access.from_origin(asker.origin().clone()))
    }
}

/// The access of an identity, as if it had bound.
pub(crate) fn access_of(
    name: &str,
    view: &View<'_>,
    state: &State,
    root: &RootIdentity,
) -> Result<Access, Refusal> {
    if name.is_empty() {
        return Ok(Access::of(Identity::Anonymous));
    }
    let dn = Dn::parse(name)?;
    let key = DnKey::from_dn(&state.schema, &dn)
        .map_err(|error| Refusal::new(ResultCode::InvalidDnSyntax, error.to_string()))?;
    if key == root.key {
        return Ok(root.access());
    }
    let Resolved::Found(id) = view.resolve(&key)? else {
        return Err(Refusal::new(ResultCode::NoSuchObject, "the identity does not exist"));
    };
    let entry = view.entry(id)?;
    let grants = entry.map(|entry| state.grants.read(&entry)).unwrap_or_default();
    Ok(Access::with(Identity::Entry(DnText::from(&dn)), grants).keyed(key))
}

/// Whose rights are reported beside each entry.
pub(crate) struct ReportedRights<'a> {
    pub(crate) guard: &'a Guard<'a>,
    /// The one of whoever asks.
    pub(crate) asker: &'a Guard<'a>,
    pub(crate) asked: &'a EffectiveRights<'a>,
    /// Whether the reader may know the names of the ACIs that decide.
    pub(crate) is_explained: bool,
}

impl ReportedRights<'_> {
    /// The entry with what may be done with it, as far as that is asked for.
    pub(crate) fn beside<'e>(
        &self,
        entry: &'e dyn EntryRead,
        selection: &Selection,
        schema: &Schema,
    ) -> WithLines<'e, AttributeDescription> {
        let rights = self.guard.on(entry);
        let mut lines = Lines { selection, schema, lines: Vec::new() };
        lines.put("aclRights;entryLevel", || entry_level(&rights));
        for (name, right) in ENTRY_LEVEL.into_iter().filter(|_| self.is_explained) {
            lines.put(&format!("{INFO};entryLevel;{name}"), || {
                let question = Question::Entry(right);
                self.reason(entry, name, None, rights.may_entry(right), &question)
            });
        }
        for description in &self.attributes(entry, selection, schema) {
            let text = description.text();
            let name = format!("aclRights;attributeLevel;{text}");
            lines.put(&name, || attribute_level(&rights, description));
            if self.is_explained {
                self.explain(entry, &rights, description, &mut lines);
            }
        }
        WithLines::new(entry, lines.lines)
    }

    /// The attributes whose rights are reported: what the entry has that the asker may read, and
    /// those asked for by name, of which nobody learns here whether they are there.
    fn attributes(
        &self,
        entry: &dyn EntryRead,
        selection: &Selection,
        schema: &Schema,
    ) -> Vec<Arc<AttributeDescription>> {
        let own = self.asker.on(entry);
        let mut names: Vec<Arc<AttributeDescription>> = Vec::new();
        for name in &self.asked.attributes {
            names.extend(schema.describe(name).ok());
        }
        let is_new =
            |known: &[Arc<_>], one: &AttributeDescription| !known.iter().any(|name| **name == *one);
        for named in selection.named() {
            let is_user = !named.is_operational();
            if is_user && !own.may(Right::Read, named) && is_new(&names, named) {
                names.push(Arc::clone(named));
            }
        }
        entry.visit_wanted(&|_| false, &mut |description, _| {
            let is_told = !description.is_operational() && own.may(Right::Read, description);
            if is_told && is_new(&names, description) {
                names.extend(schema.describe(description.text()).ok());
            }
        });
        names
    }

    /// A line for each right to an attribute.
    fn explain(
        &self,
        entry: &dyn EntryRead,
        rights: &Rights<'_>,
        description: &AttributeDescription,
        lines: &mut Lines<'_>,
    ) {
        let text = description.text();
        for (name, right) in ATTRIBUTE_LEVEL {
            lines.put(&format!("{INFO};attributeLevel;{name};{text}"), || {
                let (question, may) = match right {
                    Right::Proxy => (Question::Entry(right), rights.may_entry(right)),
                    _ => (Question::Attribute(right, description), rights.may(right, description)),
                };
                self.reason(entry, name, Some(text), may, &question)
            });
        }
        let own = self.guard.access().identity().dn().map(ToString::to_string).unwrap_or_default();
        for (name, change) in
            [("selfwrite_add", ValueChange::Add), ("selfwrite_delete", ValueChange::Delete)]
        {
            lines.put(&format!("{INFO};attributeLevel;{name};{text}"), || {
                let question = Question::Value(change, description, own.as_bytes());
                let may = rights.may_self(change, description);
                self.reason(entry, name, Some(text), may, &question)
            });
        }
    }

    /// Why a right is there or not, in the words of Sun's servers.
    fn reason(
        &self,
        entry: &dyn EntryRead,
        right: &str,
        attribute: Option<&str>,
        may: bool,
        question: &Question<'_>,
    ) -> String {
        let dn = entry.dn();
        let who = self.guard.access().identity().dn().map(ToString::to_string);
        let why = match self.guard.explained(entry, |rights| rights.explain(question)) {
            None => "the privilege bypass-acl".to_owned(),
            Some(why) => {
                let decides = why.decided_by.and_then(|at| why.considered.get(at));
                let is_for_others = |one: &Considered| {
                    one.allows
                        && matches!(one.outcome, RuleOutcome::OtherSubject | RuleOutcome::Unknown)
                };
                match decides {
                    Some(one) => {
                        let verb = if one.allows { "allow" } else { "deny" };
                        format!("evaluated {verb} , deciding_aci: \"{}\"", one.aci.name())
                    }
                    None if why.considered.iter().any(is_for_others) => {
                        "no acis matched the subject".to_owned()
                    }
                    None => "no acis matched the resource".to_owned(),
                }
            }
        };
        format!(
            "acl_summary(main): access {}({right}) on entry/attr({dn}, {}) to ({}) \
             (not proxied) (reason: {why} )",
            if may { "allowed" } else { "not allowed" },
            attribute.unwrap_or("NULL"),
            who.as_deref().unwrap_or("anonymous"),
        )
    }
}

/// What is reported beside an entry, as far as it is asked for.
struct Lines<'a> {
    selection: &'a Selection,
    schema: &'a Schema,
    lines: Vec<(AttributeDescription, String)>,
}

impl Lines<'_> {
    fn put(&mut self, name: &str, line: impl FnOnce() -> String) {
        let Ok(description) = self.schema.describe(name) else { return };
        // What explains is asked for by name, since it costs much.
        let is_wanted = if name.starts_with(INFO) {
            self.selection.names_attribute(&description)
        } else {
            self.selection.selects(&description)
        };
        if is_wanted {
            self.lines.push((description.written_as(name), line()));
        }
    }
}

const INFO: &str = "aclRightsInfo;logs";

const ENTRY_LEVEL: [(&str, Right); 5] = [
    ("add", Right::Add),
    ("delete", Right::Delete),
    ("read", Right::Read),
    ("write", Right::Write),
    ("proxy", Right::Proxy),
];

const ATTRIBUTE_LEVEL: [(&str, Right); 5] = [
    ("search", Right::Search),
    ("read", Right::Read),
    ("compare", Right::Compare),
    ("write", Right::Write),
    ("proxy", Right::Proxy),
];

fn entry_level(rights: &Rights<'_>) -> String {
    let all =
        ENTRY_LEVEL.map(|(name, right)| format!("{name}:{}", u8::from(rights.may_entry(right))));
    all.join(",")
}

fn attribute_level(rights: &Rights<'_>, description: &AttributeDescription) -> String {
    let may = |right| u8::from(rights.may(right, description));
    let own = |change| u8::from(rights.may_self(change, description));
    format!(
        "search:{},read:{},compare:{},write:{},selfwrite_add:{},selfwrite_delete:{},proxy:{}",
        may(Right::Search),
        may(Right::Read),
        may(Right::Compare),
        may(Right::Write),
        own(ValueChange::Add),
        own(ValueChange::Delete),
        u8::from(rights.may_entry(Right::Proxy)),
    )
}

/// An entry with lines about it: attributes that are not its own, each with a value.
pub(crate) struct WithLines<'e, D> {
    entry: &'e dyn EntryRead,
    lines: Vec<(D, String)>,
}

impl<'e, D> WithLines<'e, D> {
    /// They are read with all attributes, and with none by its name.
    pub(crate) fn new(entry: &'e dyn EntryRead, lines: Vec<(D, String)>) -> Self {
        Self { entry, lines }
    }
}

impl<D: Borrow<AttributeDescription>> EntryRead for WithLines<'_, D> {
    fn dn(&self) -> &str {
        self.entry.dn()
    }

    fn split_dn(&self) -> Option<(&str, &str)> {
        self.entry.split_dn()
    }

    fn visit_matching(
        &self,
        asked: &AttributeDescription,
        only: Option<&ValueKey<'_>>,
        visit: &mut dyn FnMut(&AttributeDescription, &[u8]) -> bool,
    ) -> bool {
        self.entry.visit_matching(asked, only, visit)
    }

    fn values_from(
        &self,
        description: &AttributeDescription,
        first: u64,
        most: u64,
        out: &mut ValuesBuf,
    ) -> bool {
        self.entry.values_from(description, first, most, out)
    }

    fn visit_wanted(
        &self,
        wants: &dyn Fn(&AttributeDescription) -> bool,
        visit: &mut dyn FnMut(&AttributeDescription, Option<Values<'_>>),
    ) {
        self.entry.visit_wanted(wants, visit);
        for (description, line) in &self.lines {
            let mut values = ValuesBuf::new();
            values.push(line.as_bytes());
            visit(description.borrow(), Some(values.as_ref()));
        }
    }
}
