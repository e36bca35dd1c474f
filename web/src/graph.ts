// A flame graph as columns: parents first, siblings by width. One code for one profile and for two.

export interface Change { points: number; p: number }

// A side is a profile's figures of all frames. Value is self, the values of the frames below, and rest. Activations are a
// single file's.
export interface Side { value: Float64Array; self: Float64Array; rest: Float64Array; samples: Float64Array; activations: Float64Array | null }

export interface Graph {
  parent: Int32Array; // the root is its own
  depth: Int32Array;
  method: Int32Array; // number in names
  names: string[];
  line: Int32Array; // of the call; 0: unknown
  more: Int32Array; // frames below that are summed up in rest
  id: string[];
  sides: Side[];
  changes: Map<number, Change>; // by frame: those that are significant
  unit: string;
  left: Float64Array; // 0 to 1
  width: Float64Array;
  last: Int32Array; // the last frame below a frame, or itself
  notes: string[];
}

// Columns are a graph as somebody has it: numbers that are not safe are texts.
export interface Columns extends Pick<Graph, "names" | "id" | "changes" | "unit" | "notes"> {
  parent: ArrayLike<number>; method: ArrayLike<number>; line: ArrayLike<number>; more: ArrayLike<number>;
  sides: { [K in keyof Side]: ArrayLike<number | string> | Extract<Side[K], null> }[];
}

// finish finds what follows from columns: depth, place, and where branches end.
export function finish(c: Columns): Graph {
  const n = c.parent.length, whole = (list: ArrayLike<number>) => Int32Array.from(list), floats = (list: ArrayLike<number | string>) => Float64Array.from(list as ArrayLike<number>, Number);
  const g = { ...c, parent: whole(c.parent), method: whole(c.method), line: whole(c.line), more: whole(c.more),
    sides: c.sides.map((s) => ({ value: floats(s.value), self: floats(s.self), rest: floats(s.rest), samples: floats(s.samples), activations: s.activations && floats(s.activations) })) };
  const out: Graph = { ...g, depth: new Int32Array(n), left: new Float64Array(n), width: new Float64Array(n), last: new Int32Array(n) };
  const next = new Float64Array(n); // where the next child begins
  for (let i = 0; i < n; i++) {
    let width = 0, sides = 0;
    for (const s of g.sides) {
      if (s.value[0] > 0) { width += s.value[i] / s.value[0]; sides++; }
    }
    out.width[i] = sides > 0 ? width / sides : 0;
    out.last[i] = i;
    if (i > 0) {
      const p = g.parent[i];
      out.depth[i] = out.depth[p] + 1;
      out.left[i] = next[p];
      next[p] += out.width[i];
    }
    next[i] = out.left[i];
  }
  for (let i = n - 1; i > 0; i--) out.last[g.parent[i]] = Math.max(out.last[g.parent[i]], out.last[i]);
  return out;
}

export function nameOf(g: Graph, i: number): string { return g.names[g.method[i]]; }

// childrenOf lists the frames below a frame, the widest first.
export function childrenOf(g: Graph, i: number): number[] {
  const all: number[] = [];
  for (let c = i + 1; c <= g.last[i]; c = g.last[c] + 1) all.push(c);
  return all;
}

// shareOf is the part of a frame in the profile of a side.
export function shareOf(g: Graph, i: number, side = 0): number {
  const s = g.sides[side];
  return s.value[0] > 0 ? s.value[i] / s.value[0] : 0;
}

// pathOf names the frames from the root to a frame.
export function pathOf(g: Graph, i: number): string[] {
  const path: string[] = [];
  for (; i > 0; i = g.parent[i]) path.push(nameOf(g, i));
  return path.reverse();
}

interface Method { method: string; signature?: string }

// titleOf names a method as tables do.
export function titleOf(m: Method): string { return m.signature ? m.method + m.signature : m.method; }

const known = new WeakMap<object, Graph>(); // by answer

// fromJSON reads the answer of flame or flamediff.
export function fromJSON(v: any): Graph {
  const g = known.get(v) ?? read(v);
  known.set(v, g);
  return g;
}

function read(v: any): Graph {
  const f = v.frames, two = "value_a" in f;
  const side = (end: string) => ({ value: f["value" + end], self: f["self" + end], rest: f["rest" + end], samples: f["samples" + end], activations: null });
  const changes = new Map<number, Change>();
  for (const c of v.changes ?? []) changes.set(c.frame, { points: c.points, p: c.p });
  return finish({
    parent: f.parent, method: f.method, line: f.line, more: f.more, id: f.id, names: v.methods.map(titleOf), sides: two ? [side("_a"), side("_b")] : [side("")], changes, notes: v.notes ?? [],
    unit: two ? "samples/count" : v.by === "time" ? v.profile.unit : v.by + "/count",
  });
}
