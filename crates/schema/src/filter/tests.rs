//! What filters say of entries: filter text, entry text, truth.

use ldap::dn::Dn;
use proptest::prelude::*;

use super::*;
use crate::entry::Entry;

/// An entry from lines `type: value`; the first line may be `dn: …`.
fn entry(lines: &str) -> Entry {
    let mut name = Dn::parse("uid=test,ou=people,dc=example,dc=org").unwrap();
    let mut pairs = Vec::new();
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (attribute, value) = line.split_once(": ").unwrap();
        match attribute {
            "dn" => name = Dn::parse(value).unwrap(),
            _ => pairs.push((attribute, value.as_bytes())),
        }
    }
    Entry::from_pairs(name, pairs, &Schema::builtin()).unwrap()
}

fn resolve(filter: &str) -> ResolvedFilter {
    ResolvedFilter::resolve(&Filter::parse(filter).unwrap(), &Schema::builtin())
}

#[track_caller]
fn check(filter: &str, lines: &str, expected: Truth) {
    let truth = resolve(filter).matches(&Schema::builtin(), &entry(lines));
    assert_eq!(truth, expected, "{filter} of {lines}");
}

#[track_caller]
fn check_true(lines: &str, filters: &[&str]) {
    for filter in filters {
        check(filter, lines, Truth::True);
    }
}

#[track_caller]
fn check_false(lines: &str, filters: &[&str]) {
    for filter in filters {
        check(filter, lines, Truth::False);
    }
}

#[track_caller]
fn check_undefined(filters: &[&str]) {
    for filter in filters {
        check(filter, ANNA, Truth::Undefined);
    }
}

const ANNA: &str = "
    dn: uid=anna,ou=People,dc=example,dc=org
    objectClass: inetOrgPerson
    uid: anna
    cn: Anna  Meyer
    cn;lang-de: Anna Mayr
    sn: Meyer
    mail: anna@example.com
    mail: a.meyer@example.org
    telephoneNumber: +1 555-0100
    employeeNumber: 42
    description: likes * and \\ and (round) things
    postalAddress: 1 Main St.$Anytown$USA
    userPassword: secret
    seeAlso: CN=Bob, DC=Example,DC=org
";

const ACCOUNT: &str = "
    objectClass: posixAccount
    uidNumber: 1000
    gidNumber: 20
    createTimestamp: 20260101120000Z
";

#[test]
fn equality_uses_the_rule_of_the_attribute() {
    check_true(
        ANNA,
        &[
            "(uid=anna)",
            "(UID=ANNA)",
            "(userid= anna )",
            "(0.9.2342.19200300.100.1.1=anna)",
            "(cn=anna meyer)",
            "(mail=A.Meyer@Example.org)",
            "(telephoneNumber=+15550100)",
            "(seeAlso=cn=bob,dc=example,dc=org)",
            "(objectClass=INETORGPERSON)",
            "(objectClass=2.16.840.1.113730.3.2.2)",
            "(userPassword=secret)",
            "(postalAddress=1 main st. $ anytown $ usa)",
        ],
    );
    check_false(
        ANNA,
        &[
            "(uid=ann)",
            "(uid= )",
            "(cn=annameyer)",
            "(givenName=anna)",
            "(seeAlso=cn=bob,dc=example)",
            "(objectClass=person)",
            "(userPassword=Secret)",
        ],
    );
}

#[test]
fn presence_asks_for_any_value() {
    check_true(
        ANNA,
        &["(objectClass=*)", "(cn=*)", "(name=*)", "(cn;lang-de=*)", "(userPassword=*)"],
    );
    check_false(ANNA, &["(givenName=*)", "(cn;lang-fr=*)", "(createTimestamp=*)"]);
}

#[test]
fn an_assertion_covers_subtypes_and_options() {
    check_true(
        ANNA,
        &[
            "(name=anna mayr)",
            "(name=meyer)",
            "(cn=anna mayr)",
            "(cn;lang-de=anna mayr)",
            "(cn;lang-=anna mayr)",
            "(name;lang-de=*mayr)",
        ],
    );
    check_false(ANNA, &["(cn;lang-de=anna meyer)", "(sn=anna mayr)", "(cn;lang-de;x-a=anna mayr)"]);
}

