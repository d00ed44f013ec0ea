// ldapjs against a served directory. It is no longer maintained, and in use all the same.

import ldapjs from 'ldapjs';
import { accounts, admin, anna, base, check, code, password, people, plain, run, secret, secure,
  stranger, trust } from './checks.mjs';

const { Attribute, Change, Control, PagedResultsControl, PasswordPolicyControl,
  ServerSideSortingRequestControl } = ldapjs;
const WHO_AM_I = '1.3.6.1.4.1.4203.1.11.3';

// A method with a callback, as a promise of what the callback gets.
const call = (client, method, ...given) => new Promise((resolve, reject) => {
  client[method](...given, (error, ...results) => (error ? reject(error) : resolve(results)));
});

function open(url = plain, tlsOptions = trust()) {
  return new Promise((resolve, reject) => {
    const client = ldapjs.createClient({ url, tlsOptions, timeout: 10000 });
    client.on('error', reject);
    client.on('connectError', reject);
    client.on('connect', () => resolve(client));
  });
}

async function connect(name = admin, secretOf = password) {
  const client = await open();
  await call(client, 'bind', name, secretOf);
  return client;
}

async function whoAmI(client) {
  const [, response] = await call(client, 'exop', WHO_AM_I);
  return response.responseValue;
}

// All that a search gives.
async function search(client, name, options, controls = []) {
  const [response] = await call(client, 'search', name, options, controls);
  return new Promise((resolve, reject) => {
    const got = { entries: [], references: [], pages: 0 };
    response.on('searchEntry', (entry) => got.entries.push(entry));
    response.on('searchReference', (reference) => got.references.push(...reference.uris));
    response.on('page', () => { got.pages += 1; });
    response.on('error', reject);
    response.on('end', (end) => resolve({ ...got, controls: end?.controls }));
  });
}

function values(entry, type) {
  return entry.attributes.find((attribute) => attribute.type === type)?.values;
}

async function binds() {
  const client = await connect(anna, secret);
  check('who am I', await whoAmI(client), `dn:${anna}`);
  check('a wrong password', await code(call(client, 'bind', anna, 'wrong')), 49);
  check('bind again', await code(call(client, 'bind', admin, password)), 0);
  check('who am I again', await whoAmI(client), `dn:${admin}`);
  await call(client, 'unbind');
}

async function tls() {
  const upgraded = await open();
  await call(upgraded, 'starttls', trust(), []);
  await call(upgraded, 'bind', anna, secret);
  check('who am I after StartTLS', await whoAmI(upgraded), `dn:${anna}`);
  const direct = await open(secure);
  await call(direct, 'bind', anna, secret);
  check('who am I over LDAPS', await whoAmI(direct), `dn:${anna}`);
  check('a certificate that nobody vouches for', await code(open(secure, stranger())),
    'DEPTH_ZERO_SELF_SIGNED_CERT');
}

async function rootAndSchema() {
  const client = await connect(anna, secret);
  const { entries: [root] } = await search(client, '', { attributes: ['+'] });
  check('naming contexts', values(root, 'namingContexts'), [base]);
  const [name] = values(root, 'subschemaSubentry');
  const { entries: [schema] } = await search(client, name,
    { filter: '(objectClass=subschema)', attributes: ['attributeTypes'] });
  check('attribute types',
    values(schema, 'attributeTypes').some((text) => text.includes("'uidNumber'")), true);
}

async function searches() {
  const client = await connect();
  const { entries: [entry] } = await search(client, anna, { attributes: ['cn', 'sn'] });
  check('base', [entry.objectName.toString(), values(entry, 'cn'), values(entry, 'sn')],
    [anna, ['Anna Ångström'], ['Ångström']]);
  const one = { scope: 'one', filter: '(uid=user.1*)', attributes: ['uid'] };
  check('one level', (await search(client, people, one)).entries.length, 1111);
  const filter = '(&(objectClass=posixAccount)(|(uid=user.1)(uidNumber>=12500))(!(sn=9)))';
  check('subtree', (await search(client, base, { scope: 'sub', filter })).entries.length, 2);
  const rule = { scope: 'sub', filter: '(ou:dn:=accounts)' };
  check('rule', (await search(client, base, rule)).entries.length, 5);
  check('size limit', await code(search(client, people, { scope: 'one', sizeLimit: 3 })), 4);
  check('no such entry', await code(search(client, `ou=nothing,${people}`, {})), 32);
  const asked = Array.from({ length: 50 }, (_, number) =>
    search(client, people, { scope: 'one', filter: `(uid=user.${number + 1})` }));
  const answers = (await Promise.all(asked)).map(({ entries: [found] }) => values(found, 'sn')[0]);
  check('fifty at once', answers, Array.from({ length: 50 }, (_, number) => String(number + 1)));
}

