//! `cn=Access Control Handler,cn=config`: the global ACIs, which hold for every entry. The names
//! are those of OpenDJ. Until they are changed for the first time the defaults hold.

use schema::{DnKey, Entry};

use crate::access::acis;
use crate::read::virtual_tree::branch::BranchSource;
use crate::read::virtual_tree::names::ACCESS_CONFIG_DN;
use crate::request::refusal::Refusal;
use crate::write::decision::Decide;

/// Refuses what is no ACI.
pub(super) fn put(decide: &Decide<'_>, _: &mut Vec<String>, text: &str) -> Result<(), Refusal> {
    acis::check(&decide.state.schema, &DnKey::root(), text.as_bytes())
}

/// The entry.
pub(crate) fn entries(source: &BranchSource<'_>) -> Result<Vec<Entry>, Refusal> {
    let values = acis::global_values(source.directory.storage.store.reader().view()?)?;
    let entry = source
        .entry(ACCESS_CONFIG_DN, &["ds-cfg-dsee-compat-access-control-handler", "top"])
        .value("ds-cfg-enabled", "TRUE")
        .values(ATTRIBUTE, values);
    Ok(vec![entry.done()])
}

pub(super) const ATTRIBUTE: &str = "ds-cfg-global-aci";
