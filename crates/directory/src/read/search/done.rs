//! What ends a search.

use ldap::result::ResultCode;

use crate::request::completion::Completion;
use crate::request::controls::paged;
use crate::request::controls::response::ResponseControl;
use crate::request::refusal::Refusal;
use crate::request::sink::ResponseSink;

/// What SearchResultDone says.
pub(crate) struct Done {
    refusal: Refusal,
    controls: Vec<ResponseControl>,
}

impl Done {
    pub(crate) fn refused(refusal: Refusal) -> Self {
        Self { refusal, controls: Vec::new() }
    }

    pub(crate) fn success() -> Self {
        Self::refused(Refusal::new(ResultCode::Success, ""))
    }

    /// The end of a page; an empty cookie says that it was the last.
    pub(crate) fn page(cookie: &[u8]) -> Self {
        let value = Some(paged::response_value(cookie));
        Self::success().with(ResponseControl { oid: paged::OID, value })
    }

    /// The result code.
    pub(crate) fn code(&self) -> ResultCode {
        self.refusal.code
    }

    /// Whether it has a response control of this kind.
    pub(super) fn says(&self, oid: &str) -> bool {
        self.controls.iter().any(|control| control.oid == oid)
    }

    /// Adds a response control.
    pub(crate) fn with(mut self, control: ResponseControl) -> Self {
        self.controls.push(control);
        self
    }

    pub(crate) fn send(self, sink: &mut ResponseSink<'_>) -> Completion {
        let Self { refusal, controls } = self;
        sink.end(refusal, ResponseControl::list(&controls).as_ref())
    }
}
