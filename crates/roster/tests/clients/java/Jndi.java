// JNDI, the directory interface of the JDK itself, against a served directory; with pooled
// connections as identity brokers use them.
//
// Arguments: LDAP port, LDAPS port, certificate (PEM), administrator's DN, password.

import java.io.FileInputStream;
import java.io.IOException;
import java.net.InetAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.Hashtable;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import javax.naming.Context;
import javax.naming.NamingEnumeration;
import javax.naming.NamingException;
import javax.naming.directory.Attribute;
import javax.naming.directory.Attributes;
import javax.naming.directory.BasicAttribute;
import javax.naming.directory.BasicAttributes;
import javax.naming.directory.DirContext;
import javax.naming.directory.InitialDirContext;
import javax.naming.directory.ModificationItem;
import javax.naming.directory.SearchControls;
import javax.naming.directory.SearchResult;
import javax.naming.ldap.BasicControl;
import javax.naming.ldap.Control;
import javax.naming.ldap.ExtendedRequest;
import javax.naming.ldap.ExtendedResponse;
import javax.naming.ldap.InitialLdapContext;
import javax.naming.ldap.LdapContext;
import javax.naming.ldap.LdapName;
import javax.naming.ldap.PagedResultsControl;
import javax.naming.ldap.PagedResultsResponseControl;
import javax.naming.ldap.Rdn;
import javax.naming.ldap.SortControl;
import javax.naming.ldap.SortKey;
import javax.naming.ldap.SortResponseControl;
import javax.naming.ldap.StartTlsRequest;
import javax.naming.ldap.StartTlsResponse;
import javax.net.SocketFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLSocketFactory;
import javax.net.ssl.TrustManagerFactory;

public class Jndi {
    static final String BASE = "dc=example,dc=com";
    static final String PEOPLE = "ou=people," + BASE;
    static final String ACCOUNTS = "ou=accounts," + BASE;
    static final String ANNA = "uid=anna," + ACCOUNTS;
    static final String SECRET = "anna's secret";
    static final String POLICY = "1.3.6.1.4.1.42.2.27.8.5.1";

    static SSLSocketFactory trusting;
    static String plain;
    static String secure;
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

    /** The result code that a call ends with: the number in the words of the exception. */
    static int code(Part part) throws Exception {
        try {
            part.run();
            return 0;
        } catch (NamingException error) {
            String text = String.valueOf(error.getMessage());
            int at = text.indexOf("error code ");
            if (at < 0) {
                throw error;
            }
            return Integer.parseInt(text.substring(at + 11).split("[^0-9]")[0]);
        }
    }

    /** JNDI takes the name of a class with this method, not an object. */
    public static class Factory extends SocketFactory {
        public static SocketFactory getDefault() {
            return trusting;
        }

        @Override public Socket createSocket(String host, int port) throws IOException {
            return trusting.createSocket(host, port);
        }

        @Override public Socket createSocket(String host, int port, InetAddress from, int local)
                throws IOException {
            return trusting.createSocket(host, port, from, local);
        }

        @Override public Socket createSocket(InetAddress host, int port) throws IOException {
            return trusting.createSocket(host, port);
        }

        @Override public Socket createSocket(InetAddress host, int port, InetAddress from, int local)
                throws IOException {
            return trusting.createSocket(host, port, from, local);
        }
    }

    static SSLSocketFactory trust(String path) throws Exception {
        KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
        store.load(null);
        try (FileInputStream file = new FileInputStream(path)) {
            CertificateFactory certificates = CertificateFactory.getInstance("X.509");
            store.setCertificateEntry("roster", certificates.generateCertificate(file));
        }
        TrustManagerFactory managers =
            TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        managers.init(store);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(null, managers.getTrustManagers(), null);
        return context.getSocketFactory();
    }

    static Hashtable<String, Object> environment(String url, String name, String secretOf) {
        Hashtable<String, Object> environment = new Hashtable<>();
        environment.put(Context.INITIAL_CONTEXT_FACTORY, "com.sun.jndi.ldap.LdapCtxFactory");
        environment.put(Context.PROVIDER_URL, url);
        environment.put("java.naming.ldap.attributes.binary", "jpegPhoto");
        if (name != null) {
            environment.put(Context.SECURITY_AUTHENTICATION, "simple");
            environment.put(Context.SECURITY_PRINCIPAL, name);
            environment.put(Context.SECURITY_CREDENTIALS, secretOf);
        }
        return environment;
    }

