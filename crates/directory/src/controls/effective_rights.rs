//! Get effective rights (draft-ietf-ldapext-acl-model, as OpenDJ answers it): a search that asks
//! for `aclRights` returns with each entry what an identity may do with it.
//!
//! Invariant: what is returned of the entry itself is what the asker may see, whoever the rights
//! are of.

use std::sync::Arc;

use aci::{Access, Privilege, Right, Rights, ValueChange};
use ldap::ber::{DecodeError, Reader, Tag};
use ldap::message::{Control, Values, ValuesBuf};
use schema::{AttributeDescription, EntryRead, Schema, Selection};
use store::View;

use super::{RequestControls, malformed};
use crate::directory::State;
use crate::guard::Guard;
use crate::ops::why;
use crate::refusal::Refusal;

/// The control's OID.
pub(crate) const OID: &str = "1.3.6.1.4.1.42.2.27.9.5.2";

/// Whose rights are wanted, and to which attributes beside those of the entry.
#[derive(Debug, Default)]
pub(crate) struct EffectiveRights<'a> {
    /// A DN; none means the asker, an empty one anonymous.
    pub(crate) identity: Option<&'a str>,
    attributes: Vec<&'a str>,
}

pub(super) fn take<'a>(
    taken: &mut RequestControls<'a>,
    control: &Control<'a>,
) -> Result<(), Refusal> {
    if taken.effective_rights.is_some() {
        return Err(malformed("the get effective rights control was sent twice"));
    }
    let asked = match control.value {
        None | Some([]) => EffectiveRights::default(),
        Some(value) => decode(value)
            .map_err(|_| malformed("the value of the get effective rights control is malformed"))?,
    };
    taken.effective_rights = Some(asked);
    Ok(())
}

fn decode(value: &[u8]) -> Result<EffectiveRights<'_>, DecodeError> {
    let mut outer = Reader::new(value);
    let mut sequence = outer.sequence(Tag::SEQUENCE)?;
    outer.end()?;
    let identity = sequence.string(Tag::OCTET_STRING)?;
    let identity = Some(identity.strip_prefix("dn:").unwrap_or(identity));
    let mut attributes = Vec::new();
    if let Some(mut list) = sequence.sequence_optional(Tag::SEQUENCE)? {
        while list.peek_tag().is_some() {
            attributes.push(list.string(Tag::OCTET_STRING)?);
        }
    }
    sequence.end()?;
    Ok(EffectiveRights { identity, attributes })
}

impl EffectiveRights<'_> {
    /// The access whose rights are wanted. Those of others are told to whom access control does
    /// not apply, or who may change it.
    pub(crate) fn access(
        &self,
        asker: &Access,
        view: &View<'_>,
        (state, root): (&State, &schema::DnKey),
    ) -> Result<Access, Refusal> {
        let Some(name) = self.identity else { return Ok(asker.clone()) };
        if !asker.has(Privilege::BypassAcl) && !asker.has(Privilege::ModifyAcl) {
            return Err(aci::Denied.into());
        }
        let access = why::access_of(name, view, state, root)?;
        Ok(access.from_origin(asker.origin().clone()))
    }
}

/// Whose rights are told beside each entry.
pub(crate) struct Told<'a> {
    pub(crate) guard: &'a Guard<'a>,
    pub(crate) asked: &'a EffectiveRights<'a>,
}

impl Told<'_> {
    /// The entry with what may be done with it, as far as that is asked for.
    pub(crate) fn beside<'e>(
        &self,
        entry: &'e dyn EntryRead,
        selection: &Selection,
        schema: &Schema,
    ) -> WithRights<'e> {
        let rights = self.guard.on(entry);
        let mut lines = Vec::new();
        let mut put = |name: &str, line: String| {
            if let Ok(description) = schema.describe(name)
                && selection.selects(&description)
            {
                lines.push((description, line));
            }
        };
        put("aclRights;entryLevel", entry_level(&rights));
        let mut names: Vec<Arc<AttributeDescription>> = Vec::new();
        for name in &self.asked.attributes {
            names.extend(schema.describe(name).ok());
        }
        entry.visit_attributes(&mut |description, _| {
            if !description.is_operational() && !names.iter().any(|known| **known == *description) {
                names.extend(schema.describe(description.text()).ok());
            }
        });
        for description in &names {
            let name = format!("aclRights;attributeLevel;{}", description.text());
            put(&name, attribute_level(&rights, description));
        }
        WithRights { entry, lines }
    }
}

fn entry_level(rights: &Rights<'_>) -> String {
    let all = [
        ("add", Right::Add),
        ("delete", Right::Delete),
        ("read", Right::Read),
        ("write", Right::Write),
        ("proxy", Right::Proxy),
    ];
    let all = all.map(|(name, right)| format!("{name}:{}", u8::from(rights.may_entry(right))));
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

/// An entry with lines about it.
pub(crate) struct WithRights<'e> {
    entry: &'e dyn EntryRead,
    lines: Vec<(Arc<AttributeDescription>, String)>,
}

impl EntryRead for WithRights<'_> {
    fn dn(&self) -> &str {
        self.entry.dn()
    }

    fn visit_values(
        &self,
        asked: &AttributeDescription,
        visit: &mut dyn FnMut(&AttributeDescription, &[u8]) -> bool,
    ) -> bool {
        self.entry.visit_values(asked, visit)
    }

    fn visit_attributes(&self, visit: &mut dyn FnMut(&AttributeDescription, Values<'_>)) {
        self.entry.visit_attributes(visit);
        for (description, line) in &self.lines {
            let mut values = ValuesBuf::new();
            values.push(line.as_bytes());
            visit(description, values.as_ref());
        }
    }
}
