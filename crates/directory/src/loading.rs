//! What an import and an export need of the operations: entries that are loaded are as an add makes
//! them, and those that are written out are filtered as a search does it.

use schema::{Entry, Schema, Violation};

use crate::access::acis;
use crate::password_policy::set;
use crate::virtual_attributes::set as virtual_attributes;

pub use crate::access::acis::{
    GLOBAL_ACI, global_values as global_acis, texts as global_aci_texts,
};
pub use crate::options::ROOT_DN;
pub use crate::read::computed::descriptions as computed_descriptions;
pub use crate::read::live_entry::LiveEntry;
pub use crate::write::passwords::{StoredForm, hash_passwords_with};
pub use crate::write::stamp::{Stamp, stamp_new};

/// Refuses an entry whose ACIs, password policy or collective attributes are not what they must be.
///
/// # Errors
/// What is wrong with it.
pub fn check_entry(schema: &Schema, entry: &Entry) -> Result<(), Violation> {
    let mut described = entry.attributes().iter();
    let checked = described
        .try_for_each(|one| acis::check_description(schema, &one.description))
        .and_then(|()| acis::check_entry(schema, entry))
        .and_then(|()| set::check_entry(schema, entry))
        .and_then(|()| virtual_attributes::check_entry(schema, entry));
    checked.map_err(|refusal| Violation {
        code: refusal.code,
        diagnostic: refusal.diagnostic.into_owned(),
    })
}
