// Counts what holds and what does not, for the programs beside it; reads their arguments.
//
// Arguments of each: LDAP port, LDAPS port, certificate (PEM), administrator's DN, password.

import { readFileSync } from 'node:fs';
import { isDeepStrictEqual, inspect } from 'node:util';

const [plainPort, securePort, certificate, adminName, adminPassword] = process.argv.slice(2);
export const plain = `ldap://localhost:${plainPort}`;
export const secure = `ldaps://localhost:${securePort}`;
// Made anew for each connection: the libraries write into it.
export const trust = () => ({ ca: readFileSync(certificate), servername: 'localhost' });
export const stranger = () => ({ servername: 'localhost' });
export const admin = adminName;
export const password = adminPassword;
export const base = 'dc=example,dc=com';
export const people = `ou=people,${base}`;
export const accounts = `ou=accounts,${base}`;
export const anna = `uid=anna,${accounts}`;
export const secret = "anna's secret";

let passed = 0;
let failed = 0;

export function check(what, got, want) {
  if (isDeepStrictEqual(got, want)) {
    passed += 1;
    return;
  }
  failed += 1;
  console.log(`FAILED ${what}: expected ${inspect(want)}, got ${inspect(got)}`);
}

// The result code that a promise ends with; 0 is success.
export async function code(promise) {
  try {
    await promise;
    return 0;
  } catch (error) {
    return error.code;
  }
}

// Runs the parts one after another; an error is a failure of its part alone.
export async function run(parts) {
  for (const part of parts) {
    try {
      await part();
    } catch (error) {
      failed += 1;
      console.log(`FAILED ${part.name}: expected no error, got ${error.stack}`);
    }
  }
  console.log(`${passed} passed, ${failed} failed`);
  // Connections that are still open do not keep the program.
  process.exit(failed > 0 ? 1 : 0);
}
