//! The attributes of policy entries: one row for each name that a product has for a rule.
//!
//! Invariant: what is read is understood as a whole or not at all.
//! Invariant: where an entry has several names for one rule, the draft's holds, then OpenDJ's.

mod page;
mod takes;

#[cfg(test)]
mod tests;

use std::time::Duration;

use schema::{EntryRead, Schema};

pub use self::page::reference_page;
pub(super) use self::takes::HISTORY_MAX;
use self::takes::Takes;
use super::attributes::{text, visit};
use super::quality::Quality;
use super::rules::{CheckQuality, Hashed, Policy, PolicyFault};

/// Whose name it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Product {
    /// draft-behera-ldap-password-policy, OpenLDAP, Oracle.
    Draft,
    /// 389 Directory Server, Red Hat and Sun.
    Ds389,
    /// OpenDJ, OpenDS, `ds-pwp-` in entries and `ds-cfg-` in its configuration.
    OpenDj,
}

/// One name.
pub(super) struct Row {
    product: Product,
    attribute: &'static str,
    takes: Takes,
    /// For the reference page.
    does: &'static str,
}

/// What was read so far. Of 389 some attributes are switches of others.
#[derive(Default)]
pub(super) struct Said {
    policy: Policy,
    switches: Switches,
}

/// What 389 switches, and what is switched.
#[derive(Default)]
struct Switches {
    is_checked: bool,
    expires: bool,
    max_age: Option<Duration>,
    is_remembered: Option<bool>,
    stays_locked: bool,
    min_length: Option<u32>,
    min_categories: Option<u32>,
    min_token_length: Option<u32>,
    /// Rules of OpenDJ's validators: they check by being there.
    has_validator: bool,
    /// One of the draft's names is there.
    quality_of_draft: Option<CheckQuality>,
}

/// Reads a policy entry. What it does not say is no rule, or what the product has as its default.
pub(super) fn read(entry: &dyn EntryRead, schema: &Schema) -> Result<Policy, PolicyFault> {
    let mut said =
        Said { policy: Policy { allow_user_change: true, ..Policy::default() }, ..Said::default() };
    let is_389 = has_class(entry, schema, "passwordPolicy");
    if is_389 {
        said.policy.max_failures = DS389_MAX_FAILURES;
        said.policy.lockout_duration = Some(DS389_LOCKOUT);
        said.policy.failure_interval = Some(DS389_FAILURE_INTERVAL);
        said.policy.expire_warning = Some(DS389_WARNING);
    }
    read_rows(&mut said, DS389, entry, schema)?;
    said.switch();
    read_rows(&mut said, OPENDJ, entry, schema)?;
    read_rows(&mut said, DRAFT, entry, schema)?;
    Ok(said.finish())
}

fn read_rows(
    said: &mut Said,
    rows: &[Row],
    entry: &dyn EntryRead,
    schema: &Schema,
) -> Result<(), PolicyFault> {
    for row in rows {
        let value = match row.takes {
            Takes::Words(_) => all_values(entry, schema, row.attribute),
            Takes::Nothing => continue,
            _ => text(entry, schema, row.attribute),
        };
        let Some(value) = value else { continue };
        row.takes.set(said, value.trim()).map_err(|takes| PolicyFault {
            attribute: row.attribute,
            value: value.chars().take(SHOWN_MAX_CHARACTERS).collect(),
            takes,
        })?;
    }
    Ok(())
}

/// All values of an attribute, one behind the other.
fn all_values(entry: &dyn EntryRead, schema: &Schema, attribute: &str) -> Option<String> {
    let mut all = String::new();
    let mut is_there = false;
    visit(entry, schema, attribute, &mut |value| {
        is_there = true;
        all.push_str(value);
        all.push(' ');
        all.len() <= WORDS_MAX_BYTES
    });
    is_there.then_some(all)
}

fn has_class(entry: &dyn EntryRead, schema: &Schema, name: &str) -> bool {
    let mut found = false;
    visit(entry, schema, "objectClass", &mut |class| {
        found = class.eq_ignore_ascii_case(name);
        !found
    });
    found
}

