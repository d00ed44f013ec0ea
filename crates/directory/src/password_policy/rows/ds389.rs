//! The names of 389 Directory Server, and of Sun before it had the draft's.

use super::row::{Product, Row};
use super::takes::Takes;

pub(super) const ROWS: &[Row] = &[
    ds389(
        "passwordExp",
        Takes::Switch(|s, on| s.switches.expires = on),
        "Whether passwordMaxAge holds.",
    ),
    ds389(
        "passwordMaxAge",
        Takes::Seconds(|s, n| s.switches.max_age = n),
        "pwdMaxAge; 100 days when only passwordExp is on.",
    ),
    ds389(
        "passwordWarning",
        Takes::Seconds(|s, n| s.policy.expire_warning = n),
        "pwdExpireWarning; a day when it is not there.",
    ),
    ds389(
        "passwordGraceLimit",
        Takes::Number(|s, n| s.policy.grace_logins = n),
        "pwdGraceAuthNLimit.",
    ),
    ds389("passwordMinAge", Takes::Seconds(|s, n| s.policy.min_age = n), "pwdMinAge."),
    ds389(
        "passwordHistory",
        Takes::Switch(|s, on| s.switches.is_remembered = Some(on)),
        "off: passwordInHistory does not hold.",
    ),
    ds389(
        "passwordInHistory",
        Takes::History(|s, n| s.policy.in_history = n),
        "pwdInHistory; 6 when only passwordHistory is on.",
    ),
    ds389(
        "passwordChange",
        Takes::Switch(|s, on| s.policy.allow_user_change = on),
        "pwdAllowUserChange.",
    ),
    ds389(
        "passwordMustChange",
        Takes::Switch(|s, on| (s.policy.must_change, s.policy.must_change_new) = (on, on)),
        "pwdMustChange.",
    ),
    ds389("passwordLockout", Takes::Switch(|s, on| s.policy.lockout = on), "pwdLockout."),
    ds389(
        "passwordMaxFailure",
        Takes::Number(|s, n| s.policy.max_failures = n),
        "pwdMaxFailure; 3 when it is not there.",
    ),
    ds389(
        "passwordResetFailureCount",
        Takes::Seconds(|s, n| s.policy.failure_interval = n),
        "pwdFailureCountInterval; 10 minutes when it is not there.",
    ),
    ds389(
        "passwordLockoutDuration",
        Takes::Seconds(|s, n| s.policy.lockout_duration = n),
        "pwdLockoutDuration; an hour when it is not there.",
    ),
    ds389(
        "passwordUnlock",
        Takes::Switch(|s, on| s.switches.stays_locked = !on),
        "off: an account stays locked until somebody unlocks it.",
    ),
    ds389(
        "passwordStorageScheme",
        Takes::Scheme(|s, scheme| s.policy.scheme = Some(scheme)),
        "How passwords are stored, instead of `[password] scheme`.",
    ),
    ds389(
        "passwordCheckSyntax",
        Takes::Switch(|s, on| s.switches.is_checked = on),
        "pwdCheckQuality 1, with the defaults of 389: 8 characters of 3 kinds, no words of 3 \
         characters of the name.",
    ),
    ds389(
        "passwordMinLength",
        Takes::Number(|s, n| s.switches.min_length = Some(n)),
        "pwdMinLength.",
    ),
    ds389(
        "passwordMinDigits",
        Takes::Number(|s, n| s.policy.quality.min_digits = n),
        "Least digits.",
    ),
    ds389(
        "passwordMinAlphas",
        Takes::Number(|s, n| s.policy.quality.min_alphas = n),
        "Least letters of ASCII.",
    ),
    ds389(
        "passwordMinUppers",
        Takes::Number(|s, n| s.policy.quality.min_uppers = n),
        "Least upper case letters.",
    ),
    ds389(
        "passwordMinLowers",
        Takes::Number(|s, n| s.policy.quality.min_lowers = n),
        "Least lower case letters.",
    ),
    ds389(
        "passwordMinSpecials",
        Takes::Number(|s, n| s.policy.quality.min_specials = n),
        "Least characters of ASCII that are neither letters nor digits.",
    ),
    ds389(
        "passwordMin8bit",
        Takes::Number(|s, n| s.policy.quality.min_8bit = n),
        "Least characters that are not of ASCII.",
    ),
    ds389(
        "passwordMinCategories",
        Takes::Number(|s, n| s.switches.min_categories = Some(n)),
        "Of how many of digits, upper case, lower case, special and other characters there \
         has to be one.",
    ),
    ds389(
        "passwordMaxRepeats",
        Takes::Number(|s, n| s.policy.quality.max_repeats = n),
        "How often one character may stand in a row.",
    ),
    ds389(
        "passwordMaxSequence",
        Takes::Number(|s, n| s.policy.quality.max_sequence = n),
        "Longest run such as `abcd` or `4321`.",
    ),
    ds389(
        "passwordMaxSeqSets",
        Takes::Number(|s, n| s.policy.quality.max_sequence_sets = n),
        "Longer runs must not be there twice.",
    ),
    ds389(
        "passwordMaxClassChars",
        Takes::Number(|s, n| s.policy.quality.max_class_characters = n),
        "Longest run of characters of one kind.",
    ),
    ds389(
        "passwordPalindrome",
        Takes::Switch(|s, on| s.policy.quality.no_palindrome = on),
        "It must not read the same backwards.",
    ),
    ds389(
        "passwordDictCheck",
        Takes::Switch(|s, on| s.policy.quality.dictionary = on),
        "It must not be a word that many people use.",
    ),
    ds389(
        "passwordDictPath",
        Takes::Nothing,
        "Not read: the words come with the server; passwordBadWords takes others.",
    ),
    ds389(
        "passwordBadWords",
        Takes::Words(|s, words| s.policy.quality.bad_words = words),
        "Words that must not be in it, with spaces between them.",
    ),
    ds389(
        "passwordUserAttributes",
        Takes::Words(|s, names| s.policy.quality.own_attributes = names),
        "Attributes of the entry whose values must not be in it, besides uid, cn, sn, \
         givenName, displayName, mail and ou.",
    ),
    ds389(
        "passwordMinTokenLength",
        Takes::Number(|s, n| s.switches.min_token_length = Some(n)),
        "Words of those values that are shorter do not matter; 4 when it is not there.",
    ),
    ds389(
        "passwordTPRMaxUse",
        Takes::Unless(|s, n| s.policy.temporary.max_uses = n),
        "For how many binds, right or wrong, a password that has to be changed first is good; \
         -1: for any.",
    ),
    ds389(
        "passwordTPRDelayValidFrom",
        Takes::SecondsUnless(|s, n| s.policy.temporary.valid_after = n),
        "How long after it was set it is not good yet.",
    ),
    ds389(
        "passwordTPRDelayExpireAt",
        Takes::SecondsUnless(|s, n| s.policy.temporary.expires_after = n),
        "How long after it was set it is not good any more.",
    ),
    ds389("passwordTrackUpdateTime", Takes::Nothing, "Not needed: pwdChangedTime is always kept."),
    ds389(
        "passwordSendExpiringTime",
        Takes::Nothing,
        "Not needed: a control says when it expires.",
    ),
    ds389(
        "passwordLegacyPolicy",
        Takes::Nothing,
        "Not read: the failure that reaches passwordMaxFailure locks.",
    ),
    ds389("passwordIsGlobalPolicy", Takes::Nothing, "Not needed: state is replicated."),
    ds389("passwordAdminDN", Takes::Nothing, "Not read: give the privilege `password-reset`."),
];

const fn ds389(attribute: &'static str, takes: Takes, does: &'static str) -> Row {
    Row::of(Product::Ds389, attribute, takes, does)
}
