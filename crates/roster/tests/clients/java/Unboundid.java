// The UnboundID LDAP SDK against a served directory, with its tools searchrate and ldap-diff.
//
// Arguments: LDAP port, LDAPS port, certificate (PEM), administrator's DN, password, and the LDAP
// port of a second directory with the same entries.

import com.unboundid.asn1.ASN1OctetString;
import com.unboundid.ldap.sdk.AddRequest;
import com.unboundid.ldap.sdk.AsyncRequestID;
import com.unboundid.ldap.sdk.Attribute;
import com.unboundid.ldap.sdk.BindResult;
import com.unboundid.ldap.sdk.ChangeLogEntry;
import com.unboundid.ldap.sdk.Control;
import com.unboundid.ldap.sdk.DN;
import com.unboundid.ldap.sdk.DeleteRequest;
import com.unboundid.ldap.sdk.DereferencePolicy;
import com.unboundid.ldap.sdk.Entry;
import com.unboundid.ldap.sdk.ExtendedRequest;
import com.unboundid.ldap.sdk.ExtendedResult;
import com.unboundid.ldap.sdk.Filter;
import com.unboundid.ldap.sdk.LDAPConnection;
import com.unboundid.ldap.sdk.LDAPConnectionPool;
import com.unboundid.ldap.sdk.LDAPException;
import com.unboundid.ldap.sdk.LDAPResult;
import com.unboundid.ldap.sdk.LDAPSearchException;
import com.unboundid.ldap.sdk.Modification;
import com.unboundid.ldap.sdk.ModificationType;
import com.unboundid.ldap.sdk.ModifyRequest;
import com.unboundid.ldap.sdk.RDN;
import com.unboundid.ldap.sdk.ResultCode;
import com.unboundid.ldap.sdk.RootDSE;
import com.unboundid.ldap.sdk.SearchRequest;
import com.unboundid.ldap.sdk.SearchResult;
import com.unboundid.ldap.sdk.SearchResultEntry;
import com.unboundid.ldap.sdk.SearchScope;
import com.unboundid.ldap.sdk.SimpleBindRequest;
import com.unboundid.ldap.sdk.controls.AssertionRequestControl;
import com.unboundid.ldap.sdk.controls.AuthorizationIdentityRequestControl;
import com.unboundid.ldap.sdk.controls.AuthorizationIdentityResponseControl;
import com.unboundid.ldap.sdk.controls.ManageDsaITRequestControl;
import com.unboundid.ldap.sdk.controls.PostReadRequestControl;
import com.unboundid.ldap.sdk.controls.PostReadResponseControl;
import com.unboundid.ldap.sdk.controls.ServerSideSortRequestControl;
import com.unboundid.ldap.sdk.controls.ServerSideSortResponseControl;
import com.unboundid.ldap.sdk.controls.SimplePagedResultsControl;
import com.unboundid.ldap.sdk.controls.SortKey;
import com.unboundid.ldap.sdk.controls.SubtreeDeleteRequestControl;
import com.unboundid.ldap.sdk.controls.VirtualListViewRequestControl;
import com.unboundid.ldap.sdk.controls.VirtualListViewResponseControl;
import com.unboundid.ldap.sdk.examples.SearchRate;
import com.unboundid.ldap.sdk.extensions.EndTransactionExtendedRequest;
import com.unboundid.ldap.sdk.extensions.PasswordModifyExtendedRequest;
import com.unboundid.ldap.sdk.extensions.PasswordModifyExtendedResult;
import com.unboundid.ldap.sdk.extensions.StartTLSExtendedRequest;
import com.unboundid.ldap.sdk.extensions.StartTransactionExtendedRequest;
import com.unboundid.ldap.sdk.extensions.StartTransactionExtendedResult;
import com.unboundid.ldap.sdk.extensions.WhoAmIExtendedRequest;
import com.unboundid.ldap.sdk.extensions.WhoAmIExtendedResult;
import com.unboundid.ldap.sdk.controls.TransactionSpecificationRequestControl;
import com.unboundid.ldap.sdk.schema.EntryValidator;
import com.unboundid.ldap.sdk.schema.Schema;
import com.unboundid.ldap.sdk.unboundidds.controls.JoinBaseDN;
import com.unboundid.ldap.sdk.unboundidds.controls.JoinRequestControl;
import com.unboundid.ldap.sdk.unboundidds.controls.JoinRequestValue;
import com.unboundid.ldap.sdk.unboundidds.controls.JoinResultControl;
import com.unboundid.ldap.sdk.unboundidds.controls.JoinRule;
import com.unboundid.ldap.sdk.unboundidds.controls.JoinedEntry;
import com.unboundid.ldap.sdk.unboundidds.controls.PasswordPolicyRequestControl;
import com.unboundid.ldap.sdk.unboundidds.controls.PasswordPolicyResponseControl;
import com.unboundid.ldap.sdk.unboundidds.controls.UniquenessMultipleAttributeBehavior;
import com.unboundid.ldap.sdk.unboundidds.controls.UniquenessRequestControl;
import com.unboundid.ldap.sdk.unboundidds.controls.UniquenessRequestControlProperties;
import com.unboundid.ldap.sdk.unboundidds.controls.UniquenessResponseControl;
import com.unboundid.ldap.sdk.unboundidds.controls.UniquenessValidationLevel;
import com.unboundid.ldap.sdk.unboundidds.tools.LDAPDiff;
import com.unboundid.util.ssl.PEMFileTrustManager;
import com.unboundid.util.ssl.SSLUtil;
import java.io.ByteArrayOutputStream;
import java.io.File;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Objects;
import java.util.Set;

