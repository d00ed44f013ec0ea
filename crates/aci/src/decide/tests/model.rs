//! Random sets of ACIs, entries and askers: whatever way a question is asked, the answer is that of
//! the plain evaluator.

use proptest::prelude::*;

use super::*;

fn pick<T: Clone + std::fmt::Debug + 'static>(items: &[T]) -> impl Strategy<Value = T> + use<T> {
    prop::sample::select(items.to_vec())
}

fn any_targets() -> impl Strategy<Value = String> {
    let name = pick(&[
        "",
        "",
        "",
        "(target=\"ldap:///ou=people,dc=x\")",
        "(target=\"ldap:///uid=anna,ou=people,dc=x\")",
        "(target!=\"ldap:///uid=anna,ou=people,dc=x\")",
        "(target=\"ldap:///uid=*a*,ou=people,dc=x\")",
        "(target=\"ldap:///uid=*,dc=x\")",
        "(target=\"ldap:///cn=*,**,dc=x\")",
        "(target!=\"ldap:///cn=*,**,dc=x\")",
        "(target=\"ldap:///ou=people,($dn),dc=x\")",
        "(target=\"ldap:///($dn),dc=x\")",
    ]);
    let scope = pick(&["", "", "base", "onelevel", "subordinate"]);
    let attributes = pick(&[
        "",
        "(targetattr=\"*\")",
        "(targetattr=\"*\")",
        "(targetattr=\"* || +\")",
        "(targetattr=\"cn || createTimestamp\")",
        "(targetattr!=\"cn\")",
        "(targetattr!=\"cn;lang-de || l || modifyTimestamp\")",
        "(targetattr=\"name\")",
        "(targetattr!=\"name || noSuchType\")",
        "(targetattr=\"cn;lang-de || member\")",
        "(targetattr=\"name;lang-de\")",
        "(targetattr=\"#secret\")",
        "(targetattr!=\"#secret || l\")",
        "(targetattr=\"+ || #SECRET || cn\")",
    ]);
    let filter = pick(&[
        "",
        "",
        "",
        "(targetfilter=\"(l=rome)\")",
        "(targetfilter!=\"(cn=*)\")",
        "(targetfilter=\"(noSuchType=x)\")",
    ]);
    let values = pick(&[
        "",
        "",
        "",
        "(targattrfilters=\"add=l:(l=rome)\")",
        "(targattrfilters=\"add=title:(title=b*) && l:(l=rome),del=member:(member=*)\")",
    ]);
    (name, scope, attributes, filter, values).prop_map(
        |(name, scope, attributes, filter, values)| {
            let scope = match scope {
                "" => String::new(),
                scope => format!("(targetscope=\"{scope}\")"),
            };
            [name, &scope, attributes, filter, values].concat()
        },
    )
}

fn any_rule() -> impl Strategy<Value = String> {
    let leaf = pick(&[
        "userdn=\"ldap:///anyone\"",
        "userdn=\"ldap:///all\"",
        "userdn=\"ldap:///self\"",
        "userdn!=\"ldap:///self || ldap:///parent\"",
        "userdn=\"ldap:///parent\"",
        "userdn=\"ldap:///uid=bert,ou=people,dc=x\"",
        "userdn=\"ldap:///uid=*a*,ou=people,dc=x\"",
        "userdn!=\"ldap:///uid=*,dc=x\"",
        "userdn=\"ldap:///dc=x??sub?(l=rome)\"",
        "userdn=\"ldap:///uid=bert,ou=($attr.ou)\"",
        "groupdn=\"ldap:///cn=staff,ou=groups,dc=x\"",
        "groupdn!=\"ldap:///cn=lost,dc=x\"",
        "groupdn=\"ldap:///cn=staff,ou=groups,($dn),dc=x\"",
        "groupdn=\"ldap:///cn=staff,ou=groups,[$dn],dc=x\"",
        "userattr=\"manager#USERDN\"",
        "userattr=\"parent[0,1,2].manager#USERDN\"",
        "userattr=\"owner#GROUPDN\"",
        "userattr!=\"seeAlso#GROUPDN\"",
        "userattr=\"ldap:///ou=groups,dc=x?owner#GROUPDN\"",
        "userattr!=\"ldap:///dc=a,dc=x?parent[0,1].owner#GROUPDN\"",
        "userattr=\"ldap:///ou=groups,[$dn],dc=x?owner#GROUPDN\"",
        "userattr=\"ldap:///ou=($attr.ou)?parent[0,1].owner#GROUPDN\"",
        "userattr=\"labeledURI#LDAPURL\"",
        "userattr=\"l#rome\"",
        "userattr=\"noSuchType#USERDN\"",
        "ip=\"10.*\"",
        "ip!=\"10.0.0.0/9\"",
        "dns=\"*.example.com\"",
        "timeofday<\"1200\"",
        "dayofweek=\"mon\"",
        "authmethod=\"sasl EXTERNAL\"",
        "authmethod!=\"simple\"",
        "userdn!=\"ldap:///all\"",
        "userdn!=\"ldap:///anyone\"",
        "userattr!=\"labeledURI#LDAPURL\"",
        "ssf>=\"128\"",
    ])
    .prop_map(str::to_owned);
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            inner.clone().prop_map(|rule| format!("not ({rule})")),
            prop::collection::vec((inner, pick(&["and", "or"])), 2..4).prop_map(|rules| {
                let mut text = String::new();
                for (position, (rule, connective)) in rules.iter().enumerate() {
                    if position > 0 {
                        text.push_str(&format!(" {connective} "));
                    }
                    text.push_str(&format!("({rule})"));
                }
                text
            }),
        ]
    })
}

