<?php
// PHP's ldap extension against a served directory.
//
// Arguments: LDAP port, LDAPS port, certificate (PEM), administrator's DN, password.

[, $plainPort, $securePort, $certificate, $admin, $password] = $argv;
$plain = "ldap://localhost:$plainPort";
$secure = "ldaps://localhost:$securePort";
const BASE = 'dc=example,dc=com';
const PEOPLE = 'ou=people,' . BASE;
const ACCOUNTS = 'ou=accounts,' . BASE;
const ANNA = 'uid=anna,' . ACCOUNTS;
const SECRET = "anna's secret";
$passed = $failed = 0;
// What goes wrong is seen in the result codes.
error_reporting(E_ALL & ~E_WARNING);

function check(string $what, mixed $got, mixed $want): void
{
    global $passed, $failed;
    if ($got === $want) {
        $passed++;
        return;
    }
    $failed++;
    echo "FAILED $what: expected ", json_encode($want), ', got ', json_encode($got), "\n";
}

// Calls a part; an error is a failure of it alone.
function section(string $name, callable $part): void
{
    global $failed;
    try {
        $part();
    } catch (Throwable $error) {
        $failed++;
        echo "FAILED $name: expected no error, got $error\n";
    }
}

// Options of TLS are those of the process: what is set for a connection is not heeded.
ldap_set_option(null, LDAP_OPT_X_TLS_REQUIRE_CERT, LDAP_OPT_X_TLS_DEMAND);
ldap_set_option(null, LDAP_OPT_X_TLS_CACERTFILE, $certificate);

function open(string $url): LDAP\Connection
{
    $ldap = ldap_connect($url);
    ldap_set_option($ldap, LDAP_OPT_PROTOCOL_VERSION, 3);
    ldap_set_option($ldap, LDAP_OPT_REFERRALS, 0);
    return $ldap;
}

function connect(string $name, string $password): LDAP\Connection
{
    global $plain;
    $ldap = open($plain);
    if (!ldap_bind($ldap, $name, $password)) {
        throw new Exception(ldap_error($ldap));
    }
    return $ldap;
}

function code(LDAP\Connection $ldap): int
{
    return ldap_errno($ldap);
}

/** Entries of a search, as PHP has them; the search itself must succeed. */
function found(LDAP\Connection $ldap, mixed $result): array
{
    if ($result === false) {
        throw new Exception(ldap_error($ldap));
    }
    return ldap_get_entries($ldap, $result);
}

section('binds', function () use ($admin, $password) {
    $ldap = connect(ANNA, SECRET);
    check('who am I', ldap_exop_whoami($ldap), 'dn:' . ANNA);
    check('a wrong password', [ldap_bind($ldap, ANNA, 'wrong'), code($ldap)], [false, 49]);
    check('bind again', ldap_bind($ldap, $admin, $password), true);
    check('who am I again', ldap_exop_whoami($ldap), "dn:$admin");
    check('unbind', ldap_unbind($ldap), true);
});

section('TLS', function () use ($plain, $secure) {
    $upgraded = open($plain);
    check('StartTLS', ldap_start_tls($upgraded), true);
    check('bind after it', ldap_bind($upgraded, ANNA, SECRET), true);
    check('who am I after it', ldap_exop_whoami($upgraded), 'dn:' . ANNA);
    $direct = open($secure);
    check('bind over LDAPS', ldap_bind($direct, ANNA, SECRET), true);
    check('who am I over LDAPS', ldap_exop_whoami($direct), 'dn:' . ANNA);
    $stranger = 'ldap_set_option(null, LDAP_OPT_X_TLS_REQUIRE_CERT, LDAP_OPT_X_TLS_DEMAND);'
        . 'exit(@ldap_bind(ldap_connect($argv[1]), $argv[2], $argv[3]) ? 0 : 3);';
    $command = array_map(escapeshellarg(...), [PHP_BINARY, '-r', $stranger, $secure, ANNA, SECRET]);
    exec(implode(' ', $command), $output, $status);
    check('a certificate that nobody vouches for', $status, 3);
});

