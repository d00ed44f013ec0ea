//! Entries here that the source did not tell of when it told all it has: they go.
//!
//! Invariant: in memory are 16 octets for each entry of the source, and some names at a time.

use client::{Connection, SearchAnswer, SearchFor};
use ldap::control_value::sync::uuid_of_text;
use ldap::filter::Filter;
use ldap::message::{Control, Controls, ControlsBuf};
use ldap::result::ResultCode;

use super::apply::Applier;
use super::wanted::Uuid;
use crate::failure::Failure;
use crate::online::server::Server;

/// The entries that the source told of since it began to tell all.
#[derive(Debug, Default)]
pub(super) struct Seen {
    all: Vec<Uuid>,
}

impl Seen {
    pub(super) fn put(&mut self, uuid: Uuid) {
        self.all.push(uuid);
    }

    /// Deletes what is here and was not told of, subentries only if the source tells of those;
    /// gives back how many entries went.
    pub(super) fn remove_others(
        &mut self,
        connection: &mut Connection,
        base: &str,
        applier: &mut Applier,
        tells_subentries: bool,
    ) -> Result<u64, Failure> {
        self.all.sort_unstable();
        self.all.dedup();
        let server = Server::look(connection)?;
        let before = applier.counts.deleted;
        loop {
            let round = applier.counts.deleted;
            let mut others = self.others(connection, base, Controls::EMPTY)?;
            if tells_subentries && server.knows(SUBENTRIES) {
                let mut controls = ControlsBuf::new();
                controls.push(Control { oid: SUBENTRIES, critical: true, value: Some(VISIBLE) });
                others.extend(self.others(connection, base, controls.as_ref())?);
            }
            let is_last = others.len() < NAMES_MAX;
            // Those below others first.
            others.sort_by_key(|(depth, _)| std::cmp::Reverse(*depth));
            for (_, uuid) in others {
                applier.remove(uuid)?;
            }
            applier.drain()?;
            if is_last || applier.counts.deleted == round {
                return Ok(applier.counts.deleted - before);
            }
        }
    }

    /// Some entries here that were not told of, with the depth of their names.
    fn others(
        &self,
        connection: &mut Connection,
        base: &str,
        more: Controls<'_>,
    ) -> Result<Vec<(usize, Uuid)>, Failure> {
        let mut controls: ControlsBuf = more.iter().collect();
        controls.push(Control { oid: MANAGE_DSA_IT, critical: true, value: None });
        let attributes = ["entryUUID"];
        let asked = SearchFor {
            attributes: &attributes,
            ..SearchFor::below(base, Filter::Present("objectClass"))
        };
        let (mut found, mut cookie) = (Vec::new(), Vec::new());
        loop {
            let mut each = |answer: SearchAnswer<'_>| {
                if let SearchAnswer::Entry { dn, attributes } = answer {
                    let values = attributes.iter().flat_map(|one| one.values.iter());
                    let uuid = values.filter_map(uuid_of_text).next();
                    let is_other = |uuid: &Uuid| self.all.binary_search(uuid).is_err();
                    if let Some(uuid) = uuid.filter(is_other) {
                        found.push((dn.matches(',').count(), uuid));
                    }
                }
                Ok::<_, Failure>(())
            };
            let page = connection.search_page_with(
                &asked,
                PAGE_ENTRIES,
                &cookie,
                controls.as_ref(),
                &mut each,
            )?;
            if page.outcome.code == ResultCode::NoSuchObject {
                // The branch itself is not there.
                return Ok(found);
            }
            page.outcome.into_result("search")?;
            cookie = page.cookie;
            if cookie.is_empty() || found.len() >= NAMES_MAX {
                return Ok(found);
            }
        }
    }
}

/// Entries that are looked for before they are deleted.
const NAMES_MAX: usize = 100_000;
const PAGE_ENTRIES: u32 = 1_000;
/// RFC 3296 §3.
const MANAGE_DSA_IT: &str = "2.16.840.1.113730.3.4.2";
/// RFC 3672 §3.
const SUBENTRIES: &str = "1.3.6.1.4.1.4203.1.10.1";
/// The BOOLEAN TRUE.
const VISIBLE: &[u8] = b"\x01\x01\xFF";
