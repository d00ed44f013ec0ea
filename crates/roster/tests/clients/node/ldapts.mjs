// ldapts against a served directory.

import { Attribute, Change, Client, Control, DN, ServerSideSortingRequestControl } from 'ldapts';
import { accounts, admin, anna, base, check, code, password, people, plain, run, secret, secure,
  stranger, trust } from './checks.mjs';

const WHO_AM_I = '1.3.6.1.4.1.4203.1.11.3';
const PASSWORD_MODIFY = '1.3.6.1.4.1.4203.1.11.1';
const POLICY = '1.3.6.1.4.1.42.2.27.8.5.1';

async function connect(name = admin, secretOf = password) {
  const client = new Client({ url: plain, timeout: 10000 });
  await client.bind(name, secretOf);
  return client;
}

const whoAmI = async (client) => (await client.exop(WHO_AM_I)).value;

// A control whose value is written here, and the value of the answer to it.
class RawControl extends Control {
  constructor(type, critical, value) {
    super(type, { critical });
    this.value = value;
  }

  writeControl(writer) {
    if (this.value) {
      writer.writeBuffer(this.value, 0x04);
    }
  }

  parseControl(reader) {
    this.answer = reader.buffer;
  }
}

async function binds() {
  const client = await connect(anna, secret);
  check('who am I', await whoAmI(client), `dn:${anna}`);
  check('a wrong password', await code(client.bind(anna, 'wrong')), 49);
  check('bind again', await code(client.bind(admin, password)), 0);
  check('who am I again', await whoAmI(client), `dn:${admin}`);
  await client.unbind();
  check('SASL PLAIN over TLS', await (async () => {
    const safe = new Client({ url: secure, tlsOptions: trust() });
    await safe.bindSASL('PLAIN', `\0anna\0${secret}`);
    return whoAmI(safe);
  })(), `dn:${anna}`);
}

async function tls() {
  const upgraded = new Client({ url: plain });
  await upgraded.startTLS(trust());
  await upgraded.bind(anna, secret);
  check('who am I after StartTLS', await whoAmI(upgraded), `dn:${anna}`);
  const direct = new Client({ url: secure, tlsOptions: trust() });
  await direct.bind(anna, secret);
  check('who am I over LDAPS', await whoAmI(direct), `dn:${anna}`);
  const refused = new Client({ url: secure, tlsOptions: stranger() });
  check('a certificate that nobody vouches for', await code(refused.bind(anna, secret)),
    'DEPTH_ZERO_SELF_SIGNED_CERT');
}

async function rootAndSchema() {
  const client = await connect(anna, secret);
  const { searchEntries: [root] } = await client.search('', { scope: 'base', attributes: ['+'] });
  check('naming contexts', root.namingContexts, base);
  check('versions', root.supportedLDAPVersion, '3');
  const { searchEntries: [schema] } = await client.search(root.subschemaSubentry,
    { scope: 'base', filter: '(objectClass=subschema)', attributes: ['attributeTypes'] });
  check('attribute types', schema.attributeTypes.some((text) => text.includes("'uidNumber'")), true);
}

async function searches() {
  const client = await connect();
  const search = async (name, options) => (await client.search(name, options)).searchEntries;
  const [entry] = await search(anna, { scope: 'base', attributes: ['cn', 'sn'] });
  check('base', entry, { dn: anna, cn: 'Anna Ångström', sn: 'Ångström' });
  const one = { scope: 'one', filter: '(uid=user.1*)', attributes: ['uid'] };
  check('one level', (await search(people, one)).length, 1111);
  const filter = '(&(objectClass=posixAccount)(|(uid=user.1)(uidNumber>=12500))(!(sn=9)))';
  check('subtree', (await search(base, { filter })).length, 2);
  check('children', (await search(accounts, { scope: 'children' })).length, 4);
  check('rule', (await search(base, { filter: '(ou:dn:=accounts)' })).length, 5);
  check('types only', (await search(anna,
    { scope: 'base', attributes: ['cn'], returnAttributeValues: false }))[0].cn, []);
  const limited = await client.search(people, { scope: 'one', sizeLimit: 3 });
  check('size limit', limited.searchEntries.length, 3);
  check('no such entry', await code(client.search(`ou=nothing,${people}`)), 32);
  const asked = Array.from({ length: 50 }, (_, number) =>
    search(people, { filter: `(uid=user.${number + 1})`, attributes: ['sn'] }));
  const answers = (await Promise.all(asked)).map(([answer]) => answer.sn);
  check('fifty at once', answers, Array.from({ length: 50 }, (_, number) => String(number + 1)));
}

async function controls() {
  const client = await connect();
  const search = (name, options, control) => client.search(name, options, control);
  const elsewhere = { scope: 'one', filter: '(ou=elsewhere)' };
  const reference = await search(base, elsewhere);
  check('a continuation reference',
    [reference.searchEntries.length, reference.searchReferences.length], [0, 1]);
  const manage = new RawControl('2.16.840.1.113730.3.4.2', true);
  const object = await search(base, elsewhere, manage);
  check('a referral object', [object.searchEntries.length, object.searchReferences.length], [1, 0]);
  const order = new ServerSideSortingRequestControl({
    critical: true, value: { attributeType: 'uidNumber', reverseOrder: true },
  });
  const sorted = await search(people, { scope: 'one', filter: '(uid=user.1*)' }, order);
  const numbers = sorted.searchEntries.map((entry) => Number(entry.uidNumber));
  check('sorted', numbers, [...numbers].sort((one, other) => other - one));
  check('all of them', numbers.length, 1111);
  for (const [user, want] of [['anna', 0], ['bert', 122]]) {
    const value = Buffer.concat([Buffer.from('a30b0403756964' + '0404', 'hex'), Buffer.from(user)]);
    const assertion = new RawControl('1.3.6.1.1.12', true, value);
    check(`asserted of ${user}`, await code(search(anna, { scope: 'base' }, assertion)), want);
  }
  const unknown = (critical) => new RawControl('1.2.3.4.5', critical);
  check('an unknown critical control',
    await code(search(anna, { scope: 'base' }, unknown(true))), 12);
  check('an unknown control', await code(search(anna, { scope: 'base' }, unknown(false))), 0);
}

