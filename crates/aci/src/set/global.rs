//! The ACIs of a directory that nobody has given any: one table.

/// What the global ACIs of a directory are before an administrator writes others.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum GlobalAcis {
    /// Nobody reads entries, and nobody changes any: the ACIs of the entries say who may.
    Closed,
    /// Who is signed in reads what is not secret, and changes the own password.
    #[default]
    SignedIn,
    /// Anyone reads what is not secret; who is signed in changes the own password.
    Public,
}

impl GlobalAcis {
    /// Their texts.
    pub fn texts(self) -> Vec<&'static str> {
        let own = match self {
            Self::Closed => &[][..],
            Self::SignedIn => &[READ_BY_SIGNED_IN, OWN_PASSWORD],
            Self::Public => &[READ_BY_ANYONE, OWN_PASSWORD],
        };
        FOR_EVERYBODY.iter().chain(own).copied().collect()
    }
}

/// What clients need to find out what they talk to, and to ask at all.
const FOR_EVERYBODY: &[&str] = &[
    "(target = \"ldap:///\")(targetscope = \"base\")(targetattr = \"* || +\")(version 3.0; acl \
     \"Anyone reads the root DSE\"; allow (read,search,compare) userdn = \"ldap:///anyone\";)",
    "(target = \"ldap:///cn=schema\")(targetscope = \"base\")(targetattr = \"* || +\")(version \
     3.0; acl \"Anyone reads the schema\"; allow (read,search,compare) userdn = \
     \"ldap:///anyone\";)",
    "(targetcontrol = \"*\")(version 3.0; acl \"Anyone uses controls\"; allow (read) userdn = \
     \"ldap:///anyone\";)",
    "(extop = \"*\")(version 3.0; acl \"Anyone uses extended operations\"; allow (read) userdn = \
     \"ldap:///anyone\";)",
];

/// All but secrets and what says who may do what, and how much of it.
macro_rules! not_secret {
    ($name:literal, $who:literal) => {
        concat!(
            "(targetattr != \"#secret || aci || ds-privilege-name || ds-rlim-size-limit || ",
            "ds-rlim-time-limit || ds-rlim-lookthrough-limit || ds-rlim-idle-time-limit || ",
            "ds-rlim-connection-limit || ds-rlim-operation-limit || ",
            "ds-rlim-search-work-limit || ds-rlim-paged-total-limit || nsSizeLimit || ",
            "nsTimeLimit || nsLookThroughLimit || nsIdleTimeout\")(version 3.0; acl \"",
            $name,
            "\"; allow (read,search,compare) userdn = \"ldap:///",
            $who,
            "\";)"
        )
    };
}

const READ_BY_SIGNED_IN: &str = not_secret!("Who is signed in reads what is not secret", "all");
const READ_BY_ANYONE: &str = not_secret!("Anyone reads what is not secret", "anyone");
const OWN_PASSWORD: &str = "(targetattr = \"userPassword || authPassword\")(version 3.0; acl \
     \"Everybody changes the own password\"; allow (write) userdn = \"ldap:///self\";)";