    static InitialLdapContext connect(String name, String secretOf, Control... controls)
            throws NamingException {
        return new InitialLdapContext(environment(plain, name, secretOf), controls);
    }

    static class Simple implements ExtendedRequest {
        final String oid;
        final byte[] value;

        Simple(String oid, byte[] value) {
            this.oid = oid;
            this.value = value;
        }

        @Override public String getID() {
            return oid;
        }

        @Override public byte[] getEncodedValue() {
            return value;
        }

        @Override public ExtendedResponse createExtendedResponse(
                String id, byte[] value, int offset, int length) {
            byte[] answer = value == null
                ? new byte[0] : Arrays.copyOfRange(value, offset, offset + length);
            return new ExtendedResponse() {
                @Override public String getID() {
                    return id;
                }

                @Override public byte[] getEncodedValue() {
                    return answer;
                }
            };
        }
    }

    static String whoAmI(LdapContext context) throws NamingException {
        ExtendedResponse answer =
            context.extendedOperation(new Simple("1.3.6.1.4.1.4203.1.11.3", null));
        return new String(answer.getEncodedValue(), StandardCharsets.UTF_8);
    }

    static List<SearchResult> search(DirContext context, String base, int scope, String filter,
            Object... arguments) throws NamingException {
        SearchControls controls = new SearchControls();
        controls.setSearchScope(scope);
        NamingEnumeration<SearchResult> found =
            context.search(new LdapName(base), filter, arguments, controls);
        List<SearchResult> all = new ArrayList<>();
        // Not Collections.list: that takes an exception for the end.
        while (found.hasMore()) {
            all.add(found.next());
        }
        return all;
    }

    static void binds() throws Exception {
        LdapContext context = connect(ANNA, SECRET);
        check("who am I", whoAmI(context), "dn:" + ANNA);
        context.close();
        check("a wrong password", code(() -> connect(ANNA, "wrong")), 49);
        LdapContext again = connect(null, null);
        check("nobody", whoAmI(again), "");
        again.addToEnvironment(Context.SECURITY_AUTHENTICATION, "simple");
        again.addToEnvironment(Context.SECURITY_PRINCIPAL, admin);
        again.addToEnvironment(Context.SECURITY_CREDENTIALS, password);
        again.reconnect(null);
        check("who am I again", whoAmI(again), "dn:" + admin);
    }

    static void tls() throws Exception {
        LdapContext upgraded = new InitialLdapContext(environment(plain, null, null), null);
        StartTlsResponse started =
            (StartTlsResponse) upgraded.extendedOperation(new StartTlsRequest());
        started.negotiate(trusting);
        upgraded.addToEnvironment(Context.SECURITY_AUTHENTICATION, "simple");
        upgraded.addToEnvironment(Context.SECURITY_PRINCIPAL, ANNA);
        upgraded.addToEnvironment(Context.SECURITY_CREDENTIALS, SECRET);
        upgraded.reconnect(null);
        check("who am I after StartTLS", whoAmI(upgraded), "dn:" + ANNA);
        started.close();
        Hashtable<String, Object> direct = environment(secure, ANNA, SECRET);
        boolean isTrusted = true;
        try {
            new InitialLdapContext(direct, null);
        } catch (NamingException refused) {
            isTrusted = false;
        }
        check("a certificate that nobody vouches for", isTrusted, false);
        direct.put("java.naming.ldap.factory.socket", Factory.class.getName());
        check("who am I over LDAPS", whoAmI(new InitialLdapContext(direct, null)), "dn:" + ANNA);
    }

    static void rootAndSchema() throws Exception {
        LdapContext context = connect(ANNA, SECRET);
        Attributes root = context.getAttributes("", new String[] {"namingContexts", "+"});
        check("naming contexts", root.get("namingContexts").get(), BASE);
        check("versions", root.get("supportedLDAPVersion").get(), "3");
        DirContext schema = context.getSchema("");
        Attributes person = schema.getAttributes("ClassDefinition/inetOrgPerson");
        check("a superior", person.get("SUP").get(), "organizationalPerson");
        Attributes number = schema.getAttributes("AttributeDefinition/uidNumber");
        check("an attribute type", number.get("NUMERICOID").get(), "1.3.6.1.1.1.1.0");
        check("single-valued", number.get("SINGLE-VALUE").get(), "true");
        check("all types", Collections.list(schema.list("AttributeDefinition")).size() > 300, true);
        check("syntaxes", Collections.list(schema.list("SyntaxDefinition")).size() > 20, true);
        Attribute seventh = context.getAttributes("uid=user.7," + PEOPLE).get("uidNumber");
        check("the syntax of a value", seventh.getAttributeSyntaxDefinition().getAttributes("")
            .get("NUMERICOID").get(), "1.3.6.1.4.1.1466.115.121.1.27");
    }

