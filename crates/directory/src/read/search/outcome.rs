//! How a search ends, or parks.

use std::borrow::Cow;
use std::time::Duration;

use ldap::message::MessageId;
use ldap::result::ResultCode;

use super::parked::{CandidatesSeen, Parked, Phase};
use crate::request::completion::Completion;
use crate::request::controls::response::ResponseControl;
use crate::request::controls::{paged, vlv};
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

    /// The answer to a view that cannot be shown.
    pub(crate) fn no_list_view(code: ResultCode, diagnostic: impl Into<Cow<'static, str>>) -> Self {
        let refusal = Refusal::new(ResultCode::VirtualListViewError, diagnostic);
        Self::refused(refusal).with(vlv::response(0, 0, code, &[]))
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

/// How a search ended.
pub(crate) enum SearchOutcome {
    /// With an answer.
    Done(Done),
    /// Nobody waits for the answer.
    Abandoned,
    /// It is too large for the thread that reads requests.
    TooMuch,
    /// Not at all yet: its receiver has no room, or others wait for the thread.
    Parked(Box<Parked>),
}

impl SearchOutcome {
    /// The search parks; `sent` entries were sent, `seen` candidates looked at.
    pub(super) fn parked(phase: Phase, sent: u32, seen: CandidatesSeen) -> Self {
        Self::Parked(Box::new(Parked {
            phase,
            sent,
            seen,
            controls: Vec::new(),
            begun: Duration::ZERO,
            planned: None,
            spent: 0,
            deferred: None,
            waits_for_room: false,
            stream: None,
            so_far: Completion::of(MessageId::UNSOLICITED, None),
        }))
    }

    /// Adds a response control to an answer.
    pub(super) fn with(self, control: ResponseControl) -> Self {
        match self {
            Self::Done(done) => Self::Done(done.with(control)),
            Self::Parked(mut parked) => {
                parked.controls.push(control);
                Self::Parked(parked)
            }
            Self::Abandoned | Self::TooMuch => self,
        }
    }

    /// The outcome of a search that has parked before: it says what it was to say, unless it has
    /// something else to say of the same.
    pub(super) fn resumed(self, parked: &Parked) -> Self {
        let mut outcome = self;
        for control in &parked.controls {
            let is_said = match &outcome {
                Self::Done(done) => done.says(control.oid),
                Self::Parked(_) | Self::Abandoned | Self::TooMuch => false,
            };
            if !is_said {
                outcome = outcome.with(control.clone());
            }
        }
        outcome
    }
}
