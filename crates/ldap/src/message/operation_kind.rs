//! The operations by their kinds: the one enumeration of them.

use super::ResponseKind;
use super::request::{
    ABANDON, ADD, BIND, COMPARE, DELETE, EXTENDED, MODIFY, MODIFY_DN, Request, SEARCH, UNBIND,
};
use crate::ber::Tag;

/// What a request asks for (RFC 4511 §4.2–§4.12), in the order of the tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OperationKind {
    /// RFC 4511 §4.2.
    Bind,
    /// RFC 4511 §4.3.
    Unbind,
    /// RFC 4511 §4.5.
    Search,
    /// RFC 4511 §4.6.
    Modify,
    /// RFC 4511 §4.7.
    Add,
    /// RFC 4511 §4.8.
    Delete,
    /// RFC 4511 §4.9.
    ModifyDn,
    /// RFC 4511 §4.10.
    Compare,
    /// RFC 4511 §4.11.
    Abandon,
    /// RFC 4511 §4.12.
    Extended,
}

impl OperationKind {
    /// Every kind, in the order of its number.
    pub const ALL: [Self; 10] = [
        Self::Bind,
        Self::Unbind,
        Self::Search,
        Self::Modify,
        Self::Add,
        Self::Delete,
        Self::ModifyDn,
        Self::Compare,
        Self::Abandon,
        Self::Extended,
    ];

    /// Its name in settings, logs and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bind => "bind",
            Self::Unbind => "unbind",
            Self::Search => "search",
            Self::Modify => "modify",
            Self::Add => "add",
            Self::Delete => "delete",
            Self::ModifyDn => "modify_dn",
            Self::Compare => "compare",
            Self::Abandon => "abandon",
            Self::Extended => "extended",
        }
    }

    /// The kind of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The kind of the requests with this tag.
    #[must_use]
    pub const fn from_tag(tag: Tag) -> Option<Self> {
        Some(match tag {
            BIND => Self::Bind,
            UNBIND => Self::Unbind,
            SEARCH => Self::Search,
            MODIFY => Self::Modify,
            ADD => Self::Add,
            DELETE => Self::Delete,
            MODIFY_DN => Self::ModifyDn,
            COMPARE => Self::Compare,
            ABANDON => Self::Abandon,
            EXTENDED => Self::Extended,
            _ => return None,
        })
    }

    /// The tag of its requests.
    #[must_use]
    pub const fn tag(self) -> Tag {
        match self {
            Self::Bind => BIND,
            Self::Unbind => UNBIND,
            Self::Search => SEARCH,
            Self::Modify => MODIFY,
            Self::Add => ADD,
            Self::Delete => DELETE,
            Self::ModifyDn => MODIFY_DN,
            Self::Compare => COMPARE,
            Self::Abandon => ABANDON,
            Self::Extended => EXTENDED,
        }
    }

    /// The response that ends it; none for Unbind and Abandon.
    #[must_use]
    pub const fn answered_by(self) -> Option<ResponseKind> {
        Some(match self {
            Self::Unbind | Self::Abandon => return None,
            Self::Bind => ResponseKind::Bind,
            Self::Search => ResponseKind::SearchDone,
            Self::Modify => ResponseKind::Modify,
            Self::Add => ResponseKind::Add,
            Self::Delete => ResponseKind::Delete,
            Self::ModifyDn => ResponseKind::ModifyDn,
            Self::Compare => ResponseKind::Compare,
            Self::Extended => ResponseKind::Extended,
        })
    }
}

impl Request<'_> {
    /// Which operation it asks for.
    #[must_use]
    pub const fn kind(&self) -> OperationKind {
        match self {
            Self::Bind(_) => OperationKind::Bind,
            Self::Unbind => OperationKind::Unbind,
            Self::Search(_) => OperationKind::Search,
            Self::Modify(_) => OperationKind::Modify,
            Self::Add(_) => OperationKind::Add,
            Self::Delete(_) => OperationKind::Delete,
            Self::ModifyDn(_) => OperationKind::ModifyDn,
            Self::Compare(_) => OperationKind::Compare,
            Self::Abandon(_) => OperationKind::Abandon,
            Self::Extended(_) => OperationKind::Extended,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_found_by_the_tag_of_its_requests() {
        for (number, kind) in OperationKind::ALL.into_iter().enumerate() {
            assert_eq!(OperationKind::from_tag(kind.tag()), Some(kind));
            assert_eq!(OperationKind::from_name(kind.name()), Some(kind));
            assert_eq!(kind as usize, number);
        }
        assert_eq!(OperationKind::from_tag(ResponseKind::Bind.tag()), None);
    }
}