section('root DSE and schema', function () {
    $ldap = connect(ANNA, SECRET);
    $root = found($ldap, ldap_read($ldap, '', '(objectClass=*)', ['*', '+']))[0];
    check('naming contexts', $root['namingcontexts'][0], BASE);
    $name = $root['subschemasubentry'][0];
    $schema = found($ldap, ldap_read($ldap, $name, '(objectClass=subschema)', ['objectClasses']))[0];
    check('object classes', $schema['objectclasses']['count'] > 50, true);
});

section('searches', function () use ($admin, $password) {
    $ldap = connect($admin, $password);
    $entry = found($ldap, ldap_read($ldap, ANNA, '(objectClass=*)', ['cn', 'sn']))[0];
    check('base', [$entry['dn'], $entry['cn'][0], $entry['count']], [ANNA, 'Anna Ångström', 2]);
    check('one level', found($ldap, ldap_list($ldap, PEOPLE, '(uid=user.1*)'))['count'], 1111);
    $filter = '(&(objectClass=posixAccount)(|(uid=user.1)(uidNumber>=12500))(!(sn=9)))';
    check('subtree', found($ldap, ldap_search($ldap, BASE, $filter))['count'], 2);
    $limited = ldap_list($ldap, PEOPLE, '(uid=*)', ['uid'], 0, 3);
    check('size limit', [code($ldap), ldap_count_entries($ldap, $limited)], [4, 3]);
    check('no such entry', [ldap_read($ldap, 'ou=nothing,' . PEOPLE, '(uid=*)'), code($ldap)],
        [false, 32]);
    ldap_get_option($ldap, LDAP_OPT_MATCHED_DN, $matched);
    check('the entry above', $matched, PEOPLE);
    // One connection, many bases in parallel: PHP's own way of asking at once.
    $links = array_map(fn () => connect(ANNA, SECRET), range(1, 5));
    $results = ldap_search($links, PEOPLE, '(uid=user.7)', ['sn']);
    check('in parallel',
        array_map(fn ($link, $result) => found($link, $result)[0]['sn'][0], $links, $results),
        ['7', '7', '7', '7', '7']);
});

section('controls', function () use ($admin, $password) {
    $ldap = connect($admin, $password);
    $search = fn (string $base, string $filter, array $controls) =>
        ldap_list($ldap, $base, $filter, ['uidNumber'], 0, 0, 0, LDAP_DEREF_NEVER, $controls);
    $reference = $search(BASE, '(ou=elsewhere)', []);
    check('a continuation reference', ldap_count_references($ldap, $reference), 1);
    $manage = [['oid' => LDAP_CONTROL_MANAGEDSAIT, 'iscritical' => true]];
    check('a referral object', found($ldap, $search(BASE, '(ou=elsewhere)', $manage))['count'], 1);
    $order = [['oid' => LDAP_CONTROL_SORTREQUEST, 'iscritical' => true,
        'value' => [['attr' => 'uidNumber', 'reverse' => true]]]];
    $result = $search(PEOPLE, '(uid=user.1*)', $order);
    $entries = found($ldap, $result);
    unset($entries['count']);
    $numbers = array_map(fn ($entry) => (int) $entry['uidnumber'][0], $entries);
    $sorted = $numbers;
    rsort($sorted);
    check('sorted', [count($numbers), $numbers], [1111, $sorted]);
    ldap_parse_result($ldap, $result, $code, $matched, $message, $referrals, $said);
    check('the sort result', $said[LDAP_CONTROL_SORTRESPONSE]['value']['errcode'] ?? null, 0);
    foreach (['anna' => true, 'bert' => false] as $user => $want) {
        $assertion = [['oid' => LDAP_CONTROL_ASSERT, 'iscritical' => true,
            'value' => ['filter' => "(uid=$user)"]]];
        $change = ['description' => 'première ligne'];
        check("asserted of $user", ldap_mod_replace($ldap, ANNA, $change, $assertion), $want);
    }
    check('its result code', code($ldap), 122);
    $unknown = [['oid' => '1.2.3.4.5', 'iscritical' => true]];
    check('an unknown critical control', [$search(BASE, '(ou=*)', $unknown), code($ldap)],
        [false, 12]);
    $unknown[0]['iscritical'] = false;
    check('an unknown control', $search(BASE, '(ou=*)', $unknown) !== false, true);
    $view = [$order[0], ['oid' => LDAP_CONTROL_VLVREQUEST, 'iscritical' => true,
        'value' => ['before' => 1, 'after' => 2, 'offset' => 100, 'count' => 2500]]];
    $result = $search(PEOPLE, '(uid=user.*)', $view);
    check('a part of a list', found($ldap, $result)[0]['uidnumber'][0], '12402');
    ldap_parse_result($ldap, $result, $code, $matched, $message, $referrals, $said);
    $place = $said[LDAP_CONTROL_VLVRESPONSE]['value'];
    check('its place', [$place['target'], $place['count']], [100, 2500]);
});

