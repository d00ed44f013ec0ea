//! What a configuration comes to.

use super::setting::{Setting, SettingRemark};

/// What the configuration of another server says, in terms of this one.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Configuration {
    /// Whose configuration it is.
    pub product: &'static str,
    /// How many entries it has.
    pub entries: usize,
    /// What is to be set, in the order in which it is to be set.
    pub settings: Vec<Setting>,
    /// What this server does without a setting.
    pub built_in: Vec<SettingRemark>,
    /// What is not translated, each with the reason.
    pub untranslated: Vec<SettingRemark>,
    /// Names of entries that are to be policies for those who have no other.
    pub default_policies: Vec<String>,
}