public class Unboundid {
    static final String BASE = "dc=example,dc=com";
    static final String PEOPLE = "ou=people," + BASE;
    static final String ACCOUNTS = "ou=accounts," + BASE;
    static final String ANNA = "uid=anna," + ACCOUNTS;
    static final String SECRET = "anna's secret";

    static int port;
    static int securePort;
    static int otherPort;
    static SSLUtil trusting;
    static String admin;
    static String password;
    static int passed;
    static int failed;

    static void check(String what, Object got, Object want) {
        if (Objects.equals(got, want)) {
            passed++;
            return;
        }
        failed++;
        System.out.println("FAILED " + what + ": expected " + want + ", got " + got);
    }

    interface Part {
        void run() throws Exception;
    }

    /** Calls a part; an exception is a failure of it alone. */
    static void section(String name, Part part) {
        try {
            part.run();
        } catch (Exception error) {
            failed++;
            System.out.print("FAILED " + name + ": expected no exception, got ");
            error.printStackTrace(System.out);
        }
    }

    static int code(Part part) throws Exception {
        try {
            part.run();
            return 0;
        } catch (LDAPException error) {
            return error.getResultCode().intValue();
        }
    }

    static LDAPConnection connect(String name, String secretOf) throws LDAPException {
        return new LDAPConnection("localhost", port, name, secretOf);
    }

    static String whoAmI(LDAPConnection connection) throws LDAPException {
        ExtendedResult answer = connection.processExtendedOperation(new WhoAmIExtendedRequest());
        return ((WhoAmIExtendedResult) answer).getAuthorizationID();
    }

    static void binds() throws Exception {
        LDAPConnection connection = connect(ANNA, SECRET);
        check("who am I", whoAmI(connection), "dn:" + ANNA);
        check("a wrong password", code(() -> connection.bind(ANNA, "wrong")), 49);
        BindResult bound = connection.bind(new SimpleBindRequest(
            admin, password, new AuthorizationIdentityRequestControl()));
        check("the identity that was bound",
            AuthorizationIdentityResponseControl.get(bound).getAuthorizationID(), "dn:" + admin);
        connection.close();
    }

    static void tls() throws Exception {
        LDAPConnection upgraded = new LDAPConnection("localhost", port);
        check("StartTLS", upgraded.processExtendedOperation(
            new StartTLSExtendedRequest(trusting.createSSLContext())).getResultCode(),
            ResultCode.SUCCESS);
        upgraded.bind(ANNA, SECRET);
        check("who am I after StartTLS", whoAmI(upgraded), "dn:" + ANNA);
        LDAPConnection direct = new LDAPConnection(
            trusting.createSSLSocketFactory(), "localhost", securePort, ANNA, SECRET);
        check("who am I over LDAPS", whoAmI(direct), "dn:" + ANNA);
        SSLUtil strange = new SSLUtil((javax.net.ssl.TrustManager) null);
        check("a certificate that nobody vouches for", code(() -> new LDAPConnection(
            strange.createSSLSocketFactory(), "localhost", securePort)), 91);
    }

