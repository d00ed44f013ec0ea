//! Who may see and do what. The only crate that builds a [`VisibleEntry`] or a [`Permitted`]
//! change.
//!
//! Invariant: knows no storage and no socket; it sees an entry only through `schema::EntryRead`.
//! Invariant: both capability types have private fields. What was not decided here can neither be
//! sent to a client nor be logged.
//!
//! Rules are ACIs; see `text.rs` for their language. An identity with the privilege `bypass-acl`,
//! which the root identity has by default, is not subject to them.

mod access;
mod decide;
mod identity;
mod network;
mod permitted;
mod privilege;
mod privilege_meaning;
mod rights;
mod rule;
mod set;
mod text;
mod visible;

pub use access::{Access, Bypass, ClientOrigin, Method};
pub use decide::{
    AccessExplanation, AccessSubject, AuthenticationMethod, Considered, EntryRights, RuleOutcome,
};
pub use decide::{Question, Reach, Rules, Surroundings, TimeOfWeek, ValueChange};
pub use identity::{Grants, Identity};
pub use network::Network;
pub use permitted::{Denied, Permitted};
pub use privilege::{Privilege, Privileges};
pub use privilege_meaning::{Meaning, why_not_granted};
pub use rights::{Own, Rights, is_account_state, privilege_for};
pub use rule::pattern::PatternFault;
pub use rule::{Aci, Right};
pub use set::{AciSet, GlobalAcis};
pub use text::{ACI_LENGTH_MAX_BYTES, ACI_VALUES_MAX, AciError, AciReason};
pub use text::{BIND_RULE_DEPTH_MAX, PARENT_LEVEL_MAX};
pub use visible::{Searchable, VisibleAttribute, VisibleEntry, WantedValues};

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ldap::dn::{Dn, DnText};
    use ldap::filter::Filter;
    use schema::{
        AddChange, AttributeDelta, Change, DeleteChange, DnKey, Entry, EntryId, EntryRead,
        IndexChange, ModifyChange, RdnKey, ResolvedFilter, Schema, Selection, SettingChange, Truth,
    };

    use super::*;

    const ANNA: &str = "uid=anna,dc=example";

    fn dn(text: &str) -> Dn {
        Dn::parse(text).unwrap()
    }

    fn everyone() -> [Access; 4] {
        let identities = [
            Identity::Root(DnText::from(&dn("cn=root"))),
            Identity::Entry(DnText::from(&dn(ANNA))),
            Identity::Entry(DnText::from(&dn("uid=bert,dc=example"))),
            Identity::Anonymous,
        ];
        identities.map(|identity| {
            let key = identity.dn();
            let key = key.map(|dn| DnKey::from_text(&Schema::builtin(), dn.as_str()).unwrap());
            let access = Access::of(identity);
            match key {
                Some(key) => access.keyed(key),
                None => access,
            }
        })
    }

    /// There is nothing but the entry that is asked about.
    struct Alone;

    impl Surroundings for Alone {
        fn is_member(&self, _: &DnKey, _: &DnKey) -> Truth {
            Truth::Undefined
        }

        fn visit_entry(&self, _: &DnKey, _: &mut dyn FnMut(&dyn EntryRead)) -> Truth {
            Truth::False
        }

        fn time(&self) -> Option<TimeOfWeek> {
            None
        }

        fn host_name(&self) -> Option<String> {
            None
        }
    }

    /// Calls `ask` with the rights that `access` has on an entry where anyone reads.
    fn with_rights<T>(access: &Access, entry: &Entry, ask: impl FnOnce(&Rights<'_>) -> T) -> T {
        with_rights_by(GlobalAcis::Public, access, entry, ask)
    }

    /// Calls `ask` with the rights that `access` has on an entry by these rules.
    fn with_rights_by<T>(
        rules: GlobalAcis,
        access: &Access,
        entry: &Entry,
        ask: impl FnOnce(&Rights<'_>) -> T,
    ) -> T {
        let schema = Schema::builtin();
        let parse = |text: &str| Arc::new(Aci::parse(text, &schema).unwrap());
        let global = rules.texts().into_iter().map(parse).collect();
        let set = AciSet::new(Arc::clone(&schema)).with_holders([(DnKey::root(), global)]);
        let rules = access.rules(&Arc::new(set), 1);
        let asker = access.asker(None, &Alone);
        let reach = rules.below(&asker, &DnKey::root());
        ask(&match access.bypass() {
            Some(bypass) => Rights::all(bypass),
            None => Rights::on(access, &reach, entry),
        })
    }

    fn anna() -> Entry {
        let pairs: [(&str, &[u8]); 5] = [
            ("objectClass", b"inetOrgPerson"),
            ("sn", b"Berg"),
            ("userPassword", b"secret"),
            ("userPassword;x-old", b"older"),
            ("authPassword", b"MD5$a$b"),
        ];
        Entry::from_pairs(dn(ANNA), pairs, &Schema::builtin()).unwrap()
    }

    #[test]
    fn strangers_read_the_root_dse_and_the_schema_and_no_more() {
        let schema = Schema::builtin();
        let make = |name: &str| Entry::from_pairs(dn(name), [("cn", &b"x"[..])], &schema).unwrap();
        let cn = schema.describe("cn").unwrap();
        let readers = |rules: GlobalAcis, name: &str| -> [bool; 4] {
            everyone().map(|access| {
                with_rights_by(rules, &access, &make(name), |rights| {
                    assert_eq!(rights.may_search(&cn), rights.may_read(&cn));
                    rights.may_read(&cn)
                })
            })
        };
        // The administrator, the entry itself, another user, a stranger.
        use GlobalAcis::{Closed, Public, SignedIn};
        for rules in [Closed, SignedIn, Public] {
            for name in ["", "cn=schema"] {
                assert_eq!(readers(rules, name), [true; 4], "{rules:?} '{name}'");
            }
        }
        for name in [ANNA, "cn=x,cn=schema", "dc=x", "cn=monitor", "cn=config"] {
            assert_eq!(readers(Closed, name), [true, false, false, false], "{name}");
            assert_eq!(readers(SignedIn, name), [true, true, true, false], "{name}");
            assert_eq!(readers(Public, name), [true; 4], "{name}");
        }
    }

    #[test]
    fn who_may_do_what_is_for_administrators_to_see() {
        let schema = Schema::builtin();
        for rules in [GlobalAcis::SignedIn, GlobalAcis::Public] {
            for access in everyone() {
                for name in ["aci", "ds-privilege-name", "ds-rlim-size-limit", "pwdHistory"] {
                    let description = schema.describe(name).unwrap();
                    let want = access.has(Privilege::BypassAcl);
                    with_rights_by(rules, &access, &anna(), |rights| {
                        assert_eq!(rights.may_read(&description), want, "{name} {access:?}");
                    });
                }
            }
        }
    }

    #[test]
    fn only_root_sees_passwords() {
        let schema = Schema::builtin();
        let entry = anna();
        for (access, sees) in everyone().iter().zip([true, false, false, false]) {
            for (name, is_password) in [
                ("userPassword", true),
                ("userPassword;x-old", true),
                ("authPassword", true),
                ("sn", false),
                ("entryUUID", false),
            ] {
                let description = schema.describe(name).unwrap();
                let want = sees || !is_password;
                with_rights(access, &entry, |rights| {
                    assert_eq!(rights.may_read(&description), want, "{name} {access:?}");
                    assert_eq!(rights.may_search(&description), want, "{name} {access:?}");
                    assert_eq!(rights.may_compare(&description), want, "{name} {access:?}");
                });
            }
        }
    }

    #[test]
    fn a_visible_entry_holds_what_was_asked_for_and_may_be_read() {
        let schema = Schema::builtin();
        let check = |access: &Access, selectors: &[&str], want: &[&str]| {
            let selection = Selection::resolve(selectors.iter().copied(), &schema);
            let entry = anna();
            let mut seen = Vec::new();
            with_rights(access, &entry, |rights| {
                let visible = rights.visible(&entry, &selection);
                visible.visit(&mut |description, values| {
                    assert!(!values.is_empty());
                    seen.push(description.to_owned());
                });
                assert_eq!(visible.dn(), ANNA);
            });
            assert_eq!(seen, want, "{selectors:?} {access:?}");
        };
        let [root, own, other, anonymous] = everyone();
        let all = ["objectClass", "sn", "userPassword", "userPassword;x-old", "authPassword"];
        check(&root, &["*"], &all);
        check(&root, &["userPassword"], &all[2..4]);
        check(&root, &["1.1"], &[]);
        for access in [own, other, anonymous] {
            check(&access, &["*"], &all[..2]);
            check(&access, &["userPassword", "authPassword"], &[]);
            check(&access, &["sn", "userPassword"], &["sn"]);
        }
    }

    #[test]
    fn a_filter_on_what_may_not_be_searched_is_undefined() {
        let schema = Schema::builtin();
        let check = |filter: &str, for_root: Truth, for_others: Truth| {
            let resolved = ResolvedFilter::resolve(&Filter::parse(filter).unwrap(), &schema);
            let entry = anna();
            for (access, want) in
                everyone().iter().zip([for_root, for_others, for_others, for_others])
            {
                let truth = with_rights(access, &entry, |rights| {
                    resolved.matches(&schema, &rights.searchable(&entry))
                });
                assert_eq!(truth, want, "{filter} {access:?}");
            }
        };
        use Truth::{False, True, Undefined};
        check("(sn=berg)", True, True);
        check("(userPassword=*)", True, Undefined);
        check("(!(userPassword=*))", False, Undefined);
        check("(userPassword=secret)", True, Undefined);
        check("(userPassword;x-old=*)", True, Undefined);
        check("(|(sn=berg)(userPassword=secret))", True, True);
        check("(&(sn=berg)(userPassword=secret))", True, Undefined);
        check("(:octetStringMatch:=secret)", True, False);
    }

    #[test]
    fn of_an_entry_only_wanted_values_are_visible() {
        let schema = Schema::builtin();
        let entry = anna();
        let check = |access: &Access, items: &[&str], want: &[&str]| {
            let selection = Selection::resolve(["*"].into_iter(), &schema);
            let items: Vec<_> = items
                .iter()
                .map(|item| ResolvedFilter::resolve(&Filter::parse(item).unwrap(), &schema))
                .collect();
            let wanted = WantedValues { schema: &schema, items: &items };
            let mut seen = Vec::new();
            with_rights(access, &entry, |rights| {
                let visible = rights.visible(&entry, &selection).only(Some(wanted));
                visible.visit(&mut |name, values| {
                    assert!(!values.is_empty());
                    for value in values.iter() {
                        seen.push(format!("{name}: {}", String::from_utf8_lossy(value)));
                    }
                });
            });
            assert_eq!(seen, want, "{items:?} {access:?}");
        };
        let [root, _, _, anonymous] = everyone();
        check(&root, &["(sn=BERG)"], &["sn: Berg"]);
        check(&root, &["(sn=other)"], &[]);
        check(
            &root,
            &["(sn=be*)", "(userPassword=*)"],
            &["sn: Berg", "userPassword: secret", "userPassword;x-old: older"],
        );
        check(&root, &["(userPassword;x-old=*)"], &["userPassword;x-old: older"]);
        check(&root, &["(name=berg)"], &["sn: Berg"]);
        check(&root, &["(:caseExactMatch:=Berg)"], &["sn: Berg"]);
        check(&root, &["(unknown=x)"], &[]);
        check(&anonymous, &["(sn=*)", "(userPassword=*)"], &["sn: Berg"]);
    }

    #[test]
    fn only_who_was_given_the_right_searches_unindexed() {
        let check = |access: &Access, want: [bool; 2]| {
            assert_eq!([false, true].map(|asks| access.may_search_unindexed(asks)), want);
        };
        let [root, own, _, anonymous] = everyone();
        check(&root, [true, true]);
        check(&own, [false, false]);
        check(&anonymous, [false, false]);
        let given = |grants: Grants| Access::with(Identity::Entry(DnText::from(&dn(ANNA))), grants);
        let privileges = Privileges::NONE.changed_by([&b"unindexed-search"[..]]);
        check(&given(Grants { privileges, ..Grants::default() }), [true, true]);
        let with_control = Grants { unindexed_search_with_control: true, ..Grants::default() };
        check(&given(with_control), [false, true]);
    }

    fn modify(name: &str, attribute: &str) -> Change {
        let description = Schema::builtin().describe(attribute).unwrap();
        let delta = AttributeDelta { description, removed: vec![], added: vec![b"x".to_vec()] };
        Change::Modify(ModifyChange { id: EntryId(7), dn: dn(name), deltas: vec![delta] })
    }

    #[test]
    fn with_a_password_changes_what_belongs_to_it_and_nothing_else_that_is_named_beside_it() {
        let [_, _, _, anonymous] = everyone();
        for (name, want) in [
            ("userPassword", true),
            ("authPassword", true),
            ("pwdReset", true),
            ("pwdAccountLockedTime", true),
            ("sn", false),
            ("aci", false),
            ("ds-privilege-name", false),
            ("pwdPolicySubentry", false),
        ] {
            let own = [Schema::builtin().describe(name).unwrap()];
            with_rights(&anonymous, &anna(), |rights| {
                let permit = |of_password| {
                    let own = Own { of_password, given: &[] };
                    rights.permit_with(modify(ANNA, name), &own).is_ok()
                };
                assert_eq!((permit(&own), permit(&[])), (want, false), "{name}");
            });
        }
    }

    #[test]
    fn only_root_changes_anything_but_the_own_password() {
        let key = DnKey::from_text(&Schema::builtin(), ANNA).unwrap();
        let add = || {
            let key = RdnKey::of_naming_context(&key);
            Change::Add(AddChange { id: EntryId(7), parent: EntryId::ROOT, key, entry: anna() })
        };
        let delete = || {
            Change::Delete(DeleteChange { id: EntryId(7), dn: dn(ANNA), attributes: Vec::new() })
        };
        let check = |change: &dyn Fn() -> Change, want: [bool; 4]| {
            for (access, want) in everyone().iter().zip(want) {
                let permitted = with_rights(access, &anna(), |rights| rights.permit(change()));
                assert_eq!(permitted.is_ok(), want, "{:?} {access:?}", change());
            }
        };
        let root = [true, false, false, false];
        check(&add, root);
        check(&delete, root);
        check(&|| modify(ANNA, "sn"), root);
        check(&|| modify(ANNA, "aci"), root);
        check(&|| modify(ANNA, "userPassword"), [true, true, false, false]);
        // Whatever was changed, the server notes it.
        check(&|| modify(ANNA, "modifyTimestamp"), [true; 4]);
    }

    #[test]
    fn whoever_lacks_a_privilege_changes_nothing_of_the_whole_server() {
        let index = || Change::Index(IndexChange { added: vec![], removed: vec![] });
        let setting =
            || Change::Setting(SettingChange { name: "global-aci".to_owned(), values: Vec::new() });
        let with = |names: &[&str]| {
            let names = names.iter().map(|name| name.as_bytes());
            let privileges = Privileges::NONE.changed_by(names);
            Access::with(
                Identity::Entry(DnText::from(&dn(ANNA))),
                Grants { privileges, ..Grants::default() },
            )
        };
        let [root, own, _, anonymous] = everyone();
        let (config, acl) = (with(&["config-write"]), with(&["config-write", "modify-acl"]));
        for (access, index_is, setting_is) in [
            (root, true, true),
            (own, false, false),
            (anonymous, false, false),
            (config, true, false),
            (acl, true, true),
        ] {
            assert_eq!(access.permit(index()).is_ok(), index_is, "{access:?}");
            let (name, values) = ("constraints".to_owned(), Vec::new());
            let constraints = Change::Setting(SettingChange { name, values });
            assert_eq!(access.permit(constraints).is_ok(), index_is, "{access:?}");
            assert_eq!(access.permit(setting()).is_ok(), setting_is, "{access:?}");
            let (name, values) = ("schema-modes".to_owned(), Vec::new());
            let modes = Change::Setting(SettingChange { name, values });
            let may_update = access.has(Privilege::UpdateSchema) && index_is;
            assert_eq!(access.permit(modes).is_ok(), may_update, "{access:?}");
            assert!(access.permit(modify(ANNA, "sn")).is_err(), "{access:?}");
        }
    }

    #[test]
    fn an_identity_names_itself_as_rfc_4513_says() {
        let names = everyone().map(|access| access.identity().authorization_id());
        assert_eq!(names, ["dn:cn=root", "dn:uid=anna,dc=example", "dn:uid=bert,dc=example", ""]);
    }
}
