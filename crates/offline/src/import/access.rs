//! Who may read what is imported.
//!
//! Invariant: the global ACIs, which add to those of the entries, open nothing that the server
//! where the data come from kept closed: they change together with the data.

use aci::GlobalAcis;
use store::Store;

use super::load::Load;
use super::{ImportError, ImportMode, ImportOptions, ImportReport};
use directory::loading::{GLOBAL_ACI, global_aci_texts};

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
    let acis = report.translation.acis_count();
    let brought = match (acis, report.translation.lacks_rules()) {
        (0, false) => return Ok(None),
        (0, true) => "come from a server whose access rules are not part of them".to_owned(),
        (acis, _) => acis_brought(acis),
    };
    if is_set || load.held > 0 {
        return Ok((acis > 0 || !is_set).then(|| stays(&brought)));
    }
    set(load, options, GlobalAcis::Closed)?;
    Ok(Some(format!(
        "the data {brought}, so only the administrator reads or changes more than the ACIs of the \
         entries allow; with --access signed-in, authenticated users read what is not secret, with \
         --access public anyone"
    )))
}

impl ImportReport {
    /// Tells of so many ACIs that came into a directory that others serve: its global ACIs are not
    /// the import's to change.
    pub fn tell_of_acis(&mut self, acis: u64) {
        self.access = (acis > 0).then(|| stays(&acis_brought(acis)));
    }
}

fn acis_brought(acis: u64) -> String {
    match acis {
        1 => "contain an ACI".to_owned(),
        acis => format!("contain {acis} ACIs"),
    }
}

fn stays(brought: &str) -> String {
    format!(
        "the data {brought}; the global ACIs of the directory, which grant more than that, stay as \
         they are: check ds-cfg-global-aci of cn=Access Control Handler,cn=config"
    )
}

fn set(load: &mut Load<'_>, options: &ImportOptions, asked: GlobalAcis) -> Result<(), ImportError> {
    if options.mode == ImportMode::Load {
        load.loader.set(GLOBAL_ACI, &global_aci_texts(asked))?;
    }
    Ok(())
}
