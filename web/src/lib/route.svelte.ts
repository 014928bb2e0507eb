// The state of a page is stored in the address after `#`, so that a link reproduces the view.

export interface Route { page: string; rest: string[]; query: Record<string, string> }

export function parse(hash: string): Route {
  const [path, query = ''] = hash.replace(/^#\/?/, '').split('?');
  const [page, ...rest] = path.split('/').map(decode);
  const pairs = query.split('&').filter(Boolean).map((pair) => {
    const [name, ...value] = pair.split('=');
    return [decode(name), decode(value.join('='))];
  });
  return { page: page || 'runs', rest, query: Object.fromEntries(pairs) };
}

export function write({ page, rest, query }: Route): string {
  const path = [page, ...rest].map(encodeURIComponent).join('/');
  const encode = (text: string) => encodeURIComponent(text).replace(/%2C/g, ',').replace(/%3A/g, ':');
  const pairs = Object.keys(query).sort().filter((name) => query[name] !== '').map((name) => `${encode(name)}=${encode(query[name])}`);
  return `#/${path}${pairs.length ? `?${pairs.join('&')}` : ''}`;
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export const route: Route = $state(parse(location.hash));

addEventListener('hashchange', () => Object.assign(route, parse(location.hash)));

/** Changes parts of the state without adding a history entry. */
export function set(change: Record<string, string | number | boolean | null | undefined>) {
  for (const [name, value] of Object.entries(change)) {
    if (value === null || value === undefined || value === false || value === '') delete route.query[name];
    else route.query[name] = value === true ? '1' : String(value);
  }
  history.replaceState(null, '', write(route));
}

/** The keys `[` and `]` select the previous and next model, or another value, wrapping around; not while typing in a field. */
export function step(event: KeyboardEvent, values: string[], name = 'model') {
  if ((event.target as HTMLElement).matches('input, select, textarea') || event.ctrlKey || event.metaKey || !['[', ']'].includes(event.key) || !values.length) return;
  const here = Math.max(0, values.indexOf(route.query[name] ?? ''));
  set({ [name]: values[(here + (event.key === ']' ? 1 : -1) + values.length) % values.length] });
}

export function link(page: string, rest: (string | number)[] = [], query: Record<string, string> = {}): string {
  return write({ page, rest: rest.map(String), query });
}

export function go(page: string, rest: (string | number)[] = [], query: Record<string, string> = {}) {
  location.hash = link(page, rest, query);
}

/** Removes the token from the address, so that copied links do not contain it. It is in a cookie by now. */
export function forgetToken() {
  if (location.search.includes('token=')) history.replaceState(null, '', location.pathname + location.hash);
}