    static void rootAndSchema() throws Exception {
        LDAPConnection connection = connect(ANNA, SECRET);
        RootDSE root = connection.getRootDSE();
        check("naming contexts", List.of(root.getNamingContextDNs()), List.of(BASE));
        check("paged results", root.supportsControl("1.2.840.113556.1.4.319"), true);
        check("password modify", root.supportsExtendedOperation("1.3.6.1.4.1.4203.1.11.1"), true);
        check("all operational attributes", root.supportsFeature("1.3.6.1.4.1.4203.1.5.1"), true);
        Schema schema = connection.getSchema();
        check("an attribute type", schema.getAttributeType("uidNumber").isSingleValued(), true);
        check("all types", schema.getAttributeTypes().size() > 300, true);
        List<String> unread = new ArrayList<>();
        for (String type : List.of("attributeTypes", "objectClasses", "matchingRules",
                "ldapSyntaxes", "matchingRuleUse")) {
            for (String text : orNone(schema.getSchemaEntry().getAttributeValues(type))) {
                try {
                    read(type, text);
                } catch (LDAPException error) {
                    unread.add(text + ": " + error.getMessage());
                }
            }
        }
        check("definitions that cannot be read", unread, List.of());
        EntryValidator validator = new EntryValidator(schema);
        List<String> invalid = new ArrayList<>();
        for (SearchResultEntry entry : connection.search(BASE, SearchScope.SUB,
                "(|(uidNumber<=10020)(objectClass=organizationalUnit)(uid=anna))").getSearchEntries()) {
            validator.entryIsValid(entry, invalid);
        }
        check("entries that do not follow the schema", invalid, List.of());
    }

    static String[] orNone(String[] values) {
        return values == null ? new String[0] : values;
    }

    static void read(String type, String text) throws LDAPException {
        switch (type) {
            case "attributeTypes":
                new com.unboundid.ldap.sdk.schema.AttributeTypeDefinition(text);
                break;
            case "objectClasses":
                new com.unboundid.ldap.sdk.schema.ObjectClassDefinition(text);
                break;
            case "matchingRules":
                new com.unboundid.ldap.sdk.schema.MatchingRuleDefinition(text);
                break;
            case "ldapSyntaxes":
                new com.unboundid.ldap.sdk.schema.AttributeSyntaxDefinition(text);
                break;
            default:
                new com.unboundid.ldap.sdk.schema.MatchingRuleUseDefinition(text);
        }
    }

    static void searches() throws Exception {
        LDAPConnection connection = connect(admin, password);
        SearchResultEntry entry = connection.getEntry(ANNA, "cn", "sn");
        check("base", entry.getAttributeValue("cn") + " " + entry.getAttributes().size(),
            "Anna Ångström 2");
        check("one level",
            connection.search(PEOPLE, SearchScope.ONE, "(uid=user.1*)").getEntryCount(), 1111);
        Filter filter = Filter.create(
            "(&(objectClass=posixAccount)(|(uid=user.1)(uidNumber>=12500))(!(sn=9)))");
        check("subtree", connection.search(BASE, SearchScope.SUB, filter).getEntryCount(), 2);
        check("children", connection.search(ACCOUNTS, SearchScope.SUBORDINATE_SUBTREE,
            "(objectClass=*)").getEntryCount(), 4);
        check("no filter at all", connection.search(ANNA, SearchScope.BASE, "(&)").getEntryCount(), 1);
        SearchRequest limited = new SearchRequest(PEOPLE, SearchScope.ONE, "(uid=*)");
        limited.setSizeLimit(3);
        try {
            connection.search(limited);
        } catch (LDAPSearchException error) {
            check("size limit", error.getResultCode().intValue() + " " + error.getEntryCount(), "4 3");
        }
        try {
            connection.search("ou=nothing," + PEOPLE, SearchScope.BASE, "(uid=*)");
        } catch (LDAPSearchException error) {
            check("no such entry", error.getResultCode().intValue() + " " + error.getMatchedDN(),
                "32 " + PEOPLE);
        }
        LDAPConnectionPool pool = new LDAPConnectionPool(connect(admin, password), 2, 4);
        check("by a pool", pool.getEntry("uid=user.7," + PEOPLE).getAttributeValue("sn"), "7");
        pool.close();
        AsyncRequestID running = connection.asyncSearch(new SearchRequest(
            new com.unboundid.ldap.sdk.AsyncSearchResultListener() {
                @Override public void searchEntryReturned(SearchResultEntry entry) {}

                @Override public void searchReferenceReturned(
                        com.unboundid.ldap.sdk.SearchResultReference reference) {}

                @Override public void searchResultReceived(
                        AsyncRequestID id, SearchResult result) {}
            }, BASE, SearchScope.SUB, com.unboundid.ldap.sdk.DereferencePolicy.NEVER, 0, 0, false,
            Filter.create("(description=*nothing like it*)")));
        connection.abandon(running);
        check("after abandon", whoAmI(connection), "dn:" + admin);
    }

