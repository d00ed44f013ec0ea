//! The position control: a response tells up to which change the data are that it speaks of, for a
//! read at another server of the same directory.
//!
//! The value is a cookie ([`crate::request::cookie`]) under a key that follows from the number of
//! the store, which all servers of a directory have and clients are not told. It is of nobody in
//! particular: one service may hand it to another.

use auth::scram::ScramHash;
use environment::Chance;
use ldap::control_value::read_level::POSITION_OID;
use ldap::message::Control;
use ldap::result::ResultCode;
use store::Lsn;

use super::value::check_no_value;
use crate::request::controls::response::ResponseControl;
use crate::request::cookie::{CookieKey, POSITION};
use crate::request::refusal::Refusal;

/// What the control is called.
pub(super) const NAME: &str = "the position control";

/// The position is wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PositionRequest {
    /// Without it, nothing is wanted.
    pub(crate) critical: bool,
}

pub(super) fn read(control: &Control<'_>) -> Result<PositionRequest, Refusal> {
    check_no_value(control)?;
    Ok(PositionRequest { critical: control.critical })
}

/// Seals and opens positions.
pub(crate) struct PositionKey(CookieKey);

impl PositionKey {
    /// That of all servers of the store with this number.
    pub(crate) fn of(store: &[u8; 16]) -> Self {
        Self(CookieKey::of(&ScramHash::Sha256.hmac(store, PURPOSE)))
    }

    /// The response control that tells a position.
    pub(crate) fn response(&self, lsn: Lsn, chance: &mut dyn Chance) -> ResponseControl {
        let cookie = self.0.seal(POSITION, &lsn.0.to_be_bytes(), b"", chance);
        ResponseControl { oid: POSITION_OID, value: Some(cookie) }
    }

    /// The position that a response told.
    pub(crate) fn open(&self, cookie: &[u8]) -> Result<Lsn, Refusal> {
        let opened = self.0.open(POSITION, cookie, b"").ok();
        let lsn = opened.and_then(|content| content.try_into().ok()).map(u64::from_be_bytes);
        lsn.map(Lsn).ok_or_else(|| {
            Refusal::new(
                ResultCode::UnwillingToPerform,
                "the cookie of the read level control is none of this directory",
            )
        })
    }
}

/// Tells the key from others that follow from the same number.
const PURPOSE: &[u8] = b"position of a change";
