//! In-chain terms (1.2.840.113556.1.4.1941): what they may cost, together, whoever asks.

use ldap::message::ModifyOperation;
use ldap::result::ResultCode;

use crate::add_devices;
use crate::support::{Answer, Asked, Client, SUFFIX, Served};

const RULE: &str = "1.2.840.113556.1.4.1941";
const REJECT: &str = "1.3.6.1.4.1.30221.2.5.54";

fn chain(attribute: &str, name: &str) -> String {
    format!("({attribute}:{RULE}:={name})")
}

fn search(client: &mut Client, filter: &str) -> Answer {
    client.search(&Asked { filter, ..Asked::default() })
}

#[track_caller]
fn check(client: &mut Client, filter: &str, want: (ResultCode, usize)) -> String {
    let answer = search(client, filter);
    let found = (answer.code(), answer.entries.len());
    assert_eq!(found, want, "{}", answer.diagnostic);
    answer.diagnostic
}

fn add_group(root: &mut Client, name: &str, member: &str) {
    let answer = root.try_add(name, &[("objectClass", &["groupOfNames"]), ("member", &[member])]);
    assert_eq!(answer.code(), ResultCode::Success, "{}", answer.diagnostic);
}

/// Groups that have one another as members, each the one before; the first has `first`.
fn add_nested(root: &mut Client, names: impl Iterator<Item = String>, first: &str) -> String {
    let mut member = first.to_owned();
    for name in names {
        add_group(root, &name, &member);
        member = name;
    }
    member
}

/// A few thousand terms in one filter were looked up one by one, as long as that took.
#[test]
fn a_filter_has_a_limited_number_of_chains() {
    let served = Served::new();
    let mut client = served.client();
    let terms = |count: usize| {
        (0..count).map(|one| chain("member", &format!("cn={one},{SUFFIX}"))).collect::<String>()
    };
    check(&mut client, &format!("(|{})", terms(64)), (ResultCode::Success, 0));
    let refused = (ResultCode::UnwillingToPerform, 0);
    let diagnostic = check(&mut client, &format!("(!(|{}))", terms(65)), refused);
    assert!(diagnostic.contains("at most 64 in-chain terms"), "{diagnostic}");
}

/// That a search was unindexed was found out, and forgotten: each term read the whole directory.
/// And the refusal for another part of the filter showed the key as it is stored.
#[test]
fn a_chain_that_no_index_helps_is_refused_where_a_search_would_be() {
    let served = Served::with(|options| options.limits.unindexed_entries = 10);
    add_devices(&served, 12, "x");
    let mut root = served.root();
    let (first, role) = (format!("cn=device 0,{SUFFIX}"), format!("cn=role,{SUFFIX}"));
    let attributes: &[(&str, &[&str])] =
        &[("objectClass", &["organizationalRole"]), ("roleOccupant", &[&first])];
    assert_eq!(root.add(&role, attributes), ResultCode::Success);
    let filter = chain("roleOccupant", &first);
    let refused = (ResultCode::InsufficientAccessRights, 0);
    let diagnostic = check(&mut served.client(), &filter, refused);
    for part in [filter.as_str(), "'equality roleOccupant'", "for each level", "unindexed-search"] {
        assert!(diagnostic.contains(part), "{part}: {diagnostic}");
    }
    check(&mut root, &filter, (ResultCode::Success, 1));
    // One that an index helps is none of those, beside whichever other part.
    let both = format!("(&{}(description=y))", chain("member", &first));
    check(&mut served.client(), &both, (ResultCode::Success, 0));
    let controls = &[(REJECT, true, None)];
    let answer = root.search(&Asked { filter: &filter, controls, ..Asked::default() });
    assert_eq!(answer.code(), ResultCode::UnwillingToPerform);
    assert!(answer.diagnostic.contains(&filter), "{}", answer.diagnostic);
}

/// Each term had a limit of its own.
#[test]
fn the_chains_of_a_filter_share_their_entries() {
    let served = Served::with(|options| options.limits.look_through_limit_entries = 10);
    let mut root = served.root();
    for letter in ["a", "b"] {
        let names = (0..6).map(|number| format!("cn={letter}{number},{SUFFIX}"));
        add_nested(&mut root, names, &format!("cn={letter},{SUFFIX}"));
    }
    let of = |letter: &str| chain("member", &format!("cn={letter},{SUFFIX}"));
    let mut client = served.client();
    check(&mut client, &of("a"), (ResultCode::Success, 6));
    // An equal term is the same chain, however it is written.
    let equal = chain("MEMBER", &format!("CN=a, {SUFFIX}"));
    check(&mut client, &format!("(|{}{equal}(member=x))", of("a")), (ResultCode::Success, 6));
    let both = format!("(|{}{})", of("a"), of("b"));
    let diagnostic = check(&mut client, &both, (ResultCode::AdminLimitExceeded, 0));
    assert!(diagnostic.contains("more than 10 entries"), "{diagnostic}");
    check(&mut root, &both, (ResultCode::Success, 12));
}

