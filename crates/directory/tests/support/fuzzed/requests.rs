//! Octets become requests: those that clients make, and such as nobody makes.

use super::tree::{ANNA, BERT, PASSWORD, PEOPLE, SECRET, SUFFIX};
use super::*;

/// Octets that decide what happens; zeros when there are no more.
pub(super) struct Choices<'a>(pub(super) &'a [u8]);

impl<'a> Choices<'a> {
    pub(super) fn octet(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    pub(super) fn below(&mut self, limit: usize) -> usize {
        usize::from(self.octet()) % limit.max(1)
    }

    /// A few octets as they are.
    pub(super) fn octets(&mut self) -> &'a [u8] {
        let length = usize::from(self.octet() % OCTETS_MAX).min(self.0.len());
        let (first, rest) = self.0.split_at(length);
        self.0 = rest;
        first
    }

    pub(super) fn text(&mut self) -> &'a str {
        std::str::from_utf8(self.octets()).unwrap_or("x")
    }

    /// One of the texts, or another one.
    pub(super) fn word(&mut self, list: &[&'a str]) -> &'a str {
        match self.octet() {
            // The octets that a fuzzer begins with are known words.
            240.. => self.text(),
            at => list[usize::from(at) % list.len()],
        }
    }
}

impl Speaker {
    /// A request of those that clients make.
    pub(super) fn draw(&mut self, world: &World, choices: &mut Choices<'_>) -> Vec<u8> {
        let value = std::mem::take(&mut self.value);
        let mut list = ControlsBuf::new();
        let mut values = Vec::new();
        for _ in 0..[0, 0, 0, 0, 0, 1, 1, 3][choices.below(8)] {
            let oid = world.controls[choices.below(world.controls.len())].as_str();
            let known = choices.below(CONTROL_VALUES.len() + 3);
            let content = match known {
                0 => None,
                1 => Some(choices.octets().to_vec()),
                2 => Some(value.clone()),
                at => Some(CONTROL_VALUES[at - 3].to_vec()),
            };
            values.push((oid, choices.below(4) == 3, content));
        }
        for (oid, critical, content) in &values {
            list.push(Control { oid, critical: *critical, value: content.as_deref() });
        }
        let octets = self.draw_with(world, choices, (&value, list.as_ref()));
        self.value = value;
        octets
    }

    fn draw_with(
        &mut self,
        world: &World,
        choices: &mut Choices<'_>,
        (value, controls): (&[u8], Controls<'_>),
    ) -> Vec<u8> {
        let name = choices.word(NAMES);
        let op = match choices.below(16) {
            0 | 1 => return self.draw_bind(choices, name, controls),
            2 | 3 => return self.draw_modify(choices, name, controls),
            4 | 5 => return self.draw_add(choices, name, controls),
            6 => Request::Delete(DeleteRequest { name }),
            7 => {
                let new_superior = match choices.below(3) {
                    0 => Some(choices.word(NAMES)),
                    _ => None,
                };
                let delete_old_rdn = choices.below(2) == 1;
                let new_rdn = choices.word(RDNS);
                Request::ModifyDn(ModifyDnRequest { name, new_rdn, delete_old_rdn, new_superior })
            }
            8 => {
                let (description, value) = (choices.word(STORED), choices.word(VALUES));
                Request::Compare(CompareRequest { name, description, value: value.as_bytes() })
            }
            9 => {
                let oid = world.operations[choices.below(world.operations.len())].as_str();
                let end = [&[0x30, value.len() as u8 + 2, 0x04, value.len() as u8], value].concat();
                let sent = match choices.below(6) {
                    0 => None,
                    1 => Some(choices.octets()),
                    2 => Some(&*end),
                    at => Some(OPERATION_VALUES[at - 3]),
                };
                return self
                    .encode(Request::Extended(ExtendedRequest { oid, value: sent }), controls);
            }
            10 => Request::Abandon(MessageId(i32::from(choices.octet()))),
            _ => return self.draw_search(choices, name, controls),
        };
        if choices.below(16) == 15 {
            // The same again, or one that is under way.
            self.next_id = (self.next_id - choices.below(4) as i32).max(-1);
        }
        self.encode(op, controls)
    }

    fn draw_bind(
        &mut self,
        choices: &mut Choices<'_>,
        name: &str,
        controls: Controls<'_>,
    ) -> Vec<u8> {
        let authentication = match choices.below(8) {
            0 => Authentication::Simple(b""),
            1 => Authentication::Simple(choices.octets()),
            2 => Authentication::Sasl { mechanism: "PLAIN", credentials: Some(PLAIN) },
            3 => {
                let mechanism = choices.word(MECHANISMS);
                Authentication::Sasl { mechanism, credentials: Some(choices.octets()) }
            }
            4 => Authentication::Sasl { mechanism: choices.word(MECHANISMS), credentials: None },
            _ => Authentication::Simple(PASSWORD.as_bytes()),
        };
        let version = if choices.below(16) == 0 { 2 } else { 3 };
        self.encode(Request::Bind(BindRequest { version, name, authentication }), controls)
    }

    fn draw_modify(
        &mut self,
        choices: &mut Choices<'_>,
        name: &str,
        controls: Controls<'_>,
    ) -> Vec<u8> {
        let mut changes = ModificationsBuf::new();
        for _ in 0..=choices.below(3) {
            let operation = [
                ModifyOperation::Add,
                ModifyOperation::Delete,
                ModifyOperation::Replace,
                ModifyOperation::Increment,
            ][choices.below(4)];
            let description = choices.word(STORED);
            let mut values = ValuesBuf::new();
            for _ in 0..choices.below(3) {
                values.push(choices.word(VALUES).as_bytes());
            }
            let attribute = PartialAttribute { description, values: values.as_ref() };
            changes.push(Modification { operation, attribute });
        }
        let modify = ModifyRequest { name, changes: changes.as_ref() };
        self.encode(Request::Modify(modify), controls)
    }

    fn draw_add(
        &mut self,
        choices: &mut Choices<'_>,
        parent: &str,
        controls: Controls<'_>,
    ) -> Vec<u8> {
        let name = format!("{},{parent}", choices.word(RDNS));
        let class = choices.word(&["person", "inetOrgPerson", "groupOfNames", "alias", "referral"]);
        let mut attributes = vec![("objectClass", class), ("sn", "x"), ("cn", "x")];
        for _ in 0..choices.below(4) {
            attributes.push((choices.word(STORED), choices.word(VALUES)));
        }
        let mut list = AttributesBuf::new();
        for (description, value) in attributes {
            let mut values = ValuesBuf::new();
            values.push(value.as_bytes());
            list.push(PartialAttribute { description, values: values.as_ref() });
        }
        let add = AddRequest { name: &name, attributes: list.as_ref() };
        self.encode(Request::Add(add), controls)
    }

    fn draw_search(
        &mut self,
        choices: &mut Choices<'_>,
        base: &str,
        controls: Controls<'_>,
    ) -> Vec<u8> {
        let text = choices.word(FILTERS);
        let wanted = (0..choices.below(4)).map(|_| choices.word(ATTRIBUTES));
        let attributes: StringsBuf = wanted.collect();
        let search = SearchRequest {
            base,
            scope: [Scope::Base, Scope::One, Scope::Subtree, Scope::Subordinate][choices.below(4)],
            deref: [
                DerefAliases::Never,
                DerefAliases::InSearching,
                DerefAliases::FindingBase,
                DerefAliases::Always,
            ][choices.below(4)],
            size_limit_entries: [0, 0, 1, 5][choices.below(4)],
            time_limit_s: [0, 0, 1, 5][choices.below(4)],
            types_only: choices.below(8) == 1,
            filter: Filter::parse(text).unwrap_or(Filter::Present("objectClass")),
            attributes: attributes.as_ref(),
        };
        self.encode(Request::Search(search), controls)
    }
}

const NAMES: &[&str] = &[
    "",
    SUFFIX,
    PEOPLE,
    SECRET,
    ANNA,
    BERT,
    "uid=carla,ou=people,dc=example,dc=org",
    "uid=user7,ou=people,dc=example,dc=org",
    "cn=thing7,ou=secret,dc=example,dc=org",
    "cn=staff,ou=people,dc=example,dc=org",
    "cn=link,ou=people,dc=example,dc=org",
    "cn=thing1,cn=link,ou=people,dc=example,dc=org",
    "cn=elsewhere,ou=people,dc=example,dc=org",
    "cn=policy,dc=example,dc=org",
    "cn=monitor",
    "cn=config",
    "cn=schema",
    "cn=1,cn=Sessions,cn=monitor",
    "UID=Anna+cn=x,OU=People, dc=example,dc=org",
    "uid=new,ou=people,dc=example,dc=org",
];
const RDNS: &[&str] = &["uid=new", "cn=new", "ou=new", "uid=anna", "cn=a+sn=b", "cn=\\00", "sn=x"];
const ATTRIBUTES: &[&str] =
    &["*", "+", "1.1", "@person", "cn", "employeeNumber", "memberOf", "aci"];
const STORED: &[&str] = &[
    "cn",
    "sn",
    "description",
    "employeeNumber",
    "userPassword",
    "aci",
    "member",
    "mail",
    "jpegPhoto;binary",
    "description;lang-de",
    "objectClass",
    "ds-privilege-name",
    "pwdAccountLockedTime",
    "entryUUID",
    "isMemberOf",
    "uid",
];
const VALUES: &[&str] =
    &["", "x", "secret", "Berg", "anna", ANNA, BERT, SECRET, "1", "-1", "TRUE", "bypass-acl"];
const FILTERS: &[&str] = &[
    "(objectClass=*)",
    "(uid=anna)",
    "(uid=user*)",
    "(description=*g*)",
    "(employeeNumber=*1)",
    "(!(employeeNumber=*))",
    "(|(cn=x)(sn=Berg))",
    "(&(sn=Berg)(!(uid=anna)))",
    "(cn:dn:=thing1)",
    "(:caseIgnoreMatch:=Berg)",
    "(uid>=a)",
    "(sn~=berk)",
    "(userPassword=secret)",
    "(&)",
    "(|)",
    "(member:1.2.840.113556.1.4.1941:=uid=anna,ou=people,dc=example,dc=org)",
];
const MECHANISMS: &[&str] = &["EXTERNAL", "SCRAM-SHA-256", "SCRAM-SHA-512", "ANONYMOUS", "PLAIN"];
const PLAIN: &[u8] = b"\0dn:uid=anna,ou=people,dc=example,dc=org\0secret";
const CONTROL_VALUES: &[&[u8]] = &[
    b"",
    // Paged results, read entry, sort keys, virtual list view, effective rights, proxied.
    b"\x30\x05\x02\x01\x02\x04\x00",
    b"\x30\x03\x04\x01*",
    b"\x30\x03\x04\x01+",
    b"\x30\x06\x30\x04\x04\x02cn",
    b"\x30\x0e\x02\x01\x00\x02\x01\x05\xa0\x06\x02\x01\x01\x02\x01\x00",
    b"dn:uid=anna,ou=people,dc=example,dc=org",
    b"dn:",
    b"u:bert",
    // An assertion, matched values, subentries.
    b"\x87\x0bobjectClass",
    b"\x30\x0d\x87\x0bdescription",
    b"\x01\x01\xff",
    b"\x30\x00",
];
const OPERATION_VALUES: &[&[u8]] = &[
    // A new password: of oneself, and of somebody.
    b"\x30\x10\x81\x06secret\x82\x06secret",
    b"\x30\x2c\x80\x2auid=anna,ou=people,dc=example,dc=org\x82\x04new1",
    b"\x30\x00",
];
