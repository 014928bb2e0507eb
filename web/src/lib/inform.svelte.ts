// What the (i) beside a number says.

import { plain, readable, short } from './words';
import type { Card, Score } from './types';

export interface Told { title: string; facts: [string, string][]; text: { heading: string; body: string }[]; id?: string }

export const told: { now: Told | null; at: DOMRect | null; from: HTMLElement | null } = $state({ now: null, at: null, from: null });

export function tell(event: Event, what: Told) {
  const from = event.currentTarget as HTMLElement;
  if (told.now && told.from === from) return hush();
  told.now = what;
  told.at = from.getBoundingClientRect();
  told.from = from;
}

export function hush() {
  const from = told.from;
  told.now = null;
  told.from = null;
  from?.focus();
}

/** A number, its interval, and what it is an average of. */
export function measured(score: Score, of = 'average of'): [string, string][] {
  return [['value', short(score.value)], ['95 % interval', score.low === null ? 'none' : `${short(score.low)} to ${short(score.high)}`], [of, plain(score.n)]];
}

/** The definition of a headline number from the card of its metric. */
export function explain(card: Card | undefined, metric: string, key: string, facts: [string, string][] = [], id?: string): Told {
  const output = card?.headline.find((output) => output.key === key);
  const text = card
    ? [
        { heading: 'What it measures', body: card.measures },
        { heading: 'Definition', body: card.definition },
        { heading: '95 % interval', body: card.interval },
        { heading: 'Source', body: card.source },
      ]
    : [{ heading: 'No card', body: `This program does not know the metric “${metric}”; its numbers are shown as they are.` }];
  if (output) text.unshift({ heading: readable(key), body: output.doc + (output.better === 'neither' ? '' : ` (${output.better} is better)`) });
  return { title: card ? `${card.title}: ${readable(key)}` : readable(key), facts, text, id };
}
