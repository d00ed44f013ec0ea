//! How large an ACI may be.

/// The longest ACI, in octets.
pub const ACI_LENGTH_MAX_BYTES: usize = 64 * 1024;
/// How deep bind rules may be nested in parentheses and by `not`.
pub const BIND_RULE_DEPTH_MAX: u32 = 32;
/// The most names, attributes, addresses and other values one ACI may list.
pub const ACI_VALUES_MAX: usize = 4096;
/// The highest level of `parent[…]` in a `userattr`.
pub const PARENT_LEVEL_MAX: u8 = 9;
