//! How fresh reads have to be, and what settings say of it: of a listener, or of a part of the
//! tree.

use store::Lsn;

/// How fresh reads are whose requests say nothing of it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum DefaultReadLevel {
    /// As the data are on the server that is asked.
    #[default]
    Local,
    /// The data are not older than so many milliseconds.
    Bounded {
        /// From 1 to 86,400,000, a day.
        staleness_ms: u32,
    },
    /// With everything that was acknowledged before, anywhere.
    Linearizable,
}

/// How fresh the data have to be for a read that does not take what is here.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Freshness {
    /// With the change of this number.
    AtLeast(Lsn),
    /// With everything that was acknowledged anywhere so many milliseconds before.
    Bounded { staleness_ms: u32 },
    /// With everything that was acknowledged anywhere before the read came.
    Linearizable,
}

/// The longest bound that may be set, in milliseconds: a day.
const BOUND_MAX_MS: u32 = 86_400_000;

impl DefaultReadLevel {
    /// Reads `local X`, `bounded 500 X` or `linearizable X`; the level, and what X is.
    #[must_use]
    pub fn before(text: &str) -> Option<(Self, &str)> {
        let (word, rest) = text.trim().split_once(' ')?;
        let (level, rest) = match word {
            "local" => (Self::Local, rest),
            "bounded" => {
                let (number, rest) = rest.trim_start().split_once(' ')?;
                let staleness_ms = number.parse().ok()?;
                let is_possible = (1..=BOUND_MAX_MS).contains(&staleness_ms);
                is_possible.then_some((Self::Bounded { staleness_ms }, rest))?
            }
            "linearizable" => (Self::Linearizable, rest),
            _ => return None,
        };
        let rest = rest.trim_start();
        (!rest.is_empty()).then_some((level, rest))
    }

    /// The one of two with which less can be missed.
    pub(crate) const fn stricter(self, other: Self) -> Self {
        match (self, other) {
            (Self::Linearizable, _) | (_, Self::Linearizable) => Self::Linearizable,
            (Self::Bounded { staleness_ms: a }, Self::Bounded { staleness_ms: b }) => {
                Self::Bounded { staleness_ms: if a < b { a } else { b } }
            }
            (Self::Bounded { staleness_ms }, Self::Local)
            | (Self::Local, Self::Bounded { staleness_ms }) => Self::Bounded { staleness_ms },
            (Self::Local, Self::Local) => Self::Local,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn bounded(staleness_ms: u32) -> DefaultReadLevel {
        DefaultReadLevel::Bounded { staleness_ms }
    }

    #[test]
    fn levels_are_written_before_what_they_are_of() {
        let check = |text: &str, want: Option<(DefaultReadLevel, &str)>| {
            assert_eq!(DefaultReadLevel::before(text), want, "{text:?}");
        };
        check("local ldap", Some((DefaultReadLevel::Local, "ldap")));
        check("bounded 500 dc=a, dc=b", Some((bounded(500), "dc=a, dc=b")));
        check(" linearizable  o=x y ", Some((DefaultReadLevel::Linearizable, "o=x y")));
        for text in ["", "local", "local ", "bounded ldap", "bounded 500", "bounded 0 ldap"] {
            check(text, None);
        }
        check("bounded 86400001 ldap", None);
        check("bounded -1 ldap", None);
        check("Linearizable ldap", None);
        check("at-least ldap", None);
    }

    #[test]
    fn the_stricter_of_two_levels_holds() {
        let (local, linearizable) = (DefaultReadLevel::Local, DefaultReadLevel::Linearizable);
        for (a, b, want) in [
            (local, local, local),
            (local, bounded(5), bounded(5)),
            (bounded(7), bounded(5), bounded(5)),
            (bounded(1), linearizable, linearizable),
            (local, linearizable, linearizable),
        ] {
            assert_eq!(a.stricter(b), want);
            assert_eq!(b.stricter(a), want);
        }
    }
}
