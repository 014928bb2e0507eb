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

/** The columns of a table, with the names of models instead of their rows in the table by model. */
export function withModelNames(tables: Record<string, Record<string, Column>>, axis: string): Record<string, Column> {
  const [columns, names] = [tables[axis], tables.model?.name];
  if (axis === 'model' || !names || !columns.model?.every((cell) => typeof cell === 'number')) return columns;
  return { ...columns, model: columns.model.map((row) => names[row as number] ?? row) };
}

/** The row of a latent in a table by latent; without a column of latents, rows are latents. −1 if there is none. */
export function rowOfLatent(table: Record<string, Column>, latent: number): number {
  return table.latent ? table.latent.indexOf(latent) : latent;
}
