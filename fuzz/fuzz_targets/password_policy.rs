//! Password policies: whatever an entry says, it is understood as a whole or refused in one
//! sentence, and a password is judged under it.

#![no_main]

use directory::password_policy::{NewPassword, PasswordPolicy, Words};
use ldap::dn::Dn;
use libfuzzer_sys::fuzz_target;
use schema::{Entry, Schema};

fuzz_target!(|text: &str| {
    let schema = Schema::builtin();
    // Lines of `attribute: value`; the last line is the password.
    let (rules, clear) = text.rsplit_once('\n').unwrap_or(("", text));
    let classes = ["pwdPolicy", "passwordPolicy", "ds-pwp-password-policy"];
    let pairs = rules.lines().filter_map(|line| line.split_once(": "));
    let pairs = classes.iter().map(|class| ("objectClass", *class)).chain(pairs);
    let pairs = pairs.map(|(name, value)| (name, value.as_bytes()));
    let name = Dn::parse("cn=x").expect("a name");
    let Ok(entry) = Entry::from_pairs(name, pairs, &schema) else { return };
    match PasswordPolicy::read(&entry, &schema) {
        Ok(policy) => {
            let new = NewPassword { clear, old: Some(rules), own: &[rules, "anna"] };
            if let Err(fault) = policy.check_quality(&new, Words::built_in()) {
                assert!(!fault.reason().is_empty());
            }
            assert!(policy.in_history <= 100);
        }
        Err(fault) => assert!(fault.to_string().len() < 1_000),
    }
});