impl Said {
    /// After 389's attributes: what its switches leave of them.
    fn switch(&mut self) {
        let Self { policy, switches } = self;
        if switches.expires {
            policy.max_age = switches.max_age.or(Some(DS389_MAX_AGE));
        }
        match switches.is_remembered {
            Some(false) => policy.in_history = 0,
            Some(true) if policy.in_history == 0 => policy.in_history = DS389_IN_HISTORY,
            Some(true) | None => {}
        }
        if switches.stays_locked {
            policy.lockout_duration = None;
        }
        policy.min_length = switches.min_length.unwrap_or(0);
        policy.quality.min_categories = switches.min_categories.unwrap_or(0);
        policy.quality.min_token_length = switches.min_token_length.unwrap_or(0);
        if switches.is_checked {
            policy.check_quality = CheckQuality::WherePossible;
            policy.min_length = switches.min_length.unwrap_or(DS389_MIN_LENGTH);
            policy.quality.min_categories = switches.min_categories.unwrap_or(DS389_MIN_CATEGORIES);
            policy.quality.min_token_length = switches.min_token_length.unwrap_or(DS389_MIN_TOKEN);
            add_own(&mut policy.quality);
        }
    }

    fn finish(self) -> Policy {
        let Self { mut policy, switches } = self;
        if switches.has_validator {
            policy.check_quality = CheckQuality::WherePossible;
        }
        if let Some(check_quality) = switches.quality_of_draft {
            policy.check_quality = check_quality;
            if check_quality != CheckQuality::Off {
                policy.quality.dictionary = true;
                add_own(&mut policy.quality);
            }
        }
        policy
    }
}

/// The attributes that say who somebody is.
pub(super) fn own_attributes() -> Vec<String> {
    ["uid", "cn", "sn", "givenName", "displayName", "mail", "ou"].map(str::to_owned).to_vec()
}

fn add_own(quality: &mut Quality) {
    for name in own_attributes() {
        if !quality.own_attributes.iter().any(|one| one.eq_ignore_ascii_case(&name)) {
            quality.own_attributes.push(name);
        }
    }
}

const fn draft(attribute: &'static str, takes: Takes, does: &'static str) -> Row {
    Row { product: Product::Draft, attribute, takes, does }
}

const fn ds389(attribute: &'static str, takes: Takes, does: &'static str) -> Row {
    Row { product: Product::Ds389, attribute, takes, does }
}

const fn opendj(attribute: &'static str, takes: Takes, does: &'static str) -> Row {
    Row { product: Product::OpenDj, attribute, takes, does }
}

/// All rows, as the reference page lists them.
pub(super) fn all() -> impl Iterator<Item = &'static Row> {
    [DRAFT, DS389, OPENDJ].into_iter().flatten()
}

