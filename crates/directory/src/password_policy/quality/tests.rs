//! Passwords that are refused, and their neighbours that are not.

use super::*;
use crate::password_policy::rules::{CheckQuality, PasswordPolicy};

#[track_caller]
fn check_with(policy: &PasswordPolicy, new: NewPassword<'_>, want: Result<(), Fault>) {
    let words = Words::of_lines("# remark\npassword\n\n letmein \nQwerty12345\ndragon\n");
    let got = policy.check_quality(&new, &words);
    assert_eq!(got, want, "{}", new.clear);
    if let Err(fault) = got {
        assert!(!fault.reason().contains(new.clear), "the refusal shows the password");
    }
}

#[track_caller]
fn check(policy: &PasswordPolicy, clear: &str, want: Result<(), Fault>) {
    let own = &["anna", "Anna Berg-Meier", "ab", ""];
    check_with(policy, NewPassword { clear, old: None, own }, want);
}

fn policy(quality: Quality) -> PasswordPolicy {
    PasswordPolicy {
        check_quality: CheckQuality::WherePossible,
        quality,
        ..PasswordPolicy::default()
    }
}

#[test]
fn a_password_has_a_length_and_is_not_what_everybody_guesses() {
    let policy = PasswordPolicy {
        min_length: 7,
        max_length: 20,
        ..policy(Quality { dictionary: true, ..Quality::default() })
    };
    check(&policy, "sixsix", Err(Fault::Short(7)));
    check(&policy, "äöüßäöü", Ok(()));
    check(&policy, "äöüßäö", Err(Fault::Short(7)));
    check(&policy, &"xy".repeat(10), Ok(()));
    check(&policy, &"x".repeat(21), Err(Fault::Long(20)));
    for common in [
        "PassWord",
        "qwerty12345",
        "drowssap",
        "Password2026!",
        "p@ssw0rd",
        "!!Dr4g0n99",
        "dragondragon",
    ] {
        check(&policy, common, Err(Fault::Common));
    }
    check(&policy, "password for nobody", Ok(()));
    check(&policy, "hello ANNA", Err(Fault::Own));
    check(&policy, "cab and cable", Ok(()));
    let off = PasswordPolicy { check_quality: CheckQuality::Off, ..policy };
    check(&off, "x", Ok(()));
    check(&off, "password", Ok(()));
    let built_in = PasswordPolicy::built_in();
    let words = Words::built_in();
    let refused = |clear| {
        built_in.check_quality(&NewPassword { clear, ..NewPassword::default() }, words).is_err()
    };
    for clear in ["", "1234567", "12345678", "qwertyuiop", "Welcome123", "Sommer2026!", "iloveyou"]
    {
        assert!(refused(clear), "{clear}");
    }
    for clear in ["correct horse", "xk7 2pQ!", "ein langer Satz"] {
        assert!(!refused(clear), "{clear}");
    }
}

#[test]
fn characters_of_each_kind_are_counted() {
    let none = Quality::default();
    let rules = [
        (Quality { min_digits: 2, ..none.clone() }, "a1b", "a1b2", Fault::Few(2, "digits")),
        (Quality { min_alphas: 2, ..none.clone() }, "a1ä", "a1B", Fault::Few(2, "letters")),
        (
            Quality { min_uppers: 1, ..none.clone() },
            "aÄ",
            "aA",
            Fault::Few(1, "upper case letters"),
        ),
        (
            Quality { min_lowers: 1, ..none.clone() },
            "A1",
            "A1a",
            Fault::Few(1, "lower case letters"),
        ),
        (
            Quality { min_specials: 1, ..none.clone() },
            "aß",
            "a b",
            Fault::Few(1, "special characters"),
        ),
        (
            Quality { min_8bit: 1, ..none.clone() },
            "ab",
            "aß",
            Fault::Few(1, "characters beyond ASCII"),
        ),
        (
            Quality { min_categories: 3, ..none.clone() },
            "aA",
            "aA-",
            Fault::Few(3, "kinds of characters"),
        ),
        (Quality { min_unique: 3, ..none }, "abab", "abac", Fault::Few(3, "different characters")),
    ];
    for (quality, bad, good, fault) in rules {
        let policy = policy(quality);
        check(&policy, bad, Err(fault));
        check(&policy, good, Ok(()));
    }
}

