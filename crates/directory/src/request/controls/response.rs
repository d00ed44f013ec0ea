//! Controls of responses, collected before a response is encoded.

use ldap::message::{Control, ControlsBuf};

/// A control of a response.
#[derive(Clone, Debug)]
pub(crate) struct ResponseControl {
    pub(crate) oid: &'static str,
    pub(crate) value: Option<Vec<u8>>,
}

impl ResponseControl {
    /// Their wire form.
    pub(crate) fn list(controls: &[Self]) -> ControlsBuf {
        let mut list = ControlsBuf::new();
        for Self { oid, value } in controls {
            list.push(Control { oid, critical: false, value: value.as_deref() });
        }
        list
    }
}
