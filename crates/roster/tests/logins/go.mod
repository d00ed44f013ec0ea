module login

go 1.19

require github.com/go-ldap/ldap/v3 v3.4.6

require (
	github.com/Azure/go-ntlmssp v0.0.0-20221128193559-754e69321358 // indirect
	github.com/go-asn1-ber/asn1-ber v1.5.5 // indirect
	github.com/google/uuid v1.3.1 // indirect
	golang.org/x/crypto v0.13.0 // indirect
)
