//! Groups with very many members: they are changed by excerpts, and nobody may notice.

use std::collections::BTreeSet;

use environment::SystemClock;
use ldap::message::{Control, ControlsBuf, ModifyOperation, ModifyRequest, Request, Scope};
use ldap::result::ResultCode;
use offline::{ExportOptions, ImportOptions, Source, export, import};

use crate::support::{Asked, Client, SUFFIX, Served, modifications};

/// What the small group has, and the large one among many others.
const OWN: &[&str] = &["uid=anna,ou=people", "uid=Bob,ou=People", "uid=zoe,ou=people"];

fn dn(member: &str) -> String {
    format!("{member},{SUFFIX}")
}

/// Two groups alike but for members and descriptions that no test names.
fn groups(root: &mut Client) -> [String; 2] {
    let own: Vec<String> = OWN.iter().map(|member| dn(member)).collect();
    let others = (0..3000).map(|number| dn(&format!("uid=user.{number},ou=people")));
    let texts = (0..1500).map(|number| format!("what nobody asks for, {number} and more of it"));
    let mut large: Vec<String> = others.collect();
    // One is the first, one is in the middle, one is the last.
    large.insert(1500, own[1].clone());
    large.insert(0, own[0].clone());
    large.push(own[2].clone());
    let mut described: Vec<String> = texts.collect();
    described.push("Some Words".to_owned());
    let mut add = |name: &str, members: &[String], described: &[String]| {
        let members: Vec<&str> = members.iter().map(String::as_str).collect();
        let described: Vec<&str> = described.iter().map(String::as_str).collect();
        let name = format!("cn={name},{SUFFIX}");
        let attributes: &[(&str, &[&str])] = &[
            ("objectClass", &["groupOfNames"]),
            ("member", &members),
            ("description", &described),
        ];
        assert_eq!(root.add(&name, attributes), ResultCode::Success);
        name
    };
    [add("small", &own, &["Some Words".to_owned()]), add("large", &large, &described)]
}

fn values(root: &mut Client, name: &str, description: &str) -> BTreeSet<String> {
    let asked =
        Asked { base: name, scope: Scope::Base, attributes: &[description], ..Asked::default() };
    root.search(&asked).entries[0].texts(description).into_iter().collect()
}

type Change<'a> = (ModifyOperation, &'a str, &'a [&'a str]);

