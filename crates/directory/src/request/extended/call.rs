//! What an extended operation is called with beside its request.

use crate::request::controls::request::RequestControls;
use crate::request::received::Envelope;

/// What came with the request.
pub(crate) struct Call<'m> {
    pub(crate) controls: &'m RequestControls<'m>,
    pub(crate) envelope: Envelope<'m>,
}
