// go-ldap against a served directory.
//
// Arguments: LDAP port, LDAPS port, certificate (PEM), administrator's DN, password.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"reflect"
	"sort"
	"strconv"

	ber "github.com/go-asn1-ber/asn1-ber"
	"github.com/go-ldap/ldap/v3"
)

const (
	base     = "dc=example,dc=com"
	people   = "ou=people," + base
	accounts = "ou=accounts," + base
	anna     = "uid=anna," + accounts
	secret   = "anna's secret"
)

var (
	plain, secure   = "ldap://localhost:" + os.Args[1], "ldaps://localhost:" + os.Args[2]
	admin, password = os.Args[4], os.Args[5]
	passed, failed  int
)

func check(what string, got, want any) {
	if reflect.DeepEqual(got, want) {
		passed++
		return
	}
	failed++
	fmt.Printf("FAILED %s: expected %#v, got %#v\n", what, want, got)
}

// code is the result code of an answer; -1 is no answer.
func code(err error) int {
	var answer *ldap.Error
	if err == nil {
		return 0
	}
	if errors.As(err, &answer) && answer.ResultCode < ldap.ErrorNetwork {
		return int(answer.ResultCode)
	}
	fmt.Println(err)
	return -1
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func trust() *tls.Config {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(must(os.ReadFile(os.Args[3])))
	return &tls.Config{RootCAs: roots, ServerName: "localhost", MinVersion: tls.VersionTLS12}
}

func connect(name, password string) *ldap.Conn {
	connection := must(ldap.DialURL(plain))
	if err := connection.Bind(name, password); err != nil {
		panic(err)
	}
	return connection
}

func whoAmI(connection *ldap.Conn) string {
	return must(connection.WhoAmI(nil)).AuthzID
}

func request(base string, scope int, filter string, attributes []string,
	controls ...ldap.Control) *ldap.SearchRequest {
	return ldap.NewSearchRequest(base, scope, ldap.NeverDerefAliases, 0, 0, false, filter,
		attributes, controls)
}

func names(found *ldap.SearchResult) map[string]bool {
	all := map[string]bool{}
	for _, entry := range found.Entries {
		all[entry.DN] = true
	}
	return all
}

func binds() {
	connection := connect(anna, secret)
	check("who am I", whoAmI(connection), "dn:"+anna)
	check("a wrong password", code(connection.Bind(anna, "wrong")), 49)
	check("nobody afterwards", whoAmI(connection), "")
	check("without a password", code(connection.UnauthenticatedBind(anna)), 53)
	check("bind again", code(connection.Bind(admin, password)), 0)
	check("who am I again", whoAmI(connection), "dn:"+admin)
	check("close", connection.Close(), nil)
}

func encrypted() {
	upgraded := must(ldap.DialURL(plain))
	check("StartTLS", upgraded.StartTLS(trust()), nil)
	check("bind after StartTLS", code(upgraded.Bind(anna, secret)), 0)
	check("who am I after StartTLS", whoAmI(upgraded), "dn:"+anna)
	state, _ := upgraded.TLSConnectionState()
	check("TLS 1.3", state.Version, uint16(tls.VersionTLS13))
	direct := must(ldap.DialURL(secure, ldap.DialWithTLSConfig(trust())))
	check("bind over LDAPS", code(direct.Bind(anna, secret)), 0)
	check("who am I over LDAPS", whoAmI(direct), "dn:"+anna)
	stranger := &tls.Config{ServerName: "localhost"}
	_, err := ldap.DialURL(secure, ldap.DialWithTLSConfig(stranger))
	check("a certificate that nobody vouches for", err == nil, false)
	err = must(ldap.DialURL(plain)).StartTLS(stranger)
	check("it, after StartTLS", err == nil, false)
}

func rootAndSchema() {
	connection := connect(anna, secret)
	root := must(connection.Search(request("", ldap.ScopeBaseObject, "(objectClass=*)",
		[]string{"*", "+"}))).Entries[0]
	check("naming contexts", root.GetAttributeValues("namingContexts"), []string{base})
	check("versions", root.GetAttributeValue("supportedLDAPVersion"), "3")
	schema := must(connection.Search(request(root.GetAttributeValue("subschemaSubentry"),
		ldap.ScopeBaseObject, "(objectClass=subschema)", []string{"objectClasses"}))).Entries[0]
	check("object classes", len(schema.GetAttributeValues("objectClasses")) > 50, true)
}

func searches() {
	connection := connect(admin, password)
	search := func(base string, scope int, filter string, attributes ...string) []*ldap.Entry {
		return must(connection.Search(request(base, scope, filter, attributes))).Entries
	}
	found := search(anna, ldap.ScopeBaseObject, "(objectClass=*)", "cn", "SN")
	check("base", found[0].GetAttributeValue("cn"), "Anna Ångström")
	check("attributes", len(found[0].Attributes), 2)
	check("without regard to case", found[0].GetEqualFoldAttributeValue("sn"), "Ångström")
	check("one level", len(search(people, ldap.ScopeSingleLevel, "(uid=user.1*)")), 1111)
	filter := "(&(objectClass=posixAccount)(|(uid=user.1)(uidNumber>=12500))(!(sn=9)))"
	check("subtree", len(search(base, ldap.ScopeWholeSubtree, filter)), 2)
	check("children", len(search(accounts, ldap.ScopeChildren, "(objectClass=*)")), 4)
	limited := request(people, ldap.ScopeSingleLevel, "(uid=*)", nil)
	limited.SizeLimit = 3
	some, err := connection.Search(limited)
	check("size limit", []int{code(err), len(some.Entries)}, []int{4, 3})
	_, err = connection.Search(request("ou=nothing,"+people, ldap.ScopeBaseObject, "(uid=*)", nil))
	var answer *ldap.Error
	errors.As(err, &answer)
	check("no such entry", []any{code(err), answer.MatchedDN}, []any{32, people})
	var person struct {
		DN     string   `ldap:"dn"`
		Number int      `ldap:"uidNumber"`
		Mail   []string `ldap:"mail"`
	}
	if err := search(people, ldap.ScopeSingleLevel, "(uid=user.7)")[0].Unmarshal(&person); err != nil {
		panic(err)
	}
	check("into a structure", person.Number, 10007)
	ctx, cancel := context.WithCancel(context.Background())
	stream := connection.SearchAsync(ctx, request(people, ldap.ScopeSingleLevel, "(uid=*)", nil), 2)
	check("a stream begins", stream.Next(), true)
	cancel()
	for stream.Next() {
	}
	check("after a search that was given up", whoAmI(connection), "dn:"+admin)
}

func controls() {
	connection := connect(admin, password)
	search := func(scope int, base, filter string, more ...ldap.Control) (*ldap.SearchResult, error) {
		return connection.Search(request(base, scope, filter, []string{"uidNumber"}, more...))
	}
	found := must(search(ldap.ScopeSingleLevel, base, "(ou=elsewhere)"))
	check("a continuation reference", []int{len(found.Entries), len(found.Referrals)}, []int{0, 1})
	// The library writes TRUE as 01, where RFC 4511 §5.1 has FF.
	found = must(search(ldap.ScopeSingleLevel, base, "(ou=elsewhere)", ldap.NewControlManageDsaIT(true)))
	check("a referral object", []int{len(found.Entries), len(found.Referrals)}, []int{1, 0})
	order := ldap.NewControlServerSideSortingWithSortKeys([]*ldap.SortKey{
		{AttributeType: "uidNumber", MatchingRule: "integerOrderingMatch", Reverse: true},
	})
	found = must(search(ldap.ScopeSingleLevel, people, "(uid=user.1*)", order))
	var numbers []int
	for _, entry := range found.Entries {
		numbers = append(numbers, must(strconv.Atoi(entry.GetAttributeValue("uidNumber"))))
	}
	check("sorted", sort.SliceIsSorted(numbers, func(a, b int) bool { return numbers[a] > numbers[b] }), true)
	check("all of them", len(numbers), 1111)
	said := ldap.FindControl(found.Controls, ldap.ControlTypeServerSideSortingResult)
	check("a sort result", said != nil, true)
	// Without a rule the library sends an empty one.
	order = ldap.NewControlServerSideSortingWithSortKeys([]*ldap.SortKey{{AttributeType: "uidNumber"}})
	found = must(search(ldap.ScopeSingleLevel, people, "(uid=user.1*)", order))
	check("with an empty rule", found.Entries[0].GetAttributeValue("uidNumber"), "10001")
	for user, want := range map[string]int{"anna": 0, "bert": 122} {
		filter := must(ldap.CompileFilter("(uid=" + user + ")"))
		assertion := ldap.NewControlString("1.3.6.1.1.12", true, string(filter.Bytes()))
		_, err := search(ldap.ScopeBaseObject, anna, "(objectClass=*)", assertion)
		check("asserted of "+user, code(err), want)
	}
	_, err := search(ldap.ScopeBaseObject, anna, "(uid=*)", ldap.NewControlString("1.2.3.4.5", true, ""))
	check("an unknown critical control", code(err), 12)
	_, err = search(ldap.ScopeBaseObject, anna, "(uid=*)", ldap.NewControlString("1.2.3.4.5", false, "x"))
	check("an unknown control", code(err), 0)
	_, err = connection.DirSync(request(base, ldap.ScopeWholeSubtree, "(uid=*)", nil), 0, 0, nil)
	check("a control of another server", code(err), 12)
}

func pages() {
	connection := connect(anna, secret)
	found := must(connection.SearchWithPaging(
		request(people, ldap.ScopeWholeSubtree, "(objectClass=posixAccount)", []string{"uid"}), 500))
	check("names in pages", len(names(found)), 2500)
	paging := ldap.NewControlPaging(500)
	all, sizes := map[string]bool{}, []int{}
	for {
		page := must(connection.Search(
			request(people, ldap.ScopeWholeSubtree, "(uid=user.*)", []string{"1.1"}, paging)))
		sizes = append(sizes, len(page.Entries))
		for name := range names(page) {
			all[name] = true
		}
		said, _ := ldap.FindControl(page.Controls, ldap.ControlTypePaging).(*ldap.ControlPaging)
		if len(said.Cookie) == 0 {
			break
		}
		paging.SetCookie(said.Cookie)
	}
	check("pages", sizes, []int{500, 500, 500, 500, 500})
	check("names in all of them", len(all), 2500)
}

func updates() {
	connection := connect(admin, password)
	cn := "Zoë + \"Søn\", <Ltd>; #1\\ "
	name := "cn=" + ldap.EscapeDN(cn) + "," + accounts
	add := ldap.NewAddRequest(name, nil)
	add.Attribute("objectClass", []string{"inetOrgPerson"})
	add.Attribute("sn", []string{"Søn 日本"})
	check("add", code(connection.Add(add)), 0)
	check("add again", code(connection.Add(add)), 68)
	found := must(connection.Search(request(accounts, ldap.ScopeSingleLevel,
		"(cn="+ldap.EscapeFilter(cn)+")", []string{"*"}))).Entries
	check("found by a value with escapes", len(found), 1)
	check("its values", []string{found[0].GetAttributeValue("cn"), found[0].GetAttributeValue("sn")},
		[]string{cn, "Søn 日本"})
	parsed := must(ldap.ParseDN(found[0].DN))
	check("its name, parsed", parsed.RDNs[0].Attributes[0].Value, cn)
	check("the same name", parsed.Equal(must(ldap.ParseDN(name))), true)
	modify := ldap.NewModifyRequest(found[0].DN, nil)
	modify.Add("description", []string{"one", "two"})
	modify.Replace("sn", []string{"Sæn"})
	check("modify", code(connection.Modify(modify)), 0)
	modify = ldap.NewModifyRequest(name, nil)
	modify.Delete("description", []string{"one"})
	check("delete a value", code(connection.Modify(modify)), 0)
	check("delete it again", code(connection.Modify(modify)), 16)
	entry := must(connection.Search(request(name, ldap.ScopeBaseObject, "(objectClass=*)",
		[]string{"description", "sn"}))).Entries[0]
	check("modified", entry.GetAttributeValues("description"), []string{"two"})
	check("replaced", entry.GetAttributeValues("sn"), []string{"Sæn"})
	check("compare", must(connection.Compare(name, "sn", "SÆN")), true)
	check("compare false", must(connection.Compare(name, "sn", "San")), false)
	increment := ldap.NewModifyRequest("uid=user.8,"+people, nil)
	increment.Increment("gidNumber", "5")
	check("increment", code(connection.Modify(increment)), 0)
	check("incremented", must(connection.Compare("uid=user.8,"+people, "gidNumber", "105")), true)
	check("rename", code(connection.ModifyDN(ldap.NewModifyDNRequest(name, "cn=Zoë", true, ""))), 0)
	moved := ldap.NewModifyDNRequest("cn=Zoë,"+accounts, "cn=Zoë", true, base)
	check("move", code(connection.ModifyDN(moved)), 0)
	check("delete", code(connection.Del(ldap.NewDelRequest("cn=Zoë,"+base, nil))), 0)
	check("delete again", code(connection.Del(ldap.NewDelRequest("cn=Zoë,"+base, nil))), 32)
	for _, unit := range []string{"ou=tree," + base, "ou=twig,ou=tree," + base} {
		add := ldap.NewAddRequest(unit, nil)
		add.Attribute("objectClass", []string{"organizationalUnit"})
		check("add a unit", code(connection.Add(add)), 0)
	}
	tree := ldap.NewDelRequest("ou=tree,"+base, []ldap.Control{ldap.NewControlSubtreeDelete()})
	check("delete a tree", code(connection.Del(tree)), 0)
}

func bindForPolicy(user, password string) (*ldap.Conn, int, *ldap.ControlBeheraPasswordPolicy) {
	connection := must(ldap.DialURL(plain))
	bind := ldap.NewSimpleBindRequest("uid="+user+","+accounts, password,
		[]ldap.Control{ldap.NewControlBeheraPasswordPolicy()})
	result, err := connection.SimpleBind(bind)
	said := ldap.FindControl(result.Controls, ldap.ControlTypeBeheraPasswordPolicy)
	policy, is := said.(*ldap.ControlBeheraPasswordPolicy)
	if !is {
		panic(fmt.Sprintf("no password policy control for %s: %v", user, err))
	}
	return connection, code(err), policy
}

func passwords() {
	_, result, said := bindForPolicy("expiring", "expiring secret")
	check("a warning", []any{result, said.Expire > 0, said.Error}, []any{0, true, int8(-1)})
	_, result, said = bindForPolicy("locked", "locked secret")
	check("locked", []any{result, said.ErrorString}, []any{49, "Account locked"})
	connection, result, said := bindForPolicy("reset", "reset secret")
	check("to be changed", []any{result, said.Error}, []any{0, int8(2)})
	_, err := connection.Search(request(anna, ldap.ScopeBaseObject, "(uid=*)", nil))
	check("nothing else until then", code(err), 50)
	_, err = connection.PasswordModify(ldap.NewPasswordModifyRequest("", "reset secret", "short"))
	check("too short", code(err), 19)
	_, err = connection.PasswordModify(
		ldap.NewPasswordModifyRequest("", "reset secret", "another secret"))
	check("password modify", code(err), 0)
	check("bind by it", code(connection.Bind("uid=reset,"+accounts, "another secret")), 0)
	made, err := connect(admin, password).PasswordModify(
		ldap.NewPasswordModifyRequest("uid=reset,"+accounts, "", ""))
	check("password modify by another", code(err), 0)
	check("a generated password", len(made.GeneratedPassword) >= 8, true)
	check("bind by that", code(connection.Bind("uid=reset,"+accounts, made.GeneratedPassword)), 0)
	unknown := ldap.NewExtendedRequest("1.2.3.4.5", ber.NewString(
		ber.ClassContext, ber.TypePrimitive, 1, "value", "Extended Request Value"))
	_, err = connect(admin, password).Extended(unknown)
	check("an unknown extended operation", code(err), 2)
}

// section calls a part; a panic is a failure of it alone.
func section(name string, part func()) {
	defer func() {
		if trouble := recover(); trouble != nil {
			failed++
			fmt.Printf("FAILED %s: expected no error, got %v\n", name, trouble)
		}
	}()
	part()
}

func main() {
	section("binds", binds)
	section("TLS", encrypted)
	section("root DSE and schema", rootAndSchema)
	section("searches", searches)
	section("controls", controls)
	section("pages", pages)
	section("updates", updates)
	section("passwords", passwords)
	fmt.Printf("%d passed, %d failed\n", passed, failed)
	if failed > 0 {
		os.Exit(1)
	}
}
