// Which codes belong to the same dictionary.

import type { Manifest } from './types';

/** Whether two codes belong to one dictionary: they are equal, or one is that of the samples and the other that of their tokens. */
export function sameDictionary(manifest: Manifest, a: string | null, b: string | null): boolean {
  const own = [manifest.sample_codes, manifest.sample_token_codes];
  return a === b || (a !== null && b !== null && own.includes(a) && own.includes(b));
}

/** Whether samples and result belong to different dictionaries. False if the samples do not record their codes. */
export function foreign(manifest: Manifest, result: string): boolean {
  const codes = manifest.results.find((one) => one.id === result)?.codes;
  return Boolean(manifest.sample_codes && codes && !sameDictionary(manifest, codes, manifest.sample_codes));
}
