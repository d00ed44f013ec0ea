//! What ACIs allow and deny.

/// One right.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Right {
    /// To get values of an attribute.
    Read,
    /// To use an attribute in a filter.
    Search,
    /// To assert a value of an attribute.
    Compare,
    /// To change values of an attribute.
    Write,
    /// To add the own name to an attribute, or take it out.
    SelfWrite,
    /// To add an entry.
    Add,
    /// To delete an entry.
    Delete,
    /// To move entries below this one.
    Import,
    /// To move this entry away.
    Export,
    /// To act as this entry.
    Proxy,
}

impl Right {
    /// Every right.
    pub const ALL: [Self; 10] = [
        Self::Read,
        Self::Search,
        Self::Compare,
        Self::Write,
        Self::SelfWrite,
        Self::Add,
        Self::Delete,
        Self::Import,
        Self::Export,
        Self::Proxy,
    ];

    /// How it is written in an ACI.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Search => "search",
            Self::Compare => "compare",
            Self::Write => "write",
            Self::SelfWrite => "selfwrite",
            Self::Add => "add",
            Self::Delete => "delete",
            Self::Import => "import",
            Self::Export => "export",
            Self::Proxy => "proxy",
        }
    }

    /// Finds a right by its name in any case.
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|right| right.name().eq_ignore_ascii_case(name))
    }

    /// Whether it is a right to attributes, not to entries as a whole.
    pub const fn is_of_attributes(self) -> bool {
        matches!(self, Self::Read | Self::Search | Self::Compare | Self::Write | Self::SelfWrite)
    }

    pub(crate) const fn bit(self) -> u16 {
        1 << self as u16
    }
}

impl std::fmt::Display for Right {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// A set of rights.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Rights(u16);

impl Rights {
    /// What `all` means: everything but import, export and proxy.
    pub(crate) const ALL: Self = Self(
        Right::Read.bit()
            | Right::Search.bit()
            | Right::Compare.bit()
            | Right::Write.bit()
            | Right::SelfWrite.bit()
            | Right::Add.bit()
            | Right::Delete.bit(),
    );

    /// Those and the other three.
    pub(crate) const EVERY: Self =
        Self(Self::ALL.0 | Right::Import.bit() | Right::Export.bit() | Right::Proxy.bit());

    /// Whether the right is among them.
    pub(crate) const fn has(self, right: Right) -> bool {
        self.0 & right.bit() != 0
    }

    /// Those of both.
    #[must_use]
    pub(crate) const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether every right of `other` is among them.
    pub(crate) const fn holds(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl From<Right> for Rights {
    fn from(right: Right) -> Self {
        Self(right.bit())
    }
}

impl std::fmt::Display for Rights {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let all = self.holds(Self::ALL);
        let mut names: Vec<&str> = if all { vec!["all"] } else { Vec::new() };
        let is_named = |right: &Right| self.has(*right) && !(all && Self::ALL.has(*right));
        names.extend(Right::ALL.into_iter().filter(is_named).map(Right::name));
        f.write_str(&names.join(","))
    }
}