    static void controls() throws Exception {
        LDAPConnection connection = connect(admin, password);
        SearchRequest request = new SearchRequest(BASE, SearchScope.ONE, "(ou=elsewhere)");
        SearchResult found = connection.search(request);
        check("a continuation reference", found.getSearchReferences().get(0).getReferralURLs()[0],
            "ldap://other.example.com/ou=there,dc=example,dc=com??base");
        request.setControls(new ManageDsaITRequestControl(true));
        check("a referral object", connection.search(request).getEntryCount(), 1);
        request = new SearchRequest(PEOPLE, SearchScope.ONE, "(uid=user.1*)", "uidNumber");
        request.setControls(
            new ServerSideSortRequestControl(true, new SortKey("uidNumber", true)));
        found = connection.search(request);
        List<Integer> numbers = new ArrayList<>();
        for (SearchResultEntry entry : found.getSearchEntries()) {
            numbers.add(entry.getAttributeValueAsInteger("uidNumber"));
        }
        List<Integer> sorted = new ArrayList<>(numbers);
        sorted.sort(Collections.reverseOrder());
        check("sorted", numbers, sorted);
        check("all of them", numbers.size(), 1111);
        check("the sort result", ServerSideSortResponseControl.get(found).getResultCode(),
            ResultCode.SUCCESS);
        request.setControls(new ServerSideSortRequestControl(true, new SortKey("uidNumber")),
            new VirtualListViewRequestControl(100, 1, 2, 1111, null));
        found = connection.search(request);
        VirtualListViewResponseControl view = VirtualListViewResponseControl.get(found);
        check("a part of a list", found.getEntryCount() + " " + view.getTargetPosition() + " "
            + view.getContentCount(), "4 100 1111");
        joins(connection);
        for (String user : new String[] {"anna", "bert"}) {
            SearchRequest asserted = new SearchRequest(ANNA, SearchScope.BASE, "(uid=*)");
            asserted.setControls(new AssertionRequestControl("(uid=" + user + ")"));
            check("asserted of " + user, code(() -> connection.search(asserted)),
                user.equals("anna") ? 0 : 122);
        }
        for (boolean critical : new boolean[] {true, false}) {
            SearchRequest unknown = new SearchRequest(ANNA, SearchScope.BASE, "(uid=*)");
            unknown.setControls(new Control("1.2.3.4.5", critical));
            check("an unknown control, criticality " + critical,
                code(() -> connection.search(unknown)), critical ? 12 : 0);
        }
    }

    /** Who has the same number as user.5, and the others of its group with them. */
    static void joins(LDAPConnection connection) throws Exception {
        JoinRule same = JoinRule.createEqualityJoin("uidNumber", "uidNumber", true);
        JoinRequestValue nested = new JoinRequestValue(
            JoinRule.createORRule(same, JoinRule.createReverseDNJoin("member")),
            JoinBaseDN.createUseSearchBaseDN(), SearchScope.SUB, DereferencePolicy.NEVER, 10,
            null, new String[] {"1.1"}, false, null);
        JoinRequestValue value = new JoinRequestValue(same,
            JoinBaseDN.createUseCustomBaseDN(PEOPLE), SearchScope.SUB, DereferencePolicy.NEVER,
            null, Filter.create("(objectClass=posixAccount)"), new String[] {"uid"}, true, nested);
        SearchRequest request = new SearchRequest(PEOPLE, SearchScope.SUB, "(uid=user.5)", "cn");
        request.addControl(new JoinRequestControl(value));
        SearchResultEntry found = connection.search(request).getSearchEntries().get(0);
        JoinResultControl told = JoinResultControl.get(found);
        check("a join", told.getResultCode(), ResultCode.SUCCESS);
        check("joined", told.getJoinResults().size(), 1);
        JoinedEntry joined = told.getJoinResults().get(0);
        check("joined with", joined.getAttributeValue("uid"), "user.5");
        check("in turn", joined.getNestedJoinResults().get(0).getDN(), joined.getDN());
    }

