# For scripts that run SSSD, in a mount namespace of their own: its folders are in $scratch, over those of the
# system, and it ends with the script.
cd "$scratch"
mkdir -p state/db state/mc state/pipes/private state/pubconf/krb5.include.d state/gpo_cache \
    state/secrets state/deskprofile state/keytabs log run conf pam
chmod 700 state/pipes/private conf
mount --bind state /var/lib/sss
mount --bind log /var/log/sssd
mount --bind run /run
mount --bind conf /etc/sssd

sssd=
stop() {
    if [ -n "$sssd" ]; then
        kill "$sssd" 2>/dev/null || true
        wait "$sssd" 2>/dev/null || true
        sssd=
    fi
}
trap stop EXIT

fail() {
    echo "$1" >&2
    tail -n 20 log/*.log >&2 || true
    exit 1
}

# Starts it with the configuration that is there and nothing from before; $1 says which it is.
start() {
    stop
    rm -rf state/db/* state/mc/* state/pipes/nss state/pipes/pam run/*
    chmod 600 conf/sssd.conf
    sssd -i > sssd.out 2>&1 &
    sssd=$!
    tries=0
    until getent -s sss passwd "$user" > passwd.out; do
        tries=$((tries + 1))
        [ "$tries" -lt 100 ] || fail "$1: SSSD does not find $user"
        sleep 0.2
    done
    grep -q "^$user:" passwd.out || fail "$1: $(cat passwd.out)"
}
