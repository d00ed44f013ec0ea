//! What is known of the server while the page is shown.
//!
//! Invariant: figures never look fresh when the server has been asked for newer ones in vain.

use std::time::Instant;

use super::draw::{self, Absence, Shown, Style};
use super::frame::Frame;
use super::reading::Reading;
use super::watch::{Look, silence_s};

/// The page.
pub(super) struct Page {
    /// Where the next interval begins.
    before: Reading,
    shown: Option<Frame>,
    absence: Option<Absence>,
    /// Since when an answer is waited for.
    asked: Option<Instant>,
    /// Of the intervals so far; none for a time without a server.
    rates: Vec<Option<f64>>,
}

impl Page {
    pub(super) const fn new(first: Reading) -> Self {
        Self { before: first, shown: None, absence: None, asked: None, rates: Vec::new() }
    }

    /// The server is asked.
    pub(super) const fn asked(&mut self, at: Instant) {
        self.asked = Some(at);
    }

    /// What came of it.
    pub(super) fn told(&mut self, look: Look) {
        self.asked = None;
        self.absence = match look {
            Look::Reading(now) => {
                let frame = Frame::between(&self.before, &now);
                self.before = now;
                self.rates.push(Some(frame.operations_per_s));
                self.shown = Some(frame);
                None
            }
            // What was counted before says nothing about an interval with this.
            Look::Back(now, away) => {
                self.before = now;
                Some(Absence::Back(away.seconds()))
            }
            Look::Away(away) => {
                if !matches!(self.absence, Some(Absence::Away(_))) {
                    self.rates.push(None);
                }
                Some(Absence::Away(away))
            }
        };
    }

    /// Whether the time alone changes what is shown.
    pub(super) const fn is_counting(&self) -> bool {
        self.asked.is_some() || matches!(self.absence, Some(Absence::Away(_)))
    }

    /// How that looks.
    pub(super) fn text(&self, server: &str, style: Style) -> String {
        // That it is away was found out first, and says more.
        let silent = match self.absence {
            Some(Absence::Away(_)) => None,
            Some(Absence::Silent(_) | Absence::Back(_)) | None => silence_s(self.asked),
        };
        let silent = silent.map(Absence::Silent);
        let absence = silent.as_ref().or(self.absence.as_ref());
        match &self.shown {
            Some(frame) => draw::block(frame, server, Shown { rates: &self.rates, absence }, style),
            None => draw::nothing_yet(server, absence, style),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::reading::now;
    use super::super::watch::Away;
    use super::*;

    const COLOURED: Style = Style { has_colour: true, width: 200 };
    const ALARM: &str = "\x1b[1;31m";
    const OLD: &str = "\x1b[2m";

    /// A reading with so many operations.
    fn reading(at: Instant, count: &str) -> Reading {
        let search = &[("roster-operation-count", &[count] as &[_])];
        Reading::made(at, &[("cn=search,cn=operations", search)])
    }

    fn page(style: Style, change: impl FnOnce(&mut Page, Instant)) -> String {
        let at = now() - Duration::from_secs(10);
        let mut page = Page::new(reading(at, "100"));
        page.told(Look::Reading(reading(at + Duration::from_secs(1), "107")));
        change(&mut page, now());
        page.text("ldap://a", style)
    }

    /// `top` showed old figures as if they were new until the client's time-out had passed.
    #[test]
    fn a_silent_server_is_told_of_and_its_figures_are_old() {
        let fresh = page(COLOURED, |page, now| page.asked(now));
        assert!(fresh.contains("operations   7.0/s") && !fresh.contains(OLD), "{fresh}");
        let silent = page(COLOURED, |page, now| page.asked(now - Duration::from_secs(3)));
        let lines = silent.lines().collect::<Vec<_>>();
        let why = format!("{ALARM}no answer for 3 s; the figures are old\x1b[0m");
        assert_eq!(lines[1], why, "{silent}");
        assert!(lines[2].starts_with(&format!("{OLD}operations   7.0/s")), "{silent}");
        let goes_on = page(COLOURED, |page, now| {
            page.asked(now - Duration::from_secs(3));
            assert!(page.is_counting());
            page.told(Look::Reading(reading(now, "143")));
            assert!(!page.is_counting());
        });
        assert!(goes_on.contains("operations   4.0/s") && !goes_on.contains(OLD), "{goes_on}");
    }

    #[test]
    fn before_the_first_interval_it_is_told_as_well() {
        let plain = Style { has_colour: false, width: 200 };
        let mut page = Page::new(reading(now(), "1"));
        assert_eq!(page.text("ldap://a", plain), "roster   ldap://a\nreading …\n");
        page.asked(now() - Duration::from_secs(65));
        assert_eq!(page.text("ldap://a", plain), "roster   ldap://a\nno answer for 1 min\n");
    }

    /// With long intervals, `top` said that the server is away long after it was back.
    #[test]
    fn a_server_that_is_back_is_not_away() {
        let away = |now: Instant| Away {
            since: now - Duration::from_secs(5),
            reason: "it is gone".to_owned(),
        };
        let plain = Style { has_colour: false, width: 200 };
        let gone = page(plain, |page, now| {
            page.told(Look::Away(away(now)));
            // That it does not answer either is no news.
            page.asked(now - Duration::from_secs(2));
        });
        let want = "\ndisconnected for 5 s, reconnecting; the figures are old: it is gone\n";
        assert!(gone.contains(want), "{gone}");
        let back = page(plain, |page, now| {
            page.told(Look::Away(away(now)));
            page.told(Look::Back(reading(now, "1"), away(now)));
            assert!(!page.is_counting());
        });
        assert!(back.contains("\nback after 5 s; the figures are old\n"), "{back}");
    }
}
