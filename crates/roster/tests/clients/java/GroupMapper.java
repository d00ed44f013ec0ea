// What the group mapper of Keycloak asks a directory by JNDI, of groups with 100,000 members in all.
//
// Arguments: LDAP port, administrator's DN, password.
//
// The groups: company has north and south, which have five groups of 10,000 people each; everybody
// has all of them by itself.

import java.util.Hashtable;
import java.util.List;
import java.util.Objects;
import java.util.TreeSet;
import javax.naming.Context;
import javax.naming.NamingEnumeration;
import javax.naming.directory.Attribute;
import javax.naming.directory.SearchControls;
import javax.naming.directory.SearchResult;
import javax.naming.ldap.Control;
import javax.naming.ldap.InitialLdapContext;
import javax.naming.ldap.LdapContext;
import javax.naming.ldap.LdapName;
import javax.naming.ldap.PagedResultsControl;
import javax.naming.ldap.PagedResultsResponseControl;

public class GroupMapper {
    static final String BASE = "dc=example,dc=com";
    static final String PEOPLE = "ou=people," + BASE;
    static final String GROUPS = "ou=groups," + BASE;
    static final String USER = "uid=user.77777," + PEOPLE;

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

    static SearchControls asking(int scope, String... attributes) {
        SearchControls asked = new SearchControls();
        asked.setSearchScope(scope);
        asked.setReturningAttributes(attributes);
        return asked;
    }

    /** The names that a search for groups finds, in order. */
    static String groups(LdapContext context, String filter, Object... values) throws Exception {
        SearchControls asked = asking(SearchControls.ONELEVEL_SCOPE, "cn");
        TreeSet<String> names = new TreeSet<>();
        NamingEnumeration<SearchResult> found =
            context.search(new LdapName(GROUPS), filter, values, asked);
        while (found.hasMore()) {
            names.add((String) found.next().getAttributes().get("cn").get());
        }
        return String.join(" ", names);
    }

    static Attribute read(LdapContext context, String name, String attribute) throws Exception {
        NamingEnumeration<SearchResult> found = context.search(new LdapName(name),
            "(objectClass=*)", asking(SearchControls.OBJECT_SCOPE, attribute));
        NamingEnumeration<? extends Attribute> all = found.next().getAttributes().getAll();
        return all.hasMore() ? all.next() : null;
    }

    /** All members of a group: Keycloak reads on as long as it gets a part of them. */
    static int members(LdapContext context, String group, TreeSet<String> into) throws Exception {
        int parts = 0;
        String asked = "member;range=0-*";
        while (asked != null) {
            Attribute part = read(context, "cn=" + group + "," + GROUPS, asked);
            parts++;
            for (int number = 0; number < part.size(); number++) {
                into.add((String) part.get(number));
            }
            String last = part.getID().substring(part.getID().lastIndexOf('-') + 1);
            asked = last.equals("*")
                ? null
                : "member;range=" + (Integer.parseInt(last) + 1) + "-*";
        }
        return parts;
    }

    /** How many groups come in pages of three, and in how many pages. */
    static String pages(LdapContext context) throws Exception {
        int found = 0;
        int pages = 0;
        byte[] cookie = null;
        do {
            context.setRequestControls(
                new Control[] {new PagedResultsControl(3, cookie, Control.CRITICAL)});
            NamingEnumeration<SearchResult> page = context.search(new LdapName(GROUPS),
                "(objectClass=groupOfNames)", asking(SearchControls.ONELEVEL_SCOPE, "cn"));
            while (page.hasMore()) {
                page.next();
                found++;
            }
            pages++;
            cookie = null;
            for (Control control : context.getResponseControls()) {
                cookie = ((PagedResultsResponseControl) control).getCookie();
            }
        } while (cookie != null && cookie.length > 0);
        context.setRequestControls(null);
        return found + " in " + pages;
    }

    public static void main(String[] arguments) throws Exception {
        Hashtable<String, String> settings = new Hashtable<>();
        settings.put(Context.INITIAL_CONTEXT_FACTORY, "com.sun.jndi.ldap.LdapCtxFactory");
        settings.put(Context.PROVIDER_URL, "ldap://127.0.0.1:" + arguments[0]);
        settings.put(Context.SECURITY_PRINCIPAL, arguments[1]);
        settings.put(Context.SECURITY_CREDENTIALS, arguments[2]);
        LdapContext context = new InitialLdapContext(settings, null);
        // The strategies by which the mapper finds the groups of a user.
        String direct = "(&(objectClass=groupOfNames)(member={0}))";
        check("by member", groups(context, direct, USER), "everybody south.3");
        String recursive =
            "(&(objectClass=groupOfNames)(member:1.2.840.113556.1.4.1941:={0}))";
        check("by member, recursively", groups(context, recursive, USER),
            "company everybody south south.3");
        check("of nobody", groups(context, recursive, "uid=guest," + PEOPLE), "");
        Attribute all = read(context, USER, "memberOf");
        TreeSet<String> names = new TreeSet<>();
        for (int number = 0; number < all.size(); number++) {
            names.add((String) new LdapName((String) all.get(number)).getRdn(3).getValue());
        }
        check("by memberOf", String.join(" ", names), "company everybody south south.3");
        check("memberOf of nobody", read(context, "uid=guest," + PEOPLE, "memberOf"), null);
        // The groups are synchronized in pages, and with whom is in them.
        check("pages", pages(context), "14 in 5");
        check("groups in a group", read(context, "cn=company," + GROUPS, "member").size(), 2);
        TreeSet<String> nested = new TreeSet<>();
        for (String side : List.of("north", "south")) {
            for (int number = 1; number <= 5; number++) {
                members(context, side + "." + number, nested);
            }
        }
        check("members of nested groups", nested.size(), 100_000);
        TreeSet<String> flat = new TreeSet<>();
        int parts = members(context, "everybody", flat);
        check("the same at once", flat.equals(nested), true);
        check("in parts", parts > 1 && parts <= 100, true);
        check("all in one answer", read(context, "cn=everybody," + GROUPS, "member").size(), 100_000);
        context.close();
        System.out.println(passed + " passed, " + failed + " failed");
        System.exit(failed > 0 ? 1 : 0);
    }
}
