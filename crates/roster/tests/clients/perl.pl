# Net::LDAP against a served directory.
#
# Arguments: LDAP port, LDAPS port, certificate (PEM), administrator's DN, password.
use strict;
use warnings;
use Net::LDAP;
use Net::LDAP::Constant qw(LDAP_CONTROL_PAGED LDAP_CONTROL_PASSWORDPOLICY LDAP_CONTROL_SORTRESULT);
use Net::LDAP::Control;
use Net::LDAP::Control::Assertion;
use Net::LDAP::Control::ManageDsaIT;
use Net::LDAP::Control::Paged;
use Net::LDAP::Control::PasswordPolicy;
use Net::LDAP::Control::PostRead;
use Net::LDAP::Control::Sort;
use Net::LDAP::Control::TreeDelete;
use Net::LDAP::Extension::SetPassword;
use Net::LDAP::Extension::WhoAmI;
use Net::LDAP::Util qw(canonical_dn escape_dn_value escape_filter_value ldap_explode_dn);

# The library takes and gives octets: there is no "use utf8" here.
my ($plain_port, $secure_port, $certificate, $admin, $password) = @ARGV;
my $base = 'dc=example,dc=com';
my ($people, $accounts) = ("ou=people,$base", "ou=accounts,$base");
my ($anna, $secret) = ("uid=anna,$accounts", "anna's secret");
my ($passed, $failed) = (0, 0);

sub check {
    my ($what, $got, $want) = @_;
    $got //= 'nothing';
    if ($got eq $want) {
        $passed++;
        return;
    }
    $failed++;
    print "FAILED $what: expected $want, got $got\n";
}

# Calls a part; an error is a failure of it alone.
sub section {
    my ($name, $part) = @_;
    return if eval { $part->(); 1 };
    $failed++;
    print "FAILED $name: expected no error, got $@\n";
}

sub connect_as {
    my ($name, $secret_of) = @_;
    my $ldap = Net::LDAP->new('localhost', port => $plain_port, timeout => 10) or die $@;
    my $said = $ldap->bind($name, password => $secret_of);
    die $said->error if $said->code;
    return $ldap;
}

sub who_am_i { return $_[0]->who_am_i->response }

sub found {
    my ($ldap, $where, $scope, $filter, %more) = @_;
    return $ldap->search(base => $where, scope => $scope, filter => $filter, %more);
}

section('binds', sub {
    my $ldap = connect_as($anna, $secret);
    check('who am I', who_am_i($ldap), "dn:$anna");
    check('a wrong password', $ldap->bind($anna, password => 'wrong')->code, 49);
    check('nobody afterwards', who_am_i($ldap), '');
    check('bind again', $ldap->bind($admin, password => $password)->code, 0);
    check('who am I again', who_am_i($ldap), "dn:$admin");
    check('unbind', $ldap->unbind->code, 0);
});

section('TLS', sub {
    my %trust = (verify => 'require', cafile => $certificate);
    my $upgraded = Net::LDAP->new('localhost', port => $plain_port) or die $@;
    check('StartTLS', $upgraded->start_tls(%trust)->code, 0);
    check('bind after it', $upgraded->bind($anna, password => $secret)->code, 0);
    check('who am I after it', who_am_i($upgraded), "dn:$anna");
    check('a cipher', length($upgraded->cipher) > 0, 1);
    my $secure = Net::LDAP->new("ldaps://localhost:$secure_port", %trust) or die $@;
    check('bind over LDAPS', $secure->bind($anna, password => $secret)->code, 0);
    my $strange = Net::LDAP->new("ldaps://localhost:$secure_port", verify => 'require');
    check('a certificate that nobody vouches for', defined $strange, '');
});

section('root DSE and schema', sub {
    my $ldap = connect_as($anna, $secret);
    my $root = $ldap->root_dse;
    check('naming contexts', $root->get_value('namingContexts'), $base);
    check('paged results', $root->supported_control(LDAP_CONTROL_PAGED), 1);
    check('who am I', $root->supported_extension('1.3.6.1.4.1.4203.1.11.3'), 1);
    my $schema = $ldap->schema or die 'no schema';
    check('an attribute type', $schema->attribute('uidNumber')->{oid}, '1.3.6.1.1.1.1.0');
    check('a superior', join(' ', $schema->superclass('inetOrgPerson')), 'organizationalPerson');
    my @must = sort map { $_->{name} } $schema->must('inetOrgPerson', 'posixAccount');
    check('mandatory', "@must", 'cn gidNumber homeDirectory objectClass sn uid uidNumber');
    check('a syntax', $schema->attribute_syntax('cn')->{oid}, '1.3.6.1.4.1.1466.115.121.1.15');
    check('a rule', $schema->matchingrule_for_attribute('uidNumber', 'equality'), 'integerMatch');
    check('all types', scalar($schema->all_attributes) > 300, 1);
});

