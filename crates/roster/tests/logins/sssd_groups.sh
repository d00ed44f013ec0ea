#!/bin/sh
# Looks up groups of very many through SSSD, as Linux machines do: nested groups with members by name (RFC 2307bis), and
# one with members by user name (RFC 2307).
# Arguments: LDAP port, base, name to bind with, its password, a user in all groups, scratch folder.
# Needs root, as sssd.sh does.
set -eu
if [ "${7:-}" != inside ]; then
    exec unshare --mount --propagation private "$0" "$@" inside
fi
port=$1 base=$2 name=$3 password=$4 user=$5 scratch=$6

. "$(dirname "$0")/sssd_here.sh"
printf 'passwd: files sss\ngroup: files sss\n' > nsswitch.conf
mount --bind nsswitch.conf /etc/nsswitch.conf

# $1: the schema, $2: where groups are, $3: whether members of groups are left out. Of 100,000 members SSSD makes
# minutes of work for itself, on any server, so its manual advises to leave them out.
begin() {
    cat > conf/sssd.conf <<CONF
[sssd]
services = nss
domains = roster
[domain/roster]
id_provider = ldap
ldap_uri = ldap://localhost:$port
ldap_default_bind_dn = $name
ldap_default_authtok = $password
ldap_search_base = $base
ldap_group_search_base = $2,$base
ldap_group_nesting_level = 3
ldap_schema = $1
ignore_group_members = $3
timeout = 60
debug_level = 6
CONF
    start "$1"
}

# The groups of the user are those of these numbers, and the one that it has by itself.
groups_are() {
    getent -s sss initgroups "$user" > initgroups.out || fail "no groups of $user"
    found=$(tr -s ' ' '\n' < initgroups.out | tail -n +2 | sort | tr '\n' ' ')
    [ "$found" = "$1 " ] || fail "initgroups: $found instead of $1"
    id -G "$user" > id.out || fail "id: $user is nobody"
    found=$(tr ' ' '\n' < id.out | sort | tr '\n' ' ')
    [ "$found" = "$1 99 " ] || fail "id: $found instead of $1 99"
}

# So many members has the group $1, and the user is one of them.
members_are() {
    getent -s sss group "$1" > group.out || fail "no group $1"
    found=$(cut -d: -f4 group.out | tr ',' '\n' | sort -u | wc -l)
    [ "$found" = "$2" ] || fail "$1: $found members instead of $2"
    grep -q "[:,]$user\(,\|$\)" group.out || fail "$1: $user is no member"
}

begin rfc2307bis ou=groups true
groups_are "5001 5008 5011 5014"
getent -s sss group company | grep -q "^company:\*:5001:$" || fail "no group company"
begin rfc2307bis ou=groups false
members_are south.3 10000
begin rfc2307 ou=names true
groups_are "6001 6002"
getent -s sss group everybody | grep -q "^everybody:\*:6001:$" || fail "no group everybody"
begin rfc2307 ou=names false
members_are some 30000
echo "all checks passed"