#[test]
fn unknown_attributes_and_values_are_undefined() {
    check_undefined(&[
        "(noSuchType=x)",
        "(noSuchType=*)",
        "(!(noSuchType=x))",
        "(uidNumber=x)",
        "(uidNumber>=x)",
        "(createTimestamp<=today)",
        "(objectClass=noSuchClass)",
        "(seeAlso=nonsense)",
        "(cn=\\ff)",
        "(noSuchType>=x)",
        "(noSuchType<=x)",
        "(noSuchType~=x)",
        "(noSuchType=x*)",
    ]);
}

// It was false: its negation matched every entry, and all texts are later than an empty one.
#[test]
fn what_is_not_of_the_assertion_syntax_is_undefined() {
    check_undefined(&[
        "(cn=)",
        "(!(cn=))",
        "(cn~=)",
        "(cn:caseExactMatch:=)",
        "(:caseExactMatch:=)",
        "(cn:caseIgnoreOrderingMatch:=)",
        "(telephoneNumber=\u{E9})",
        "(!(telephoneNumber=\u{E9}))",
        "(telephoneNumber=*\u{E9}*)",
        "(x121Address=a)",
        "(x121Address=1*a)",
        "(member= )",
        "(uniqueMember= )",
        "(postalAddress=)",
    ]);
    let schema = Schema::builtin();
    for filter in ["(deltaRevocationList;binary=x)", "(authorityRevocationList;binary=x)"] {
        assert_eq!(resolve(filter).matches(&schema, &entry(ANNA)), Truth::Undefined, "{filter}");
    }
    check_true(
        ANNA,
        &["(!(member=))", "(!(mail=))", "(telephoneNumber=*-*)", "(!(userPassword=))"],
    );
}

#[test]
fn a_missing_rule_is_undefined() {
    check_undefined(&[
        "(jpegPhoto=x)",
        "(uidNumber=1*)",
        "(userPassword=s*)",
        "(sn>=a)",
        "(seeAlso=*bob*)",
        "(member>=cn=a)",
        "(audio=*x)",
    ]);
    check_false(ANNA, &["(jpegPhoto=*)"]);
}

#[test]
fn ordering_uses_the_ordering_rule() {
    check_true(
        ACCOUNT,
        &[
            "(uidNumber>=1000)",
            "(uidNumber<=1000)",
            "(uidNumber>=999)",
            "(uidNumber<=10000)",
            "(uidNumber>=-5)",
            "(createTimestamp>=20260101115959Z)",
            "(createTimestamp<=2026010113+0100)",
        ],
    );
    check_false(
        ACCOUNT,
        &[
            "(uidNumber>=1001)",
            "(uidNumber<=999)",
            "(uidNumber<=99)",
            "(createTimestamp>=20260101120000.1Z)",
            "(gidNumber>=100)",
        ],
    );
}

#[test]
fn pieces_are_found_in_order_without_overlap() {
    check_true(
        ANNA,
        &[
            "(cn=Anna*)",
            "(cn=*meyer)",
            "(cn=*a m*)",
            "(cn=a*a*e*r)",
            "(cn=anna  m*)",
            "(cn=*anna *)",
            "(cn=anna*meyer)",
            "(cn=*ANNA*Mayr*)",
            "(mail=*@example.com)",
            "(telephoneNumber=*5550*)",
            "(telephoneNumber=+1*555*)",
            "(description=*\\2a*)",
            "(description=*\\5c and \\28round*)",
            "(postalAddress=1 main*anytown*usa)",
        ],
    );
    check_false(
        ANNA,
        &[
            "(cn=nna*)",
            "(cn=*meye)",
            "(cn=anna meyer*meyer)",
            "(cn=anna me*eyer)",
            "(cn=*meyer*anna*)",
            "(cn=*annam*)",
            "(cn=anna m*m*)",
            "(postalAddress=*st.any*)",
            "(mail=*@example.net)",
        ],
    );
}