section('searches', sub {
    my $ldap = connect_as($admin, $password);
    my $entry = found($ldap, $anna, 'base', '(objectClass=*)', attrs => ['cn', 'sn'])->entry(0);
    check('base', $entry->get_value('cn'), "Anna Ångström");
    check('attributes', join(' ', sort $entry->attributes), 'cn sn');
    check('one level', found($ldap, $people, 'one', '(uid=user.1*)')->count, 1111);
    my $filter = '(&(objectClass=posixAccount)(|(uid=user.1)(uidNumber>=12500))(!(sn=9)))';
    check('subtree', found($ldap, $base, 'sub', $filter)->count, 2);
    check('children', found($ldap, $accounts, 'children', '(objectClass=*)')->count, 4);
    check('rule', found($ldap, $base, 'sub', '(ou:dn:=accounts)')->count, 5);
    my $types = found($ldap, $anna, 'base', '(uid=anna)', attrs => ['cn'], typesonly => 1);
    check('types only', scalar(@{ $types->entry(0)->get_value('cn', asref => 1) || [] }), 0);
    my $limited = found($ldap, $people, 'one', '(uid=*)', sizelimit => 3);
    check('size limit', join(' ', $limited->code, $limited->count), '4 3');
    my $nothing = found($ldap, "ou=nothing,$people", 'base', '(uid=*)');
    check('no such entry', join(' ', $nothing->code, $nothing->dn), "32 $people");
    my $seen = 0;
    found($ldap, $people, 'one', '(uid=user.*)', callback => sub {
        my ($search, $one) = @_;
        $seen++ if defined $one;
        $search->pop_entry;
    });
    check('by a callback', $seen, 2500);
});

section('controls', sub {
    my $ldap = connect_as($admin, $password);
    my $reference = found($ldap, $base, 'one', '(ou=elsewhere)');
    check('a continuation reference', join(' ', $reference->count, $reference->references),
        '0 ldap://other.example.com/ou=there,dc=example,dc=com??base');
    my $manage = Net::LDAP::Control::ManageDsaIT->new(critical => 1);
    check('a referral object',
        found($ldap, $base, 'one', '(ou=elsewhere)', control => [$manage])->count, 1);
    my $sort = Net::LDAP::Control::Sort->new(order => '-uidNumber:integerOrderingMatch', critical => 1);
    my $sorted = found($ldap, $people, 'one', '(uid=user.1*)', control => [$sort]);
    my @numbers = map { $_->get_value('uidNumber') } $sorted->entries;
    check('sorted', "@numbers", join(' ', sort { $b <=> $a } @numbers));
    check('all of them', scalar(@numbers), 1111);
    check('the sort result', ($sorted->control(LDAP_CONTROL_SORTRESULT))[0]->result, 0);
    for (['anna', 0], ['bert', 122]) {
        my ($user, $want) = @$_;
        my $assertion = Net::LDAP::Control::Assertion->new(assertion => "(uid=$user)", critical => 1);
        check("asserted of $user",
            found($ldap, $anna, 'base', '(uid=*)', control => [$assertion])->code, $want);
    }
    for ([1, 12], [0, 0]) {
        my ($critical, $want) = @$_;
        my $unknown = Net::LDAP::Control->new(type => '1.2.3.4.5', critical => $critical);
        check("an unknown control, criticality $critical",
            found($ldap, $anna, 'base', '(uid=*)', control => [$unknown])->code, $want);
    }
});

section('pages', sub {
    my $ldap = connect_as($anna, $secret);
    my $page = Net::LDAP::Control::Paged->new(size => 500, critical => 1);
    my (%names, @sizes);
    while (1) {
        my $found = found($ldap, $people, 'sub', '(objectClass=posixAccount)',
            attrs => ['uid'], control => [$page]);
        die $found->error if $found->code;
        push @sizes, $found->count;
        $names{ $_->dn } = 1 for $found->entries;
        my ($said) = $found->control(LDAP_CONTROL_PAGED) or last;
        my $cookie = $said->cookie or last;
        $page->cookie($cookie);
    }
    check('pages', "@sizes", '500 500 500 500 500');
    check('names in pages', scalar(keys %names), 2500);
});