#[test]
fn runs_have_their_limits() {
    let repeats = policy(Quality { max_repeats: 2, ..Quality::default() });
    let fault = Fault::Many(2, "times the same character in a row");
    check(&repeats, "aabbaa", Ok(()));
    check(&repeats, "abbba", Err(fault));
    let sequence = policy(Quality { max_sequence: 3, ..Quality::default() });
    let fault = Fault::Many(3, "characters such as 'abcd' in a row");
    for (clear, want) in [
        ("xabcx", Ok(())),
        ("xabcdx", Err(fault)),
        ("4321", Err(fault)),
        ("AbCd", Err(fault)),
        ("abcba", Ok(())),
        ("abcdcba", Err(fault)),
        ("edcabc", Ok(())),
        ("", Ok(())),
    ] {
        check(&sequence, clear, want);
    }
    let sets = policy(Quality { max_sequence_sets: 2, ..Quality::default() });
    check(&sets, "abc-xyz", Ok(()));
    check(&sets, "abc-ABC", Err(Fault::Again(2)));
    check(&sets, "ab-ab", Ok(()));
    let class = policy(Quality { max_class_characters: 3, ..Quality::default() });
    check(&class, "abc12d", Ok(()));
    check(&class, "abcd1", Err(Fault::Many(3, "characters of one kind in a row")));
    let palindrome = policy(Quality { no_palindrome: true, ..Quality::default() });
    check(&palindrome, "Otto", Err(Fault::Palindrome));
    check(&palindrome, "ottos", Ok(()));
}

#[test]
fn what_belongs_to_the_entry_and_what_is_listed_is_refused() {
    let listed = policy(Quality { bad_words: vec!["acme".to_owned()], ..Quality::default() });
    check(&listed, "MyAcMe!", Err(Fault::Listed));
    check(&listed, "my company", Ok(()));
    let own = policy(Quality::default());
    check(&own, "xBERGx", Err(Fault::Own));
    check(&own, "berg-meier", Err(Fault::Own));
    check(&own, "nna berg", Err(Fault::Own));
    check(&own, "ab12cd", Ok(()));
    check(&own, "", Ok(()));
    check(&own, "reiem", Ok(()));
    let tokens = policy(Quality { min_token_length: 2, ..Quality::default() });
    check(&tokens, "cab", Err(Fault::Own));
    let parts = policy(Quality { min_own_substring: 3, ..Quality::default() });
    check(&parts, "xeiex", Err(Fault::Own));
    check(&parts, "xeix", Ok(()));
    let backwards = policy(Quality { looks_backwards: true, ..Quality::default() });
    check(&backwards, "1reiem1", Err(Fault::Own));
}

#[test]
fn a_new_password_differs_from_the_old_one() {
    for (old, new, steps) in [
        ("kitten", "sitting", 3),
        ("flaw", "lawn", 2),
        ("same", "same", 0),
        ("", "abc", 3),
        ("abcdef", "badcfe", 4),
        ("summer2025", "Summer2026", 2),
        ("äöü", "aou", 3),
    ] {
        for least in 0..8 {
            let want = least > 0 && steps < least;
            assert_eq!(similarity::is_nearer(old, new, least), want, "{old} {new} {least}");
            assert_eq!(similarity::is_nearer(new, old, least), want, "{new} {old} {least}");
        }
    }
    let policy = policy(Quality { min_difference: 3, ..Quality::default() });
    let new = NewPassword { clear: "horses 2", old: Some("horses 1"), own: &[] };
    check_with(&policy, new, Err(Fault::Similar(3)));
    check_with(&policy, NewPassword { old: None, ..new }, Ok(()));
}

/// However long they are: the work is counted in steps that are bounded, so this ends at once.
#[test]
fn long_passwords_take_no_long_time() {
    let long = "ab1!".repeat(100_000);
    let values = (0..1_000).map(|n| format!("{n}{}", "xy".repeat(10_000))).collect::<Vec<_>>();
    let own = values.iter().map(String::as_str).collect::<Vec<_>>();
    let quality = Quality {
        max_repeats: 3,
        max_sequence: 3,
        max_sequence_sets: 3,
        dictionary: true,
        bad_words: (0..1_000).map(|n| format!("word{n}")).collect(),
        min_own_substring: 3,
        looks_backwards: true,
        min_difference: u32::MAX,
        ..Quality::default()
    };
    let policy = policy(quality);
    let most = &long[..1_024];
    let old = format!("{most}y");
    let new = NewPassword { clear: &long, old: Some(&old), own: &own };
    check_with(&policy, new, Err(Fault::Long(LOOKED_AT_MAX_CHARACTERS)));
    check_with(&policy, NewPassword { clear: most, ..new }, Err(Fault::Similar(u32::MAX)));
}

#[test]
fn hashed_ones_are_accepted_unless_all_are_looked_at() {
    for (check_quality, want) in [
        (CheckQuality::Off, Ok(())),
        (CheckQuality::WherePossible, Ok(())),
        (CheckQuality::Always, Err(Fault::Hashed)),
    ] {
        let policy = PasswordPolicy { check_quality, ..PasswordPolicy::default() };
        assert_eq!(policy.check_hashed(), want);
    }
}
