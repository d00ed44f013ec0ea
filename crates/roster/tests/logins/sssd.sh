#!/bin/sh
# Logs in through SSSD, as Linux machines do: name service and PAM over LDAPS, and StartTLS.
# Arguments: LDAP port, LDAPS port, certificate (PEM), base, user name, password, scratch folder.
# Needs root: everything SSSD writes is put over the system's folders in a mount namespace of its
# own, so that the machine keeps what it has.
set -eu
if [ "${8:-}" != inside ]; then
    exec unshare --mount --propagation private "$0" "$@" inside
fi
plain=$1 secure=$2 certificate=$3 base=$4 user=$5 password=$6 scratch=$7

. "$(dirname "$0")/sssd_here.sh"
printf 'auth required pam_sss.so\naccount required pam_sss.so\n' > pam/roster-login
mount --bind pam /etc/pam.d

log_in() {
    printf '%s\n' "$1" | pamtester roster-login "$user" authenticate acct_mgmt > pamtester.out 2>&1
}

begin() {
    cat > conf/sssd.conf <<CONF
[sssd]
services = nss, pam
domains = roster
[domain/roster]
id_provider = ldap
auth_provider = ldap
ldap_uri = $1
ldap_id_use_start_tls = $2
ldap_search_base = $base
ldap_schema = $3
ldap_deref_threshold = 1
debug_level = 6
ldap_tls_cacert = $certificate
ldap_tls_reqcert = demand
CONF
    start "$1"
}

check() {
    begin "$1" "$2" rfc2307
    getent -s sss group chemists | grep -q ":$user$" || fail "$1: $user is in no group"
    log_in "$password" || fail "$1: $(cat pamtester.out)"
    if log_in "$password!"; then
        fail "$1: a wrong password is accepted"
    fi
}

# Members by name, a group in a group, and members that come with their group.
check_groups() {
    begin "$1" "$2" rfc2307bis
    groups=$(getent -s sss initgroups "$user")
    case "$groups " in
    *\ 5310\ *) ;;
    *) fail "$1: groups of $user: $groups" ;;
    esac
    case "$groups " in
    *\ 5311\ *) ;;
    *) fail "$1: the group of its group: $groups" ;;
    esac
    getent -s sss group laboratory > group.out || fail "$1: no group laboratory"
    grep -q "[:,]$user\(,\|$\)" group.out || fail "$1: members: $(cat group.out)"
    grep -q "All deref results from a single control parsed" sssd.out || fail "$1: no member came with its group"
}

check "ldaps://localhost:$secure" false
check "ldap://localhost:$plain" true
check_groups "ldaps://localhost:$secure" false
echo "all checks passed"
