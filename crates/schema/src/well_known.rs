//! The attribute descriptions and object classes the code itself names.
//!
//! Invariant: every schema has all of them, as the files of the tree define them: loading and
//! changing a schema refuse to go without.

use std::sync::Arc;

use crate::description::AttributeDescription;
use crate::object_class::ObjectClass;

macro_rules! well_known {
    (
        types { $($type_field:ident = $type_name:literal,)* }
        classes { $($class_field:ident = $class_name:literal,)* }
    ) => {
        /// The attributes and classes the code itself names, looked up once per schema.
        #[derive(Clone, Debug)]
        pub struct WellKnown {
            $(
                #[doc = concat!("`", $type_name, "`")]
                pub $type_field: Arc<AttributeDescription>,
            )*
            $(
                #[doc = concat!("The class `", $class_name, "`")]
                pub $class_field: Arc<ObjectClass>,
            )*
        }

        impl WellKnown {
            /// Names of the attribute types among them.
            pub(crate) const TYPES: &[&str] = &[$($type_name),*];
            /// Names of the object classes among them.
            pub(crate) const CLASSES: &[&str] = &[$($class_name),*];

            /// Looks all of them up; refuses with the name that is missing.
            pub(crate) fn find<'s>(
                types: impl Fn(&str) -> Option<&'s Arc<AttributeDescription>>,
                classes: impl Fn(&str) -> Option<&'s Arc<ObjectClass>>,
            ) -> Result<Self, &'static str> {
                Ok(Self {
                    $($type_field: types($type_name).ok_or($type_name)?.clone(),)*
                    $($class_field: classes($class_name).ok_or($class_name)?.clone(),)*
                })
            }
        }
    };
}

well_known! {
    types {
        object_class = "objectClass",
        structural_object_class = "structuralObjectClass",
        governing_structure_rule = "governingStructureRule",
        subschema_subentry = "subschemaSubentry",
        create_timestamp = "createTimestamp",
        creators_name = "creatorsName",
        modify_timestamp = "modifyTimestamp",
        modifiers_name = "modifiersName",
        entry_uuid = "entryUUID",
        entry_dn = "entryDN",
        collective_exclusions = "collectiveExclusions",
        collective_attribute_subentries = "collectiveAttributeSubentries",
        entry_csn = "entryCSN",
        context_csn = "contextCSN",
        etag = "etag",
        has_subordinates = "hasSubordinates",
        num_subordinates = "numSubordinates",
        attribute_types = "attributeTypes",
        object_classes = "objectClasses",
        ldap_syntaxes = "ldapSyntaxes",
        matching_rules = "matchingRules",
        matching_rule_use = "matchingRuleUse",
        name_forms = "nameForms",
        dit_content_rules = "dITContentRules",
        dit_structure_rules = "dITStructureRules",
        naming_contexts = "namingContexts",
        supported_control = "supportedControl",
        supported_extension = "supportedExtension",
        supported_features = "supportedFeatures",
        supported_ldap_version = "supportedLDAPVersion",
        supported_sasl_mechanisms = "supportedSASLMechanisms",
        supported_auth_password_schemes = "supportedAuthPasswordSchemes",
        alt_server = "altServer",
        vendor_name = "vendorName",
        vendor_version = "vendorVersion",
        aliased_object_name = "aliasedObjectName",
        ref_ = "ref",
        name = "name",
        cn = "cn",
        dc = "dc",
        o = "o",
        ou = "ou",
        l = "l",
        st = "st",
        c = "c",
        sn = "sn",
        given_name = "givenName",
        uid = "uid",
        mail = "mail",
        member = "member",
        unique_member = "uniqueMember",
        description = "description",
        user_password = "userPassword",
        auth_password = "authPassword",
        aci = "aci",
        member_url = "memberURL",
        ns_role_dn = "nsRoleDN",
        ns_role_filter = "nsRoleFilter",
        ns_role = "nsRole",
        is_member_of = "isMemberOf",
        is_direct_member_of = "isDirectMemberOf",
        member_of = "memberOf",
        ds_target_group_dn = "ds-target-group-dn",
    }
    classes {
        top = "top",
        alias = "alias",
        referral = "referral",
        extensible_object = "extensibleObject",
        subschema = "subschema",
        subentry = "subentry",
        domain = "domain",
        dc_object = "dcObject",
        organization = "organization",
        organizational_unit = "organizationalUnit",
        country = "country",
        locality = "locality",
        person = "person",
    }
}