    /** What is told of a modify of anna with this control: code, before, after. */
    static String unique(LDAPConnection connection, String mail,
            UniquenessRequestControlProperties properties) throws Exception {
        ModifyRequest request = new ModifyRequest(
            ANNA, new Modification(ModificationType.ADD, "mail", mail));
        request.addControl(new UniquenessRequestControl(true, "mine", properties));
        LDAPResult result;
        try {
            result = connection.modify(request);
            connection.modify(ANNA, new Modification(ModificationType.DELETE, "mail", mail));
        } catch (LDAPException error) {
            result = error.toLDAPResult();
        }
        UniquenessResponseControl told = UniquenessResponseControl.get(result).get("mine");
        return result.getResultCode().intValue() + " " + told.getPreCommitValidationPassed() + " "
            + told.getPostCommitValidationPassed() + " " + told.uniquenessConflictFound();
    }

    static void uniqueness() throws Exception {
        LDAPConnection connection = connect(admin, password);
        String taken = "user.5@example.com";
        UniquenessRequestControlProperties properties =
            new UniquenessRequestControlProperties("mail");
        check("nobody has it", unique(connection, "nobody@x", properties), "0 true true false");
        check("somebody has it", unique(connection, taken, properties), "122 false null true");
        properties.setBaseDN(ACCOUNTS);
        check("nobody there has it", unique(connection, taken, properties), "0 true true false");
        properties.setBaseDN(PEOPLE);
        properties.setFilter(Filter.create("(uidNumber=10005)"));
        properties.setPreCommitValidationLevel(UniquenessValidationLevel.ALL_BACKEND_SETS);
        properties.setPostCommitValidationLevel(
            UniquenessValidationLevel.ALL_AVAILABLE_BACKEND_SERVERS);
        properties.setPreventConflictsWithSoftDeletedEntries(true);
        properties.setAlertOnPostCommitConflictDetection(false);
        properties.setCreateConflictPreventionDetailsEntry(true);
        properties.setMultipleAttributeBehavior(
            UniquenessMultipleAttributeBehavior.UNIQUE_ACROSS_ALL_ATTRIBUTES_EXCEPT_IN_SAME_ENTRY);
        properties.setAttributeTypes("mail", "uid");
        check("all of its fields", unique(connection, taken, properties), "122 false null true");
        check("of another attribute", unique(connection, "user.5", properties),
            "122 false null true");
        properties.setPreCommitValidationLevel(UniquenessValidationLevel.NONE);
        check("told afterwards", unique(connection, taken, properties), "0 null false true");
        check("by a filter alone", unique(connection, "nobody@x",
            new UniquenessRequestControlProperties(Filter.create("(uid=user.5)"))),
            "122 false null true");
        connection.close();
    }

    static void pages() throws Exception {
        LDAPConnection connection = connect(ANNA, SECRET);
        SearchRequest request =
            new SearchRequest(PEOPLE, SearchScope.SUB, "(objectClass=posixAccount)", "uid");
        Set<String> names = new HashSet<>();
        List<Integer> sizes = new ArrayList<>();
        ASN1OctetString cookie = null;
        while (true) {
            request.setControls(new SimplePagedResultsControl(500, cookie, true));
            SearchResult found = connection.search(request);
            sizes.add(found.getEntryCount());
            found.getSearchEntries().forEach(entry -> names.add(entry.getDN()));
            SimplePagedResultsControl said = SimplePagedResultsControl.get(found);
            if (!said.moreResultsToReturn()) {
                break;
            }
            cookie = said.getCookie();
        }
        check("pages", sizes, List.of(500, 500, 500, 500, 500));
        check("names in pages", names.size(), 2500);
    }