section('updates', sub {
    my $ldap = connect_as($admin, $password);
    my $cn = "Zoë + \"Søn\", <Ltd>; #1\\ ";
    my $dn = 'cn=' . escape_dn_value($cn) . ",$accounts";
    my @attributes = (objectClass => 'inetOrgPerson', sn => "Søn 日本",
        jpegPhoto => join('', map { chr } 0 .. 255));
    check('add', $ldap->add($dn, attrs => \@attributes)->code, 0);
    check('add again', $ldap->add($dn, attrs => \@attributes)->code, 68);
    my $filter = '(cn=' . escape_filter_value($cn) . ')';
    my $entry = found($ldap, $accounts, 'one', $filter)->entry(0);
    check('found by a value with escapes', $entry->get_value('cn'), $cn);
    check('unicode', $entry->get_value('sn'), "Søn 日本");
    check('octets', $entry->get_value('jpegPhoto'), join('', map { chr } 0 .. 255));
    check('the same name', canonical_dn($entry->dn), canonical_dn($dn));
    $entry->add(description => ['one', 'two'])->replace(sn => "Sæn")->delete('jpegPhoto');
    check('modify', $entry->update($ldap)->code, 0);
    check('delete a value', $ldap->modify($dn, delete => { description => 'one' })->code, 0);
    check('delete it again', $ldap->modify($dn, delete => { description => 'one' })->code, 16);
    $entry = found($ldap, $dn, 'base', '(objectClass=*)')->entry(0);
    check('modified', join(' ', $entry->get_value('description'), $entry->get_value('sn'),
        $entry->exists('jpegPhoto') || 0), "two Sæn 0");
    check('compare', $ldap->compare($dn, attr => 'sn', value => "SÆN")->code, 6);
    check('compare false', $ldap->compare($dn, attr => 'sn', value => 'San')->code, 5);
    my $read = Net::LDAP::Control::PostRead->new(attrs => ['title']);
    my $modified = $ldap->modify($dn, replace => { title => 'Chief' }, control => [$read]);
    check('post-read', ($modified->control('1.3.6.1.1.13.2'))[0]->entry->get_value('title'), 'Chief');
    check('increment',
        $ldap->modify("uid=user.8,$people", increment => { gidNumber => 5 })->code, 0);
    check('rename', $ldap->moddn($dn, newrdn => "cn=Zoë", deleteoldrdn => 1)->code, 0);
    check('move', $ldap->moddn("cn=Zoë,$accounts", newrdn => "cn=Zoë",
        deleteoldrdn => 1, newsuperior => $base)->code, 0);
    check('delete', $ldap->delete("cn=Zoë,$base")->code, 0);
    check('delete again', $ldap->delete("cn=Zoë,$base")->code, 32);
    for my $unit ("ou=tree,$base", "ou=twig,ou=tree,$base") {
        check('add a unit', $ldap->add($unit, attrs => [objectClass => 'organizationalUnit'])->code, 0);
    }
    my $tree = Net::LDAP::Control::TreeDelete->new(critical => 1);
    check('delete a tree', $ldap->delete("ou=tree,$base", control => [$tree])->code, 0);
});

sub bind_for_policy {
    my ($user, $secret_of) = @_;
    my $ldap = Net::LDAP->new('localhost', port => $plain_port) or die $@;
    my $asking = Net::LDAP::Control::PasswordPolicy->new;
    my $said = $ldap->bind("uid=$user,$accounts", password => $secret_of, control => [$asking]);
    my ($policy) = $said->control(LDAP_CONTROL_PASSWORDPOLICY);
    die "no control for $user" unless $policy;
    return ($ldap, $said->code, $policy);
}

section('passwords', sub {
    my ($ldap, $code, $said) = bind_for_policy('expiring', 'expiring secret');
    check('a warning', join(' ', $code, $said->time_before_expiration > 0), '0 1');
    (undef, $code, $said) = bind_for_policy('locked', 'locked secret');
    check('locked', join(' ', $code, $said->pp_error), '49 1');
    ($ldap, $code, $said) = bind_for_policy('reset', 'reset secret');
    check('to be changed', join(' ', $code, $said->pp_error), '0 2');
    check('nothing else until then', found($ldap, $anna, 'base', '(uid=*)')->code, 50);
    my %old = (oldpasswd => 'reset secret');
    check('too short', $ldap->set_password(%old, newpasswd => 'short')->code, 19);
    check('password modify', $ldap->set_password(%old, newpasswd => 'another secret')->code, 0);
    (undef, $code) = bind_for_policy('reset', 'another secret');
    check('bind by it', $code, 0);
    my $made = connect_as($admin, $password)->set_password(user => "uid=reset,$accounts");
    check('a generated password', length($made->gen_password) >= 8, 1);
    (undef, $code) = bind_for_policy('reset', $made->gen_password);
    check('bind by that', $code, 0);
});

section('asynchronous', sub {
    my $ldap = Net::LDAP->new('localhost', port => $plain_port, async => 1) or die $@;
    my $bound = $ldap->bind($admin, password => $password);
    check('bind', $bound->code, 0);
    my @asked = map { found($ldap, $people, 'one', "(uid=user.$_)", attrs => ['sn']) } 1 .. 50;
    check('fifty at once', join(' ', map { $_->entry(0)->get_value('sn') } @asked), "@{[1 .. 50]}");
    my $running = found($ldap, $base, 'sub', '(description=*nothing like it*)');
    $ldap->abandon($running);
    check('after abandon', who_am_i($ldap), "dn:$admin");
    # Canceled, answered already, or past that (RFC 3909 §2.1): as fast as either is.
    require Net::LDAP::Extension::Cancel;
    $running = found($ldap, $base, 'sub', '(description=*nothing like it*)');
    my $code = $ldap->cancel($running)->code;
    check('cancel', (grep { $_ == $code } 0, 119, 120) ? 'known' : $code, 'known');
});

print "$passed passed, $failed failed\n";
exit($failed ? 1 : 0);