section('pages', function () {
    $ldap = connect(ANNA, SECRET);
    [$cookie, $sizes, $names] = ['', [], []];
    do {
        $paging = [['oid' => LDAP_CONTROL_PAGEDRESULTS, 'iscritical' => true,
            'value' => ['size' => 500, 'cookie' => $cookie]]];
        $result = ldap_search($ldap, PEOPLE, '(objectClass=posixAccount)', ['uid'], 0, 0, 0,
            LDAP_DEREF_NEVER, $paging);
        $entries = found($ldap, $result);
        $sizes[] = $entries['count'];
        unset($entries['count']);
        $names += array_flip(array_column($entries, 'dn'));
        ldap_parse_result($ldap, $result, $code, $matched, $message, $referrals, $said);
        $cookie = $said[LDAP_CONTROL_PAGEDRESULTS]['value']['cookie'];
    } while ($cookie !== '');
    check('pages', $sizes, [500, 500, 500, 500, 500]);
    check('names in pages', count($names), 2500);
});

section('updates', function () use ($admin, $password) {
    $ldap = connect($admin, $password);
    $cn = 'Zoë + "Søn", <Ltd>; #1\\ ';
    $name = 'cn=' . ldap_escape($cn, '', LDAP_ESCAPE_DN) . ',' . ACCOUNTS;
    $photo = implode('', array_map(chr(...), range(0, 255)));
    $entry = ['objectClass' => ['inetOrgPerson'], 'cn' => [$cn], 'sn' => ['Søn 日本'],
        'jpegPhoto' => [$photo]];
    check('add', ldap_add($ldap, $name, $entry), true);
    check('add again', [ldap_add($ldap, $name, $entry), code($ldap)], [false, 68]);
    $filter = '(cn=' . ldap_escape($cn, '', LDAP_ESCAPE_FILTER) . ')';
    $result = ldap_list($ldap, ACCOUNTS, $filter);
    $back = found($ldap, $result)[0];
    check('found by a value with escapes', [$back['cn'][0], $back['sn'][0]], [$cn, 'Søn 日本']);
    $first = ldap_first_entry($ldap, $result);
    check('octets', ldap_get_values_len($ldap, $first, 'jpegPhoto')[0] === $photo, true);
    check('its name, parsed', ldap_explode_dn($back['dn'], 1)['count'], 4);
    check('add values', ldap_mod_add($ldap, $back['dn'], ['description' => ['one', 'two']]), true);
    check('replace', ldap_mod_replace($ldap, $name, ['sn' => 'Sæn']), true);
    check('delete a value', ldap_mod_del($ldap, $name, ['description' => 'one']), true);
    check('delete it again', [ldap_mod_del($ldap, $name, ['description' => 'one']), code($ldap)],
        [false, 16]);
    check('in one change', ldap_modify_batch($ldap, $name, [
        ['attrib' => 'title', 'modtype' => LDAP_MODIFY_BATCH_ADD, 'values' => ['Chief']],
        ['attrib' => 'jpegPhoto', 'modtype' => LDAP_MODIFY_BATCH_REMOVE_ALL],
    ]), true);
    $back = found($ldap, ldap_read($ldap, $name, '(objectClass=*)'))[0];
    check('modified', [$back['description'][0], $back['sn'][0], $back['title'][0],
        isset($back['jpegphoto'])], ['two', 'Sæn', 'Chief', false]);
    check('compare', ldap_compare($ldap, $name, 'sn', 'SÆN'), true);
    check('compare false', ldap_compare($ldap, $name, 'sn', 'San'), false);
    $read = [['oid' => LDAP_CONTROL_POST_READ, 'iscritical' => true, 'value' => ['attrs' => ['sn']]]];
    $result = ldap_mod_replace_ext($ldap, $name, ['sn' => 'Sön'], $read);
    ldap_parse_result($ldap, $result, $code, $matched, $message, $referrals, $said);
    check('post-read', $said[LDAP_CONTROL_POST_READ]['value']['sn'][0], 'Sön');
    check('rename', ldap_rename($ldap, $name, 'cn=Zoë', '', true), true);
    check('move', ldap_rename($ldap, 'cn=Zoë,' . ACCOUNTS, 'cn=Zoë', BASE, true), true);
    check('delete', ldap_delete($ldap, 'cn=Zoë,' . BASE), true);
    check('delete again', [ldap_delete($ldap, 'cn=Zoë,' . BASE), code($ldap)], [false, 32]);
});

