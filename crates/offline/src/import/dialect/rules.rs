//! The table of rules: what of another server's records is dropped, renamed, converted or skipped.
//!
//! Invariants: each name of a rule is there once; no rule takes away what a person has entered, but
//! for values that this server cannot use and access rules that it cannot read; the reference in
//! `docs/how-to/migrate.md` is written from this table, and a test compares them.

use super::base;
use super::convert::{self, Convert};
use super::subtree_policy;
use crate::import::record::RawRecord;

/// What happens to what, and why.
pub(super) struct Rule {
    /// What the report calls it.
    pub(super) name: &'static str,
    /// Whose records need it.
    pub(super) products: &'static str,
    pub(super) matches: Match,
    pub(super) action: Action,
    /// The reason, for the reference.
    pub(super) why: &'static str,
}

/// What a rule is about.
pub(super) enum Match {
    /// Values of these attribute types, with whatever options.
    Types(&'static [&'static str]),
    /// Values of these attribute types in entries of Active Directory: those hold one of [`MARKS`].
    MarkedTypes(&'static [&'static str]),
    /// Options of attribute descriptions that begin so.
    Options(&'static [&'static str]),
    /// Values of `objectClass`.
    Classes(&'static [&'static str]),
    /// The same, in entries that have the other class, too.
    ClassesBeside(&'static [&'static str], &'static str),
    /// Names of entries that begin so.
    Names(&'static str),
    /// Password policies of 389 for a subtree, by their names.
    SubtreePolicies,
    /// Persons of Active Directory without this attribute.
    MarkedWithout(&'static str),
    /// Values of `userPassword` whose scheme cannot be verified.
    ForeignPasswords,
    /// Passwords under an option.
    OptionedPasswords,
    /// Entries with a password in their name.
    NamedPasswords,
}

/// What happens to what is matched.
pub(super) enum Action {
    /// The entry is not loaded.
    Skip(&'static str),
    /// The values are left out.
    Drop,
    /// The option is left out; the value stays.
    Strip,
    /// The value stays as it is.
    Keep,
    /// The value takes another form where it has one.
    Rewrite(Convert),
    /// The value goes to another type when the entry has none of it; where it has no other form, it
    /// is left out.
    Move(&'static str, Convert),
    /// The value stays where it is, and goes to another type as by [`Self::Move`].
    Copy(&'static str, Convert),
    /// These classes take the place of the class.
    Classes(&'static [&'static str]),
    /// The first value of this other attribute is taken.
    TakeFrom(&'static str),
    /// The entry becomes a subentry of what it is about.
    MoveUp,
}

impl Action {
    /// For the reference.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Skip(_) => "skips the entry".to_owned(),
            Self::Drop => "drops".to_owned(),
            Self::Strip => "drops the option".to_owned(),
            Self::Keep => "keeps as it is".to_owned(),
            Self::Rewrite(_) => "rewrites".to_owned(),
            Self::Move(into, _) => format!("moves to `{into}`"),
            Self::Copy(into, _) => format!("copies to `{into}`"),
            Self::Classes(classes) => format!("becomes `{}`", classes.join("`, `")),
            Self::TakeFrom(other) => format!("copies it from `{other}`"),
            Self::MoveUp => "becomes a subentry of the top of its subtree".to_owned(),
        }
    }
}

impl Match {
    /// For the reference.
    pub(super) fn describe(&self) -> String {
        let list = |names: &[&str], after: &str| {
            let names: Vec<String> = names.iter().map(|name| format!("`{name}{after}`")).collect();
            names.join(", ")
        };
        match self {
            Self::Types(types) | Self::MarkedTypes(types) => list(types, ""),
            Self::Options(options) => format!("options {}", list(options, "…")),
            Self::Classes(classes) => format!("object class {}", list(classes, "")),
            Self::ClassesBeside(classes, other) => {
                format!("object class {} beside `{other}`", list(classes, ""))
            }
            Self::Names(start) => format!("entries named `{start}…`"),
            Self::SubtreePolicies => {
                "password policies of a subtree below `cn=nsPwPolicyContainer`".to_owned()
            }
            Self::MarkedWithout(kind) => format!("persons without `{kind}`"),
            Self::OptionedPasswords => {
                "`userPassword` and `authPassword` with an option".to_owned()
            }
            Self::NamedPasswords => "entries with a password in their name".to_owned(),
            Self::ForeignPasswords => {
                "`userPassword` with a scheme that cannot be verified".to_owned()
            }
        }
    }
}

/// Each of these shows that an entry comes from Active Directory.
pub(super) const MARKS: &[&str] =
    &["objectGUID", "instanceType", "objectCategory", "uSNCreated", "dSCorePropagationData"];

/// What an entry has only where there are access rules: rules that are not loaded, ACIs, which are
/// not when the entry is left out, and marks of servers that show nothing without a rule.
const RULE_MARKS: &[&str] = &[
    "aci",
    "2.16.840.1.113730.3.1.55",
    // Oracle.
    "orclACI",
    "orclEntryLevelACI",
    "orclGUID",
    // 389 and Sun.
    "nsUniqueId",
    "2.16.840.1.113730.3.1.542",
    // Active Directory.
    "nTSecurityDescriptor",
    "1.2.840.113556.1.2.281",
    "objectGUID",
    "1.2.840.113556.1.4.2",
];

/// Names of what OpenLDAP, and this server, stamp every entry with; it takes both.
const STAMPS: [[&str; 2]; 2] =
    [["entryCSN", "1.3.6.1.4.1.4203.666.1.7"], ["structuralObjectClass", "2.5.21.9"]];

/// Whether a record shows that its server has access rules that may be no part of what is loaded.
/// OpenDJ's rules are all in the ACIs of its entries, so its own marks show nothing.
pub(super) fn has_rules_elsewhere(record: &RawRecord<'_>) -> bool {
    let has = |wanted: &[&str]| {
        let mut names = record.attributes.iter().map(|(description, _)| base(description));
        names.any(|name| wanted.iter().any(|one| one.eq_ignore_ascii_case(name)))
    };
    has(RULE_MARKS) || STAMPS.iter().all(|names| has(names))
}

const fn drops(
    name: &'static str,
    products: &'static str,
    types: &'static [&'static str],
    why: &'static str,
) -> Rule {
    Rule { name, products, matches: Match::Types(types), action: Action::Drop, why }
}

const fn moves(
    name: &'static str,
    products: &'static str,
    types: &'static [&'static str],
    into: &'static str,
    how: Convert,
    why: &'static str,
) -> Rule {
    Rule { name, products, matches: Match::Types(types), action: Action::Move(into, how), why }
}