    static void updates() throws Exception {
        LDAPConnection connection = connect(admin, password);
        String cn = "Zoë + \"Søn\", <Ltd>; #1\\ ";
        DN name = new DN(new RDN("cn", cn), new DN(ACCOUNTS));
        byte[] photo = new byte[256];
        for (int octet = 0; octet < 256; octet++) {
            photo[octet] = (byte) octet;
        }
        // All of the classes: the server adds those that are left out (RFC 4512 §3.3).
        Entry entry = new Entry(name, new Attribute(
            "objectClass", "top", "person", "organizationalPerson", "inetOrgPerson"),
            new Attribute("cn", cn), new Attribute("sn", "Søn 日本"), new Attribute("jpegPhoto", photo));
        check("add", code(() -> connection.add(entry)), 0);
        check("add again", code(() -> connection.add(entry)), 68);
        Entry back = connection.searchForEntry(
            ACCOUNTS, SearchScope.ONE, Filter.createEqualityFilter("cn", cn));
        check("found by a value with escapes", back.getAttributeValue("cn"), cn);
        check("the same entry", Entry.diff(entry, back, true), List.of());
        check("the same name", back.getParsedDN(), name);
        String text = name.toString();
        check("modify", code(() -> connection.modify(text,
            new Modification(ModificationType.ADD, "description", "one", "two"),
            new Modification(ModificationType.REPLACE, "sn", "Sæn"),
            new Modification(ModificationType.DELETE, "jpegPhoto"))), 0);
        Modification remove = new Modification(ModificationType.DELETE, "description", "one");
        check("delete a value", code(() -> connection.modify(text, remove)), 0);
        check("delete it again", code(() -> connection.modify(text, remove)), 16);
        ModifyRequest request = new ModifyRequest(
            text, new Modification(ModificationType.REPLACE, "title", "Chief"));
        request.addControl(new PostReadRequestControl("title", "description", "sn", "jpegPhoto"));
        Entry after = PostReadResponseControl.get(connection.modify(request)).getEntry();
        check("modified", after.getAttributeValue("description") + " "
            + after.getAttributeValue("sn") + " " + after.hasAttribute("jpegPhoto"), "two Sæn false");
        check("increment", code(() -> connection.modify("uid=user.8," + PEOPLE,
            new Modification(ModificationType.INCREMENT, "gidNumber", "5"))), 0);
        check("compare", connection.compare(text, "sn", "SÆN").compareMatched(), true);
        check("compare false", connection.compare(text, "sn", "San").compareMatched(), false);
        check("rename", code(() -> connection.modifyDN(text, "cn=Zoë", true)), 0);
        check("move",
            code(() -> connection.modifyDN("cn=Zoë," + ACCOUNTS, "cn=Zoë", true, BASE)), 0);
        check("delete", code(() -> connection.delete("cn=Zoë," + BASE)), 0);
        check("delete again", code(() -> connection.delete("cn=Zoë," + BASE)), 32);
        transaction(connection);
    }

    /** Two entries in one transaction, and both deleted as a tree. */
    static void transaction(LDAPConnection connection) throws Exception {
        StartTransactionExtendedResult started = (StartTransactionExtendedResult)
            connection.processExtendedOperation(new StartTransactionExtendedRequest());
        ASN1OctetString id = started.getTransactionID();
        for (String unit : List.of("ou=tree," + BASE, "ou=twig,ou=tree," + BASE)) {
            AddRequest add = new AddRequest(unit, new Attribute("objectClass", "organizationalUnit"));
            add.addControl(new TransactionSpecificationRequestControl(id));
            check("add in a transaction", connection.add(add).getResultCode(), ResultCode.SUCCESS);
        }
        LDAPResult ended =
            connection.processExtendedOperation(new EndTransactionExtendedRequest(id, true));
        check("end of the transaction", ended.getResultCode(), ResultCode.SUCCESS);
        DeleteRequest tree = new DeleteRequest("ou=tree," + BASE);
        tree.addControl(new SubtreeDeleteRequestControl());
        check("delete a tree", connection.delete(tree).getResultCode(), ResultCode.SUCCESS);
    }

