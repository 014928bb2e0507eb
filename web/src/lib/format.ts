// Formatting of numbers and names; the same rules as in the report.

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

/** A count or a parameter, without trailing zeros. */
export function plain(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return UNDEFINED;
  if (Number.isInteger(value)) return value.toLocaleString('en').replaceAll('-', '−');
  return short(value).replace(/(\.\d*?)0+$/, '$1').replace(/\.$/, '');
}

/** A count with its noun in singular or plural. */
export function counted(count: number, one: string, several = `${one}s`): string {
  return `${plain(count)} ${count === 1 ? one : several}`;
}

/** A value between 0 and 1; near the ends only a bound. */
export function fraction(value: number): string {
  return !Number.isFinite(value) ? UNDEFINED : value < 0.0005 ? '<0.001' : value > 0.9995 ? '>0.999' : value.toFixed(3);
}

/** An interval of fractions; empty if both ends are beyond the same bound. */
export function fractionInterval(low: number, high: number): string {
  const both = [fraction(low), fraction(high)];
  return both[0] === both[1] && /[<>]/.test(both[0]) ? '' : `[${both.join(', ')}]`;
}

/** A p-value or q-value; below 0.0001 only a bound. */
export function pValue(value: number | null): string {
  return value !== null && value < 1e-4 ? '<0.0001' : short(value);
}

export function signed(value: number): string {
  const text = short(value);
  return value > 0 && text !== UNDEFINED ? `+${text}` : text;
}

export function readable(name: string): string {
  return name.replaceAll('_', ' ');
}

export function parameter(value: unknown): string {
  return Array.isArray(value) ? value.map(parameter).join(', ') : typeof value === 'string' ? value : JSON.stringify(value);
}
