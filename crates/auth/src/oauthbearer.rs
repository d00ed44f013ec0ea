//! The message of OAUTHBEARER (RFC 7628): a bearer token.

use crate::Malformed;

/// The parts of a message that count here.
#[derive(Debug, Eq, PartialEq)]
pub struct Bearer<'m> {
    /// Whom the client wants to be; empty: whom the token names.
    pub authzid: String,
    /// The token; none when the client only asks what is needed.
    pub token: Option<&'m str>,
}

/// `gs2-header kvsep *kvpair kvsep`.
pub fn read(octets: &[u8]) -> Result<Bearer<'_>, Malformed> {
    let wrong = || Malformed("the OAUTHBEARER message is not as RFC 7628 says");
    let text = std::str::from_utf8(octets).map_err(|_| wrong())?;
    let mut parts = text.split('\u{1}');
    let header = parts.next().ok_or_else(wrong)?;
    let authzid = match header.split(',').collect::<Vec<_>>()[..] {
        ["n" | "y", "", ""] => String::new(),
        ["n" | "y", name, ""] => {
            let name = name.strip_prefix("a=").ok_or_else(wrong)?;
            name.replace("=2C", ",").replace("=3D", "=")
        }
        _ => return Err(wrong()),
    };
    let mut token = None;
    let mut is_ended = false;
    for part in parts.by_ref() {
        if part.is_empty() {
            is_ended = true;
            break;
        }
        let (key, value) = part.split_once('=').ok_or_else(wrong)?;
        if key == "auth" {
            // The scheme's case does not count (RFC 7628 §3.1).
            let (scheme, rest) = value.split_once(' ').unwrap_or((value, ""));
            if !scheme.eq_ignore_ascii_case("bearer") && !value.is_empty() {
                return Err(wrong());
            }
            if token.replace(rest.trim()).is_some() {
                return Err(wrong());
            }
        }
    }
    if !is_ended || !matches!((parts.next(), parts.next()), (Some(""), None)) {
        return Err(wrong());
    }
    Ok(Bearer { authzid, token: token.filter(|token| !token.is_empty()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(message: &str, want: Option<(&str, Option<&str>)>) {
        let bearer = read(message.as_bytes()).ok();
        let got = bearer.as_ref().map(|it| (&*it.authzid, it.token));
        assert_eq!(got, want, "{message:?}");
    }

    #[test]
    fn a_message_has_a_header_and_pairs() {
        // RFC 7628 §4.1.
        check(
            "n,a=user@example.com,\u{1}host=server.example.com\u{1}port=143\u{1}\
             auth=Bearer vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg==\u{1}\u{1}",
            Some(("user@example.com", Some("vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg=="))),
        );
        check("n,,\u{1}auth=bearer x\u{1}\u{1}", Some(("", Some("x"))));
        check("n,a=u:a=2Cb=3Dc,\u{1}auth=Bearer x\u{1}\u{1}", Some(("u:a,b=c", Some("x"))));
        check("n,,\u{1}auth=\u{1}\u{1}", Some(("", None)));
        check("n,,\u{1}\u{1}", Some(("", None)));
    }

    #[test]
    fn anything_else_is_refused() {
        for wrong in [
            "",
            "n,,",
            "n,,\u{1}",
            "n,,\u{1}auth=Bearer x",
            "n,,\u{1}auth=Bearer x\u{1}",
            "n,,\u{1}auth=Bearer x\u{1}\u{1}\u{1}",
            "n,,\u{1}auth=Bearer x\u{1}auth=Bearer y\u{1}\u{1}",
            "n,,\u{1}auth=Basic x\u{1}\u{1}",
            "n,,\u{1}auth\u{1}\u{1}",
            "p=tls-exporter,,\u{1}auth=Bearer x\u{1}\u{1}",
            "n,x,\u{1}auth=Bearer x\u{1}\u{1}",
            "n,,x\u{1}auth=Bearer x\u{1}\u{1}",
        ] {
            check(wrong, None);
        }
    }
}