/// What is hidden leads nowhere, and counts for nothing.
#[test]
fn hidden_entries_do_not_count_for_a_chain() {
    let served = Served::with(|options| options.limits.look_through_limit_entries = 3);
    let mut root = served.root();
    let first = format!("cn=first,{SUFFIX}");
    add_nested(&mut root, (0..3).map(|number| format!("cn=open{number},{SUFFIX}")), &first);
    for number in 0..5 {
        add_group(&mut root, &format!("cn=hidden{number},{SUFFIX}"), &first);
    }
    let hide = format!(
        "(target=\"ldap:///cn=hidden*,{SUFFIX}\")(version 3.0; acl \"hide\"; \
         deny (all) userdn=\"ldap:///anyone\";)"
    );
    // The search itself looks at one.
    let filter = format!("(&{}(cn=open2))", chain("member", &first));
    check(&mut served.client(), &filter, (ResultCode::AdminLimitExceeded, 0));
    let add = (ModifyOperation::Add, "aci", &[hide.as_str()][..]);
    assert_eq!(root.modify(SUFFIX, &[add]), ResultCode::Success);
    check(&mut served.client(), &filter, (ResultCode::Success, 1));
    check(&mut root, &filter, (ResultCode::Success, 1));
}

/// Names of thousands of octets, of a few entries, made lists of gigabytes; equal terms each made
/// their own.
#[test]
fn the_chains_of_a_filter_share_their_octets() {
    let served = Served::new();
    let mut root = served.root();
    let names = (0..20).map(|number| format!("cn={number}{},{SUFFIX}", "x".repeat(10_000)));
    let first = format!("cn=first,{SUFFIX}");
    add_nested(&mut root, names, &first);
    let terms = |count: usize| format!("(|{})", chain("member", &first).repeat(count));
    check(&mut root, &terms(1), (ResultCode::Success, 20));
    check(&mut root, &terms(30), (ResultCode::Success, 20));
    let diagnostic = check(&mut root, &terms(60), (ResultCode::AdminLimitExceeded, 0));
    assert!(diagnostic.contains("bytes"), "{diagnostic}");
}

/// Candidates that were certain to match were no work, and neither was planning.
#[test]
fn what_a_chain_looks_at_is_work_of_the_search() {
    let served = Served::with(|options| options.limits.search_work_anonymous_max = 1);
    let mut root = served.root();
    let first = format!("cn=first,{SUFFIX}");
    for number in 0..900 {
        add_group(&mut root, &format!("cn=group {number},{SUFFIX}"), &first);
    }
    let filter = chain("member", &first);
    let diagnostic = check(&mut served.client(), &filter, (ResultCode::AdminLimitExceeded, 0));
    assert!(diagnostic.contains("more work than allowed"), "{diagnostic}");
    check(&mut root, &filter, (ResultCode::Success, 900));
    // An equal term is looked up once.
    let second = format!("cn=second,{SUFFIX}");
    add_nested(&mut root, (0..20).map(|number| format!("cn=in{number},{SUFFIX}")), &second);
    let equal = format!("(|{})", chain("member", &second).repeat(50));
    check(&mut served.client(), &equal, (ResultCode::Success, 20));
}

/// Looking chains up does not park: so there is a limit to it, whatever the search may cost.
#[test]
fn a_chain_holds_its_thread_for_a_moment_only() {
    let served = Served::with(|options| options.limits.search_work_anonymous_max = 0);
    let mut root = served.root();
    let long = "\u{FC}".repeat(7_500);
    let names = (0..30).map(|number| format!("cn={number}{long},{SUFFIX}"));
    let first = format!("cn=first,{SUFFIX}");
    let last = add_nested(&mut root, names, &first);
    let filter = chain("member", &first);
    let diagnostic = check(&mut served.client(), &filter, (ResultCode::AdminLimitExceeded, 0));
    assert!(diagnostic.contains("more work than is done at once"), "{diagnostic}");
    check(&mut root, &filter, (ResultCode::Success, 30));
    check(&mut served.client(), &chain("member", &last), (ResultCode::Success, 0));
}
