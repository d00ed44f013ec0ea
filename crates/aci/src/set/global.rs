//! The ACIs of a directory that nobody has given any: one table.

/// Global ACIs that hold where an administrator has not written others.
pub const DEFAULT_GLOBAL_ACIS: &[&str] = &[
    // Attributes of one's own kind only are meant by `!=`: userPassword makes it about all user
    // attributes, aci about all operational ones.
    "(targetattr != \"userPassword || authPassword || aci || pwdHistory || pwdFailureTime || \
     pwdAccountLockedTime || pwdGraceUseTime || pwdChangedTime || pwdReset || pwdStartTime || \
     pwdEndTime || pwdLastSuccess || pwdTPRReset || pwdTPRUseCount || pwdTPRValidFrom || \
     pwdTPRExpireAt\")(version 3.0; acl \"Anyone reads what is not secret\"; allow \
     (read,search,compare) userdn = \"ldap:///anyone\";)",
    "(targetattr = \"userPassword || authPassword\")(version 3.0; acl \"Everybody changes the own \
     password\"; allow (write) userdn = \"ldap:///self\";)",
    "(targetcontrol = \"*\")(version 3.0; acl \"Anyone uses controls\"; allow (read) userdn = \
     \"ldap:///anyone\";)",
    "(extop = \"*\")(version 3.0; acl \"Anyone uses extended operations\"; allow (read) userdn = \
     \"ldap:///anyone\";)",
];
