// Naming events of JNDI: persistent searches of the JDK itself.
//
// Arguments: URL, administrator's DN, password.

import java.util.Hashtable;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import javax.naming.Context;
import javax.naming.directory.Attributes;
import javax.naming.directory.BasicAttribute;
import javax.naming.directory.BasicAttributes;
import javax.naming.directory.DirContext;
import javax.naming.directory.ModificationItem;
import javax.naming.directory.SearchControls;
import javax.naming.event.EventDirContext;
import javax.naming.event.NamespaceChangeListener;
import javax.naming.event.NamingEvent;
import javax.naming.event.NamingExceptionEvent;
import javax.naming.event.ObjectChangeListener;
import javax.naming.ldap.InitialLdapContext;

public class Events {
    static final BlockingQueue<String> HEARD = new LinkedBlockingQueue<>();

    static class Listener implements NamespaceChangeListener, ObjectChangeListener {
        private static void note(String kind, NamingEvent event) {
            boolean isOld = event.getNewBinding() == null;
            String name = (isOld ? event.getOldBinding() : event.getNewBinding()).getName();
            HEARD.add(kind + " " + name);
        }

        public void objectAdded(NamingEvent event) {
            note("added", event);
        }

        public void objectRemoved(NamingEvent event) {
            note("removed", event);
        }

        public void objectRenamed(NamingEvent event) {
            note("renamed", event);
        }

        public void objectChanged(NamingEvent event) {
            note("changed", event);
        }

        public void namingExceptionThrown(NamingExceptionEvent event) {
            HEARD.add("failed " + event.getException());
        }
    }

    static void expect(String want) throws InterruptedException {
        String heard = HEARD.poll(20, TimeUnit.SECONDS);
        if (!want.equals(heard)) {
            System.out.println("expected " + want + ", heard " + heard);
            System.exit(1);
        }
    }

    public static void main(String[] arguments) throws Exception {
        Hashtable<String, Object> settings = new Hashtable<>();
        settings.put(Context.INITIAL_CONTEXT_FACTORY, "com.sun.jndi.ldap.LdapCtxFactory");
        settings.put(Context.PROVIDER_URL, arguments[0]);
        settings.put(Context.SECURITY_PRINCIPAL, arguments[1]);
        settings.put(Context.SECURITY_CREDENTIALS, arguments[2]);
        DirContext root = new InitialLdapContext(settings, null);
        EventDirContext people =
            (EventDirContext) root.lookup("ou=people,dc=example,dc=com");
        SearchControls scope = new SearchControls();
        scope.setSearchScope(SearchControls.SUBTREE_SCOPE);
        people.addNamingListener("", "(objectClass=inetOrgPerson)", scope, new Listener());
        // It begins on a thread of its own.
        Thread.sleep(2000);
        Attributes entry = new BasicAttributes(true);
        entry.put("objectClass", "inetOrgPerson");
        entry.put("cn", "x");
        entry.put("sn", "x");
        String name = "uid=event,ou=people,dc=example,dc=com";
        root.createSubcontext(name, entry);
        expect("added uid=event");
        root.modifyAttributes(name, new ModificationItem[] {
            new ModificationItem(DirContext.REPLACE_ATTRIBUTE, new BasicAttribute("sn", "y"))});
        expect("changed uid=event");
        String renamed = "uid=renamed,ou=people,dc=example,dc=com";
        root.rename(name, renamed);
        expect("renamed uid=renamed");
        root.destroySubcontext(renamed);
        expect("removed uid=renamed");
        System.out.println("all events heard");
        System.exit(0);
    }
}
