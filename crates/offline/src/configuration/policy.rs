//! Password policies that other servers keep in their configuration: here they are entries of the
//! directory, of everybody below a naming context.

use ldap::dn::escape_value;

use super::ds389;
use super::entries::ConfigEntry;
use super::found::Found;
use super::setting::SettingKind;

/// The policy of `cn=config` of 389, where it says anything.
pub(super) fn of_389(entry: &ConfigEntry, found: &mut Found<'_>) {
    let is_set = SWITCHES.iter().any(|name| entry.is_on(name))
        || entry.is_off("passwordChange")
        || entry.value("passwordMinAge").is_some_and(|age| age != "0");
    if !is_set {
        return;
    }
    let is_known = |name: &str| OF_389.iter().any(|known| known.eq_ignore_ascii_case(name));
    let own = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    let rules: Vec<(String, String)> =
        entry.attributes().filter(|(name, _)| is_known(name)).map(own).collect();
    set(
        entry,
        found,
        &ds389::suffixes(found),
        "Global Password Policy",
        &["passwordPolicy"],
        &rules,
    );
}

/// A policy of everybody below each of the naming contexts who has no other.
pub(super) fn set(
    entry: &ConfigEntry,
    found: &mut Found<'_>,
    suffixes: &[&str],
    name: &str,
    classes: &[&str],
    rules: &[(String, String)],
) {
    if suffixes.is_empty() {
        found.left_out(entry, name, "there is no naming context that it could be a policy of");
    }
    for suffix in suffixes {
        let fixed = [("cn", name), ("subtreeSpecification", "{ }")];
        let classes = ["top", "subentry"].iter().chain(classes);
        let classes = classes.map(|class| ("objectClass", *class));
        let fixed = classes.chain(fixed);
        let fixed = fixed.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let attributes = fixed.chain(rules.iter().cloned()).collect();
        let mut dn = String::from("cn=");
        escape_value(name.as_bytes(), &mut dn);
        let dn = format!("{dn},{suffix}");
        found.set(entry, SettingKind::Entry { dn, attributes });
    }
}

/// Without one of these the rest says nothing.
const SWITCHES: [&str; 6] = [
    "passwordLockout",
    "passwordExp",
    "passwordCheckSyntax",
    "passwordHistory",
    "passwordMustChange",
    "passwordTrackUpdateTime",
];
/// What a policy of 389 is made of.
const OF_389: [&str; 39] = [
    "passwordExp",
    "passwordMaxAge",
    "passwordWarning",
    "passwordGraceLimit",
    "passwordMinAge",
    "passwordHistory",
    "passwordInHistory",
    "passwordChange",
    "passwordMustChange",
    "passwordLockout",
    "passwordMaxFailure",
    "passwordResetFailureCount",
    "passwordLockoutDuration",
    "passwordUnlock",
    "passwordStorageScheme",
    "passwordCheckSyntax",
    "passwordMinLength",
    "passwordMinDigits",
    "passwordMinAlphas",
    "passwordMinUppers",
    "passwordMinLowers",
    "passwordMinSpecials",
    "passwordMin8bit",
    "passwordMinCategories",
    "passwordMaxRepeats",
    "passwordMaxSequence",
    "passwordMaxSeqSets",
    "passwordMaxClassChars",
    "passwordPalindrome",
    "passwordDictCheck",
    "passwordBadWords",
    "passwordUserAttributes",
    "passwordMinTokenLength",
    "passwordTPRMaxUse",
    "passwordTPRDelayValidFrom",
    "passwordTPRDelayExpireAt",
    "passwordTrackUpdateTime",
    "passwordSendExpiringTime",
    "passwordLegacyPolicy",
];
