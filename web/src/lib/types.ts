// Types of the server's JSON. Written by `crates/app/src/serve/catalog.rs` and `crates/core/src/report/board.rs`.

export interface Output { key: string; doc: string; range: [number | null, number | null]; better: Better }
export type Better = 'higher' | 'lower' | 'neither';

export interface Card {
  name: string; title: string; summary: string; version: number;
  measures: string; definition: string; cost: string; source: string; interval: string;
  needs: string[]; uses: string[]; headline: Output[];
  params: { name: string; doc: string; values: string; default: string }[];
}

export interface Listed {
  id: string; metric: string; version: number; profile: string; seed: number;
  params: Record<string, unknown>; about: Record<string, unknown>; codes: string | null;
  tables: Record<string, { rows: number; columns: string[]; numbers: string[] }>;
}

export interface Manifest {
  schema: number; etalon: string; title: string; results: Listed[];
  layouts: { id: string; points: number }[]; samples: number; sample_codes: string | null; sample_token_codes: string | null; concepts: number[]; images: number; directions: number;
  albums: { slug: string; name: string }[]; damaged: { file: string; reason: string }[]; problems: string[];
}

export interface Score { value: number | null; low: number | null; high: number | null; n: number }
export interface InputSet {
  label: string; name: string; group: string | null; description: string | null;
  numbers: Record<string, number>; baseline: 'ceiling' | 'floor' | null;
}
export interface Measure { metric: string; title: string; slug: string; keys: { key: string; better: Better }[] }
/** The aggregate over the runs of a cell. `low` and `high`: interval for units and seeds; `seeds_low` and `seeds_high`: for seeds alone, with at least two runs. */
export interface Aggregate extends Score { runs: number; deviation: number | null; seeds_low: number | null; seeds_high: number | null }
/** Differences of the first number of a measure, set `first` minus set `second`, as columns. `noise`: whether the interval contains 0. */
export interface Differences {
  key: string; first: number[]; second: number[]; value: number[]; low: (number | null)[]; high: (number | null)[];
  noise: (boolean | null)[]; paired: boolean[];
}
/** `name`: the name of its dictionary, which the label of a set of several seeds lacks. */
export interface Run { id: string; name: string | null; seed: number; headline: Record<string, Score> }
export interface Board {
  name: string; slug: string; sets: InputSet[]; measures: Measure[];
  cells: { measure: number; set: number; runs: Run[]; scores: Record<string, Aggregate> }[];
  differences: (Differences | null)[];
  baselines: { measure: number; key: string; name: string; value: number }[];
  /** Spearman correlation between measures over the sets that are not baselines, each oriented by its better end. `undirected`: measures without one. */
  agreement: { measures: number[]; cells: { value: number | null; n: number; chance: boolean | null }[][]; undirected: number[] };
  superseded: { measure: number; set: number; id: string; seed: number; inputs: Record<string, string> }[];
  notes: { measure: number; sets: number[]; text: string }[];
}

export type Cell = number | string | null | (number | null)[];
export type Column = Cell[];
export interface Result {
  id: string; metric: string; version: number; profile: string; seed: number; params: Record<string, unknown>;
  inputs: Record<string, string>; headline: Record<string, Score>; tables: Record<string, Record<string, Column>>;
  notes: string[]; seconds: number; about: Record<string, unknown>;
}

export interface Layout { latent: number[]; x: number[]; y: number[]; name: string[] }
export interface Region { name: string; x: number; y: number; width: number; height: number }
/** `above`: fraction of all rows with the latent on which it is stronger. `columns`: patches per row, if they do not form a square. */
export interface Shown {
  id: string; value: number; above: number; text: string | null; words: string[] | null; caption: string | null; image: string | null;
  tokens: number[]; grid: number[]; columns: number | null; boxes: Region[]; sample: number; row: number | null;
}
/** `on` and `values`: indices and values of the samples on which it fires. */
export interface Concept {
  latent: number; fired: number;
  sets: { name: string; fired: number; top: Shown[]; deciles: Shown[]; random: Shown[] }[];
  partners: { latent: number; together: number; jaccard: number }[];
  on: number[]; values: number[];
}
/** A sample without its activations. `concepts` is null if it is not annotated. */
export interface Sample {
  id: string; set: string | null; row: number | null; text: string | null; caption: string | null; image: string | null;
  concepts: string[] | null; unknown: string[]; boxes: Region[];
}
/** A sample with its activations. */
export interface SampleWithActivations extends Sample {
  words: string[] | null; columns: number | null; activations: { latent: number; value: number; grid?: number[]; tokens?: number[] }[];
}
export interface Neighbours { latent: number; nearest: { latent: number; cosine: number }[]; opposite: { latent: number; cosine: number } | null }
export interface Album { name: string; slug: string; figures: { name: string; title: string; description: string; svg: string }[] }
