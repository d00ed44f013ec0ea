//! The controls with which Netscape's servers, and Sun's, Oracle's and 389 after them, tell of a
//! password that has expired or is about to: they come with the answer to a bind, unasked.

use super::account::{Rejected, Remark};
use super::control::PolicyWarning;

/// The OID of the control that says: the password has expired, or has to be changed first.
pub const EXPIRED: &str = "2.16.840.1.113730.3.4.4";

/// The OID of the control that says: the password expires in so many seconds.
pub const EXPIRING: &str = "2.16.840.1.113730.3.4.5";

/// The control that goes with the answer to a bind, and its value.
pub fn control(outcome: Result<Remark, Rejected>) -> Option<(&'static str, Vec<u8>)> {
    let expired = Some((EXPIRED, b"0".to_vec()));
    match outcome {
        Ok(Remark { must_change: true, .. }) | Err(Rejected::Expired) => expired,
        Ok(Remark { warning: Some(PolicyWarning::GraceRemaining(_)), .. }) => expired,
        Ok(Remark { warning: Some(PolicyWarning::BeforeExpiration(left)), .. }) => {
            Some((EXPIRING, left.as_secs().to_string().into_bytes()))
        }
        Ok(Remark { warning: None, .. }) | Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_bind_is_told_as_netscapes_servers_tell_it() {
        let soon = PolicyWarning::BeforeExpiration(Duration::from_secs(3_600));
        let remark = |warning, must_change| Remark { warning, must_change };
        for (outcome, want) in [
            (Ok(Remark::default()), None),
            (Ok(remark(Some(soon), false)), Some((EXPIRING, "3600"))),
            (Ok(remark(Some(soon), true)), Some((EXPIRED, "0"))),
            (Ok(remark(None, true)), Some((EXPIRED, "0"))),
            (Ok(remark(Some(PolicyWarning::GraceRemaining(2)), false)), Some((EXPIRED, "0"))),
            (Err(Rejected::Expired), Some((EXPIRED, "0"))),
            (Err(Rejected::Locked), None),
        ] {
            let want = want.map(|(oid, value)| (oid, value.as_bytes().to_vec()));
            assert_eq!(control(outcome), want, "{outcome:?}");
        }
    }
}
