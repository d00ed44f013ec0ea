//! What a connection shows of itself, and its end when somebody asks for that.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use ldap::result::ResultCode;

use super::{Connection, Ending};
use crate::connection::sessions::Activity;

impl Connection {
    /// Serves the client until the session ends or is interrupted, and shows how it is.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Ending> {
        if self.mailbox.status.reason().is_some() && self.poll_closing(cx).is_ready() {
            return Poll::Ready(Ending::Lost);
        }
        let polled = self.poll_session(cx);
        self.show();
        polled
    }

    /// Ends the session; `Ready` when the client has not taken notice in time.
    fn poll_closing(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.state.is_draining() {
            self.settle();
            self.abandon();
            self.log.ends(self.mailbox.status.reason().unwrap_or_default());
            // `unavailable` would send the client to another server.
            self.dismiss(ResultCode::AdminLimitExceeded, "closed by an administrator");
        }
        self.state.poll_deadline(cx, CLOSING_MAX)
    }

    fn show(&mut self) {
        let Self { mailbox, session, log, output, idle, worker, .. } = self;
        let who = session.who();
        if !mailbox.is_shown_as(who) {
            mailbox.status.set_who(who);
            mailbox.set_shown_as(Arc::clone(who));
        }
        let activity = Activity {
            last: idle.last,
            operations: log.operations(),
            outstanding: session.outstanding(),
            waiting_bytes: output.waiting() + mailbox.left_bytes(),
        };
        mailbox.status.set(&worker.shared.sessions, &activity);
    }
}

/// How long a client that reads nothing keeps a connection that is to be closed.
const CLOSING_MAX: Duration = Duration::from_secs(1);
