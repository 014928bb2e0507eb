// The popover that explains a number.

import { plain, readable, short } from './format';
import type { Card, Score } from './types';

export interface PopoverContent { title: string; facts: [string, string][]; text: { heading: string; body: string }[]; id?: string }

export const popover: { content: PopoverContent | null; at: DOMRect | null; from: HTMLElement | null } = $state({ content: null, at: null, from: null });

export function openPopover(event: Event, content: PopoverContent) {
  const from = event.currentTarget as HTMLElement;
  if (popover.content && popover.from === from) return closePopover();
  popover.content = content;
  popover.at = from.getBoundingClientRect();
  popover.from = from;
}

export function closePopover() {
  const from = popover.from;
  popover.content = null;
  popover.from = null;
  from?.focus();
}

/** Value, interval and sample size of a score; `of` names the units. */
export function measured(score: Score, of = 'average of'): [string, string][] {
  return [['value', short(score.value)], ['95 % interval', score.low === null ? 'none' : `${short(score.low)} to ${short(score.high)}`], [of, plain(score.n)]];
}

/** The popover of a headline number, from the card of its metric. */
export function explain(card: Card | undefined, metric: string, key: string, facts: [string, string][] = [], id?: string): PopoverContent {
  const output = card?.headline.find((output) => output.key === key);
  const text = card
    ? [
        { heading: 'What it measures', body: card.measures },
        { heading: 'Definition', body: card.definition },
        { heading: '95 % interval', body: card.interval },
        { heading: 'Source', body: card.source },
      ]
    : [{ heading: 'No card', body: `This version has no card for the metric “${metric}”; its numbers are shown without a definition.` }];
  if (output) text.unshift({ heading: readable(key), body: output.doc + (output.better === 'neither' ? '' : ` (${output.better} is better)`) });
  return { title: card ? `${card.title}: ${readable(key)}` : readable(key), facts, text, id };
}
