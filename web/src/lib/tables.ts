// Access to the tables of results.

import type { Column } from './types';

/** The number in a cell; null if the column is missing or the cell is not a number. */
export function numberAt(column: Column | undefined, row: number): number | null {
  const cell = column?.[row];
  return typeof cell === 'number' ? cell : null;
}

/** The list in a cell; empty if there is none. */
export function listAt(column: Column | undefined, row: number): (number | null)[] {
  const cell = column?.[row];
  return Array.isArray(cell) ? cell : [];
}

/** The row of a latent in a table by latent; without a column of latents, rows are latents. −1 if there is none. */
export function rowOfLatent(table: Record<string, Column>, latent: number): number {
  return table.latent ? table.latent.indexOf(latent) : latent;
}
