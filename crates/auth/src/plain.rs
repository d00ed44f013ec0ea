//! The message of PLAIN (RFC 4616): name and password.

use crate::Malformed;

/// The name of the mechanism.
pub const PLAIN: &str = "PLAIN";

/// The parts of a message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Plain<'m> {
    /// Whom the client wants to be; empty: whom it proves to be.
    pub authzid: &'m str,
    /// Whom it proves to be.
    pub authcid: &'m str,
    /// The password.
    pub password: &'m [u8],
}

/// `[authzid] NUL authcid NUL passwd`, each part without NUL.
pub fn read(octets: &[u8]) -> Result<Plain<'_>, Malformed> {
    let wrong = || Malformed("a PLAIN message is an authzid, a name and a password between NULs");
    let mut parts = octets.split(|octet| *octet == 0);
    let mut text =
        || parts.next().and_then(|part| std::str::from_utf8(part).ok()).ok_or_else(wrong);
    let (authzid, authcid) = (text()?, text()?);
    let (Some(password), None) = (parts.next(), parts.next()) else {
        return Err(wrong());
    };
    if authcid.is_empty() || password.is_empty() {
        return Err(wrong());
    }
    Ok(Plain { authzid, authcid, password })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_three_parts() {
        let plain = |octets| read(octets).map(|it| (it.authzid, it.authcid, it.password)).ok();
        assert_eq!(plain(b"\0anna\0secret"), Some(("", "anna", &b"secret"[..])));
        assert_eq!(plain(b"u:x\0anna\0\xff"), Some(("u:x", "anna", &b"\xff"[..])));
        for wrong in [
            &b""[..],
            b"anna",
            b"anna\0secret",
            b"\0anna\0",
            b"\0\0secret",
            b"\0anna\0secret\0",
            b"\0\xff\0secret",
        ] {
            assert_eq!(plain(wrong), None, "{wrong:?}");
        }
    }
}