fn any_aci() -> impl Strategy<Value = (&'static str, String)> {
    let rights = pick(&[
        "read",
        "read,search",
        "all",
        "write",
        "selfwrite",
        "add,delete",
        "import,export",
        "proxy",
    ]);
    let statement = (pick(&["allow", "allow", "deny"]), rights, any_rule())
        .prop_map(|(word, rights, rule)| format!(" {word} ({rights}) {rule};"));
    let holder = pick(&[
        "",
        "dc=x",
        "dc=x",
        "ou=people,dc=x",
        "uid=anna,ou=people,dc=x",
        "dc=a,dc=x",
        "cn=dora,uid=anna,ou=people,dc=x",
    ]);
    (holder, any_targets(), prop::collection::vec(statement, 1..3)).prop_map(
        |(holder, targets, statements)| {
            (holder, format!("{targets}(version 3.0; acl \"x\";{})", statements.concat()))
        },
    )
}

/// A question in the words of `Case::check`.
fn any_question() -> impl Strategy<Value = String> {
    let attribute = pick(&[
        "cn",
        "cn;lang-de",
        "sn",
        "name",
        "l",
        "uid",
        "member",
        "createTimestamp",
        "userPassword",
        "pwdReset",
    ]);
    let of_attribute = (pick(&["read", "search", "compare", "write"]), attribute)
        .prop_map(|(right, attribute)| format!("{right} {attribute}"));
    let of_entry = pick(&["read", "search", "write", "add", "delete", "import", "proxy"]);
    let of_value = pick(&[
        "+l=rome",
        "+l=oslo",
        "-l=rome",
        "+title=boss",
        "+member=uid=bert,ou=people,dc=x",
        "-member=uid=bert,ou=people,dc=x",
        "+cn=a",
    ]);
    prop_oneof![
        4 => of_attribute,
        2 => of_entry.prop_map(str::to_owned),
        2 => of_value.prop_map(str::to_owned),
    ]
}

proptest! {
    #[test]
    fn every_way_to_ask_gives_the_answer_of_the_plain_evaluator(
        acis in prop::collection::vec(any_aci(), 1..7),
        many in prop::bool::weighted(0.1),
        who in pick(&["", "anna", "bert", "carl", "cn=root"]),
        base in pick(&["", "dc=x", "ou=people,dc=x", "uid=anna,ou=people,dc=x"]),
        questions in prop::collection::vec((any_question(), 0_usize..15), 1..12),
        address in pick(&[None, Some("10.200.0.1"), Some("10.1.0.1"), Some("2001:db8::1")]),
        ssf in pick(&[0_u32, 256]),
        method in pick(&[
            AuthenticationMethod::Simple,
            AuthenticationMethod::Certificate,
            AuthenticationMethod::Sasl("EXTERNAL"),
        ]),
        time in pick(&[None, Some(TimeOfWeek { day: 1, minute: 30 })]),
        host in pick(&[None, Some("a.example.com"), Some("b.example.org")]),
    ) {
        // More statements than a word has bits.
        let none = (
            "dc=x".to_owned(),
            "(targetattr=\"sn\")(version 3.0; acl \"none\"; deny (read) ssf=\"77\" and \
             userdn=\"ldap:///self\";)".to_owned(),
        );
        let filler = std::iter::repeat_n(none, if many { 70 } else { 0 });
        let acis = acis.into_iter().map(|(holder, text)| (holder.to_owned(), text));
        let acis: Vec<(String, String)> = filler.chain(acis).collect();
        let acis: Vec<(&str, &str)> =
            acis.iter().map(|(holder, text)| (holder.as_str(), text.as_str())).collect();
        let mut case = case(&acis);
        case.address = address.and_then(|address| address.parse().ok());
        let is_signed_in = !who.is_empty();
        (case.ssf, case.method) =
            (ssf, if is_signed_in { method } else { AuthenticationMethod::Anonymous });
        (case.world.time, case.world.host) = (time, host);
        let names: Vec<String> =
            case.world.entries.iter().map(|(_, entry)| entry.dn().to_owned()).collect();
        for (question, place) in &questions {
            case.ask(who, question, &names[*place]);
        }
        case.walk(who, &questions[0].0, base);
    }

    #[test]
    fn what_is_displayed_reads_back_as_an_equal_aci((_, text) in any_aci()) {
        let schema = Schema::builtin();
        let aci = Aci::parse(&text, &schema).unwrap();
        prop_assert_eq!(Aci::parse(&aci.to_string(), &schema), Ok(aci));
    }
}