    static void searches() throws Exception {
        LdapContext context = connect(admin, password);
        Attributes entry = context.getAttributes(ANNA, new String[] {"cn", "SN"});
        check("base", entry.get("cn").get() + " " + entry.size(), "Anna Ångström 2");
        check("one level",
            search(context, PEOPLE, SearchControls.ONELEVEL_SCOPE, "(uid=user.1*)").size(), 1111);
        String filter = "(&(objectClass=posixAccount)(|(uid={0})(uidNumber>={1}))(!(sn=9)))";
        check("subtree", search(context, BASE, SearchControls.SUBTREE_SCOPE, filter,
            "user.1", "12500").size(), 2);
        SearchControls limited = new SearchControls();
        limited.setCountLimit(3);
        NamingEnumeration<SearchResult> few = context.search(PEOPLE, "(uid=*)", limited);
        check("size limit", code(() -> {
            while (few.hasMore()) {
                few.next();
            }
        }), 4);
        check("no such entry", code(() -> context.getAttributes("ou=nothing," + PEOPLE)), 32);
        check("bindings", Collections.list(context.listBindings(ACCOUNTS)).size(), 4);
        check("an object", context.lookup(ANNA) instanceof LdapContext, true);
        LdapContext below = (LdapContext) context.lookup(ACCOUNTS);
        SearchResult found =
            search(below, "", SearchControls.ONELEVEL_SCOPE, "(uid=anna)").get(0);
        check("relative names", found.getName() + " " + found.getNameInNamespace(),
            "uid=anna " + ANNA);
        check("parsed", new LdapName(found.getNameInNamespace()).equals(new LdapName(ANNA)), true);
        Attributes operational =
            context.getAttributes(ANNA, new String[] {"entryUUID", "createTimestamp"});
        check("operational attributes", operational.size(), 2);
    }

    static void controls() throws Exception {
        LdapContext context = connect(admin, password);
        SearchControls one = new SearchControls();
        context.addToEnvironment(Context.REFERRAL, "ignore");
        check("a continuation reference, ignored",
            search(context, BASE, SearchControls.ONELEVEL_SCOPE, "(ou=elsewhere)").size(), 1);
        context.addToEnvironment(Context.REFERRAL, "throw");
        String where = "";
        try {
            search(context, BASE, SearchControls.ONELEVEL_SCOPE, "(ou=elsewhere)");
        } catch (javax.naming.ReferralException referral) {
            where = String.valueOf(referral.getReferralInfo());
        }
        check("a continuation reference", where,
            "ldap://other.example.com/ou=there,dc=example,dc=com??base");
        context.addToEnvironment(Context.REFERRAL, "ignore");

        SortKey[] keys = {new SortKey("uidNumber", false, "integerOrderingMatch")};
        context.setRequestControls(new Control[] {new SortControl(keys, Control.CRITICAL)});
        List<Integer> numbers = new ArrayList<>();
        NamingEnumeration<SearchResult> found = context.search(PEOPLE, "(uid=user.1*)", one);
        while (found.hasMore()) {
            Object number = found.next().getAttributes().get("uidNumber").get();
            numbers.add(Integer.parseInt((String) number));
        }
        List<Integer> sorted = new ArrayList<>(numbers);
        sorted.sort(Collections.reverseOrder());
        check("sorted", numbers, sorted);
        check("all of them", numbers.size(), 1111);
        SortResponseControl said = (SortResponseControl) context.getResponseControls()[0];
        check("the sort result", said.isSorted() + " " + said.getResultCode(), "true 0");
        for (String user : new String[] {"anna", "bert"}) {
            byte[] octets = ("\u00a3\u000b\u0004\u0003uid\u0004\u0004" + user)
                .getBytes(StandardCharsets.ISO_8859_1);
            context.setRequestControls(
                new Control[] {new BasicControl("1.3.6.1.1.12", true, octets)});
            check("asserted of " + user, code(() -> context.getAttributes(ANNA)),
                user.equals("anna") ? 0 : 122);
        }
        context.setRequestControls(new Control[] {new BasicControl("1.2.3.4.5", true, null)});
        check("an unknown critical control", code(() -> context.getAttributes(ANNA)), 12);
        context.setRequestControls(new Control[] {new BasicControl("1.2.3.4.5", false, null)});
        check("an unknown control", code(() -> context.getAttributes(ANNA)), 0);
    }