    static class Bound {
        final LDAPConnection connection = new LDAPConnection("localhost", port);
        final int code;
        final PasswordPolicyResponseControl said;

        Bound(String user, String secretOf) throws LDAPException {
            SimpleBindRequest request = new SimpleBindRequest("uid=" + user + "," + ACCOUNTS, secretOf,
                new PasswordPolicyRequestControl());
            LDAPResult result;
            try {
                result = connection.bind(request);
            } catch (LDAPException error) {
                result = error.toLDAPResult();
            }
            code = result.getResultCode().intValue();
            Control control =
                result.getResponseControl("1.3.6.1.4.1.42.2.27.8.5.1");
            said = (PasswordPolicyResponseControl) control;
        }
    }

    static void passwords() throws Exception {
        Bound warned = new Bound("expiring", "expiring secret");
        check("a warning", warned.code + " " + warned.said.getWarningType() + " "
            + (warned.said.getWarningValue() > 0), "0 time before expiration true");
        Bound locked = new Bound("locked", "locked secret");
        check("locked", locked.code + " " + locked.said.getErrorType(), "49 account locked");
        Bound reset = new Bound("reset", "reset secret");
        check("to be changed", reset.code + " " + reset.said.getErrorType(), "0 change after reset");
        check("nothing else until then", code(() -> reset.connection.search(
            ANNA, SearchScope.BASE, "(uid=*)")), 50);
        check("too short", reset.connection.processExtendedOperation(
            new PasswordModifyExtendedRequest("reset secret", "short")).getResultCode().intValue(), 19);
        check("password modify", reset.connection.processExtendedOperation(
            new PasswordModifyExtendedRequest("reset secret", "another secret"))
            .getResultCode().intValue(), 0);
        check("bind by it", new Bound("reset", "another secret").code, 0);
        PasswordModifyExtendedResult made = (PasswordModifyExtendedResult) connect(admin, password)
            .processExtendedOperation(
                new PasswordModifyExtendedRequest("uid=reset," + ACCOUNTS, null, (String) null));
        check("a generated password", made.getGeneratedPassword().length() >= 8, true);
        check("bind by that", new Bound("reset", made.getGeneratedPassword()).code, 0);
        LDAPConnection connection = connect(ANNA, SECRET);
        check("an unknown extended operation", code(() ->
            connection.processExtendedOperation(new ExtendedRequest("1.2.3.4.5"))), 2);
    }

    /// The changes of an entry, as the classes of the SDK for change logs read them.
    static void changelog() throws Exception {
        try (LDAPConnection connection = new LDAPConnection("localhost", port, admin, password)) {
            check("where", connection.getRootDSE().getChangelogDN(), "cn=changelog");
            long before = connection.getEntry("", "lastChangeNumber")
                .getAttributeValueAsLong("lastChangeNumber");
            String name = "cn=changes," + PEOPLE;
            connection.add(name, new Attribute("objectClass", "device"),
                new Attribute("description", "x", "\u00fc"));
            connection.modify(name,
                new Modification(ModificationType.REPLACE, "description", "y"));
            connection.modifyDN(name, "cn=changed", true);
            String renamed = "cn=changed," + PEOPLE;
            connection.delete(renamed);
            List<ChangeLogEntry> changes = new ArrayList<>();
            SearchResult found = connection.search("cn=changelog", SearchScope.ONE,
                "(changeNumber>=" + (before + 1) + ")");
            for (SearchResultEntry entry : found.getSearchEntries()) {
                changes.add(new ChangeLogEntry(entry));
            }
            check("changes", changes.stream().map(ChangeLogEntry::getChangeNumber).toList(),
                List.of(before + 1, before + 2, before + 3, before + 4));
            check("names", changes.stream().map(ChangeLogEntry::getTargetDN).toList(),
                List.of(name, name, name, renamed));
            check("kinds", changes.stream().map(one -> one.getChangeType().getName()).toList(),
                List.of("add", "modify", "moddn", "delete"));
            List<Attribute> added = changes.get(0).getAddAttributes();
            check("what was added", added.contains(new Attribute("description", "x", "\u00fc")),
                true);
            List<Modification> modified = changes.get(1).getModifications();
            check("what was modified", modified.contains(
                new Modification(ModificationType.ADD, "description", "y")), true);
            check("the new name", changes.get(2).getNewRDN(), "cn=changed");
            check("the old name goes", changes.get(2).deleteOldRDN(), true);
            List<Attribute> deleted = changes.get(3).getDeletedEntryAttributes();
            check("what was deleted", deleted.contains(new Attribute("description", "y")), true);
            check("as LDIF", changes.get(3).toLDIFChangeRecord().getDN(), renamed);
        }
    }