#[test]
fn spaces_in_pieces_count_once() {
    check_true(
        "cn: foo bar",
        &["(cn=foo *)", "(cn=* bar)", "(cn= foo*)", "(cn=*bar )", "(cn=foo*bar)", "(cn=*o   b*)"],
    );
    check_true("cn: foo", &["(cn=foo *)", "(cn=* foo*)", "(cn=* *)"]);
    check_false("cn: foo bar", &["(cn=fo *)", "(cn=* ar)", "(cn=*o  a*)"]);
}

#[test]
fn approximate_matches_compare_sounds_of_texts() {
    check_true(
        ANNA,
        &["(sn~=maier)", "(cn~=Ana Mayer)", "(cn~=meyer)", "(mail~=anna@example.com)"],
    );
    check_false(ANNA, &["(sn~=smith)", "(cn~=meyer anna)"]);
    check_true(ACCOUNT, &["(uidNumber~=1000)"]);
    check_false(ACCOUNT, &["(uidNumber~=1001)"]);
    check_undefined(&["(jpegPhoto~=x)", "(uidNumber~=x)"]);
}

#[test]
fn and_or_and_not_are_three_valued() {
    check("(&)", ANNA, Truth::True);
    check("(|)", ANNA, Truth::False);
    check("(!(&))", ANNA, Truth::False);
    check("(&(uid=anna)(sn=meyer))", ANNA, Truth::True);
    check("(&(uid=anna)(noSuch=x))", ANNA, Truth::Undefined);
    check("(&(uid=bob)(noSuch=x))", ANNA, Truth::False);
    check("(&(noSuch=x)(uid=bob))", ANNA, Truth::False);
    check("(|(uid=anna)(noSuch=x))", ANNA, Truth::True);
    check("(|(noSuch=x)(uid=anna))", ANNA, Truth::True);
    check("(|(uid=bob)(noSuch=x))", ANNA, Truth::Undefined);
    check("(!(uid=bob))", ANNA, Truth::True);
    check("(!(givenName=bob))", ANNA, Truth::True);
    check("(!(noSuch=x))", ANNA, Truth::Undefined);
    check("(!(&(uid=anna)(noSuch=x)))", ANNA, Truth::Undefined);
}

#[test]
fn an_extensible_match_may_name_the_rule() {
    check_true(
        ANNA,
        &[
            "(uid:=ANNA)",
            "(cn:caseExactMatch:=Anna Meyer)",
            "(cn:2.5.13.5:=Anna   Meyer)",
            "(cn:CASEIGNOREMATCH:=anna meyer)",
            "(:caseExactMatch:=Meyer)",
            "(:caseIgnoreMatch:=ANNA)",
            "(cn:wordMatch:=meyer)",
            "(mail:caseExactMatch:=anna@example.com)",
            "(cn:caseIgnoreSubstringsMatch:=\\2aANNA\\2a)",
            "(sn:caseIgnoreSubstringsMatch:=mey\\2a)",
            "(cn:caseExactOrderingMatch:=B)",
        ],
    );
    check_false(
        ANNA,
        &[
            "(uid:=bob)",
            "(cn:caseExactMatch:=anna meyer)",
            "(:caseExactMatch:=meyer)",
            "(cn:wordMatch:=mey)",
            "(cn:caseExactSubstringsMatch:=\\2aANNA\\2a)",
            "(cn:caseExactOrderingMatch:=Anna)",
            "(:integerMatch:=42)",
        ],
    );
    check_undefined(&[
        "(cn:noSuchRule:=x)",
        "(:noSuchRule:=x)",
        "(noSuch:=x)",
        "(noSuch:caseExactMatch:=x)",
        "(jpegPhoto:=x)",
        "(uidNumber:caseExactMatch:=x)",
        "(cn:integerMatch:=1)",
        "(uidNumber:=x)",
        "(:caseExactSubstringsMatch:=\\2aa\\2a)",
        "(cn:caseExactSubstringsMatch:=abc)",
        "(cn:caseExactSubstringsMatch:=a\\5cb\\2a)",
    ]);
}

#[test]
fn bits_are_tested_by_their_rules() {
    check_true(
        ACCOUNT,
        &[
            "(uidNumber:1.2.840.113556.1.4.803:=1000)",
            "(uidNumber:1.2.840.113556.1.4.803:=8)",
            "(uidNumber:1.2.840.113556.1.4.804:=9)",
        ],
    );
    check_false(
        ACCOUNT,
        &["(uidNumber:1.2.840.113556.1.4.803:=1)", "(uidNumber:1.2.840.113556.1.4.804:=7)"],
    );
}

