//! The LDAP protocol: BER, messages, controls and result codes on the wire; DN, filter, URL and
//! LDIF as text.
//!
//! Start at [`message`]: one [`message::Message`] is what a connection sends or receives.
//! Invariants: decoding borrows from the buffer it reads and copies no octets; nothing allocates in
//! proportion to a length that is only claimed; every recursion has a named limit; this crate knows
//! no schema, storage or socket.

pub mod ber;
pub mod control;
pub mod control_value;
pub mod encode;
pub mod message;
pub mod result;
pub mod search_control;

pub mod filter;
mod filter_wire;

pub mod description;
pub mod dn;
pub mod ldif;
pub mod url;
