//! What a server says about itself before an import or export begins.

use client::{ClientError, Connection, Outcome, SearchFor};
use ldap::filter::Filter;
use ldap::message::{
    Control, Controls, ControlsBuf, Modification, ModificationsBuf, ModifyOperation, ModifyRequest,
    PartialAttribute, Request, Scope, Values,
};
use ldap::result::ResultCode;

/// A server as its root DSE shows it.
#[derive(Debug, Default)]
pub(crate) struct Server {
    /// The names of its naming contexts.
    pub(crate) contexts: Vec<String>,
    controls: Vec<String>,
}

impl Server {
    /// Asks it.
    pub(crate) fn look(connection: &mut Connection) -> Result<Self, ClientError> {
        let attributes = ["namingContexts", "supportedControl"];
        let found = read(connection, "", &attributes)?;
        let texts = |name| {
            let values = found.iter().flat_map(|entry| entry.texts(name));
            values.map(str::to_owned).collect::<Vec<_>>()
        };
        let server = Self { contexts: texts(attributes[0]), controls: texts(attributes[1]) };
        Ok(server)
    }

    /// Whether it says that it knows a control.
    pub(crate) fn knows(&self, oid: &str) -> bool {
        self.controls.iter().any(|known| known == oid)
    }

    /// The controls of the searches that find all entries together: referral objects as entries,
    /// and subentries, which are seen by who asks for them, and for them alone.
    pub(crate) fn controls_for_all(&self, scope: Scope) -> Vec<ControlsBuf> {
        let mut plain = ControlsBuf::new();
        plain.push(Control { oid: MANAGE_DSA_IT, critical: false, value: None });
        let mut subentries: ControlsBuf = plain.as_ref().iter().collect();
        subentries.push(Control { oid: SUBENTRIES, critical: true, value: Some(VISIBLE) });
        match self.knows(SUBENTRIES) && scope != Scope::Base {
            true => vec![plain, subentries],
            false => vec![plain],
        }
    }

    /// Whether this user may set what only the server sets: asked by a modify without effect.
    pub(crate) fn may_relax(&self, connection: &mut Connection) -> Result<bool, ClientError> {
        let Some(name) = self.contexts.first().filter(|_| self.knows(RELAX)) else {
            return Ok(false);
        };
        if !self.knows(NO_OP) {
            return Ok(true);
        }
        let mut controls = relax_rules();
        controls.push(Control { oid: NO_OP, critical: true, value: None });
        let attribute = PartialAttribute { description: "description", values: Values::EMPTY };
        let mut changes = ModificationsBuf::new();
        changes.push(Modification { operation: ModifyOperation::Replace, attribute });
        let request = Request::Modify(ModifyRequest { name, changes: changes.as_ref() });
        let Outcome { code, .. } = connection.request_with(request, controls.as_ref())?;
        Ok(!matches!(
            code,
            ResultCode::InsufficientAccessRights
                | ResultCode::UnavailableCriticalExtension
                | ResultCode::StrongerAuthRequired
        ))
    }

    /// Whether the entry of a naming context is all that it holds.
    pub(crate) fn is_bare(connection: &mut Connection, context: &str) -> Result<bool, ClientError> {
        let found = read(connection, context, &["hasSubordinates"])?;
        Ok(found.iter().any(|entry| entry.text("hasSubordinates") == Some("FALSE")))
    }
}

/// The control that has operational attributes taken.
pub(crate) fn relax_rules() -> ControlsBuf {
    let mut controls = ControlsBuf::new();
    controls.push(Control { oid: RELAX, critical: true, value: None });
    controls
}

/// The controls of a modify: `relax`, and the one that passes over a value that is there already.
pub(crate) fn permissive(relax: Controls<'_>) -> ControlsBuf {
    let mut controls: ControlsBuf = relax.iter().collect();
    controls.push(Control { oid: PERMISSIVE_MODIFY, critical: false, value: None });
    controls
}

fn read(
    connection: &mut Connection,
    name: &str,
    attributes: &[&str],
) -> Result<Vec<client::FoundEntry>, ClientError> {
    let filter = Filter::Present("objectClass");
    let asked = SearchFor { scope: Scope::Base, attributes, ..SearchFor::below(name, filter) };
    Ok(connection.search(&asked)?.entries)
}

/// Relax rules (draft-zeilenga-ldap-relax), as OpenLDAP has it.
const RELAX: &str = "1.3.6.1.4.1.4203.666.5.12";
/// No-op (draft-zeilenga-ldap-noop), as OpenLDAP has it.
const NO_OP: &str = "1.3.6.1.4.1.4203.666.5.2";
/// RFC 3296 §3.
pub(crate) const MANAGE_DSA_IT: &str = "2.16.840.1.113730.3.4.2";
/// RFC 3672 §3.
const SUBENTRIES: &str = "1.3.6.1.4.1.4203.1.10.1";
/// The BOOLEAN TRUE.
const VISIBLE: &[u8] = b"\x01\x01\xFF";
/// As Active Directory has it.
const PERMISSIVE_MODIFY: &str = "1.2.840.113556.1.4.1413";