const fn rewrites(
    name: &'static str,
    products: &'static str,
    types: &'static [&'static str],
    how: Convert,
    why: &'static str,
) -> Rule {
    Rule { name, products, matches: Match::Types(types), action: Action::Rewrite(how), why }
}

const fn skips(
    name: &'static str,
    products: &'static str,
    matches: Match,
    reason: &'static str,
    why: &'static str,
) -> Rule {
    Rule { name, products, matches, action: Action::Skip(reason), why }
}

/// Every rule. Where two want to set the same attribute, the first one does.
pub(super) static RULES: &[Rule] = &[
    // Entries that are no entries.
    skips(
        "389-replica-update-vector",
        SUN,
        Match::Names("nsuniqueid=ffffffff-ffffffff-ffffffff-ffffffff"),
        "replication state (RUV), not an entry",
        "Replication state of the other server; of no use to another product.",
    ),
    skips(
        "389-tombstone",
        SUN,
        Match::Classes(&["nsTombstone"]),
        "a tombstone: the entry was deleted",
        "A deleted entry, kept only for replication.",
    ),
    skips(
        "389-replication-conflict",
        SUN,
        Match::Types(&["nsds5ReplConflict"]),
        "an unresolved naming conflict of replication",
        "The winning entry has the name; check the others in the skip file.",
    ),
    Rule {
        name: "openldap-glue",
        products: "OpenLDAP",
        matches: Match::Classes(&["glue"]),
        action: Action::Classes(&["namedObject", "extensibleObject"]),
        why: "Entries below it need a superior.",
    },
    Rule {
        name: "389-container",
        products: SUN,
        matches: Match::ClassesBeside(&["nsContainer"], "ldapSubEntry"),
        action: Action::Drop,
        why: "Both are structural; an entry has one structural class.",
    },
    // What replication and the database of another server know.
    Rule {
        name: "389-deleted-value",
        products: SUN,
        matches: Match::Options(&["deleted"]),
        action: Action::Drop,
        why: "Deleted values and attributes, kept only for replication.",
    },
    Rule {
        name: "389-value-state",
        products: SUN,
        matches: Match::Options(&["adcsn-", "mdcsn-", "vdcsn-", "vucsn-"]),
        action: Action::Strip,
        why: "The times of changes; the newest becomes `entryCSN` if the entry has none.",
    },
    drops(
        "389-database-ids",
        SUN,
        &[
            "entryId",
            "parentId",
            "entryUSN",
            "dncomp",
            "dsEntryDN",
            "tombstoneNumSubordinates",
            "nscpEntryDN",
            "nscpEntryWSI",
            "nsParentUniqueId",
        ],
        "Numbers and names of the other server's database.",
    ),
    drops(
        "389-replication-state",
        SUN,
        &[
            "nsds50ruv",
            "ds6ruv",
            "nsds5agmtmaxcsn",
            "nsruvReplicaLastModified",
            "nstombstonecsn",
            "copiedFrom",
            "copyingFrom",
            "nsSchemaCSN",
        ],
        "Replication state of the other server; of no use to another product.",
    ),
    drops(
        "opendj-replication-state",
        OPENDJ,
        &[
            "ds-sync-state",
            "ds-sync-generation-id",
            "ds-sync-conflict",
            "ds-sync-fractional-exclude",
            "ds-sync-fractional-include",
        ],
        "Replication state of the other server; of no use to another product.",
    ),
    drops(
        "openldap-context",
        "OpenLDAP",
        &["contextCSN", "syncreplCookie", "pwdAccountTmpLockoutEnd"],
        "Replication state, and locks that expire.",
    ),
    drops(
        "computed-attributes",
        "all",
        &[
            "entryDN",
            "hasSubordinates",
            "numSubordinates",
            "subschemaSubentry",
            "isMemberOf",
            "isDirectMemberOf",
            "memberOf",
            "nsRole",
            "etag",
            "governingStructureRule",
        ],
        "This server computes them, or does not maintain them.",
    ),
    // Identity.
    rewrites(
        "entry-uuid-octets",
        "all",
        &["entryUUID"],
        convert::uuid_from_octets,
        "16 bytes become text; text stays.",
    ),
    moves(
        "389-unique-id",
        SUN,
        &["nsUniqueId"],
        "entryUUID",
        convert::uuid_from_digits,
        "The same number in its usual form.",
    ),
    moves(
        "oid-guid",
        OID,
        &["orclGUID"],
        "entryUUID",
        convert::uuid_from_digits,
        "The same number in its usual form.",
    ),
    moves(
        "ad-guid",
        AD,
        &["objectGUID"],
        "entryUUID",
        convert::uuid_from_guid,
        "The same number in its usual form.",
    ),
    // Times and change numbers.
    moves("ad-created", AD, &["whenCreated"], "createTimestamp", convert::time, "The same time."),
    moves("ad-changed", AD, &["whenChanged"], "modifyTimestamp", convert::time, "The same time."),
    rewrites(
        "oid-times",
        OID,
        &[
            "createTimestamp",
            "modifyTimestamp",
            "pwdChangedTime",
            "pwdAccountLockedTime",
            "pwdFailureTime",
            "pwdGraceUseTime",
        ],
        convert::other_time,
        "Times there end in `z`, in RFC 4517 in `Z`; zero fractions are removed.",
    ),
    rewrites(
        "openldap-old-csn",
        "OpenLDAP before 2.4",
        &["entryCSN"],
        convert::csn_from_old_openldap,
        "Change numbers there have no microseconds.",
    ),
    moves(
        "opendj-history",
        OPENDJ,
        &["ds-sync-hist"],
        "entryCSN",
        convert::csn_from_history,
        "The newest change number becomes `entryCSN`; the history of values is not used here.",
    ),
    // Accounts and passwords.
    rewrites(
        "password-plain",
        "all",
        &["userPassword"],
        convert::plain_password,
        "`{CLEAR}` and `{BASE64}` contain the password itself, which is then hashed.",
    ),
    Rule {
        name: "password-foreign",
        products: "all",
        matches: Match::ForeignPasswords,
        action: Action::Keep,
        why: "It cannot be used to sign in; it is kept for a release that can verify it.",
    },
    Rule {
        name: "password-option",
        products: "all",
        matches: Match::OptionedPasswords,
        action: Action::Keep,
        why: "It cannot be used to sign in, because passwords take no options here; it is removed \
              when the password is changed.",
    },
    Rule {
        name: "password-name",
        products: "all",
        matches: Match::NamedPasswords,
        action: Action::Keep,
        why: "Names appear in logs and responses. Rename the entry; a new name with a password is \
              refused.",
    },
    moves(
        "389-password-changed",
        SUN,
        &["pwdUpdateTime"],
        "pwdChangedTime",
        convert::time,
        "The same time.",
    ),
    moves(
        "389-last-login",
        SUN,
        &["lastLoginTime", "pwdLastAuthTime"],
        "pwdLastSuccess",
        convert::time,
        "The same time.",
    ),
    moves(
        "389-password-history",
        SUN,
        &["passwordHistory"],
        "pwdHistory",
        convert::history_from_389,
        "Former passwords; converted to the form of the draft.",
    ),
    moves(
        "389-password-policy",
        SUN,
        &["passwordPolicySubentry"],
        "pwdPolicySubentry",
        keep,
        "The draft's name for it.",
    ),
    Rule {
        name: "389-subtree-policy",
        products: "389",
        matches: Match::SubtreePolicies,
        action: Action::MoveUp,
        why: "There, Class of Service gives it to the entries; here, `subtreeSpecification` does.",
    },
    rewrites(
        "389-subtree-policy-pointer",
        "389",
        &["pwdPolicySubentry"],
        subtree_policy::value,
        "It follows the policy.",
    ),
    drops(
        "389-password-state",
        SUN,
        &[
            "passwordExpirationTime",
            "passwordExpWarned",
            "pwdExpirationWarned",
            "passwordRetryCount",
            "retryCountResetTime",
            "accountUnlockTime",
            "passwordGraceUserTime",
            "pwdGraceUserTime",
            "passwordAllowChangeTime",
        ],
        "Counters and times that follow from others, or expire.",
    ),
    drops(
        "389-internal-names",
        SUN,
        &["internalCreatorsName", "internalModifiersName"],
        "The component of the other server that made a change.",
    ),
    moves(
        "openldap-last-bind",
        "OpenLDAP",
        &["authTimestamp"],
        "pwdLastSuccess",
        convert::time,
        "The same time.",
    ),
    moves(
        "opendj-last-login",
        OPENDJ,
        &["ds-pwp-last-login-time"],
        "pwdLastSuccess",
        convert::time,
        "The same time; formats other than GeneralizedTime are dropped.",
    ),
    moves(
        "opendj-disabled",
        OPENDJ,
        &["ds-pwp-account-disabled"],
        "nsAccountLock",
        convert::lock_from_boolean,
        "The account stays disabled.",
    ),
    moves(
        "opendj-expiration",
        OPENDJ,
        &["ds-pwp-account-expiration-time"],
        "pwdEndTime",
        convert::time,
        "The same time.",
    ),
    moves(
        "opendj-password-policy",
        OPENDJ,
        &["ds-pwp-password-policy-dn"],
        "pwdPolicySubentry",
        keep,
        "The draft's name for it.",
    ),
    drops(
        "opendj-password-state",
        OPENDJ,
        &[
            "ds-pwp-password-changed-by-required-time",
            "ds-pwp-password-expiration-time",
            "ds-pwp-reset-time",
            "ds-pwp-warned-time",
            "ds-pwp-last-login-ip-address",
        ],
        "Times that follow from others.",
    ),
    // Oracle Internet Directory.
    moves(
        "oid-common-password",
        OID,
        &["authPassword;orclcommonpwd"],
        "userPassword",
        convert::verifiable_password,
        "The user's password, if `userPassword` is not exported.",
    ),
    drops(
        "oid-verifiers",
        OID,
        &["authPassword;oid", "orclPassword", "orclPasswordVerifier", "orclRevPwd"],
        "Hashes of the password for other Oracle products.",
    ),
    drops(
        "oid-internal",
        OID,
        &["orclNormDN", "orclEntryDN", "orclCatalogedAttrs"],
        "Names of the other server's database.",
    ),
    drops(
        "oid-access",
        OID,
        &["orclACI", "orclEntryLevelACI"],
        "Access rules in Oracle's own syntax. Rewrite them as ACIs.",
    ),
    moves(
        "oid-disabled",
        OID,
        &["orclIsEnabled"],
        "nsAccountLock",
        convert::lock_from_enabled,
        "The account stays disabled.",
    ),
    moves(
        "oid-start",
        OID,
        &["orclActiveStartDate"],
        "pwdStartTime",
        convert::time,
        "The same time.",
    ),
    moves("oid-end", OID, &["orclActiveEndDate"], "pwdEndTime", convert::time, "The same time."),
    // Active Directory.
    Rule {
        name: "ad-computed",
        products: AD,
        matches: Match::MarkedTypes(&[
            "distinguishedName",
            "name",
            "instanceType",
            "objectCategory",
            "uSNCreated",
            "uSNChanged",
            "uSNLastObjRem",
            "uSNDSALastObjRemoved",
            "dSCorePropagationData",
            "nTSecurityDescriptor",
            "isCriticalSystemObject",
            "systemFlags",
            "showInAdvancedViewOnly",
            "replPropertyMetaData",
            "replUpToDateVector",
            "repsFrom",
            "repsTo",
            "subRefs",
            "masteredBy",
            "msDs-masteredBy",
            "lastKnownParent",
        ]),
        action: Action::Drop,
        why: "Attributes that a domain controller maintains for each entry.",
    },
    Rule {
        name: "ad-logon-state",
        products: AD,
        matches: Match::MarkedTypes(&[
            "badPasswordTime",
            "badPwdCount",
            "lastLogoff",
            "lastLogon",
            "logonCount",
            "lockoutTime",
        ]),
        action: Action::Drop,
        why: "Counters of a single domain controller.",
    },
    moves(
        "ad-last-logon",
        AD,
        &["lastLogonTimestamp"],
        "pwdLastSuccess",
        convert::time_from_ticks,
        "The same time.",
    ),
    moves(
        "ad-password-changed",
        AD,
        &["pwdLastSet"],
        "pwdChangedTime",
        convert::time_from_ticks,
        "The same time.",
    ),
    moves(
        "ad-expiration",
        AD,
        &["accountExpires"],
        "pwdEndTime",
        convert::time_from_ticks,
        "The same time; an account that never expires has none.",
    ),
    Rule {
        name: "ad-disabled",
        products: AD,
        matches: Match::Types(&["userAccountControl"]),
        action: Action::Copy("nsAccountLock", convert::lock_from_control),
        why: "The account stays disabled.",
    },
    Rule {
        name: "ad-surname",
        products: AD,
        matches: Match::MarkedWithout("sn"),
        action: Action::TakeFrom("cn"),
        why: "`person` requires a surname by RFC 4519, but not in Active Directory.",
    },
];

fn keep(value: &[u8]) -> Option<Vec<u8>> {
    Some(value.to_vec())
}

const SUN: &str = "389, Sun";
const OPENDJ: &str = "OpenDJ, OUD";
const OID: &str = "Oracle";
const AD: &str = "Active Directory";