#[test]
fn an_extensible_match_may_ask_the_name() {
    check_true(
        ANNA,
        &[
            "(ou:dn:=people)",
            "(ou:dn:caseExactMatch:=People)",
            "(dc:dn:=EXAMPLE)",
            "(name:dn:=people)",
            "(:dn:caseIgnoreMatch:=people)",
            "(uid:dn:=anna)",
            "(dc:dn:2.5.13.2:=org)",
        ],
    );
    check_false(
        ANNA,
        &[
            "(ou:=people)",
            "(ou:dn:=staff)",
            "(ou:dn:caseExactMatch:=people)",
            "(ou;lang-de:dn:=people)",
            "(:caseIgnoreMatch:=people)",
        ],
    );
    check("(ou:dn:=a)", "dn: ou=b+ou=a,dc=x", Truth::True);
}

#[test]
fn an_extensible_match_without_rule_is_an_equality_match() {
    assert_eq!(resolve("(uid:=anna)"), resolve("(uid=anna)"));
    assert_eq!(resolve("(uid:caseIgnoreMatch:=anna)"), resolve("(uid=anna)"));
    assert_ne!(resolve("(uid:dn:=anna)"), resolve("(uid=anna)"));
}

#[test]
fn stored_values_that_cannot_be_prepared_match_nothing() {
    let lines = "uidNumber: many\nuidNumber: 5";
    check("(uidNumber=5)", lines, Truth::True);
    check("(uidNumber=6)", lines, Truth::False);
    check("(uidNumber>=1)", "uidNumber: many", Truth::False);
}

#[test]
fn descriptions_of_a_filter_are_visited() {
    let mut seen = Vec::new();
    let filter = "(&(cn=a)(|(sn=b*)(!(uid=*)))(x=1)(:caseExactMatch:=c)(mail:caseExactMatch:=d)\
                  (ou~=e)(uidNumber>=1)(gidNumber<=1))";
    resolve(filter).visit_descriptions(&mut |description| seen.push(description.text().to_owned()));
    assert_eq!(seen, ["cn", "sn", "uid", "mail", "ou", "uidNumber", "gidNumber"]);
}

/// An entry that nothing may be asked of.
struct Hidden;

impl EntryRead for Hidden {
    fn dn(&self) -> &str {
        "cn=hidden"
    }

    fn visit_matching(
        &self,
        _: &AttributeDescription,
        _: Option<&crate::ValueKey<'_>>,
        _: &mut dyn FnMut(&AttributeDescription, &[u8]) -> bool,
    ) -> bool {
        false
    }