#[rustfmt::skip]
const DRAFT: &[Row] = &[
    draft("pwdAttribute", Takes::Nothing, "The attribute with the password; it is always userPassword."),
    draft("pwdMinAge", Takes::Seconds(|s, n| s.policy.min_age = n), "How long a password has to be used before its owner may change it."),
    draft("pwdMaxAge", Takes::Seconds(|s, n| s.policy.max_age = n), "How long a password is good."),
    draft("pwdInHistory", Takes::History(|s, n| s.policy.in_history = n), "How many used passwords must not be used again."),
    draft("pwdCheckQuality", Takes::Check(|s, check| s.switches.quality_of_draft = Some(check)), "0: passwords are not looked at. 1: those in clear text are; hashed ones are accepted. 2: hashed ones are refused."),
    draft("pwdMinLength", Takes::Number(|s, n| s.policy.min_length = n), "Least characters."),
    draft("pwdMaxLength", Takes::Number(|s, n| s.policy.max_length = n), "Most characters."),
    draft("pwdExpireWarning", Takes::Seconds(|s, n| s.policy.expire_warning = n), "How long before it expires binds are told so."),
    draft("pwdGraceAuthNLimit", Takes::Number(|s, n| s.policy.grace_logins = n), "For how many binds an expired password is good."),
    draft("pwdGraceExpiry", Takes::Seconds(|s, n| s.policy.grace_expiry = n), "For how long after it expired."),
    draft("pwdLockout", Takes::Switch(|s, on| s.policy.lockout = on), "Whether failed binds lock the account."),
    draft("pwdLockoutDuration", Takes::Seconds(|s, n| s.policy.lockout_duration = n), "For how long; 0: until somebody unlocks it."),
    draft("pwdMaxFailure", Takes::Number(|s, n| s.policy.max_failures = n), "After how many failures."),
    draft("pwdFailureCountInterval", Takes::Seconds(|s, n| s.policy.failure_interval = n), "For how long a failure counts; 0: until a bind succeeds."),
    draft("pwdMaxRecordedFailure", Takes::Number(|s, n| s.policy.max_recorded_failures = n), "How many failures are noted."),
    draft("pwdMustChange", Takes::Switch(|s, on| (s.policy.must_change, s.policy.must_change_new) = (on, on)), "Whether a password that somebody else set has to be changed first."),
    draft("pwdAllowUserChange", Takes::Switch(|s, on| s.policy.allow_user_change = on), "Whether people may change their own password."),
    draft("pwdSafeModify", Takes::Switch(|s, on| s.policy.safe_modify = on), "Whether the old password has to be sent with the new one."),
    draft("pwdMinDelay", Takes::Seconds(|s, n| s.policy.min_delay = n), "How long binds wait after the first failure."),
    draft("pwdMaxDelay", Takes::Seconds(|s, n| s.policy.max_delay = n), "Up to what that doubles with each failure."),
    draft("pwdMaxIdle", Takes::Seconds(|s, n| s.policy.max_idle = n), "After how long without a bind the account is locked."),
    draft("pwdKeepLastAuthTime", Takes::Switch(|s, on| s.policy.records_login = on), "Whether pwdLastSuccess is kept although no rule needs it (Sun's name)."),
    draft("pwdDefaultHash", Takes::Scheme(|s, scheme| s.policy.scheme = Some(scheme)), "How passwords are stored, instead of `[password] scheme` (OpenLDAP's name)."),
    draft("pwdUseCheckModule", Takes::Nothing, "Not needed: quality is part of the policy."),
];

