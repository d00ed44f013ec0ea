//! Which privileges something needs beside the right, or instead of it: what `checks`, `permit` and
//! `rank` ask of a change, told beforehand.

use aci::{Access, Privilege, Privileges, Right, is_account_state, privilege_for};
use schema::{AttributeDescription, DnKey, EntryRead};
use serde::Serialize;

use crate::access::guard::Viewer;
use crate::directory::State;
use crate::password_policy::set;
use crate::read::virtual_tree::names::ACCESS_CONFIG_DN;

/// A privilege that is needed.
#[derive(Serialize)]
pub(super) struct Needed {
    /// Its name, or [`EVERY`].
    privilege: &'static str,
    pub(super) has: bool,
    why: &'static str,
}

/// What is asked about: a right on an entry, or on an attribute of it.
pub(super) struct About<'a> {
    pub(super) right: Right,
    pub(super) attribute: Option<&'a AttributeDescription>,
    pub(super) key: &'a DnKey,
}

/// The privileges that are needed for something about an entry, had or not.
pub(super) fn for_entry(
    viewer: &Viewer<'_>,
    state: &State,
    about: &About<'_>,
    entry: &dyn EntryRead,
) -> Vec<Needed> {
    let access = viewer.access;
    let mut list = List { access, needed: Vec::new() };
    let is_own = access.key() == Some(about.key);
    let is_policy = || set::is_policy(entry, viewer.schema);
    // What only the identity itself changes, and who has all that it has.
    let of_target = || state.grants.read(entry).privileges;
    match about.right {
        Right::Read | Right::Search | Right::Compare => {}
        Right::Proxy => list.add(Privilege::ProxiedAuth, "it is acting as somebody else"),
        Right::Write | Right::SelfWrite => {
            if *about.key == state.subschema_key {
                list.add(Privilege::UpdateSchema, "it changes the schema");
            }
            let Some(attribute) = about.attribute else { return list.needed };
            if let Some(privilege) = privilege_for(attribute) {
                list.add(privilege, "changing the attribute needs it");
            }
            let signs_in = attribute.is_password()
                || viewer.directory.credentials.authentication().signs_in(&attribute.kind);
            if signs_in && !is_own {
                list.add(Privilege::PasswordReset, "the attribute signs in another entry");
            }
            if !signs_in && is_policy() {
                list.add(Privilege::PasswordReset, "the entry is a password policy");
            }
            let names_users =
                viewer.directory.credentials.authentication().names_users(&attribute.kind);
            if is_own && is_account_state(attribute) {
                let has = access.grants().privileges.include(Privileges::ALL);
                let why = "the state of the own account is left to others";
                list.needed.push(Needed { privilege: EVERY, has, why });
            } else if !is_own && (signs_in || names_users || is_account_state(attribute)) {
                list.add_all(of_target(), "the entry has it, and the attribute signs it in");
            }
        }
        Right::Add | Right::Delete | Right::Import | Right::Export => {
            let is_about_policies = is_policy()
                || (about.right == Right::Export
                    && viewer.directory.rules.password_policies.load().holds_within(about.key));
            if is_about_policies {
                list.add(Privilege::PasswordReset, "password policies are changed by it");
            }
            if let Some(privilege) = about.attribute.and_then(privilege_for) {
                list.add(privilege, "adding the attribute needs it");
            }
            if about.right == Right::Export && !is_own {
                list.add_all(of_target(), "the entry has it, and gets another name");
            }
        }
    }
    list.needed
}

/// The privileges that decide, without any ACI, on changes of the configuration; none for what is
/// not changed by privileges alone.
pub(super) fn for_configuration(
    viewer: &Viewer<'_>,
    about: &About<'_>,
) -> (Vec<Needed>, Option<&'static str>) {
    let mut list = List { access: viewer.access, needed: Vec::new() };
    let by_privileges = "no ACI is asked: changes of the configuration take privileges alone";
    let decided = match about.right {
        Right::Read | Right::Search | Right::Compare => {
            list.add(Privilege::ConfigRead, "the entry is of cn=config or cn=monitor");
            None
        }
        Right::Delete if is_session(viewer, about.key) => {
            list.add(Privilege::DisconnectClient, "it closes a session");
            Some(by_privileges)
        }
        Right::Write | Right::Add | Right::Delete => {
            list.add(Privilege::ConfigWrite, "it changes the configuration");
            let of_acis = DnKey::from_text(viewer.schema, ACCESS_CONFIG_DN);
            if of_acis.is_ok_and(|of_acis| of_acis == *about.key) {
                list.add(Privilege::ModifyAcl, "it changes the global ACIs");
            }
            Some(by_privileges)
        }
        Right::SelfWrite | Right::Import | Right::Export | Right::Proxy => None,
    };
    (list.needed, decided)
}

/// In the place of a name: all privileges together.
const EVERY: &str = "every one";

fn is_session(viewer: &Viewer<'_>, key: &DnKey) -> bool {
    let sessions = crate::config::session_monitor::sessions_key(viewer.schema);
    sessions.is_some() && key.parent() == sessions
}

struct List<'a> {
    access: &'a Access,
    needed: Vec<Needed>,
}

impl List<'_> {
    /// Each once, with its first reason.
    fn add(&mut self, privilege: Privilege, why: &'static str) {
        let name = privilege.name();
        if self.needed.iter().all(|known| known.privilege != name) {
            self.needed.push(Needed { privilege: name, has: self.access.has(privilege), why });
        }
    }

    fn add_all(&mut self, privileges: Privileges, why: &'static str) {
        Privilege::ALL
            .into_iter()
            .filter(|one| privileges.has(*one))
            .for_each(|one| self.add(one, why));
    }
}
