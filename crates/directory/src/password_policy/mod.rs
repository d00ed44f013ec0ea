//! Password policy (draft-behera-ldap-password-policy-10), as a function of rules, state and time.
//!
//! Invariant: nothing here reads a directory, a clock or a password's hash. What may be done is
//! decided from a [`Policy`], an [`AccountState`] and the moment that is handed in.

mod account;
mod attributes;
mod control;
mod quality;
mod rules;

pub use account::{AccountState, Locked, Login, Rejected, Remark, Used};
pub use control::{PolicyError, PolicyWarning, REQUEST, response_value};
pub use quality::{Fault, Words};
pub use rules::{CheckQuality, Policy, PolicyFault};
