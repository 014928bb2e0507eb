// Responses of the server, or data embedded in a single-file export. Each is requested once.

const embedded: Record<string, unknown> | null = (() => {
  const element = document.getElementById('data');
  return element ? JSON.parse(element.textContent ?? '{}') : null;
})();

const requests = new Map<string, Promise<unknown>>();

export function load<T>(name: string): Promise<T> {
  const address = `api/v1/${name}.json`;
  let response = requests.get(address);
  if (!response) {
    response = embedded ? fromFile(address) : fromServer(address);
    // Failures are not cached, so that a later request can succeed.
    response.catch(() => requests.delete(address));
    requests.set(address, response);
  }
  return response as Promise<T>;
}

async function fromFile(address: string): Promise<unknown> {
  if (!(address in embedded!)) throw new Error(`This file does not contain ${address}.`);
  return embedded![address];
}

async function fromServer(address: string): Promise<unknown> {
  let response: Response;
  try {
    response = await fetch(address);
  } catch {
    throw new Error('The server does not respond. Is `etalon serve` still running?');
  }
  if (!response.ok) throw new Error((await response.text()).trim() || `status ${response.status}`);
  return response.json();
}

export function picture(hash: string): string {
  return embedded ? String(embedded[`img/${hash}`] ?? '') : `img/${hash}`;
}