section('passwords', function () use ($plain, $admin, $password) {
    $bind = function (string $user, string $password) use ($plain): array {
        $ldap = open($plain);
        $result = ldap_bind_ext($ldap, "uid=$user," . ACCOUNTS, $password,
            [['oid' => LDAP_CONTROL_PASSWORDPOLICYREQUEST]]);
        $code = $said = null;
        ldap_parse_result($ldap, $result, $code, $matched, $message, $referrals, $said);
        return [$ldap, $code, $said[LDAP_CONTROL_PASSWORDPOLICYRESPONSE]['value'] ?? null];
    };
    [, $code, $said] = $bind('expiring', 'expiring secret');
    check('a warning', [$code, ($said['expire'] ?? 0) > 0], [0, true]);
    [, $code, $said] = $bind('locked', 'locked secret');
    check('locked', [$code, $said['error'] ?? null], [49, 1]);
    [$ldap, $code, $said] = $bind('reset', 'reset secret');
    check('to be changed', [$code, $said['error'] ?? null], [0, 2]);
    check('nothing else until then', [ldap_read($ldap, ANNA, '(uid=*)'), code($ldap)], [false, 50]);
    check('too short', [ldap_exop_passwd($ldap, '', 'reset secret', 'short'), code($ldap)],
        [false, 19]);
    check('password modify', ldap_exop_passwd($ldap, '', 'reset secret', 'another secret'), true);
    check('bind by it', $bind('reset', 'another secret')[1], 0);
    $made = ldap_exop_passwd(connect($admin, $password), 'uid=reset,' . ACCOUNTS);
    check('a generated password', is_string($made) && strlen($made) >= 8, true);
    check('bind by that', $bind('reset', $made)[1], 0);
    $ldap = connect(ANNA, SECRET);
    $unknown = ldap_exop($ldap, '1.2.3.4.5', null, null, $answer);
    check('an unknown extended operation', [$unknown, code($ldap)], [false, 2]);
});

echo "$passed passed, $failed failed\n";
exit($failed ? 1 : 0);