#[rustfmt::skip]
const DS389: &[Row] = &[
    ds389("passwordExp", Takes::Switch(|s, on| s.switches.expires = on), "Whether passwordMaxAge holds."),
    ds389("passwordMaxAge", Takes::Seconds(|s, n| s.switches.max_age = n), "pwdMaxAge; 100 days when only passwordExp is on."),
    ds389("passwordWarning", Takes::Seconds(|s, n| s.policy.expire_warning = n), "pwdExpireWarning; a day when it is not there."),
    ds389("passwordGraceLimit", Takes::Number(|s, n| s.policy.grace_logins = n), "pwdGraceAuthNLimit."),
    ds389("passwordMinAge", Takes::Seconds(|s, n| s.policy.min_age = n), "pwdMinAge."),
    ds389("passwordHistory", Takes::Switch(|s, on| s.switches.is_remembered = Some(on)), "off: passwordInHistory does not hold."),
    ds389("passwordInHistory", Takes::History(|s, n| s.policy.in_history = n), "pwdInHistory; 6 when only passwordHistory is on."),
    ds389("passwordChange", Takes::Switch(|s, on| s.policy.allow_user_change = on), "pwdAllowUserChange."),
    ds389("passwordMustChange", Takes::Switch(|s, on| (s.policy.must_change, s.policy.must_change_new) = (on, on)), "pwdMustChange."),
    ds389("passwordLockout", Takes::Switch(|s, on| s.policy.lockout = on), "pwdLockout."),
    ds389("passwordMaxFailure", Takes::Number(|s, n| s.policy.max_failures = n), "pwdMaxFailure; 3 when it is not there."),
    ds389("passwordResetFailureCount", Takes::Seconds(|s, n| s.policy.failure_interval = n), "pwdFailureCountInterval; 10 minutes when it is not there."),
    ds389("passwordLockoutDuration", Takes::Seconds(|s, n| s.policy.lockout_duration = n), "pwdLockoutDuration; an hour when it is not there."),
    ds389("passwordUnlock", Takes::Switch(|s, on| s.switches.stays_locked = !on), "off: an account stays locked until somebody unlocks it."),
    ds389("passwordStorageScheme", Takes::Scheme(|s, scheme| s.policy.scheme = Some(scheme)), "How passwords are stored, instead of `[password] scheme`."),
    ds389("passwordCheckSyntax", Takes::Switch(|s, on| s.switches.is_checked = on), "pwdCheckQuality 1, with the defaults of 389: 8 characters of 3 kinds, no words of 3 characters of the name."),
    ds389("passwordMinLength", Takes::Number(|s, n| s.switches.min_length = Some(n)), "pwdMinLength."),
    ds389("passwordMinDigits", Takes::Number(|s, n| s.policy.quality.min_digits = n), "Least digits."),
    ds389("passwordMinAlphas", Takes::Number(|s, n| s.policy.quality.min_alphas = n), "Least letters of ASCII."),
    ds389("passwordMinUppers", Takes::Number(|s, n| s.policy.quality.min_uppers = n), "Least upper case letters."),
    ds389("passwordMinLowers", Takes::Number(|s, n| s.policy.quality.min_lowers = n), "Least lower case letters."),
    ds389("passwordMinSpecials", Takes::Number(|s, n| s.policy.quality.min_specials = n), "Least characters of ASCII that are neither letters nor digits."),
    ds389("passwordMin8bit", Takes::Number(|s, n| s.policy.quality.min_8bit = n), "Least characters that are not of ASCII."),
    ds389("passwordMinCategories", Takes::Number(|s, n| s.switches.min_categories = Some(n)), "Of how many of digits, upper case, lower case, special and other characters there has to be one."),
    ds389("passwordMaxRepeats", Takes::Number(|s, n| s.policy.quality.max_repeats = n), "How often one character may stand in a row."),
    ds389("passwordMaxSequence", Takes::Number(|s, n| s.policy.quality.max_sequence = n), "Longest run such as `abcd` or `4321`."),
    ds389("passwordMaxSeqSets", Takes::Number(|s, n| s.policy.quality.max_sequence_sets = n), "Longer runs must not be there twice."),
    ds389("passwordMaxClassChars", Takes::Number(|s, n| s.policy.quality.max_class_characters = n), "Longest run of characters of one kind."),
    ds389("passwordPalindrome", Takes::Switch(|s, on| s.policy.quality.no_palindrome = on), "It must not read the same backwards."),
    ds389("passwordDictCheck", Takes::Switch(|s, on| s.policy.quality.dictionary = on), "It must not be a word that many people use."),
    ds389("passwordDictPath", Takes::Nothing, "Not read: the words come with the server; passwordBadWords takes others."),
    ds389("passwordBadWords", Takes::Words(|s, words| s.policy.quality.bad_words = words), "Words that must not be in it, with spaces between them."),
    ds389("passwordUserAttributes", Takes::Words(|s, names| s.policy.quality.own_attributes = names), "Attributes of the entry whose values must not be in it, besides uid, cn, sn, givenName, displayName, mail and ou."),
    ds389("passwordMinTokenLength", Takes::Number(|s, n| s.switches.min_token_length = Some(n)), "Words of those values that are shorter do not matter; 4 when it is not there."),
    ds389("passwordTPRMaxUse", Takes::Unless(|s, n| s.policy.temporary.max_uses = n), "For how many binds, right or wrong, a password that has to be changed first is good; -1: for any."),
    ds389("passwordTPRDelayValidFrom", Takes::SecondsUnless(|s, n| s.policy.temporary.valid_after = n), "How long after it was set it is not good yet."),
    ds389("passwordTPRDelayExpireAt", Takes::SecondsUnless(|s, n| s.policy.temporary.expires_after = n), "How long after it was set it is not good any more."),
    ds389("passwordTrackUpdateTime", Takes::Nothing, "Not needed: pwdChangedTime is always kept."),
    ds389("passwordSendExpiringTime", Takes::Nothing, "Not needed: a control says when it expires."),
    ds389("passwordLegacyPolicy", Takes::Nothing, "Not read: the failure that reaches passwordMaxFailure locks."),
    ds389("passwordIsGlobalPolicy", Takes::Nothing, "Not needed: state is replicated."),
    ds389("passwordAdminDN", Takes::Nothing, "Not read: give the privilege `password-reset`."),
];

