//! Who may see and do what. The only crate that builds a [`VisibleEntry`] or a [`Permitted`]
//! change.
//!
//! Invariant: knows no storage and no socket; it sees an entry only through `schema::EntryRead`.
//! Invariant: both capability types have private fields. What was not decided here can neither be
//! sent to a client nor be logged.
//!
//! The rules of this version are fixed: the root identity may do everything; everyone else may
//! read, search and compare what is not a password, and may change nothing but their own password
//! through the password modify operation (RFC 3062).

mod decide;
mod identity;
mod permitted;
mod rights;
mod rule;
mod set;
mod text;
mod visible;

pub use decide::{Asker, AuthenticationMethod, Considered, EntryRights, Explanation, Outcome};
pub use decide::{Question, Reach, Rules, Surroundings, TimeOfWeek, ValueChange};
pub use identity::{Grants, Identity};
pub use permitted::{Denied, Permitted, Purpose};
pub use rights::Rights;
pub use rule::pattern::PatternFault;
pub use rule::{Aci, Right};
pub use set::{AciSet, DEFAULT_GLOBAL_ACIS};
pub use text::{ACI_LENGTH_MAX_BYTES, ACI_VALUES_MAX, AciError, AciReason};
pub use text::{BIND_RULE_DEPTH_MAX, PARENT_LEVEL_MAX};
pub use visible::{Searchable, VisibleEntry, WantedValues};

/// Who asks, and what that identity was given. Made once per bind; what it may do with an entry is
/// asked of the [`Rights`] on that entry.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Access {
    identity: Identity,
    grants: Grants,
}

impl Access {
    /// The rights of `identity`, which was given nothing of its own.
    pub fn of(identity: Identity) -> Self {
        Self::with(identity, Grants::default())
    }

    /// The rights of `identity` with what it was given.
    pub fn with(identity: Identity, grants: Grants) -> Self {
        Self { identity, grants }
    }

    /// What the identity was given of its own.
    pub fn grants(&self) -> &Grants {
        &self.grants
    }

    /// Whether the identity may search where no index helps; `asks` says that it means to.
    pub fn may_search_unindexed(&self, asks: bool) -> bool {
        let Grants { unindexed_search, unindexed_search_with_control, .. } = self.grants;
        self.is_root() || unindexed_search || (asks && unindexed_search_with_control)
    }

    /// Whose rights these are.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Whether the identity may change anything at all; asked before a request is examined, so
    /// that a refusal does not depend on what the directory holds.
    pub fn may_change(&self) -> bool {
        self.is_root()
    }

    /// Whether it may search for values of this attribute wherever they are: only then an index may
    /// stand for looking at entries.
    pub fn may_search_everywhere(&self, description: &schema::AttributeDescription) -> bool {
        self.is_root() || !description.is_password()
    }

    /// Decides on a change of what is the whole server's: definitions of the schema, indexes.
    ///
    /// # Errors
    /// [`Denied`] when the identity lacks the right.
    pub fn permit(&self, change: schema::Change) -> Result<Permitted<schema::Change>, Denied> {
        if self.is_root() { Ok(Permitted::new(change)) } else { Err(Denied) }
    }

    /// Whether the identity may use passwords, policies and limits of an administrator.
    pub fn is_root(&self) -> bool {
        matches!(self.identity, Identity::Root(_))
    }
}

#[cfg(test)]
mod tests {
    use ldap::dn::Dn;
    use ldap::filter::Filter;
    use schema::{
        AddChange, AttributeDelta, Change, DeleteChange, DnKey, Entry, EntryId, ModifyChange,
        RdnKey, ResolvedFilter, Schema, Selection, Truth,
    };

    use super::*;

    const ANNA: &str = "uid=anna,dc=example";

    fn dn(text: &str) -> Dn {
        Dn::parse(text).unwrap()
    }

    fn everyone() -> [Access; 4] {
        let identities = [
            Identity::Root(dn("cn=root")),
            Identity::Entry(dn(ANNA)),
            Identity::Entry(dn("uid=bert,dc=example")),
            Identity::Anonymous,
        ];
        identities.map(Access::of)
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
    fn only_root_sees_passwords() {
        let schema = Schema::builtin();
        let entry = anna();
        for (access, sees) in everyone().iter().zip([true, false, false, false]) {
            let rights = Rights::on(access, &entry);
            for (name, is_password) in [
                ("userPassword", true),
                ("userPassword;x-old", true),
                ("authPassword", true),
                ("sn", false),
                ("entryUUID", false),
            ] {
                let description = schema.describe(name).unwrap();
                let want = sees || !is_password;
                assert_eq!(rights.may_read(&description), want, "{name} {access:?}");
                assert_eq!(rights.may_search(&description), want, "{name} {access:?}");
                assert_eq!(rights.may_compare(&description), want, "{name} {access:?}");
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
            let visible = Rights::on(access, &entry).visible(&entry, &selection);
            visible.visit(&mut |description, values| {
                assert!(!values.is_empty());
                seen.push(description.to_owned());
            });
            assert_eq!(seen, want, "{selectors:?} {access:?}");
            assert_eq!(visible.dn(), ANNA);
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
                let truth =
                    resolved.matches(&schema, &Rights::on(access, &entry).searchable(&entry));
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
            let visible = Rights::on(access, &entry).visible(&entry, &selection);
            visible.only(Some(wanted)).visit(&mut |name, values| {
                assert!(!values.is_empty());
                for value in values.iter() {
                    seen.push(format!("{name}: {}", String::from_utf8_lossy(value)));
                }
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
        let given = |grants: Grants| Access::with(Identity::Entry(dn(ANNA)), grants);
        check(&given(Grants { unindexed_search: true, ..Grants::default() }), [true, true]);
        let with_control = Grants { unindexed_search_with_control: true, ..Grants::default() };
        check(&given(with_control), [false, true]);
    }

    fn modify(name: &str, attribute: &str) -> Change {
        let description = Schema::builtin().describe(attribute).unwrap();
        let delta = AttributeDelta { description, removed: vec![], added: vec![b"x".to_vec()] };
        Change::Modify(ModifyChange { id: EntryId(7), dn: dn(name), deltas: vec![delta] })
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
        let check = |change: &dyn Fn() -> Change, purpose: Purpose, want: [bool; 4]| {
            for (access, want) in everyone().iter().zip(want) {
                let permitted = Rights::on(access, &anna()).permit(change(), purpose);
                assert_eq!(permitted.is_ok(), want, "{:?} {purpose:?} {access:?}", change());
            }
        };
        let root = [true, false, false, false];
        let root_and_anna = [true, true, false, false];
        for purpose in [Purpose::Update, Purpose::PasswordModify] {
            check(&add, purpose, root);
            check(&delete, purpose, root);
            check(&|| modify(ANNA, "sn"), purpose, root);
            check(&|| modify("uid=carla,dc=example", "userPassword"), purpose, root);
        }
        check(&|| modify(ANNA, "userPassword"), Purpose::Update, root);
        check(&|| modify(ANNA, "userPassword"), Purpose::PasswordModify, root_and_anna);
        check(&|| modify(ANNA, "modifyTimestamp"), Purpose::PasswordModify, root_and_anna);
    }

    #[test]
    fn an_identity_names_itself_as_rfc_4513_says() {
        let names = everyone().map(|access| access.identity().authorization_id());
        assert_eq!(names, ["dn:cn=root", "dn:uid=anna,dc=example", "dn:uid=bert,dc=example", ""]);
    }
}