    /** A page after the other, as an identity broker does that keeps users in step. */
    static void pages() throws Exception {
        Hashtable<String, Object> pooled = environment(plain, ANNA, SECRET);
        pooled.put("com.sun.jndi.ldap.connect.pool", "true");
        for (int round = 0; round < 2; round++) {
            LdapContext context = new InitialLdapContext(pooled, null);
            Set<String> names = new HashSet<>();
            List<Integer> sizes = new ArrayList<>();
            SearchControls controls = new SearchControls();
            controls.setSearchScope(SearchControls.SUBTREE_SCOPE);
            controls.setReturningAttributes(new String[] {"uid", "cn", "mail", "modifyTimestamp"});
            byte[] cookie = null;
            do {
                context.setRequestControls(new Control[] {
                    new PagedResultsControl(500, cookie, Control.CRITICAL)});
                int before = names.size();
                NamingEnumeration<SearchResult> found = context.search(new LdapName(PEOPLE),
                    "(&(uid=*)(objectClass=inetOrgPerson))", controls);
                while (found.hasMore()) {
                    names.add(found.next().getNameInNamespace());
                }
                sizes.add(names.size() - before);
                cookie = null;
                for (Control said : context.getResponseControls()) {
                    cookie = ((PagedResultsResponseControl) said).getCookie();
                }
            } while (cookie != null);
            check("pages", sizes, List.of(500, 500, 500, 500, 500));
            check("names in pages", names.size(), 2500);
            context.close();
        }
    }

    static void pool() throws Exception {
        Hashtable<String, Object> pooled = environment(plain, admin, password);
        pooled.put("com.sun.jndi.ldap.connect.pool", "true");
        pooled.put("com.sun.jndi.ldap.read.timeout", "10000");
        ExecutorService threads = Executors.newFixedThreadPool(4);
        List<Future<String>> answers = new ArrayList<>();
        for (int number = 1; number <= 100; number++) {
            String user = "user." + number;
            answers.add(threads.submit(() -> {
                DirContext context = new InitialDirContext(pooled);
                List<SearchResult> found =
                    search(context, PEOPLE, SearchControls.ONELEVEL_SCOPE, "(uid={0})", user);
                context.close();
                return (String) found.get(0).getAttributes().get("sn").get();
            }));
        }
        List<String> got = new ArrayList<>();
        List<String> want = new ArrayList<>();
        for (int number = 1; number <= 100; number++) {
            got.add(answers.get(number - 1).get());
            want.add(String.valueOf(number));
        }
        threads.shutdown();
        check("a hundred over pooled connections", got, want);
    }

    static ModificationItem change(int operation, String type, Object... values) {
        BasicAttribute attribute = new BasicAttribute(type);
        for (Object value : values) {
            attribute.add(value);
        }
        return new ModificationItem(operation, attribute);
    }

    static void updates() throws Exception {
        LdapContext context = connect(admin, password);
        String cn = "Zoë + \"Søn\", <Ltd>; #1\\ / x ";
        LdapName name = new LdapName(ACCOUNTS);
        name.add(new Rdn("cn", cn));
        byte[] photo = new byte[256];
        for (int octet = 0; octet < 256; octet++) {
            photo[octet] = (byte) octet;
        }
        Attributes attributes = new BasicAttributes(true);
        attributes.put("objectClass", "inetOrgPerson");
        attributes.put("sn", "Søn 日本");
        attributes.put("jpegPhoto", photo);
        check("add", code(() -> context.createSubcontext(name, attributes)), 0);
        check("add again", code(() -> context.createSubcontext(name, attributes)), 68);
        List<SearchResult> found =
            search(context, ACCOUNTS, SearchControls.ONELEVEL_SCOPE, "(cn={0})", cn);
        Attributes back = found.get(0).getAttributes();
        check("found by a value with escapes", back.get("cn").get(), cn);
        check("unicode", back.get("sn").get(), "Søn 日本");
        check("octets", Arrays.equals((byte[]) back.get("jpegPhoto").get(), photo), true);
        check("the same name", new LdapName(found.get(0).getNameInNamespace()), name);
        check("modify", code(() -> context.modifyAttributes(name, new ModificationItem[] {
            change(DirContext.ADD_ATTRIBUTE, "description", "one", "two"),
            change(DirContext.REPLACE_ATTRIBUTE, "sn", "Sæn"),
            change(DirContext.REMOVE_ATTRIBUTE, "jpegPhoto"),
        })), 0);
        Part remove = () -> context.modifyAttributes(name, new ModificationItem[] {
            change(DirContext.REMOVE_ATTRIBUTE, "description", "one")});
        check("delete a value", code(remove), 0);
        check("delete it again", code(remove), 16);
        back = context.getAttributes(name, new String[] {"description", "sn", "jpegPhoto"});
        check("modified", back.get("description").get() + " " + back.get("sn").get() + " "
            + back.get("jpegPhoto"), "two Sæn null");
        // A search of the base for one equality and no attributes is sent as a compare.
        SearchControls compare = new SearchControls();
        compare.setSearchScope(SearchControls.OBJECT_SCOPE);
        compare.setReturningAttributes(new String[0]);
        check("compare", context.search(name, "(sn={0})", new Object[] {"SÆN"}, compare).hasMore(),
            true);
        check("compare false",
            context.search(name, "(sn={0})", new Object[] {"San"}, compare).hasMore(), false);
        LdapName zoe = new LdapName("cn=Zoë," + ACCOUNTS);
        LdapName moved = new LdapName("cn=Zoë," + BASE);
        check("rename", code(() -> context.rename(name, zoe)), 0);
        check("move", code(() -> context.rename(zoe, moved)), 0);
        check("delete", code(() -> context.destroySubcontext(moved)), 0);
        check("delete again", search(context, BASE, SearchControls.ONELEVEL_SCOPE, "(cn=Zoë)").size(),
            0);
    }