    static void searchRate() throws Exception {
        ByteArrayOutputStream output = new ByteArrayOutputStream();
        ResultCode result = SearchRate.main(new String[] {
            "--hostname", "localhost", "--port", String.valueOf(port), "--bindDN", ANNA,
            "--bindPassword", SECRET, "--baseDN", PEOPLE, "--scope", "sub",
            "--filter", "(uid=user.[1-2500])", "--attribute", "mail", "--numThreads", "2",
            "--intervalDuration", "1", "--numIntervals", "3",
        }, output, output);
        String text = output.toString(StandardCharsets.UTF_8);
        check("searchrate", result, ResultCode.SUCCESS);
        String errors = text.lines().filter(line -> line.matches(".*[0-9]$"))
            .map(line -> line.trim().split(" +")[3]).filter(rate -> !rate.equals("0.000"))
            .findFirst().orElse("0.000");
        check("errors a second by searchrate", errors, "0.000");
        check("what it says at the end", text.contains("Overall"), true);
    }

    static void ldapDiff() throws Exception {
        // The changes that it writes make the source equal to the target.
        LDAPConnection second = new LDAPConnection("localhost", otherPort, admin, password);
        second.modify("uid=user.77," + PEOPLE,
            new Modification(ModificationType.REPLACE, "mail", "elsewhere@example.com"));
        second.delete("uid=user.78," + PEOPLE);
        second.close();
        File differences = File.createTempFile("differences", ".ldif");
        ByteArrayOutputStream output = new ByteArrayOutputStream();
        ResultCode result = LDAPDiff.main(output, output,
            "--sourceHostname", "localhost", "--sourcePort", String.valueOf(port),
            "--sourceBindDN", admin, "--sourceBindPassword", password,
            "--targetHostname", "localhost", "--targetPort", String.valueOf(otherPort),
            "--targetBindDN", admin, "--targetBindPassword", password,
            "--baseDN", PEOPLE, "--outputLDIF", differences.getPath(), "sn", "mail", "uid");
        check("ldap-diff", result, ResultCode.COMPARE_FALSE);
        Set<String> changes = new HashSet<>();
        try (com.unboundid.ldif.LDIFReader reader = new com.unboundid.ldif.LDIFReader(differences)) {
            for (com.unboundid.ldif.LDIFChangeRecord record = reader.readChangeRecord();
                    record != null; record = reader.readChangeRecord()) {
                changes.add(record.getChangeType().getName() + " " + record.getDN());
            }
        }
        differences.delete();
        check("what differs", changes, Set.of(
            "modify uid=user.77," + PEOPLE, "delete uid=user.78," + PEOPLE));
    }

    public static void main(String[] arguments) throws Exception {
        port = Integer.parseInt(arguments[0]);
        securePort = Integer.parseInt(arguments[1]);
        trusting = new SSLUtil(new PEMFileTrustManager(new File(arguments[2])));
        admin = arguments[3];
        password = arguments[4];
        otherPort = Integer.parseInt(arguments[5]);
        section("binds", Unboundid::binds);
        section("TLS", Unboundid::tls);
        section("root DSE and schema", Unboundid::rootAndSchema);
        section("searches", Unboundid::searches);
        section("controls", Unboundid::controls);
        section("uniqueness", Unboundid::uniqueness);
        section("pages", Unboundid::pages);
        section("ldap-diff", Unboundid::ldapDiff);
        section("updates", Unboundid::updates);
        section("passwords", Unboundid::passwords);
        section("changelog", Unboundid::changelog);
        section("searchrate", Unboundid::searchRate);
        System.out.println(passed + " passed, " + failed + " failed");
        System.exit(failed > 0 ? 1 : 0);
    }
}
