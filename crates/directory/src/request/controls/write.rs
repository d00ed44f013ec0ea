//! The controls that an update is decided with: resolved against the schema, and owned.

use std::sync::Arc;

use schema::{ResolvedFilter, Schema, Selection};

use super::request::{ReadRequest, RequestControls};
use super::uniqueness::Uniqueness;
use crate::request::refusal::Refusal;

/// The OIDs of the no-op control: the draft's, and OpenLDAP's.
pub(crate) const NO_OP: [&str; 2] = ["1.3.6.1.4.1.4203.1.10.2", "1.3.6.1.4.1.4203.666.5.2"];

/// The controls that the writer looks at.
#[derive(Debug, Default)]
pub(crate) struct WriteControls {
    pub(crate) manage_dsa_it: bool,
    pub(crate) assertion: Option<ResolvedFilter>,
    pub(crate) pre_read: Option<ReadEntry>,
    pub(crate) post_read: Option<ReadEntry>,
    /// What no other entry may have.
    pub(crate) unique: Vec<Uniqueness>,
    pub(crate) permissive: bool,
    pub(crate) no_op: bool,
    pub(crate) relax: bool,
    /// The session of who follows another server with it.
    pub(crate) following: Option<Box<str>>,
    /// What a password policy says is wanted.
    pub(crate) password_policy: bool,
    /// The position of the change is wanted.
    pub(crate) position: bool,
    /// Why it is asked for, for the change records.
    pub(crate) purpose: Option<Arc<str>>,
    /// OIDs of those that the change records note.
    pub(crate) recorded: Vec<&'static str>,
}

/// What is to be read of the target of an update.
#[derive(Debug)]
pub(crate) struct ReadEntry {
    pub(crate) selection: Selection,
    /// Without the entry, the update is not to be carried out.
    pub(crate) critical: bool,
}

impl RequestControls<'_> {
    /// The form that the writer keeps.
    pub(crate) fn resolve(&self, schema: &Schema) -> Result<WriteControls, Refusal> {
        let read = |request: &Option<ReadRequest<'_>>| {
            request.as_ref().map(|request| ReadEntry {
                selection: Selection::resolve(request.attributes.iter(), schema),
                critical: request.critical,
            })
        };
        let unique = self.unique.iter().map(|one| Uniqueness::resolve(one, schema));
        Ok(WriteControls {
            manage_dsa_it: self.manage_dsa_it,
            assertion: self.assertion.as_ref().map(|one| ResolvedFilter::resolve(one, schema)),
            pre_read: read(&self.pre_read),
            post_read: read(&self.post_read),
            unique: unique.collect::<Result<_, _>>()?,
            permissive: self.permissive,
            no_op: self.no_op,
            relax: self.relax,
            following: self.following.map(Box::from),
            password_policy: self.password_policy,
            position: self.position.is_some(),
            purpose: self.purpose.filter(|text| !text.is_empty()).map(Arc::from),
            recorded: self.recorded.clone(),
        })
    }
}