    /** What the password policy control says, as hex digits. */
    static String policy(LdapContext context) throws NamingException {
        for (Control said : context.getResponseControls()) {
            if (said.getID().equals(POLICY)) {
                StringBuilder text = new StringBuilder();
                for (byte octet : said.getEncodedValue()) {
                    text.append(String.format("%02x", octet));
                }
                return text.toString();
            }
        }
        return "";
    }

    static LdapContext bindForPolicy(String user, String secretOf) throws NamingException {
        return connect("uid=" + user + "," + ACCOUNTS, secretOf, new BasicControl(POLICY));
    }

    static byte[] passwordModify(String old, String fresh) {
        byte[][] parts = {old.getBytes(StandardCharsets.UTF_8), fresh.getBytes(StandardCharsets.UTF_8)};
        byte[] value = new byte[parts[0].length + parts[1].length + 6];
        value[0] = 0x30;
        value[1] = (byte) (value.length - 2);
        int at = 2;
        for (int field = 0; field < 2; field++) {
            value[at] = (byte) (0x81 + field);
            value[at + 1] = (byte) parts[field].length;
            System.arraycopy(parts[field], 0, value, at + 2, parts[field].length);
            at += 2 + parts[field].length;
        }
        return value;
    }

    static void passwords() throws Exception {
        check("a warning", policy(bindForPolicy("expiring", "expiring secret")).startsWith("3008a006"),
            true);
        check("locked", code(() -> bindForPolicy("locked", "locked secret")), 49);
        LdapContext context = bindForPolicy("reset", "reset secret");
        check("to be changed", policy(context), "3003810102");
        check("nothing else until then", code(() -> context.getAttributes(ANNA)), 50);
        String oid = "1.3.6.1.4.1.4203.1.11.1";
        check("too short", code(() -> context.extendedOperation(
            new Simple(oid, passwordModify("reset secret", "short")))), 19);
        check("password modify", code(() -> context.extendedOperation(
            new Simple(oid, passwordModify("reset secret", "another secret")))), 0);
        check("bind by it", code(() -> bindForPolicy("reset", "another secret")), 0);
        check("an unknown extended operation", code(() -> context.extendedOperation(
            new Simple("1.2.3.4.5", null))), 2);
    }

    public static void main(String[] arguments) throws Exception {
        plain = "ldap://localhost:" + arguments[0];
        secure = "ldaps://localhost:" + arguments[1];
        trusting = trust(arguments[2]);
        admin = arguments[3];
        password = arguments[4];
        section("binds", Jndi::binds);
        section("TLS", Jndi::tls);
        section("root DSE and schema", Jndi::rootAndSchema);
        section("searches", Jndi::searches);
        section("controls", Jndi::controls);
        section("pages", Jndi::pages);
        section("pool", Jndi::pool);
        section("updates", Jndi::updates);
        section("passwords", Jndi::passwords);
        System.out.println(passed + " passed, " + failed + " failed");
        System.exit(failed > 0 ? 1 : 0);
    }
}