fn modify(root: &mut Client, name: &str, changes: &[Change<'_>], permissive: bool) -> ResultCode {
    let list = modifications(changes);
    let mut controls = ControlsBuf::new();
    if permissive {
        let oid = "1.2.840.113556.1.4.1413";
        controls.push(Control { oid, critical: true, value: None });
    }
    let request = ModifyRequest { name, changes: list.as_ref() };
    root.request(Request::Modify(request), controls.as_ref()).code()
}

#[test]
fn a_large_group_changes_as_a_small_one_does() {
    use ModifyOperation::{Add, Delete, Replace};
    let served = Served::new();
    let mut root = served.root();
    let [small, large] = groups(&mut root);
    let mut others = None;
    let mut check = |changes: &[Change<'_>], permissive: bool, want: ResultCode| {
        for name in [&small, &large] {
            let code = modify(&mut root, name, changes, permissive);
            assert_eq!(code, want, "{name}: {changes:?}");
        }
        let mut difference = Vec::new();
        for description in ["member", "description"] {
            let few = values(&mut root, &small, description);
            let many = values(&mut root, &large, description);
            assert!(few.is_subset(&many), "{changes:?}: {few:?}");
            difference.push(many.len() - few.len());
        }
        let before = others.get_or_insert_with(|| difference.clone()).clone();
        assert_eq!(before, difference, "{changes:?}: others stay");
    };
    let [new, also] = [dn("uid=new,ou=people"), dn("uid=also,ou=people")];
    let spelled = format!("UID=NEW, OU=People,{SUFFIX}");
    let (anna, bob, zoe) = (dn(OWN[0]), dn("uid=bob,ou=people"), dn("UID=ZOE,ou=people"));
    let (new, also, spelled) = (new.as_str(), also.as_str(), spelled.as_str());
    let (anna, bob, zoe) = (anna.as_str(), bob.as_str(), zoe.as_str());
    let nobody = dn("uid=nobody,ou=people");
    let exists = ResultCode::AttributeOrValueExists;
    let missing = ResultCode::NoSuchAttribute;

    check(&[(Add, "member", &[new])], false, ResultCode::Success);
    check(&[(Add, "member", &[new])], false, exists);
    check(&[(Add, "member", &[spelled])], false, exists);
    check(&[(Add, "member", &[also, bob])], false, exists);
    check(&[(Add, "member", &[also, also])], false, exists);
    check(&[(Add, "member", &[spelled, also])], true, ResultCode::Success);
    check(&[(Delete, "member", &[spelled])], false, ResultCode::Success);
    check(&[(Delete, "member", &[spelled])], false, missing);
    check(&[(Delete, "member", &[new, also])], true, ResultCode::Success);
    check(&[(Delete, "member", &[&nobody])], false, missing);
    check(&[(Delete, "member", &[&nobody, anna])], false, missing);
    // The spelling changes, and nothing else.
    let respelled = [(Delete, "member", &[bob][..]), (Add, "member", &[bob])];
    check(&respelled, false, ResultCode::Success);
    let there_and_back = [(Add, "member", &[new][..]), (Delete, "member", &[spelled])];
    check(&there_and_back, false, ResultCode::Success);
    check(&[(Add, "member", &["no name"])], false, ResultCode::InvalidAttributeSyntax);
    // The first and the last.
    check(&[(Delete, "member", &[anna, zoe])], false, ResultCode::Success);
    check(&[(Add, "member", &[zoe]), (Add, "member", &[anna])], false, ResultCode::Success);
    // No index tells of descriptions.
    check(&[(Add, "description", &["some  WORDS"])], false, exists);
    check(&[(Add, "description", &["other words"])], false, ResultCode::Success);
    check(&[(Delete, "description", &["SOME words"])], false, ResultCode::Success);
    check(&[(Delete, "description", &["SOME words"])], false, missing);
    // Other attributes of a large entry.
    check(&[(Replace, "owner", &[anna])], false, ResultCode::Success);
    let many: Vec<String> = (0..100).map(|n| dn(&format!("uid=many.{n}"))).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    check(&[(Add, "member", &many)], false, ResultCode::Success);
    check(&[(Delete, "member", &many)], false, ResultCode::Success);

    for change in [(Delete, "member", &[][..]), (Replace, "member", &[new])] {
        assert_eq!(modify(&mut root, &large, &[change], false), ResultCode::Success);
    }
    assert_eq!(values(&mut root, &large, "member").len(), 1);
    let asked = Asked { filter: &format!("(member={spelled})"), ..Asked::default() };
    assert_eq!(root.search(&asked).names(), [&large]);
    let asked = Asked { filter: &format!("(member={anna})"), ..Asked::default() };
    assert_eq!(root.search(&asked).names(), [&small]);
}

/// Each modification went through all values that are there: a few kilobytes held the writer, and
/// with it everybody's updates, for as long as one liked.
#[test]
fn many_modifications_of_a_large_attribute_are_few_passes() {
    use ModifyOperation::{Add, Delete};
    let served = Served::new();
    let mut root = served.root();
    let [_, large] = groups(&mut root);
    let before = values(&mut root, &large, "member").len();
    let names = (0..400).map(|n| dn(&format!("uid=more.{n}"))).collect::<Vec<_>>();
    let each = names.iter().map(|name| [name.as_str()]).collect::<Vec<_>>();
    let adds = each.iter().map(|one| (Add, "member", &one[..])).collect::<Vec<_>>();
    let deletes = each.iter().map(|one| (Delete, "member", &one[..])).collect::<Vec<_>>();
    assert_eq!(modify(&mut root, &large, &adds, false), ResultCode::Success);
    assert_eq!(values(&mut root, &large, "member").len(), before + 400);
    let again = ResultCode::AttributeOrValueExists;
    assert_eq!(modify(&mut root, &large, &adds, false), again);
    assert_eq!(modify(&mut root, &large, &adds, true), ResultCode::Success);
    assert_eq!(modify(&mut root, &large, &deletes, false), ResultCode::Success);
    assert_eq!(values(&mut root, &large, "member").len(), before);
    let turns = adds.iter().zip(&deletes).flat_map(|(add, delete)| [*add, *delete]);
    let turns = turns.collect::<Vec<_>>();
    assert_eq!(modify(&mut root, &large, &turns[..20], false), ResultCode::Success);
    assert_eq!(modify(&mut root, &large, &turns, false), ResultCode::AdminLimitExceeded);
}

/// A value of the whole attribute was checked for each modification of it, and whoever asked was
/// asked about each of them: a request of 20,000 modifications held the writer for a minute.
#[test]
fn what_many_modifications_leave_is_checked_once() {
    use ModifyOperation::{Add, Delete, Replace};
    let served = Served::new();
    let mut root = served.root();
    let [_, large] = groups(&mut root);
    let before = values(&mut root, &large, "member").len();
    let names = (0..9_000).map(|n| dn(&format!("uid=user.{}", n % 3_000))).collect::<Vec<_>>();
    let each = names.iter().map(|name| [name.as_str()]).collect::<Vec<_>>();
    let adds = each[..3_000].iter().map(|one| (Add, "member", &one[..])).collect::<Vec<_>>();
    let deletes = each[..3_000].iter().map(|one| (Delete, "member", &one[..])).collect::<Vec<_>>();
    assert_eq!(modify(&mut root, &large, &adds, false), ResultCode::Success);
    assert_eq!(modify(&mut root, &large, &deletes, false), ResultCode::Success);
    assert_eq!(values(&mut root, &large, "member").len(), before);
    let turns = each.iter().flat_map(|one| {
        [(Replace, "description", &one[..]), (Replace, "businessCategory", &one[..])]
    });
    let turns = turns.collect::<Vec<_>>();
    assert_eq!(modify(&mut root, &large, &turns, false), ResultCode::Success);
    let last = BTreeSet::from([names[8_999].clone()]);
    assert_eq!(values(&mut root, &large, "description"), last);
    assert_eq!(values(&mut root, &large, "businessCategory"), last);
}

/// Values were counted, whatever their length.
#[test]
fn passes_over_long_values_are_counted_by_their_octets() {
    use ModifyOperation::{Add, Delete, Replace};
    let served = Served::new();
    let mut root = served.root();
    let [small, _] = groups(&mut root);
    let long = "x".repeat(1 << 20);
    let turns = [(Add, "description", &["a"][..]), (Delete, "description", &["a"])].repeat(500);
    assert_eq!(modify(&mut root, &small, &turns, false), ResultCode::Success);
    let change = [(Replace, "description", &[long.as_str()][..])];
    assert_eq!(modify(&mut root, &small, &change, false), ResultCode::Success);
    assert_eq!(modify(&mut root, &small, &turns[..20], false), ResultCode::Success);
    let too_much = ResultCode::AdminLimitExceeded;
    assert_eq!(modify(&mut root, &small, &turns, false), too_much);
    // Beyond ASCII a megabyte takes as long as forty.
    let long = "\u{FC}".repeat(3 << 20);
    let change = [(Replace, "description", &[long.as_str()][..])];
    assert_eq!(modify(&mut root, &small, &change, false), too_much);
    let half = "\u{FC}".repeat(1_600_000);
    let change = [(Replace, "description", &[half.as_str()][..])];
    assert_eq!(modify(&mut root, &small, &change, false), ResultCode::Success);
    let other = format!("{half}x");
    let change = [(Add, "description", &[other.as_str()][..])];
    assert_eq!(modify(&mut root, &small, &change, false), too_much, "with what is there");
    assert_eq!(
        modify(&mut root, &small, &[(Delete, "description", &[])], false),
        ResultCode::Success
    );
}

#[test]
fn a_new_entry_has_no_more_of_what_takes_long_to_compare() {
    let served = Served::new();
    let mut root = served.root();
    let mut add = |octets: usize| {
        let text = "\u{FC}".repeat(octets / 4);
        let other = format!("{text}x");
        let name = format!("cn=group {octets},{SUFFIX}");
        let attributes: &[(&str, &[&str])] = &[
            ("objectClass", &["groupOfNames"]),
            ("member", &[SUFFIX]),
            ("description", &[&text, &other]),
        ];
        root.add(&name, attributes)
    };
    assert_eq!(add(1 << 20), ResultCode::Success);
    assert_eq!(add(5 << 20), ResultCode::AdminLimitExceeded);
}

/// A name is prepared where requests are read, before anybody knows whether strangers may add it.
#[test]
fn what_a_stranger_adds_is_prepared_within_milliseconds() {
    let served = Served::new();
    let add = |client: &mut Client, octets: usize| {
        let text = "\u{FC}".repeat(octets / 2);
        let values = [text.clone(), format!("{text}x")];
        let [one, other] = values.each_ref().map(String::as_str);
        let name = format!("cn={},{SUFFIX}", &text[..octets.min(8_000)]);
        client.add(&name, &[("objectClass", &["device"]), ("description", &[one, other])])
    };
    let mut stranger = served.client();
    assert_eq!(add(&mut stranger, 1_000), ResultCode::InsufficientAccessRights);
    assert_eq!(add(&mut stranger, 20_000), ResultCode::AdminLimitExceeded);
    assert_eq!(add(&mut served.root(), 20_000), ResultCode::Success);
}

/// Each attribute that is named is looked for among all of the entry.
#[test]
fn no_more_attributes_are_modified_than_an_entry_can_have() {
    use ModifyOperation::Replace;
    let served = Served::new();
    let mut root = served.root();
    let [small, _] = groups(&mut root);
    let names = (0..5_000).map(|number| format!("description;x-{number}")).collect::<Vec<_>>();
    let changes = names.iter().map(|name| (Replace, name.as_str(), &[][..])).collect::<Vec<_>>();
    assert_eq!(modify(&mut root, &small, &changes[..4_000], false), ResultCode::Success);
    let too_many = ResultCode::AdminLimitExceeded;
    assert_eq!(modify(&mut root, &small, &changes, false), too_many);
    let again = changes[..2_500].repeat(2);
    assert_eq!(modify(&mut root, &small, &again, false), ResultCode::Success);
}

#[test]
fn groups_are_imported_found_and_exported_whole() {
    const MEMBERS: usize = 20_000;
    let served = Served::new();
    let (options, data) = served.pulled();
    let mut ldif = String::new();
    for group in 0..5 {
        ldif += &format!("dn: cn=group {group},{SUFFIX}\nobjectClass: groupOfNames\n");
        for number in 0..MEMBERS {
            ldif += &format!("member: uid=user.{},ou=people,{SUFFIX}\n", number * (group + 1));
        }
        ldif += "\n";
    }
    let path = data.path().join("data");
    let sources = vec![Source::new("groups", ldif.as_bytes())];
    let asked = ImportOptions::default();
    let report = import(&path, sources, &asked, &SystemClock::new(), &mut ()).unwrap();
    assert_eq!(report.imported, 5);

    let mut out = Vec::new();
    export(&path, &ExportOptions::default(), &mut out).unwrap();
    let text = String::from_utf8(out).unwrap().replace("\n ", "");
    assert_eq!(text.matches("\nmember: ").count(), 5 * MEMBERS);
    assert!(text.contains(&format!("member: uid=user.99995,ou=people,{SUFFIX}\n")));

    let served = Served::opened(options, data);
    let mut root = served.root();
    let filter = format!("(member=uid=user.{},ou=people,{SUFFIX})", 4 * 5 * 13);
    let found = root.search(&Asked { filter: &filter, ..Asked::default() });
    // 260 is a multiple of 1, 2, 4 and 5, and not of 3.
    let names = [0, 1, 3, 4].map(|group| format!("cn=group {group},{SUFFIX}"));
    assert_eq!(found.names(), names);
}
