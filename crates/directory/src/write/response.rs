//! The answer to an update request, before it is encoded.

use ldap::result::ResultCode;

use crate::password_policy;
use crate::request::completion::{Completion, WriteDone};
use crate::request::controls::response::ResponseControl;
use crate::request::refusal::Refusal;
use crate::request::sink::ResponseSink;
use crate::write::request::WriteRequest;

/// The answer to an update request.
#[derive(Debug)]
pub(crate) struct WriteResponse {
    /// The result; a success is a refusal that has nothing to say.
    pub(crate) result: Refusal,
    /// The value of an extended response.
    pub(crate) value: Option<Vec<u8>>,
    /// Controls of the response.
    pub(crate) controls: Vec<ResponseControl>,
}

impl From<Refusal> for WriteResponse {
    fn from(result: Refusal) -> Self {
        Self { result, value: None, controls: Vec::new() }
    }
}

impl WriteResponse {
    /// The answer that says no more than success.
    pub(crate) fn success() -> Self {
        Self::from(Refusal::new(ResultCode::Success, ""))
    }

    /// The answer of its own, as it is sent when what it depends on is durable.
    pub(crate) fn encode(self, request: &WriteRequest) -> WriteDone {
        let value_bytes = self.value.as_ref().map_or(0, |value| value.len() + VALUE_ROOM_BYTES);
        let mut bytes = Vec::with_capacity(value_bytes);
        let mut sink = ResponseSink::new(&mut bytes, request.id, Some(request.operation));
        let completion = self.send(request.asks_policy(), &mut sink);
        WriteDone { bytes, completion }
    }

    /// Sends the answer; `asks_policy` as [`WriteRequest::asks_policy`] says.
    pub(crate) fn send(self, asks_policy: Option<bool>, sink: &mut ResponseSink<'_>) -> Completion {
        let Self { result, value, controls } = self;
        let mut list = ResponseControl::list(&controls);
        if let Some(tells) = asks_policy {
            password_policy::add_to(&mut list, tells, result.policy);
        }
        match &value {
            None => sink.end(result, list.as_ref()),
            Some(value) => sink.extended_with(result, None, Some(value), list.as_ref()),
        }
    }
}

/// What a response takes besides a value.
const VALUE_ROOM_BYTES: usize = 1024;
