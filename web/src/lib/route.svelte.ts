// The whole state of a page stands in the part of the address after `#`, so that a link shows what its sender saw.

export interface Route { page: string; rest: string[]; query: Record<string, string> }

export function parse(hash: string): Route {
  const [path, query = ''] = hash.replace(/^#\/?/, '').split('?');
  const [page, ...rest] = path.split('/').map(plain);
  const pairs = query.split('&').filter(Boolean).map((pair) => {
    const [name, ...value] = pair.split('=');
    return [plain(name), plain(value.join('='))];
  });
  return { page: page || 'runs', rest, query: Object.fromEntries(pairs) };
}

export function write({ page, rest, query }: Route): string {
  const path = [page, ...rest].map(encodeURIComponent).join('/');
  const code = (text: string) => encodeURIComponent(text).replace(/%2C/g, ',').replace(/%3A/g, ':');
  const pairs = Object.keys(query).sort().filter((name) => query[name] !== '').map((name) => `${code(name)}=${code(query[name])}`);
  return `#/${path}${pairs.length ? `?${pairs.join('&')}` : ''}`;
}

function plain(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export const route: Route = $state(parse(location.hash));

addEventListener('hashchange', () => Object.assign(route, parse(location.hash)));

/** Changes a part of the state without a step in the history. */
export function set(change: Record<string, string | number | boolean | null | undefined>) {
  for (const [name, value] of Object.entries(change)) {
    if (value === null || value === undefined || value === false || value === '') delete route.query[name];
    else route.query[name] = value === true ? '1' : String(value);
  }
  history.replaceState(null, '', write(route));
}

/** The keys `[` and `]` go to the model before and after, around the ends; not while somebody types. */
export function step(event: KeyboardEvent, models: string[]) {
  if ((event.target as HTMLElement).matches('input, select, textarea') || event.ctrlKey || event.metaKey || !['[', ']'].includes(event.key) || !models.length) return;
  const here = Math.max(0, models.indexOf(route.query.model ?? ''));
  set({ model: models[(here + (event.key === ']' ? 1 : -1) + models.length) % models.length] });
}

export function link(page: string, rest: (string | number)[] = [], query: Record<string, string> = {}): string {
  return write({ page, rest: rest.map(String), query });
}

export function go(page: string, rest: (string | number)[] = [], query: Record<string, string> = {}) {
  location.hash = link(page, rest, query);
}

/** The token is in a cookie by now; in the address it would be copied along with links. */
export function forgetToken() {
  if (location.search.includes('token=')) history.replaceState(null, '', location.pathname + location.hash);
}
