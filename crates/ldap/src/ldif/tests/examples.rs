//! The examples of RFC 2849.

use super::*;

#[test]
fn example_1_two_entries() {
    check(
        "version: 1\n\
         dn: cn=Barbara Jensen, ou=Product Development, dc=airius, dc=com\n\
         objectclass: top\n\
         objectclass: person\n\
         objectclass: organizationalPerson\n\
         cn: Barbara Jensen\n\
         cn: Barbara J Jensen\n\
         cn: Babs Jensen\n\
         sn: Jensen\n\
         uid: bjensen\n\
         telephonenumber: +1 408 555 1212\n\
         description: A big sailing fan.\n\
         \n\
         dn: cn=Bjorn Jensen, ou=Accounting, dc=airius, dc=com\n\
         objectclass: top\n\
         objectclass: person\n\
         objectclass: organizationalPerson\n\
         cn: Bjorn Jensen\n\
         sn: Jensen\n\
         telephonenumber: +1 408 555 1212\n",
        &[
            "2 {cn=Barbara Jensen, ou=Product Development, dc=airius, dc=com} content \
             objectclass=[top] objectclass=[person] objectclass=[organizationalPerson] \
             cn=[Barbara Jensen] cn=[Barbara J Jensen] cn=[Babs Jensen] sn=[Jensen] \
             uid=[bjensen] telephonenumber=[+1 408 555 1212] description=[A big sailing fan.]",
            "14 {cn=Bjorn Jensen, ou=Accounting, dc=airius, dc=com} content objectclass=[top] \
             objectclass=[person] objectclass=[organizationalPerson] cn=[Bjorn Jensen] \
             sn=[Jensen] telephonenumber=[+1 408 555 1212]",
        ],
    );
}

#[test]
fn example_2_a_folded_value_and_no_spaces_after_colons() {
    check(
        "version: 1\n\
         dn:cn=Barbara Jensen, ou=Product Development, dc=airius, dc=com\n\
         objectclass:top\n\
         cn:Barbara Jensen\n\
         telephonenumber:+1 408 555 1212\n\
         description:Babs is a big sailing fan, and travels extensively in sea\n \
          rch of perfect sailing conditions.\n\
         title:Product Manager, Rod and Reel Division\n",
        &["2 {cn=Barbara Jensen, ou=Product Development, dc=airius, dc=com} content \
           objectclass=[top] cn=[Barbara Jensen] telephonenumber=[+1 408 555 1212] \
           description=[Babs is a big sailing fan, and travels extensively in sea\
           rch of perfect sailing conditions.] \
           title=[Product Manager, Rod and Reel Division]"],
    );
}

#[test]
fn example_3_a_base64_value() {
    check(
        "version: 1\n\
         dn: cn=Gern Jensen, ou=Product Testing, dc=airius, dc=com\n\
         cn: Gern Jensen\n\
         description:: V2hhdCBhIGNhcmVmdWwgcmVhZGVyIHlvdSBhcmUhICBUaGlzIHZhbHVl\n \
          IGlzIGJhc2UtNjQtZW5jb2RlZCBiZWNhdXNlIGl0IGhhcyBhIGNvbnRyb2wgY2hhcmFjdG\n \
          VyIGluIGl0IChhIENSKS4NICBCeSB0aGUgd2F5LCB5b3Ugc2hvdWxkIHJlYWxseSBnZXQg\n \
          b3V0IG1vcmUu\n",
        &["2 {cn=Gern Jensen, ou=Product Testing, dc=airius, dc=com} content \
           cn=[Gern Jensen] description=[What a careful reader you are!  This value is \
           base-64-encoded because it has a control character in it (a CR).\\r  By the way, \
           you should really get out more.]"],
    );
}

#[test]
fn example_4_utf_8_and_comments() {
    check(
        "version: 1\n\
         dn:: b3U95Za25qWt6YOoLG89QWlyaXVz\n\
         # dn:: ou=<JapaneseOU>,o=Airius\n\
         objectclass: top\n\
         objectclass: organizationalUnit\n\
         ou:: 5Za25qWt6YOo\n\
         # ou:: <JapaneseOU>\n\
         ou;lang-ja:: 5Za25qWt6YOo\n\
         # ou;lang-ja:: <JapaneseOU>\n\
         ou;lang-ja;phonetic:: 44GI44GE44GO44KH44GG44G2\n\
         # ou;lang-ja:: <JapaneseOU_in_phonetic_representation>\n\
         ou;lang-en: Sales\n\
         description: Japanese office\n\
         \n\
         dn:: dWlkPXJvZ2FzYXdhcmEsb3U95Za25qWt6YOoLG89QWlyaXVz\n\
         # dn:: uid=<uid>,ou=<JapaneseOU>,o=Airius\n\
         userpassword: {SHA}O3HSv1MusyL4kTjP+HKI5uxuNoM=\n\
         objectclass: inetOrgPerson\n\
         uid: rogasawara\n\
         cn;lang-ja:: 5bCP56yg5Y6fIOODreODieODi+ODvA==\n\
         title;lang-en: Sales, Director\n",
        &[
            concat!(
                r"2 {ou=営業部,o=Airius} content objectclass=[top] ",
                r"objectclass=[organizationalUnit] ou=[\xe5\x96\xb6\xe6\xa5\xad\xe9\x83\xa8] ",
                r"ou;lang-ja=[\xe5\x96\xb6\xe6\xa5\xad\xe9\x83\xa8] ",
                r"ou;lang-ja;phonetic=[\xe3\x81\x88\xe3\x81\x84",
                r"\xe3\x81\x8e\xe3\x82\x87\xe3\x81\x86\xe3\x81\xb6] ",
                r"ou;lang-en=[Sales] description=[Japanese office]",
            ),
            concat!(
                r"15 {uid=rogasawara,ou=営業部,o=Airius} content ",
                r"userpassword=[{SHA}O3HSv1MusyL4kTjP+HKI5uxuNoM=] ",
                r"objectclass=[inetOrgPerson] uid=[rogasawara] ",
                r"cn;lang-ja=[\xe5\xb0\x8f\xe7\xac\xa0\xe5\x8e\x9f ",
                r"\xe3\x83\xad\xe3\x83\x89\xe3\x83\x8b\xe3\x83\xbc] title;lang-en=[Sales, ",
                r"Director]",
            ),
        ],
    );
}

