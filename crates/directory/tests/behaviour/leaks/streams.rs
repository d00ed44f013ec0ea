//! Changes that are told as they are made: none tells of what its reader may not see, and a
//! consumer has in the end what its reader finds.

use testing::chance::{Chance, attack_turns};

use ldap::message::{ModifyOperation, Scope};
use ldap::result::ResultCode;

use super::ACCESS_CONFIG;
use crate::streams::{ALL, Consumer, Heard, follow, go_on};
use crate::support::{Asked, Client, Served};

const BRANCH: &str = "ou=b,dc=example,dc=org";
const UNIT: &[(&str, &[&str])] = &[("objectClass", &["organizationalUnit"])];

/// Who may see an entry hangs on what it holds; one attribute nobody may read, and one nobody may
/// search for. What is never to be seen says so.
const ACIS: [&str; 4] = [
    "(targetscope=\"base\")(targetattr=\"* || entryUUID\")(version 3.0; acl \"base\"; allow \
     (read,search) userdn=\"ldap:///anyone\";)",
    "(targetfilter=\"(title=open)\")(targetattr!=\"mail || description\")(version 3.0; acl \"a\"; \
     allow (read,search) userdn=\"ldap:///anyone\";)",
    "(targetfilter=\"(title=open)\")(targetattr=\"entryUUID\")(version 3.0; acl \"b\"; \
     allow (read) userdn=\"ldap:///anyone\";)",
    "(targetfilter=\"(title=open)\")(targetattr=\"description\")(version 3.0; acl \"c\"; \
     allow (search) userdn=\"ldap:///anyone\";)",
];

/// The branch, with no other rules than these.
fn ruled(root: &mut Client) {
    let controls = "(targetcontrol=\"*\")(version 3.0; acl \"controls\"; allow (read) \
                    userdn=\"ldap:///anyone\";)";
    let global = (ModifyOperation::Replace, "ds-cfg-global-aci", &[controls][..]);
    assert_eq!(root.modify(ACCESS_CONFIG, &[global]), ResultCode::Success);
    assert_eq!(root.add(BRANCH, UNIT), ResultCode::Success);
    let rules = (ModifyOperation::Add, "aci", &ACIS[..]);
    assert_eq!(root.modify(BRANCH, &[rules]), ResultCode::Success);
}

struct Entries {
    chance: Chance,
    names: Vec<(String, bool)>,
    made: usize,
}

impl Entries {
    /// Does something with an entry. Names tell whether an entry was ever open.
    fn step(&mut self, root: &mut Client) {
        let title = |is_open| if is_open { "open" } else { "shut" };
        match self.chance.below(7) {
            0..2 => {
                let is_open = self.chance.once_in(2);
                self.made += 1;
                let never = if is_open { "" } else { "SECRET" };
                let name = format!("uid=p{}{never},{BRANCH}", self.made);
                let city = ["zug", "chur"][self.chance.below(2) as usize];
                let list: [(&str, &[&str]); 7] = [
                    ("objectClass", &["inetOrgPerson"]),
                    ("cn", &["c"]),
                    ("sn", &["s"]),
                    ("l", &[city]),
                    ("title", &[title(is_open)]),
                    ("mail", &["SECRET@example.org"]),
                    ("description", &["SECRET"]),
                ];
                assert_eq!(root.add(&name, &list), ResultCode::Success);
                self.names.push((name, is_open));
            }
            _ if self.names.is_empty() => {}
            2 => {
                let index = self.chance.below(self.names.len() as u64) as usize;
                let (name, _) = self.names.swap_remove(index);
                assert_eq!(root.delete(&name), ResultCode::Success);
            }
            3 => {
                let index = self.chance.below(self.names.len() as u64) as usize;
                let (name, is_open) = self.names[index].clone();
                self.made += 1;
                let never = if is_open { "" } else { "SECRET" };
                let leaf = format!("uid=p{}{never}", self.made);
                assert_eq!(root.rename(&name, &leaf, true, None), ResultCode::Success);
                self.names[index].0 = format!("{leaf},{BRANCH}");
            }
            which => {
                let index = self.chance.below(self.names.len() as u64) as usize;
                let (name, may_open) = self.names[index].clone();
                let (attribute, value) = match which {
                    4 => ("title", title(may_open && self.chance.once_in(2))),
                    5 => ("l", ["zug", "chur"][self.chance.below(2) as usize]),
                    _ => ("mail", ["SECRET1", "SECRET2"][self.chance.below(2) as usize]),
                };
                let change = (ModifyOperation::Replace, attribute, &[value][..]);
                assert_eq!(root.modify(&name, &[change]), ResultCode::Success);
            }
        }
    }
}

/// Rounds of one turn.
const SEEDS: u64 = 4;

#[track_caller]
fn tells_nothing(heard: &[Heard]) {
    let text = format!("{heard:?}");
    assert!(!text.contains("SECRET"), "{text}");
}

