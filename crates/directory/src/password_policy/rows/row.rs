//! One name that a product has for a rule.

use super::takes::Takes;

/// Whose name it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::password_policy) enum Product {
    /// draft-behera-ldap-password-policy, OpenLDAP, Oracle.
    Draft,
    /// 389 Directory Server, Red Hat and Sun.
    Ds389,
    /// OpenDJ, OpenDS, `ds-pwp-` in entries and `ds-cfg-` in its configuration.
    OpenDj,
}

/// One name.
pub(in crate::password_policy) struct Row {
    pub(super) product: Product,
    pub(super) attribute: &'static str,
    pub(super) takes: Takes,
    /// For the reference page.
    pub(super) does: &'static str,
}

impl Row {
    pub(super) const fn of(
        product: Product,
        attribute: &'static str,
        takes: Takes,
        does: &'static str,
    ) -> Self {
        Self { product, attribute, takes, does }
    }
}