#[test]
fn example_5_a_value_from_a_url_is_refused() {
    check_error(
        "version: 1\n\
         dn: cn=Horatio Jensen, ou=Product Testing, dc=airius, dc=com\n\
         objectclass: top\n\
         cn: Horatio Jensen\n\
         jpegphoto:< file:///usr/local/directory/photos/hjensen.jpg\n",
        5,
        LdifReason::Url,
    );
}

#[test]
fn example_6_change_records() {
    check(
        "version: 1\n\
         # Add a new entry\n\
         dn: cn=Fiona Jensen, ou=Marketing, dc=airius, dc=com\n\
         changetype: add\n\
         objectclass: top\n\
         cn: Fiona Jensen\n\
         uid: fiona\n\
         \n\
         # Delete an existing entry\n\
         dn: cn=Robert Jensen, ou=Marketing, dc=airius, dc=com\n\
         changetype: delete\n\
         \n\
         # Modify an entry's relative distinguished name\n\
         dn: cn=Paul Jensen, ou=Product Development, dc=airius, dc=com\n\
         changetype: modrdn\n\
         newrdn: cn=Paula Jensen\n\
         deleteoldrdn: 1\n\
         \n\
         # Rename an entry and move all of its children to a new location in\n\
         # the directory tree (only implemented by LDAPv3 servers).\n\
         dn: ou=PD Accountants, ou=Product Development, dc=airius, dc=com\n\
         changetype: modrdn\n\
         newrdn: ou=Product Development Accountants\n\
         deleteoldrdn: 0\n\
         newsuperior: ou=Accounting, dc=airius, dc=com\n\
         \n\
         # Modify an entry: add an additional value to the postaladdress\n\
         # attribute, completely delete the description attribute, replace\n\
         # the telephonenumber attribute with two values, and delete a specific\n\
         # value from the facsimiletelephonenumber attribute\n\
         dn: cn=Paula Jensen, ou=Product Development, dc=airius, dc=com\n\
         changetype: modify\n\
         add: postaladdress\n\
         postaladdress: 123 Anystreet $ Sunnyvale, CA $ 94086\n\
         -\n\
         delete: description\n\
         -\n\
         replace: telephonenumber\n\
         telephonenumber: +1 408 555 1234\n\
         telephonenumber: +1 408 555 5678\n\
         -\n\
         delete: facsimiletelephonenumber\n\
         facsimiletelephonenumber: +1 408 555 9876\n\
         -\n\
         \n\
         # Modify an entry: replace the postaladdress attribute with an empty\n\
         # set of values (which will cause the attribute to be removed), and\n\
         # delete the entire description attribute. Note that the first will\n\
         # always succeed, while the second will only succeed if at least\n\
         # one value for the description attribute is present.\n\
         dn: cn=Ingrid Jensen, ou=Product Support, dc=airius, dc=com\n\
         changetype: modify\n\
         replace: postaladdress\n\
         -\n\
         delete: description\n\
         -\n",
        &[
            "3 {cn=Fiona Jensen, ou=Marketing, dc=airius, dc=com} add objectclass=[top] \
             cn=[Fiona Jensen] uid=[fiona]",
            "10 {cn=Robert Jensen, ou=Marketing, dc=airius, dc=com} delete",
            "14 {cn=Paul Jensen, ou=Product Development, dc=airius, dc=com} \
             modrdn [cn=Paula Jensen] true [-]",
            "21 {ou=PD Accountants, ou=Product Development, dc=airius, dc=com} \
             modrdn [ou=Product Development Accountants] false \
             [ou=Accounting, dc=airius, dc=com]",
            "31 {cn=Paula Jensen, ou=Product Development, dc=airius, dc=com} modify \
             Add(postaladdress [123 Anystreet $ Sunnyvale, CA $ 94086]) \
             Delete(description) \
             Replace(telephonenumber [+1 408 555 1234] [+1 408 555 5678]) \
             Delete(facsimiletelephonenumber [+1 408 555 9876])",
            "51 {cn=Ingrid Jensen, ou=Product Support, dc=airius, dc=com} modify \
             Replace(postaladdress) Delete(description)",
        ],
    );
}

#[test]
fn example_7_a_control() {
    check(
        "version: 1\n\
         # Delete an entry. The operation will attach the LDAPv3\n\
         # Tree Delete Control defined in [9]. The criticality\n\
         # field is \"true\" and the controlValue field is\n\
         # absent, as required by [9].\n\
         dn: ou=Product Development, dc=airius, dc=com\n\
         control: 1.2.840.113556.1.4.805 true\n\
         changetype: delete\n",
        &["6 {ou=Product Development, dc=airius, dc=com} \
           control(1.2.840.113556.1.4.805 true -) delete"],
    );
}