#[rustfmt::skip]
const OPENDJ: &[Row] = &[
    opendj("ds-pwp-min-password-age", Takes::Seconds(|s, n| s.policy.min_age = n), "pwdMinAge."),
    opendj("ds-pwp-max-password-age", Takes::Seconds(|s, n| s.policy.max_age = n), "pwdMaxAge."),
    opendj("ds-pwp-password-expiration-warning-interval", Takes::Seconds(|s, n| s.policy.expire_warning = n), "pwdExpireWarning."),
    opendj("ds-pwp-grace-login-count", Takes::Number(|s, n| s.policy.grace_logins = n), "pwdGraceAuthNLimit."),
    opendj("ds-pwp-password-history-count", Takes::History(|s, n| s.policy.in_history = n), "pwdInHistory."),
    opendj("ds-pwp-password-history-duration", Takes::Seconds(|s, n| s.policy.history_duration = n), "For how long a used password must not be used again, beyond those that are counted."),
    opendj("ds-pwp-lockout-failure-count", Takes::Number(|s, n| (s.policy.max_failures, s.policy.lockout) = (n, n > 0)), "pwdMaxFailure; more than 0 is pwdLockout."),
    opendj("ds-pwp-lockout-duration", Takes::Seconds(|s, n| s.policy.lockout_duration = n), "pwdLockoutDuration."),
    opendj("ds-pwp-lockout-failure-expiration-interval", Takes::Seconds(|s, n| s.policy.failure_interval = n), "pwdFailureCountInterval."),
    opendj("ds-pwp-idle-lockout-interval", Takes::Seconds(|s, n| s.policy.max_idle = n), "pwdMaxIdle."),
    opendj("ds-pwp-force-change-on-reset", Takes::Switch(|s, on| s.policy.must_change = on), "pwdMustChange for passwords that somebody else sets."),
    opendj("ds-pwp-force-change-on-add", Takes::Switch(|s, on| s.policy.must_change_new = on), "The same for the password an entry is added with."),
    opendj("ds-pwp-max-password-reset-age", Takes::Seconds(|s, n| s.policy.temporary.expires_after = n), "passwordTPRDelayExpireAt."),
    opendj("ds-pwp-allow-user-password-changes", Takes::Switch(|s, on| s.policy.allow_user_change = on), "pwdAllowUserChange."),
    opendj("ds-pwp-password-change-requires-current-password", Takes::Switch(|s, on| s.policy.safe_modify = on), "pwdSafeModify."),
    opendj("ds-pwp-skip-validation-for-administrators", Takes::Switch(|s, on| s.policy.skips_administrators = on), "Whether quality and history are no matter to those who set the passwords of others."),
    opendj("ds-pwp-allow-pre-encoded-passwords", Takes::Switch(|s, on| s.policy.hashed = if on { Hashed::Everybody } else { Hashed::Nobody }), "Who may send hashed passwords: everybody, or nobody but the administrator; when it is not there, those with the privilege `password-reset`."),
    opendj("ds-pwp-allow-multiple-password-values", Takes::Switch(|s, on| s.policy.allow_multiple = on), "Whether an entry may have several passwords."),
    opendj("ds-pwp-default-password-storage-scheme", Takes::Scheme(|s, scheme| s.policy.scheme = Some(scheme)), "How passwords are stored, instead of `[password] scheme`."),
    opendj("ds-pwp-deprecated-password-storage-scheme", Takes::Nothing, "Not needed: a bind stores anew whatever is stored otherwise."),
    opendj("ds-pwp-last-login-time-attribute", Takes::There(|s| s.policy.records_login = true), "Any: pwdLastSuccess is kept although no rule needs it."),
    opendj("ds-pwp-last-login-time-format", Takes::Nothing, "Not read: times are GeneralizedTime."),
    opendj("ds-pwp-previous-last-login-time-format", Takes::Nothing, "Not read."),
    opendj("ds-pwp-password-attribute", Takes::Nothing, "It is always userPassword."),
    opendj("ds-pwp-require-secure-authentication", Takes::Nothing, "Not read: see `authentication.confidentiality`."),
    opendj("ds-pwp-require-secure-password-changes", Takes::Nothing, "Not read: see `authentication.confidentiality`."),
    opendj("ds-pwp-state-update-failure-policy", Takes::Nothing, "Not read: no bind waits for its state to be written."),
    opendj("ds-pwp-expire-passwords-without-warning", Takes::Nothing, "Not read: passwords expire at their time."),
    opendj("ds-pwp-allow-expired-password-changes", Takes::Nothing, "Not read: give grace logins."),
    opendj("ds-pwp-length-based-min-password-length", Takes::Validator(|s, n| s.policy.min_length = n), "pwdMinLength."),
    opendj("ds-pwp-length-based-max-password-length", Takes::Validator(|s, n| s.policy.max_length = n), "pwdMaxLength."),
    opendj("ds-pwp-character-set-min-character-sets", Takes::Validator(|s, n| s.policy.quality.min_categories = n), "passwordMinCategories; the sets are those of 389."),
    opendj("ds-pwp-repeated-characters-max-consecutive-length", Takes::Validator(|s, n| s.policy.quality.max_repeats = n), "passwordMaxRepeats."),
    opendj("ds-pwp-unique-characters-min-unique-characters", Takes::Validator(|s, n| s.policy.quality.min_unique = n), "Least different characters."),
    opendj("ds-pwp-similarity-based-min-password-difference", Takes::Validator(|s, n| s.policy.quality.min_difference = n), "How many characters of the old password have to change; looked at when the old one is sent."),
    opendj("ds-pwp-attribute-value-match-attribute", Takes::Own(|s, names| s.policy.quality.own_attributes = names), "passwordUserAttributes."),
    opendj("ds-pwp-attribute-value-min-substring-length", Takes::Validator(|s, n| s.policy.quality.min_own_substring = n), "Parts of those values that are so long must not be in it."),
    opendj("ds-pwp-attribute-value-test-reversed-password", Takes::Switch(|s, on| s.policy.quality.looks_backwards = on), "The values are looked for backwards, too."),
    opendj("ds-pwp-dictionary-data", Takes::There(|s| { s.switches.has_validator = true; s.policy.quality.dictionary = true; }), "Any: passwordDictCheck, with the server's words."),
];

const DS389_MAX_AGE: Duration = Duration::from_secs(8_640_000);
const DS389_WARNING: Duration = Duration::from_secs(86_400);
const DS389_LOCKOUT: Duration = Duration::from_secs(3_600);
const DS389_FAILURE_INTERVAL: Duration = Duration::from_secs(600);
const DS389_MAX_FAILURES: u32 = 3;
const DS389_IN_HISTORY: u32 = 6;
const DS389_MIN_LENGTH: u32 = 8;
const DS389_MIN_CATEGORIES: u32 = 3;
const DS389_MIN_TOKEN: u32 = 3;

/// Octets of all words of one attribute.
const WORDS_MAX_BYTES: usize = 64 << 10;
/// Characters of a value that a refusal shows.
const SHOWN_MAX_CHARACTERS: usize = 64;
