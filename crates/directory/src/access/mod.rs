//! What access rules need of a directory: the rules that are in force, and the groups and entries
//! that they ask about. `aci` decides.

pub(crate) mod acis;
pub(crate) mod grants;
pub(crate) mod group_limits;
pub(crate) mod guard;
pub(crate) mod surroundings;
pub(crate) mod view_rules;
