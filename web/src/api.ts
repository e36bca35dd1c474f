// What pages ask, and what they are told: by a server (remote.ts), or by the data in a single file (local.ts).
import type { Graph } from "./graph";

export interface Counters { samples: number; time_ns: number; percent: number; activations?: number }
export interface TopRow { method: string; signature?: string; flat: Counters; cum: Counters; recent?: { flat: Counters; cum: Counters } }
export interface Found extends Counters { method: string; signature?: string }
export interface Search { total: Counters; found: number; methods: Found[] }
export interface Call extends Counters { method: string; signature?: string; file?: string; line?: number }
export interface Query { total: Counters; distinct: Counters; self: Counters; callers: Call[]; callees: Call[] }
export interface Labels { text: string; percent: number; samples: number; values?: Record<string, string> }
export interface Heat { from: string; column_ns: number; rows: number; values: number[]; focus_values?: number[]; profile: any }
export interface Line { method: string; signature?: string; file?: string; line?: number; self: Counters; cum: Counters }
export interface FlameQuery { path?: string; invert?: boolean; by?: string; width: number; root?: string }
export interface Point { kind: string; origin: string; line?: number; end_line?: number; count: number; others?: number; values?: { value?: string; method?: string; share_percent: number }[] }

// Source answers questions about profiles. Ref names one.
export interface Source {
  meta(ref: string): Promise<any>;
  flame(ref: string, q: FlameQuery): Promise<Graph>;
  top(ref: string, sort: string, limit?: number): Promise<TopRow[]>;
  search(ref: string, text: string): Promise<Search>;
  query(ref: string, path: string): Promise<Query>;
  lines(ref: string, method: string): Promise<Line[]>;
  flamediff(a: string, b: string, q: FlameQuery): Promise<Graph>;
  overlap(a: string, b: string, by: string): Promise<any>;
  diff(a: string, b: string, by: string): Promise<any>;
  receivers(ref: string, method?: string): Promise<any>; // calls that may reach several methods: all, or of a method
}

// Problem is an error that a server explains (RFC 9457). It passes where there is progress: 0 to 1, or less if that is not
// known.
export class Problem extends Error {
  constructor(message: string, readonly hint: string, readonly progress?: number) { super(message); }
}

// widthOf is the width of a graph, rounded so that windows share an answer.
export function widthOf(pixels: number): number {
  let width = 512;
  while (width < pixels) width *= 2;
  return width;
}