    fn visit_wanted(
        &self,
        _: &dyn Fn(&AttributeDescription) -> bool,
        _: &mut dyn FnMut(&AttributeDescription, Option<ldap::message::Values<'_>>),
    ) {
    }
}

#[test]
fn what_may_not_be_asked_is_undefined() {
    for filter in [
        "(cn=*)",
        "(cn=a)",
        "(cn=a*)",
        "(cn~=a)",
        "(uidNumber>=1)",
        "(uidNumber<=1)",
        "(!(cn=a))",
        "(cn:dn:=hidden)",
        "(cn:caseExactMatch:=a)",
    ] {
        let truth = resolve(filter).matches(&Schema::builtin(), &Hidden);
        assert_eq!(truth, Truth::Undefined, "{filter}");
    }
}

#[track_caller]
fn check_compare(description: &str, value: &str, expected: Result<Truth, &str>) {
    let schema = Schema::builtin();
    let description = schema.describe(description).unwrap();
    let truth = Assertion::equality(&schema, description, value.as_bytes())
        .map(|assertion| assertion.holds(&schema, &entry(ANNA)))
        .map_err(|error| error.to_string());
    assert_eq!(truth, expected.map_err(str::to_owned));
}

#[test]
fn compare_says_why_a_value_cannot_be_asserted() {
    check_compare("uid", "ANNA", Ok(Truth::True));
    check_compare("uid", "bob", Ok(Truth::False));
    check_compare("jpegPhoto", "x", Err("attribute type 'jpegPhoto' has no equality rule"));
    check_compare("uid", "", Err("the assertion value is empty"));
    check_compare("seeAlso", "x", Err("the assertion value is not a distinguished name"));
}

/// A filter over three truths, and what a table says of it.
fn any_filter() -> impl Strategy<Value = (ResolvedFilter, Truth)> {
    let leaf = prop_oneof![
        Just((resolve("(uid=anna)"), Truth::True)),
        Just((resolve("(uid=bob)"), Truth::False)),
        Just((resolve("(noSuch=x)"), Truth::Undefined)),
    ];
    leaf.prop_recursive(5, 40, 4, |inner| {
        let list = prop::collection::vec(inner.clone(), 0..4);
        prop_oneof![
            inner.prop_map(|(filter, truth)| {
                let opposite = match truth {
                    Truth::True => Truth::False,
                    Truth::False => Truth::True,
                    Truth::Undefined => Truth::Undefined,
                };
                (ResolvedFilter::Not(Box::new(filter)), opposite)
            }),
            list.clone().prop_map(|parts| {
                let (filters, truths): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
                let truth = if truths.contains(&Truth::False) {
                    Truth::False
                } else if truths.contains(&Truth::Undefined) {
                    Truth::Undefined
                } else {
                    Truth::True
                };
                (ResolvedFilter::And(filters), truth)
            }),
            list.prop_map(|parts| {
                let (filters, truths): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
                let truth = if truths.contains(&Truth::True) {
                    Truth::True
                } else if truths.contains(&Truth::Undefined) {
                    Truth::Undefined
                } else {
                    Truth::False
                };
                (ResolvedFilter::Or(filters), truth)
            }),
        ]
    })
}

/// Substrings by definition: try every way to place the pieces.
fn naive_substrings(value: &[char], initial: &[char], any: &[Vec<char>], last: &[char]) -> bool {
    fn place(value: &[char], any: &[Vec<char>], last: &[char]) -> bool {
        match any.split_first() {
            None => value.ends_with(last),
            Some((piece, any)) => (0..=value.len()).any(|at| {
                value[at..].starts_with(piece) && place(&value[at + piece.len()..], any, last)
            }),
        }
    }
    value.starts_with(initial) && place(&value[initial.len()..], any, last)
}

proptest! {
    #[test]
    fn evaluation_agrees_with_the_tables((filter, expected) in any_filter()) {
        prop_assert_eq!(filter.matches(&Schema::builtin(), &entry(ANNA)), expected);
    }

    #[test]
    fn de_morgan_holds(filters in prop::collection::vec(any_filter(), 0..4)) {
        let filters: Vec<_> = filters.into_iter().map(|(filter, _)| filter).collect();
        let negated = filters.iter().map(|filter| ResolvedFilter::Not(Box::new(filter.clone())));
        let or_of_negated = ResolvedFilter::Or(negated.collect());
        let not_and = ResolvedFilter::Not(Box::new(ResolvedFilter::And(filters)));
        let truth = |filter: &ResolvedFilter| filter.matches(&Schema::builtin(), &entry(ANNA));
        prop_assert_eq!(truth(&not_and), truth(&or_of_negated));
    }

    #[test]
    fn substrings_agree_with_trying_every_place(
        value in "[ab]{1,10}",
        initial in "[ab]{0,3}",
        any in prop::collection::vec("[ab]{1,3}", 0..3),
        last in "[ab]{0,3}",
    ) {
        prop_assume!(!(initial.is_empty() && any.is_empty() && last.is_empty()));
        let middle: String = any.iter().map(|piece| format!("*{piece}")).collect();
        let filter = resolve(&format!("(cn={initial}{middle}*{last})"));
        let chars = |text: &str| text.chars().collect::<Vec<_>>();
        let pieces: Vec<_> = any.iter().map(|piece| chars(piece)).collect();
        let expected = naive_substrings(&chars(&value), &chars(&initial), &pieces, &chars(&last));
        let truth = filter.matches(&Schema::builtin(), &entry(&format!("cn: {value}")));
        prop_assert_eq!(truth == Truth::True, expected);
    }
}
