//! Who may read what is imported.
//!
//! Invariant: the global ACIs, which add to those of the entries, open nothing that the server
//! where the data come from kept closed: they change together with the data.

use aci::GlobalAcis;
use store::Store;

use super::load::Load;
use super::{ImportError, ImportMode, ImportOptions, ImportReport};
use crate::acis::{self, GLOBAL_ACI};

/// Whether somebody has set the global ACIs.
pub(super) fn is_set(store: &Store) -> Result<bool, ImportError> {
    Ok(!store.begin()?.view().setting(GLOBAL_ACI)?.is_empty())
}

/// Decides on the global ACIs after what was read, and tells it in a sentence.
pub(super) fn decide(
    load: &mut Load<'_>,
    report: &ImportReport,
    options: &ImportOptions,
    is_set: bool,
) -> Result<Option<String>, ImportError> {
    if let Some(asked) = options.global_acis {
        set(load, options, asked)?;
        return Ok(None);
    }
    let (acis, stamped) = (report.translation.acis_count(), report.translation.stamped_count());
    let brought = match (acis, stamped) {
        (0, 0) => return Ok(None),
        (0, _) => "come from a server whose access rules are no part of them".to_owned(),
        (1, _) => "bring an ACI".to_owned(),
        (acis, _) => format!("bring {acis} ACIs"),
    };
    if is_set || load.held > 0 {
        return Ok((acis > 0).then(|| {
            format!(
                "the data {brought}; the global ACIs of the directory, which say more than that, \
                 stay as they are: look at ds-cfg-global-aci of cn=Access Control Handler,cn=config"
            )
        }));
    }
    set(load, options, GlobalAcis::Closed)?;
    Ok(Some(format!(
        "the data {brought}, so nobody but the administrator reads or changes more than the ACIs \
         of the entries allow; with --access signed-in whoever is signed in reads what is not \
         secret, with --access public anyone"
    )))
}

fn set(load: &mut Load<'_>, options: &ImportOptions, asked: GlobalAcis) -> Result<(), ImportError> {
    if options.mode == ImportMode::Load {
        load.loader.set(GLOBAL_ACI, &acis::texts(asked))?;
    }
    Ok(())
}