#[test]
fn a_change_of_what_is_hidden_is_not_told() {
    let served = Served::new();
    let mut root = served.root();
    ruled(&mut root);
    let name = "uid=anna,ou=b,dc=example,dc=org";
    let list: [(&str, &[&str]); 4] =
        [("objectClass", &["inetOrgPerson"]), ("cn", &["c"]), ("sn", &["s"]), ("title", &["open"])];
    assert_eq!(root.add(name, &list), ResultCode::Success);
    let asked = Asked { base: BRANCH, attributes: &["*"], ..Asked::default() };
    let (mut stays, mut persists) = (served.client(), served.client());
    let mut consumer = Consumer::default();
    assert_eq!(consumer.ask(&mut stays, &asked, true), None);
    assert_eq!(follow(&mut persists, &asked, ALL), []);
    let mut put = |attribute, value| {
        let change = (ModifyOperation::Replace, attribute, &[value][..]);
        assert_eq!(root.modify(name, &[change]), ResultCode::Success);
        [go_on(&mut stays).len(), go_on(&mut persists).len()]
    };
    assert_eq!(put("mail", "a@example.org"), [0, 0]);
    assert_eq!(put("description", "x"), [0, 0]);
    // An entry and a cookie, and an entry.
    assert_eq!(put("l", "zug"), [2, 1]);
}

#[test]
fn a_name_of_before_does_not_lift_what_an_entry_denies_itself() {
    let served = Served::new();
    let mut root = served.root();
    ruled(&mut root);
    let deny = "(targetattr=\"* || +\")(version 3.0; acl \"own\"; deny (all) \
                userdn=\"ldap:///anyone\";)";
    let list: [(&str, &[&str]); 5] = [
        ("objectClass", &["inetOrgPerson"]),
        ("cn", &["c"]),
        ("sn", &["s"]),
        ("title", &["open"]),
        ("aci", &[deny]),
    ];
    assert_eq!(root.add(&format!("uid=SECRET,{BRANCH}"), &list), ResultCode::Success);
    let asked = Asked { base: BRANCH, attributes: &["*"], ..Asked::default() };
    let (mut stays, mut consumer) = (served.client(), Consumer::default());
    for (changes_first, from, to) in [(false, "SECRET", "SECRET2"), (true, "SECRET2", "SECRET3")] {
        assert_eq!(consumer.ask(&mut stays, &asked, true), None);
        tells_nothing(&consumer.told);
        let name = format!("uid={from},{BRANCH}");
        if changes_first {
            let change = (ModifyOperation::Replace, "l", &["zug"][..]);
            assert_eq!(root.modify(&name, &[change]), ResultCode::Success);
        }
        assert_eq!(root.rename(&name, &format!("uid={to}"), true, None), ResultCode::Success);
        let heard = go_on(&mut stays);
        assert_eq!(heard, [Heard::Done(ResultCode::SyncRefreshRequired, None)]);
    }
}

#[test]
fn streams_tell_what_their_reader_may_see() {
    for seed in 0..u64::from(attack_turns()) * SEEDS {
        let served = Served::new();
        let mut root = served.root();
        ruled(&mut root);
        let filters = ["(l=zug)", "(objectClass=*)", "(description=SECRET)", "(mail=*)"];
        for filter in filters {
            let asked = Asked {
                base: BRANCH,
                scope: Scope::Subtree,
                filter,
                attributes: &["*", "entryUUID"],
                ..Asked::default()
            };
            let chance = Chance::new(seed, filter.len() as u64);
            let mut entries = Entries { chance, names: Vec::new(), made: 0 };
            (0..10).for_each(|_| entries.step(&mut root));
            let (mut stays, mut returns, mut persists) =
                (served.client(), served.client(), served.client());
            let (mut staying, mut returning) = (Consumer::default(), Consumer::default());
            let mut reader = served.client();
            assert_eq!(staying.ask(&mut stays, &asked, true), None);
            follow(&mut persists, &asked, ALL);
            // Changes that do not concern them are passed over.
            let (mut sees_all, mut stays_with_all) = (Consumer::default(), served.root());
            assert_eq!(sees_all.ask(&mut stays_with_all, &asked, true), None);
            let mut hears_all = served.root();
            follow(&mut hears_all, &asked, ALL);
            for _ in 0..20 {
                for _ in 0..=entries.chance.below(4) {
                    entries.step(&mut root);
                }
                let heard = go_on(&mut stays);
                tells_nothing(&heard);
                assert_eq!(staying.hear(heard), None);
                staying.check(&mut reader, &asked);
                tells_nothing(&go_on(&mut persists));
                go_on(&mut hears_all);
                if sees_all.hear(go_on(&mut stays_with_all)).is_some() {
                    sees_all = Consumer::default();
                    assert_eq!(sees_all.ask(&mut stays_with_all, &asked, true), None);
                }
                sees_all.check(&mut root, &asked);
                if entries.chance.once_in(3) {
                    assert_eq!(
                        returning.ask(&mut returns, &asked, false),
                        Some(ResultCode::Success)
                    );
                    tells_nothing(&returning.told);
                    returning.check(&mut reader, &asked);
                }
            }
            for (name, _) in entries.names {
                assert_eq!(root.delete(&name), ResultCode::Success);
            }
        }
    }
}
