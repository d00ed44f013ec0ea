//! One change to make: as LDIF, or by a request.

use client::{Connection, Outcome};
use ldap::ldif::push_ldif_line;
use ldap::message::{
    AddRequest, AttributesBuf, Control, Controls, ControlsBuf, DeleteRequest, ModificationsBuf,
    ModifyDnRequest, ModifyOperation, ModifyRequest, PartialAttribute, Request, ValuesBuf,
};

use super::back::{self, Deleted, RELAX};
use super::{is_server_set, verb};
use crate::failure::Failure;

/// Values that are there already, or are not there, are no error (Microsoft's permissive modify).
const PERMISSIVE: &str = "1.2.840.113556.1.4.1413";

/// A change to make.
#[derive(Debug)]
pub(crate) enum Step {
    /// Brings back an entry as it was.
    Back(Box<Deleted>),
    /// Adds an entry.
    Add { dn: String, attributes: Vec<(String, Vec<Vec<u8>>)> },
    /// Changes values.
    Modify { dn: String, changes: Vec<Modification> },
    /// Renames an entry.
    Rename { dn: String, new_rdn: String, deletes_old_rdn: bool, new_superior: Option<String> },
    /// Deletes an entry.
    Delete { dn: String },
}

/// A part of a change of values.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Modification {
    pub(crate) operation: ModifyOperation,
    pub(crate) attribute: String,
    pub(crate) values: Vec<Vec<u8>>,
}

impl Step {
    /// The entry that it changes.
    pub(crate) fn dn(&self) -> &str {
        match self {
            Self::Back(deleted) => &deleted.dn,
            Self::Add { dn, .. }
            | Self::Modify { dn, .. }
            | Self::Rename { dn, .. }
            | Self::Delete { dn } => dn,
        }
    }

    /// The changes of values that it consists of.
    pub(crate) fn into_changes(self) -> Vec<Modification> {
        match self {
            Self::Modify { changes, .. } => changes,
            Self::Back(_) | Self::Add { .. } | Self::Rename { .. } | Self::Delete { .. } => {
                Vec::new()
            }
        }
    }

    /// What it does, in a word or two.
    pub(crate) const fn what(&self) -> &'static str {
        match self {
            Self::Back(_) => "is back",
            Self::Add { .. } => "added",
            Self::Modify { .. } => "has the values of before",
            Self::Rename { .. } => "has the name of before",
            Self::Delete { .. } => "deleted",
        }
    }

    /// As a record of LDIF (RFC 2849).
    pub(crate) fn ldif(&self) -> Vec<u8> {
        self.ldif_with(None)
    }

    /// As a record of LDIF that can be applied although a part of it is there already: where values
    /// follow names that change.
    pub(crate) fn permissive_ldif(&self) -> Vec<u8> {
        self.ldif_with(matches!(self, Self::Modify { .. }).then_some(PERMISSIVE))
    }

    fn ldif_with(&self, control: Option<&str>) -> Vec<u8> {
        let mut out = Vec::new();
        let mut line = |name: &str, value: &[u8]| push_ldif_line(&mut out, name, value, 0);
        line("dn", self.dn().as_bytes());
        if let Some(oid) = control {
            line("control", format!("{oid} false").as_bytes());
        }
        match self {
            Self::Back(deleted) => {
                line("control", format!("{RELAX} true").as_bytes());
                line("changetype", b"add");
                for (name, values) in back::attributes(&deleted.change) {
                    values.iter().for_each(|value| line(&name, value));
                }
            }
            Self::Add { attributes, .. } => {
                line("changetype", b"add");
                for (name, values) in attributes.iter().filter(|(name, _)| !is_server_set(name)) {
                    values.iter().for_each(|value| line(name, value));
                }
            }
            Self::Modify { changes, .. } => {
                line("changetype", b"modify");
                for Modification { operation, attribute, values } in changes {
                    push_ldif_line(&mut out, verb(*operation), attribute.as_bytes(), 0);
                    values.iter().for_each(|one| push_ldif_line(&mut out, attribute, one, 0));
                    out.extend_from_slice(b"-\n");
                }
            }
            Self::Rename { new_rdn, deletes_old_rdn, new_superior, .. } => {
                line("changetype", b"modrdn");
                line("newrdn", new_rdn.as_bytes());
                line("deleteoldrdn", if *deletes_old_rdn { b"1" } else { b"0" });
                if let Some(superior) = new_superior {
                    line("newsuperior", superior.as_bytes());
                }
            }
            Self::Delete { .. } => line("changetype", b"delete"),
        }
        out.push(b'\n');
        out
    }

    /// Makes the change.
    ///
    /// # Errors
    /// When the server refuses.
    pub(crate) fn carry_out(&self, connection: &mut Connection) -> Result<(), Failure> {
        if let Self::Back(deleted) = self {
            return back::add(connection, deleted);
        }
        let mut controls = ControlsBuf::new();
        if matches!(self, Self::Modify { .. }) {
            // A step before may have done a part of it: references follow a name.
            controls.push(Control { oid: PERMISSIVE, critical: false, value: None });
        }
        let outcome = self.send(connection, controls.as_ref())?;
        let dn = self.dn();
        outcome.into_result("change").map_err(|error| Failure::refused(format!("{dn}: {error}")))
    }

    /// Asks for the change with these controls.
    ///
    /// # Errors
    /// When the server does not answer.
    pub(crate) fn send(
        &self,
        connection: &mut Connection,
        controls: Controls<'_>,
    ) -> Result<Outcome, Failure> {
        Ok(match self {
            Self::Back(deleted) => {
                let (dn, attributes) = (deleted.dn.clone(), back::attributes(&deleted.change));
                return Self::Add { dn, attributes }.send(connection, controls);
            }
            Self::Add { dn, attributes } => {
                let bufs: Vec<ValuesBuf> = attributes.iter().map(|(_, all)| buf(all)).collect();
                let mut list = AttributesBuf::new();
                for ((description, _), values) in attributes.iter().zip(&bufs) {
                    list.push(PartialAttribute { description, values: values.as_ref() });
                }
                let request = Request::Add(AddRequest { name: dn, attributes: list.as_ref() });
                connection.request_with(request, controls)?
            }
            Self::Modify { dn, changes } => {
                let bufs: Vec<ValuesBuf> = changes.iter().map(|one| buf(&one.values)).collect();
                let mut list = ModificationsBuf::new();
                for (one, values) in changes.iter().zip(&bufs) {
                    let description = &one.attribute;
                    let attribute = PartialAttribute { description, values: values.as_ref() };
                    list.push(ldap::message::Modification { operation: one.operation, attribute });
                }
                let request = Request::Modify(ModifyRequest { name: dn, changes: list.as_ref() });
                connection.request_with(request, controls)?
            }
            Self::Rename { dn, new_rdn, deletes_old_rdn, new_superior } => {
                let (name, delete_old_rdn) = (dn.as_str(), *deletes_old_rdn);
                let new_superior = new_superior.as_deref();
                let request = ModifyDnRequest { name, new_rdn, delete_old_rdn, new_superior };
                connection.request_with(Request::ModifyDn(request), controls)?
            }
            Self::Delete { dn } => {
                let request = Request::Delete(DeleteRequest { name: dn });
                connection.request_with(request, controls)?
            }
        })
    }
}

fn buf(values: &[Vec<u8>]) -> ValuesBuf {
    let mut buf = ValuesBuf::new();
    values.iter().for_each(|value| buf.push(value));
    buf
}
