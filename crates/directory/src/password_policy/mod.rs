//! Password policy (draft-behera-ldap-password-policy-10): what it says, as a function of rules,
//! state and time; which policy is for whom (`set.rs`); what binds leave behind (`pending.rs`).
//!
//! Invariant: what may be done is decided from a [`PasswordPolicy`], an [`AccountState`] and the
//! moment that is handed in: no rule reads a directory, a clock or a password's hash.

mod account;
pub(crate) mod account_event;
pub(crate) mod account_writer;
pub(crate) mod attempt;
pub(crate) mod attempts;
pub(crate) mod attributes;
pub(crate) mod change;
mod control;
pub(crate) mod generator;
pub(crate) mod governed;
pub(crate) mod in_force;
pub(crate) mod merge;
pub mod netscape;
pub(crate) mod pending;
mod quality;
mod rows;
mod rules;
pub(crate) mod set;
mod standing;
pub(crate) mod switches;
pub(crate) mod told;
pub(crate) mod verdict;

pub use crate::read::subtree::{Subtree, SubtreeFault};
pub use account::{
    AccountState, Changed, Changer, Locked, Rejected, Remark, SuccessfulLogin, Used,
};
pub(crate) use control::add_to;
pub use control::{PolicyError, PolicyWarning, REQUEST, response_value};
pub use quality::{Fault, NewPassword, OWN_VALUES_MAX, Quality, Words};
pub use rows::reference_page;
pub use rules::{CheckQuality, HashedFrom, PasswordPolicy, PolicyFault, Temporary};
pub use set::{Governing, PasswordPolicies, PasswordPolicyOptions};
pub use standing::{Account, Condition, Weight};
pub use switches::{Off, SwitchTypes, Switches};

pub use attributes::time;
pub(crate) use switches::{DISABLED, EXPIRATION};
