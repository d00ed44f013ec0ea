// Logs in through TLS as JNDI programs do: find the user's entry, then bind as it.
// Arguments: LDAP port, LDAPS port, certificate (PEM), base, user name, password.

import java.io.FileInputStream;
import java.io.IOException;
import java.net.InetAddress;
import java.net.Socket;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.util.Hashtable;
import javax.naming.AuthenticationException;
import javax.naming.Context;
import javax.naming.NamingEnumeration;
import javax.naming.directory.SearchControls;
import javax.naming.directory.SearchResult;
import javax.naming.ldap.InitialLdapContext;
import javax.naming.ldap.StartTlsRequest;
import javax.naming.ldap.StartTlsResponse;
import javax.net.SocketFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLSocketFactory;
import javax.net.ssl.TrustManagerFactory;

public class Login {
    static SSLSocketFactory trusting;

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

    static InitialLdapContext open(String url) throws Exception {
        Hashtable<String, String> environment = new Hashtable<>();
        environment.put(Context.INITIAL_CONTEXT_FACTORY, "com.sun.jndi.ldap.LdapCtxFactory");
        environment.put(Context.PROVIDER_URL, url);
        if (url.startsWith("ldaps:")) {
            environment.put("java.naming.ldap.factory.socket", Factory.class.getName());
        }
        return new InitialLdapContext(environment, null);
    }

    static String find(InitialLdapContext context, String base, String user) throws Exception {
        SearchControls controls = new SearchControls();
        controls.setSearchScope(SearchControls.SUBTREE_SCOPE);
        controls.setReturningAttributes(new String[] {"1.1"});
        Object[] arguments = {user};
        NamingEnumeration<SearchResult> found =
            context.search(base, "(uid={0})", arguments, controls);
        if (!found.hasMore()) {
            throw new IllegalStateException("no entry of " + user);
        }
        String name = found.next().getNameInNamespace();
        if (found.hasMore()) {
            throw new IllegalStateException("more than one entry of " + user);
        }
        return name;
    }

    static void bind(InitialLdapContext context, String name, String password) throws Exception {
        context.addToEnvironment(Context.SECURITY_AUTHENTICATION, "simple");
        context.addToEnvironment(Context.SECURITY_PRINCIPAL, name);
        context.addToEnvironment(Context.SECURITY_CREDENTIALS, password);
        context.reconnect(null);
    }

    static void logIn(InitialLdapContext context, String base, String user, String password)
            throws Exception {
        String name = find(context, base, user);
        try {
            bind(context, name, password + "!");
            throw new IllegalStateException("a wrong password is accepted");
        } catch (AuthenticationException expected) {
            // Result code 49.
            if (!expected.getMessage().contains("error code 49")) {
                throw expected;
            }
        }
        bind(context, name, password);
        if (!find(context, base, user).equals(name)) {
            throw new IllegalStateException("the user does not find the own entry");
        }
    }

    public static void main(String[] arguments) throws Exception {
        trusting = trust(arguments[2]);
        String base = arguments[3];
        InitialLdapContext secure = open("ldaps://localhost:" + arguments[1]);
        logIn(secure, base, arguments[4], arguments[5]);
        secure.close();

        InitialLdapContext upgraded = open("ldap://localhost:" + arguments[0]);
        StartTlsResponse tls = (StartTlsResponse) upgraded.extendedOperation(new StartTlsRequest());
        tls.negotiate(trusting);
        logIn(upgraded, base, arguments[4], arguments[5]);
        tls.close();
        upgraded.close();
        System.out.println("all checks passed");
    }
}