async function controls() {
  const client = await connect();
  const elsewhere = { scope: 'one', filter: '(ou=elsewhere)' };
  const reference = await search(client, base, elsewhere);
  check('a continuation reference', [reference.entries.length, reference.references],
    [0, ['ldap://other.example.com/ou=there,dc=example,dc=com??base']]);
  const manage = new Control({ type: '2.16.840.1.113730.3.4.2', criticality: true });
  check('a referral object', (await search(client, base, elsewhere, manage)).entries.length, 1);
  const order = new ServerSideSortingRequestControl({
    criticality: true, value: { attributeType: 'uidNumber', reverseOrder: true },
  });
  const one = { scope: 'one', filter: '(uid=user.1*)' };
  const sorted = await search(client, people, one, order);
  const numbers = sorted.entries.map((entry) => Number(values(entry, 'uidNumber')[0]));
  check('sorted', numbers, [...numbers].sort((first, second) => second - first));
  check('the sort result', sorted.controls.map((said) => [said.type, said.value.result]),
    [['1.2.840.113556.1.4.474', 0]]);
  // A value that is given goes through UTF-8; octets have to be written. An assertion that fails
  // ends the library: it does not know result code 122.
  const assertion = new Control({ type: '1.3.6.1.1.12', criticality: true });
  const value = Buffer.from('a30b04037569640404616e6e61', 'hex');
  assertion._toBer = (writer) => writer.writeBuffer(value, 0x04);
  check('asserted', await code(search(client, anna, {}, assertion)), 0);
  const unknown = (criticality) => new Control({ type: '1.2.3.4.5', criticality });
  check('an unknown critical control', await code(search(client, anna, {}, unknown(true))), 12);
  check('an unknown control', await code(search(client, anna, {}, unknown(false))), 0);
}

async function pages() {
  const client = await connect(anna, secret);
  const options = { scope: 'one', filter: '(objectClass=posixAccount)', attributes: ['uid'] };
  const found = await search(client, people, { ...options, paged: { pageSize: 500 } });
  const names = new Set(found.entries.map((entry) => entry.objectName.toString()));
  check('pages', [names.size, found.pages], [2500, 5]);
  const control = new PagedResultsControl({ value: { size: 7 } });
  const first = await search(client, people, options, control);
  check('a page', [first.entries.length, first.controls[0].value.cookie.length > 0], [7, true]);
}

async function updates() {
  const client = await connect();
  // Without a backslash, and a space at the end: the library does not escape them.
  const cn = 'Zoë + "Søn", <Ltd>; #1';
  const text = `${new ldapjs.RDN({ cn })},${accounts}`;
  const photo = Buffer.from(Array.from({ length: 256 }, (_, octet) => octet));
  const entry = { objectClass: 'inetOrgPerson', sn: 'Søn 日本', description: ['one', 'two'] };
  check('add', await code(call(client, 'add', text, entry)), 0);
  check('add again', await code(call(client, 'add', text, entry)), 68);
  const filter = new ldapjs.EqualityFilter({ attribute: 'cn', value: cn });
  const { entries: [found] } = await search(client, accounts, { scope: 'one', filter });
  check('found by a value with escapes', [values(found, 'cn'), values(found, 'sn')],
    [[cn], ['Søn 日本']]);
  const modify = (...changes) => code(call(client, 'modify', text, changes.map(
    ([operation, type, ...given]) =>
      new Change({ operation, modification: new Attribute({ type, values: given }) }))));
  check('modify', await modify(['add', 'jpegPhoto', photo], ['replace', 'sn', 'Sæn'],
    ['delete', 'description', 'one']), 0);
  check('delete it again', await modify(['delete', 'description', 'one']), 16);
  const { entries: [changed] } = await search(client, found.objectName,
    { attributes: ['description', 'sn', 'jpegPhoto'] });
  check('modified', [values(changed, 'description'), values(changed, 'sn')], [['two'], ['Sæn']]);
  const octets = changed.attributes.find((attribute) => attribute.type === 'jpegPhoto');
  check('octets', photo.equals(octets.buffers[0]), true);
  check('delete an attribute', await modify(['delete', 'jpegPhoto']), 0);
  check('compare', (await call(client, 'compare', text, 'sn', 'SÆN'))[0], true);
  check('compare false', (await call(client, 'compare', text, 'sn', 'San'))[0], false);
  check('rename', await code(call(client, 'modifyDN', text, `cn=Zoe,${accounts}`)), 0);
  check('move', await code(call(client, 'modifyDN', `cn=Zoe,${accounts}`, `cn=Zoe,${base}`)), 0);
  check('delete', await code(call(client, 'del', `cn=Zoe,${base}`)), 0);
  check('delete again', await code(call(client, 'del', `cn=Zoe,${base}`)), 32);
}

async function passwords() {
  const bind = async (user, secretOf) => {
    const client = await open();
    const name = `uid=${user},${accounts}`;
    const asking = new PasswordPolicyControl();
    try {
      const [response] = await call(client, 'bind', name, secretOf, asking);
      return { client, result: 0, said: response.controls[0].value };
    } catch (error) {
      return { client, result: error.code };
    }
  };
  const warned = await bind('expiring', 'expiring secret');
  check('a warning', [warned.result, warned.said.timeBeforeExpiration > 0], [0, true]);
  check('locked', (await bind('locked', 'locked secret')).result, 49);
  const { client, result, said } = await bind('reset', 'reset secret');
  check('to be changed', [result, said.error], [0, 2]);
  check('nothing else until then', await code(search(client, anna, {})), 50);
  const modify = (userPassword) => code(call(client, 'modify', `uid=reset,${accounts}`, [
    new Change({
      operation: 'replace', modification: new Attribute({ type: 'userPassword', values: [userPassword] }),
    })]));
  check('too short', await modify('short'), 19);
  check('change by modify', await modify('another secret'), 0);
  check('bind by it', (await bind('reset', 'another secret')).result, 0);
  check('an unknown extended operation', await code(call(client, 'exop', '1.2.3.4.5')), 2);
  // Abandon needs the id of a message that the library keeps to itself.
}

await run([binds, tls, rootAndSchema, searches, controls, pages, updates, passwords]);
