//! One name that a product has for a rule, and what was read by such names.

use std::time::Duration;

use super::takes::Takes;
use crate::password_policy::rules::{CheckQuality, PasswordPolicy};

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

/// What was read so far. Of 389 some attributes are switches of others.
#[derive(Default)]
pub(super) struct Said {
    pub(super) policy: PasswordPolicy,
    pub(super) switches: SwitchedRules,
}

/// What 389 switches, and what is switched.
#[derive(Default)]
pub(super) struct SwitchedRules {
    pub(super) is_checked: bool,
    pub(super) expires: bool,
    pub(super) max_age: Option<Duration>,
    pub(super) is_remembered: Option<bool>,
    pub(super) stays_locked: bool,
    pub(super) min_length: Option<u32>,
    pub(super) min_categories: Option<u32>,
    pub(super) min_token_length: Option<u32>,
    /// Rules of OpenDJ's validators: they check by being there.
    pub(super) has_validator: bool,
    /// One of the draft's names is there.
    pub(super) quality_of_draft: Option<CheckQuality>,
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

/// Octets of all words of one attribute.
pub(super) const WORDS_MAX_BYTES: usize = 64 << 10;
