// Answers of the server, or of the data that a single file carries. Each is asked for once.

const carried: Record<string, unknown> | null = (() => {
  const element = document.getElementById('data');
  return element ? JSON.parse(element.textContent ?? '{}') : null;
})();

const asked = new Map<string, Promise<unknown>>();

export function load<T>(name: string): Promise<T> {
  const address = `api/v1/${name}.json`;
  let answer = asked.get(address);
  if (!answer) {
    answer = carried ? inside(address) : fetched(address);
    // A failure may pass, so it is not remembered.
    answer.catch(() => asked.delete(address));
    asked.set(address, answer);
  }
  return answer as Promise<T>;
}

async function inside(address: string): Promise<unknown> {
  if (!(address in carried!)) throw new Error(`this file does not carry ${address}`);
  return carried![address];
}

async function fetched(address: string): Promise<unknown> {
  let answer: Response;
  try {
    answer = await fetch(address);
  } catch {
    throw new Error('The server does not answer. Is `etalon serve` still running?');
  }
  if (!answer.ok) throw new Error((await answer.text()).trim() || `status ${answer.status}`);
  return answer.json();
}

export function picture(hash: string): string {
  return carried ? String(carried[`img/${hash}`] ?? '') : `img/${hash}`;
}
