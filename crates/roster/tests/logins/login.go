// Logs in through TLS as programs with go-ldap do: find the user's entry, then bind as it.
// Arguments: LDAP port, LDAPS port, certificate (PEM), base, user name, password.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log"
	"os"

	"github.com/go-ldap/ldap/v3"
)

func find(connection *ldap.Conn, base, user string) string {
	filter := "(uid=" + ldap.EscapeFilter(user) + ")"
	request := ldap.NewSearchRequest(base, ldap.ScopeWholeSubtree, ldap.NeverDerefAliases,
		2, 10, false, filter, []string{"1.1"}, nil)
	found, err := connection.Search(request)
	if err != nil || len(found.Entries) != 1 {
		log.Fatalf("search for %s: %v, %v", user, found, err)
	}
	return found.Entries[0].DN
}

func logIn(connection *ldap.Conn, base, user, password string) {
	name := find(connection, base, user)
	err := connection.Bind(name, password+"!")
	if !ldap.IsErrorWithCode(err, ldap.LDAPResultInvalidCredentials) {
		log.Fatalf("a wrong password gives: %v", err)
	}
	if err := connection.Bind(name, password); err != nil {
		log.Fatal(err)
	}
	who, err := connection.WhoAmI(nil)
	if err != nil || who.AuthzID != "dn:"+name {
		log.Fatalf("who am I: %v, %v", who, err)
	}
	if err := connection.Close(); err != nil {
		log.Fatal(err)
	}
}

func main() {
	arguments := os.Args[1:]
	pem, err := os.ReadFile(arguments[2])
	roots := x509.NewCertPool()
	if err != nil || !roots.AppendCertsFromPEM(pem) {
		log.Fatalf("no certificate in %s: %v", arguments[2], err)
	}
	config := &tls.Config{RootCAs: roots, ServerName: "localhost", MinVersion: tls.VersionTLS12}
	base, user, password := arguments[3], arguments[4], arguments[5]

	secure, err := ldap.DialURL("ldaps://localhost:"+arguments[1], ldap.DialWithTLSConfig(config))
	if err != nil {
		log.Fatal(err)
	}
	logIn(secure, base, user, password)

	upgraded, err := ldap.DialURL("ldap://localhost:" + arguments[0])
	if err != nil {
		log.Fatal(err)
	}
	if err := upgraded.StartTLS(config); err != nil {
		log.Fatal(err)
	}
	logIn(upgraded, base, user, password)
	fmt.Println("all checks passed")
}
