//! Any octets are checked by every syntax and prepared by every matching rule, or refused with a
//! reason; what is prepared as text stays when prepared again; a name has one key however it is
//! read; a value is found by the filter that asserts it.
#![no_main]

use ldap::dn::Dn;
use libfuzzer_sys::fuzz_target;
use schema::{Compare, DnKey, InvalidDn, MATCHING_RULES, Position, RuleKind, SYNTAXES, Schema};

const TEXT_RULES: [&str; 4] =
    ["caseIgnoreMatch", "caseExactMatch", "numericStringMatch", "telephoneNumberMatch"];

fuzz_target!(|value: &[u8]| {
    let schema = Schema::builtin();
    for syntax in SYNTAXES {
        if let Err(reason) = (syntax.check)(&schema, value) {
            assert!(!reason.is_empty());
        }
    }
    for rule in MATCHING_RULES {
        let (mut key, mut again) = (Vec::new(), Vec::new());
        let prepared = (rule.prepare)(&schema, value, &mut key).is_ok();
        if prepared && TEXT_RULES.contains(&rule.name) {
            assert_eq!((rule.prepare)(&schema, &key, &mut again), Ok(()), "{}", rule.name);
            assert_eq!(key, again, "{}", rule.name);
        }
        let mut assertion = Vec::new();
        let asserted = rule.prepare_assertion(&schema, value, &mut assertion).is_ok();
        let is_same = rule.applies_to.first() == Some(&rule.syntax);
        if prepared && asserted && is_same && rule.compare == Compare::Key {
            assert!(rule.keys_match(&key, &assertion));
        }
        assert_eq!(rule.kind == RuleKind::Substring, rule.prepare_piece.is_some());
        if let Some(prepare_piece) = rule.prepare_piece {
            for position in [Position::Initial, Position::Any, Position::Final] {
                let mut piece = Vec::new();
                let is_piece = prepare_piece(position, value, &mut piece).is_ok();
                let is_list = rule.name == "caseIgnoreListSubstringsMatch";
                if is_piece && prepared && !is_list {
                    let found = match position {
                        Position::Initial => key.starts_with(&piece),
                        Position::Any => contains(&key, &piece),
                        Position::Final => key.ends_with(&piece),
                    };
                    assert!(found, "{} {position:?}", rule.name);
                }
            }
        }
    }
    if let Ok(text) = std::str::from_utf8(value) {
        check_name(&schema, text);
    }
});

fn contains(value: &[u8], piece: &[u8]) -> bool {
    piece.is_empty() || value.windows(piece.len()).any(|window| window == piece)
}

fn check_name(schema: &Schema, text: &str) {
    match (DnKey::from_text(schema, text), Dn::parse(text)) {
        (Ok(key), Ok(name)) => {
            assert_eq!(key.depth(), name.rdns().len());
            assert_eq!(DnKey::from_dn(schema, &name), Ok(key.clone()));
            if let Some(parent) = key.parent() {
                assert!(key.is_within(&parent) && !parent.is_within(&key));
            }
        }
        (Err(InvalidDn::Syntax(_)), parsed) => assert!(parsed.is_err()),
        (Err(InvalidDn::Value { .. } | InvalidDn::RepeatedAva), _) => {}
        (Ok(_), Err(error)) => panic!("a key for what is no name: {error}"),
    }
}
