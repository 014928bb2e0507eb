// How numbers and names are written for people; the same rules as in the report.

export const UNDEFINED = '–';

export function short(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return UNDEFINED;
  const size = Math.abs(value);
  const text =
    size > 0 && size < 0.0005 ? value.toExponential(1)
    : size < 10 ? value.toFixed(3)
    : size < 100 ? value.toFixed(2)
    : size < 1000 ? value.toFixed(1)
    : size < 1e7 ? value.toFixed(0)
    : value.toExponential(2);
  return text.replace(/^-(0\.0*)$/, '$1').replaceAll('-', '−');
}

/** A count or a parameter: no digits that say nothing. */
export function plain(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return UNDEFINED;
  if (Number.isInteger(value)) return value.toLocaleString('en').replaceAll('-', '−');
  return short(value).replace(/(\.\d*?)0+$/, '$1').replace(/\.$/, '');
}

/** A number of things, with the word for one or for several. */
export function counted(count: number, one: string, several = `${one}s`): string {
  return `${plain(count)} ${count === 1 ? one : several}`;
}

/** A number between 0 and 1 of which only the middle has digits that say something. */
export function within(value: number): string {
  return !Number.isFinite(value) ? UNDEFINED : value < 0.0005 ? '<0.001' : value > 0.9995 ? '>0.999' : value.toFixed(3);
}

/** Both ends of an interval of such numbers; nothing where they are all but 0 or 1, and say no more than the number. */
export function ends(low: number, high: number): string {
  const both = [within(low), within(high)];
  return both[0] === both[1] && /[<>]/.test(both[0]) ? '' : `[${both.join(', ')}]`;
}

/** A probability: below one in ten thousand nobody cares how far. */
export function chance(value: number | null): string {
  return value !== null && value < 1e-4 ? '<0.0001' : short(value);
}

export function signed(value: number): string {
  const text = short(value);
  return value > 0 && text !== UNDEFINED ? `+${text}` : text;
}

export function readable(name: string): string {
  return name.replaceAll('_', ' ');
}

export function setting(value: unknown): string {
  return Array.isArray(value) ? value.map(setting).join(', ') : typeof value === 'string' ? value : JSON.stringify(value);
}
