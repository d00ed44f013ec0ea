//! What clients call somebody, by DN or by a user's name, and who that turned out to be.

use schema::EntryId;

/// What a client calls somebody.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum UserName<'n> {
    /// By the name of the entry.
    Dn(&'n str),
    /// By a name that an identity mapper knows.
    User(&'n str),
}

impl<'n> UserName<'n> {
    /// Reads an authzId: `dn:…` or `u:…`.
    pub(crate) fn of_authorization_id(text: &'n str) -> Option<Self> {
        match text.split_once(':')? {
            ("dn", name) => Some(Self::Dn(name)),
            ("u", name) => Some(Self::User(name)),
            _ => None,
        }
    }

    /// Reads the name of a SASL message: an authzId, a DN, or a user's name.
    pub(crate) fn of_sasl(text: &'n str) -> Self {
        Self::of_authorization_id(text).unwrap_or_else(|| Self::of_bind(text))
    }

    /// Reads the name of a simple bind. What has a `=` is a DN.
    pub(crate) fn of_bind(text: &'n str) -> Self {
        if text.is_empty() || text.contains('=') { Self::Dn(text) } else { Self::User(text) }
    }
}

/// Who a name stands for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Found {
    /// The administrator, who has no entry.
    Root,
    /// An entry.
    Entry(EntryId),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_by_their_form() {
        use UserName::{Dn, User};
        assert_eq!(UserName::of_authorization_id("dn:cn=a"), Some(Dn("cn=a")));
        assert_eq!(UserName::of_authorization_id("dn:"), Some(Dn("")));
        assert_eq!(UserName::of_authorization_id("u:anna:x"), Some(User("anna:x")));
        assert_eq!(UserName::of_authorization_id("anna"), None);
        assert_eq!(UserName::of_authorization_id("U:anna"), None);
        assert_eq!(UserName::of_sasl("u:a=b"), User("a=b"));
        assert_eq!(UserName::of_sasl("uid=anna,dc=org"), Dn("uid=anna,dc=org"));
        assert_eq!(UserName::of_sasl("anna@example.com"), User("anna@example.com"));
        assert_eq!(UserName::of_bind("u:anna"), User("u:anna"));
        assert_eq!(UserName::of_bind(""), Dn(""));
    }
}