async function pages() {
  const client = await connect(anna, secret);
  const names = new Set();
  const sizes = [];
  const options = { filter: '(objectClass=posixAccount)', attributes: ['uid'] };
  for await (const page of client.searchPaginated(people, { ...options, paged: { pageSize: 500 } })) {
    sizes.push(page.searchEntries.length);
    page.searchEntries.forEach((entry) => names.add(entry.dn));
  }
  check('pages', sizes, [500, 500, 500, 500, 500]);
  check('names in pages', names.size, 2500);
  const all = await client.search(people, { ...options, paged: true });
  check('pages by themselves', all.searchEntries.length, 2500);
}

async function updates() {
  const client = await connect();
  const cn = 'Zoë + "Søn", <Ltd>; #1\\ ';
  const name = `${new DN().addPairRDN('cn', cn)},${accounts}`;
  const photo = Buffer.from(Array.from({ length: 256 }, (_, octet) => octet));
  const attributes = [
    new Attribute({ type: 'objectClass', values: ['inetOrgPerson'] }),
    new Attribute({ type: 'sn', values: ['Søn 日本'] }),
    new Attribute({ type: 'jpegPhoto;binary', values: [photo] }),
  ];
  check('an attribute option that does not belong', await code(client.add(name, attributes)), 17);
  attributes[2] = new Attribute({ type: 'jpegPhoto', values: [photo] });
  check('add', await code(client.add(name, attributes)), 0);
  check('add again', await code(client.add(name, attributes)), 68);
  const escaped = cn.replace(/[\\*()]/g, (sign) => `\\${sign.charCodeAt(0).toString(16)}`);
  const found = (await client.search(accounts, {
    scope: 'one', filter: `(cn=${escaped})`, explicitBufferAttributes: ['jpegPhoto'],
  })).searchEntries;
  check('found by a value with escapes', found.length, 1);
  check('its values', [found[0].cn, found[0].sn], [cn, 'Søn 日本']);
  check('octets', photo.equals(found[0].jpegPhoto), true);
  const change = (operation, type, ...values) =>
    new Change({ operation, modification: new Attribute({ type, values }) });
  const modify = (...changes) => code(client.modify(name, changes));
  check('modify', await modify(change('add', 'description', 'one', 'two'),
    change('replace', 'sn', 'Sæn'), change('delete', 'jpegPhoto')), 0);
  check('delete a value', await modify(change('delete', 'description', 'one')), 0);
  check('delete it again', await modify(change('delete', 'description', 'one')), 16);
  const [changed] = (await client.search(found[0].dn,
    { scope: 'base', attributes: ['description', 'sn', 'jpegPhoto'] })).searchEntries;
  check('modified', [changed.description, changed.sn, changed.jpegPhoto], ['two', 'Sæn', []]);
  check('compare', await client.compare(name, 'sn', 'SÆN'), true);
  check('compare false', await client.compare(name, 'sn', 'San'), false);
  check('rename', await code(client.modifyDN(name, 'cn=Zoë')), 0);
  check('move', await code(client.modifyDN(`cn=Zoë,${accounts}`, `cn=Zoë,${base}`)), 0);
  check('delete', await code(client.del(`cn=Zoë,${base}`)), 0);
  check('delete again', await code(client.del(`cn=Zoë,${base}`)), 32);
}

async function passwords() {
  const bind = async (user, secretOf) => {
    const client = new Client({ url: plain });
    const policy = new RawControl(POLICY, false);
    const result = await code(client.bind(`uid=${user},${accounts}`, secretOf, policy));
    return { client, result, said: policy.answer?.toString('hex') };
  };
  const warned = await bind('expiring', 'expiring secret');
  check('a warning', [warned.result, warned.said?.slice(0, 12)], [0, '3008a0068004']);
  const locked = await bind('locked', 'locked secret');
  check('locked', [locked.result, locked.said], [49, '3003810101']);
  const { client, result, said } = await bind('reset', 'reset secret');
  check('to be changed', [result, said], [0, '3003810102']);
  check('nothing else until then', await code(client.search(anna)), 50);
  // SEQUENCE { old [1], new [2] }
  const change = (old, fresh) => {
    const field = (tag, text) => Buffer.concat([Buffer.from([tag, text.length]), Buffer.from(text)]);
    const fields = Buffer.concat([field(0x81, old), field(0x82, fresh)]);
    const value = Buffer.concat([Buffer.from([0x30, fields.length]), fields]);
    return code(client.exop(PASSWORD_MODIFY, value));
  };
  check('too short', await change('reset secret', 'short'), 19);
  check('password modify', await change('reset secret', 'another secret'), 0);
  const again = await bind('reset', 'another secret');
  check('bind by it', [again.result, again.said.includes('8101')], [0, false]);
  check('an unknown extended operation', await code(client.exop('1.2.3.4.5')), 2);
}

await run([binds, tls, rootAndSchema, searches, controls, pages, updates, passwords]);
