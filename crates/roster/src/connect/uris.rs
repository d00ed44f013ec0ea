//! Lists of servers, as OpenLDAP's tools take them: URIs separated by spaces or commas.
//!
//! Invariant: a list holds at least one URI, and none twice.

use crate::failure::Failure;

/// The servers that one option names.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct ServerUris(Vec<String>);

impl ServerUris {
    /// Reads a list. A comma separates only before the scheme of another URI: names of entries, as
    /// in `ldap:///dc=example,dc=com`, have commas, too.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut uris: Vec<String> = Vec::new();
        for word in text.split_whitespace() {
            let first = uris.len();
            for piece in word.split(',').filter(|piece| !piece.is_empty()) {
                match uris.get_mut(first..).and_then(<[String]>::last_mut) {
                    Some(last) if !begins_uri(piece) => {
                        last.push(',');
                        last.push_str(piece);
                    }
                    Some(_) | None => uris.push(piece.to_owned()),
                }
            }
        }
        if uris.is_empty() {
            return Err("it names no server".to_owned());
        }
        Ok(Self(uris))
    }

    /// Those of all options, each once, in their order.
    pub(super) fn all(lists: &[Self]) -> Result<Vec<String>, Failure> {
        let mut all: Vec<String> = Vec::new();
        for uri in lists.iter().flat_map(|list| &list.0) {
            if !all.contains(uri) {
                all.push(uri.clone());
            }
        }
        if all.len() > SERVERS_MAX {
            let reason = format!("{} servers are named, more than {SERVERS_MAX}", all.len());
            return Err(Failure::local(reason));
        }
        Ok(all)
    }
}

fn begins_uri(text: &str) -> bool {
    let scheme = text.split_once("://").map(|(scheme, _)| scheme);
    scheme.is_some_and(|scheme| scheme.bytes().all(|letter| letter.is_ascii_alphanumeric()))
}

/// Servers that may be named.
pub(crate) const SERVERS_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(texts: &[&str], want: &[&str]) {
        let lists: Vec<ServerUris> =
            texts.iter().map(|text| ServerUris::parse(text).unwrap()).collect();
        assert_eq!(ServerUris::all(&lists).unwrap(), want);
    }

    #[test]
    fn spaces_and_commas_separate_uris() {
        check(&["ldap://a"], &["ldap://a"]);
        check(&["ldap://a ldaps://b:1"], &["ldap://a", "ldaps://b:1"]);
        check(&["ldap://a,ldapi://%2Fx", "ldap://c"], &["ldap://a", "ldapi://%2Fx", "ldap://c"]);
        check(&[" ldap://a, ldap://b ,"], &["ldap://a", "ldap://b"]);
        check(&["ldap://a ldap://a", "ldap://a"], &["ldap://a"]);
    }

    #[test]
    fn commas_of_a_name_separate_nothing() {
        let uri = "ldap:///dc=example,dc=com";
        check(&[uri], &[uri]);
        check(&["ldap:///dc=example,dc=com,ldap://b"], &[uri, "ldap://b"]);
        check(&["ldap:///dc=example,dc=com ldap://b"], &[uri, "ldap://b"]);
    }

    #[test]
    fn a_list_has_limits() {
        assert!(ServerUris::parse(" , ").is_err());
        let many: Vec<String> =
            (0..=SERVERS_MAX).map(|number| format!("ldap://h{number}")).collect();
        let list = ServerUris::parse(&many.join(" ")).unwrap();
        assert!(ServerUris::all(&[list]).is_err());
    }
}
