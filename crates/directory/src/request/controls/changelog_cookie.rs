//! The cookie of the external change log, as OpenDJ and its relatives have it: changes are read
//! behind the one that the cookie tells, and each comes with its own.

use ldap::control_value::changelog_cookie::decode;
use ldap::message::Control;

use super::response::ResponseControl;
use super::value::malformed;
use crate::request::refusal::Refusal;

pub(crate) use ldap::control_value::changelog_cookie::OID;

/// What the control is called.
pub(super) const NAME: &str = "the change log cookie control";

/// Changes are wanted, behind one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChangelogCookieRequest<'a> {
    /// As it was sent; empty: all changes are wanted.
    pub(crate) cookie: &'a str,
    /// Nothing but changes is wanted.
    pub(crate) critical: bool,
}

pub(super) fn read<'a>(control: &Control<'a>) -> Result<ChangelogCookieRequest<'a>, Refusal> {
    let cookie = decode(control.value.unwrap_or_default())
        .map_err(|_| malformed("the value of the change log cookie control is no cookie"))?;
    Ok(ChangelogCookieRequest { cookie, critical: control.critical })
}

/// What comes with a change.
pub(crate) fn response(cookie: &str) -> ResponseControl {
    let value = ldap::control_value::changelog_cookie::encode(cookie);
    ResponseControl { oid: OID, value: Some(value) }
}
