// The data of a single file: the frames of one profile, or of two, and the answers about both. Views are computed
// from the frames, as the commands compute them from the profile.
import type { Call, Counters, FlameQuery, Line, Query, Search, Source, TopRow } from "./api";
import { Problem } from "./api";
import { finder } from "./dom";
import { type Change, type Graph, childrenOf, finish, nameOf, titleOf } from "./graph";

// Frames as 'ccmapd html' packs them, in preorder. Sparse columns are pairs of a frame and a value.
interface Packed {
  up: number[]; // so many levels above the frame before it is the parent
  method: number[];
  line: number[];
  sides: { own: number[]; rest: number[]; samples: number[]; activations?: number[] }[]; // own, samples: less the frames below
  more: number[]; // sparse, as is rest
}

interface Data { profiles: any[]; names: string[]; frames: Packed; changes: { frame: number; points: number; p: number }[]; overlap?: any; diff?: any; receivers?: any; notes: string[] }

// unpackText decodes what 'ccmapd html' has put into a page: gzip, in base64.
async function unpackText(text: string): Promise<Data> {
  const bytes = Uint8Array.from(atob(text.trim()), (c) => c.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
}

// embedded returns the data of this page.
export async function embedded(): Promise<Local> { return new Local(await unpackText(document.getElementById("data")!.textContent!)); }

function unpack(d: Data): Graph {
  const f = d.frames, n = f.method.length;
  const parent = new Int32Array(n);
  for (let i = 1; i < n; i++) {
    let p = i - 1;
    for (let up = f.up[i]; up > 0; up--) p = parent[p];
    parent[i] = p;
  }
  const sparse = <T extends Float64Array | Int32Array>(all: T, pairs: number[]): T => {
    for (let i = 0; i < pairs.length; i += 2) all[pairs[i]] = pairs[i + 1];
    return all;
  };
  const sides = f.sides.map((s) => {
    const rest = sparse(new Float64Array(n), s.rest);
    return { value: sumUp(parent, s.own), self: s.own.map((own, i) => own - rest[i]), rest, samples: sumUp(parent, s.samples), activations: s.activations ?? null };
  });
  const changes = new Map<number, Change>(d.changes.map((c) => [c.frame, c]));
  return finish({
    parent, method: f.method, line: f.line, more: sparse(new Int32Array(n), f.more), names: d.names, sides, changes,
    id: Array.from({ length: n }, (_, i) => String(i)), unit: sides.length > 1 ? "samples/count" : d.profiles[0].unit, notes: d.notes,
  });
}

// A spot is a frame that becomes part of another graph's frame, and the frame whose figures count for it.
interface Spot { at: number; of: number }

export class Local implements Source {
  #whole: Graph;
  #one: Graph; // of the profile that is looked at: the last
  #meta: any; // of it. Activations are known where no frames are summed up

  constructor(private data: Data) {
    this.#whole = unpack(data);
    const last = this.#whole.sides[this.#whole.sides.length - 1];
    const profile = data.profiles[data.profiles.length - 1];
    this.#one = this.#whole.sides.length === 1 ? this.#whole : finish({ ...this.#whole, sides: [last], changes: new Map(), unit: profile.unit });
    this.#meta = { ...profile, activations: last.activations && this.#one.more.every((n) => n === 0) ? profile.activations : 0 };
  }

  get compares(): boolean { return this.#whole.sides.length > 1; }

  get last(): string { return "file:" + this.data.profiles.length; }

  async meta() { return this.#meta; }
  async overlap() { return this.data.overlap; }
  async diff() { return this.data.diff; }

  async receivers(_ref: string, method = "") {
    const all = this.data.receivers, sites: any[] = all.sites ?? [];
    return method === "" ? all : { sites: sites.filter((s) => titleOf(s.caller) === method) };
  }

  // lines are of the outermost frames of a method. A page does not have the line that a sample was taken in.
  async lines(_ref: string, method: string): Promise<Line[]> {
    const g = this.#one, own = this.#ownSamples(), byLine = new Map<number, { self: number[]; below: number[] }>();
    const at = (line: number) => byLine.get(line) ?? byLine.set(line, { self: [], below: [] }).get(line)!;
    for (const end of outermost(g, this.#ends(method))) {
      at(0).self.push(end);
      for (const c of childrenOf(g, end)) at(g.line[c]).below.push(c);
    }
    return [...byLine].sort(([a], [b]) => a - b).map(([line, { self, below }]) => {
      const itself = self.reduce((s, i) => this.#add(s, g.more[i] === 0 ? own[i] : 0, g.sides[0].self[i]), this.#counters(0, 0)), calls = this.#sum(below);
      return { method, line: line || undefined, self: itself, cum: this.#add(calls, itself.samples, itself.time_ns) };
    }).filter((r) => r.cum.time_ns > 0 || r.cum.samples > 0);
  }

  #add(c: Counters, samples: number, value: number): Counters { return this.#counters(c.samples + samples, c.time_ns + value); }

  async flamediff(_a: string, _b: string, q: FlameQuery) { return grow(this.#whole, [{ at: 0, of: 0 }], q, false); }

  async flame(_ref: string, q: FlameQuery) {
    let roots: Spot[] = [{ at: 0, of: 0 }];
    if (q.path) {
      roots = outermost(this.#one, this.#ends(q.path)).map((end) => ({ at: q.invert ? begin(this.#one, end, q.path!) : end, of: end }));
    } else if (q.invert) {
      roots = [];
      const s = this.#one.sides[0], own = q.by === "activations" && s.activations || s.self;
      for (let i = 1; i < this.#one.parent.length; i++) if (own[i] > 0) roots.push({ at: i, of: i });
    }
    const g = grow(this.#one, roots, q, q.invert ?? false);
    return q.by === "activations" && !this.#meta.activations_exact ? { ...g, notes: [...g.notes, "Activations are lower bounds, not numbers of calls."] } : g;
  }

  // ends marks the frames that end a path of calls, "A > B > C".
  #ends(path: string): Uint8Array {
    const words = path.split(/\s+>\s+/).map((w) => w.trim());
    const g = this.#one, marks = new Uint8Array(g.parent.length);
    if (words.some((w) => !g.names.includes(w))) throw new Problem("no method has the name " + path, "Search for a part of it with /.");
    for (let i = 1; i < marks.length; i++) {
      let at = i, k = words.length - 1;
      while (k >= 0 && at > 0 && nameOf(g, at) === words[k]) { at = g.parent[at]; k--; }
      if (k < 0) marks[i] = 1;
    }
    return marks;
  }

  #counters(samples: number, value: number, activations?: number): Counters {
    const whole = this.#one.sides[0].value[0];
    return { samples, time_ns: value, percent: whole > 0 ? 100 * value / whole : 0, activations };
  }

  #sum(frames: number[]): Counters {
    const s = this.#one.sides[0];
    let samples = 0, value = 0, activations = 0;
    for (const i of frames) { samples += s.samples[i]; value += s.value[i]; activations += s.activations?.[i] ?? 0; }
    return this.#counters(samples, value, s.activations ? activations : undefined);
  }

  #ownSamples(): Float64Array { return ownOf(this.#one)[0]; }

  async top(_ref: string, sort: string) {
    const g = this.#one, s = g.sides[0], own = this.#ownSamples(), n = g.names.length;
    const flat = new Float64Array(n), flatSamples = new Float64Array(n), cum = new Float64Array(n), cumSamples = new Float64Array(n);
    const open = new Int32Array(n).fill(-1); // the last frame of the outermost branch of a method
    for (let i = 1; i < g.parent.length; i++) {
      const m = g.method[i];
      flat[m] += s.self[i];
      if (g.more[i] === 0) flatSamples[m] += own[i];
      if (i > open[m]) { open[m] = g.last[i]; cum[m] += s.value[i]; cumSamples[m] += s.samples[i]; }
    }
    const rows: TopRow[] = [];
    for (let m = 1; m < n; m++) {
      if (cum[m] > 0) rows.push({ method: g.names[m], flat: this.#counters(flatSamples[m], flat[m]), cum: this.#counters(cumSamples[m], cum[m]) });
    }
    const key = sort === "cum" ? "cum" as const : "flat" as const;
    return rows.sort((a, b) => b[key].time_ns - a[key].time_ns || b.cum.time_ns - a.cum.time_ns || (a.method < b.method ? -1 : 1));
  }

  async search(_ref: string, text: string): Promise<Search> {
    const g = this.#one, finds = finder(text);
    const hits = g.names.map((name, m) => m > 0 && finds(name));
    const marks = Uint8Array.from(g.method, (m, i) => Number(i > 0 && hits[m]));
    const rows = (await this.top("", "cum")).filter((r) => hits[g.names.indexOf(r.method)]);
    return { total: this.#sum(outermost(g, marks)), found: rows.length, methods: rows.slice(0, 50).map((r) => ({ method: r.method, ...r.cum })) };
  }

  async query(_ref: string, path: string): Promise<Query> {
    const g = this.#one, ends: number[] = [], marks = this.#ends(path);
    for (let i = 1; i < marks.length; i++) if (marks[i]) ends.push(i);
    const group = (of: (end: number) => [number, number][]): Call[] => {
      const groups = new Map<string, number[]>(), first = new Map<string, [number, number]>();
      for (const end of ends) {
        for (const [frame, call] of of(end)) {
          const key = g.method[frame] + ":" + g.line[call];
          groups.get(key)?.push(frame === call ? frame : end) ?? groups.set(key, [frame === call ? frame : end]);
          first.set(key, [frame, call]);
        }
      }
      return [...groups].map(([key, frames]) => {
        const [frame, call] = first.get(key)!;
        return { method: frame === 0 ? "" : nameOf(g, frame), line: g.line[call], ...this.#sum(frames) };
      }).sort((a, b) => b.time_ns - a.time_ns);
    };
    const own = this.#ownSamples();
    let self = 0, selfSamples = 0;
    for (const end of ends) { self += g.sides[0].self[end]; if (g.more[end] === 0) selfSamples += own[end]; }
    return {
      total: this.#sum(ends), distinct: this.#sum(outermost(g, marks)), self: this.#counters(selfSamples, self),
      callers: group((end) => { const b = begin(g, end, path); return [[g.parent[b], b]]; }),
      callees: group((end) => childrenOf(g, end).map((c) => [c, c])),
    };
  }
}

// begin returns the first frame of a path that ends in a frame.
function begin(g: Graph, end: number, path: string): number {
  for (let k = path.split(/\s+>\s+/).length - 1; k > 0; k--) end = g.parent[end];
  return end;
}

// outermost lists the marked frames that are below no other marked frame.
function outermost(g: Graph, marks: Uint8Array): number[] {
  const all: number[] = [];
  for (let i = 1; i < marks.length; i++) if (marks[i]) { all.push(i); i = g.last[i]; }
  return all;
}

const mostFrames = 100_000;

// A branch is a frame of a graph that grows, and what becomes it.
interface Branch { spots: Spot[]; parent: number; method: number; line: number; width: number }

// grow makes the graph of what is below some frames, or above them, in which equal calls are one frame.
function grow(g: Graph, roots: Spot[], q: FlameQuery, up: boolean): Graph {
  const lone = up && !q.path; // each sample is counted where it was taken
  if (roots.length === 1 && roots[0].at === 0 && !up && !q.by) return g;
  const own = ownOf(g), by = measured(g, q.by ?? "", own), figures = by.map((m) => m.all);
  const widths = by.map((m) => lone ? m.own : m.all), seen = lone ? own : g.sides.map((s) => s.samples), rests = by.map((m) => m.rest);
  const sum = (all: Float64Array, spots: Spot[], of: keyof Spot) => spots.reduce((n, p) => n + all[p[of]], 0);
  const parent: number[] = [], method: number[] = [], line: number[] = [], id: string[] = [], more: number[] = [], changes = new Map<number, Change>();
  const sides = g.sides.map(() => ({ value: [] as number[], self: [] as number[], rest: [] as number[], samples: [] as number[], activations: null }));
  const names = g.names.concat(q.path || g.names[0]);
  const stack: Branch[] = [{ spots: roots, parent: 0, method: names.length - 1, line: 0, width: 0 }];
  while (stack.length > 0 && parent.length < mostFrames) {
    const b = stack.pop()!, at = parent.length, change = !up && b.spots.length === 1 ? g.changes.get(b.spots[0].at) : undefined;
    parent.push(b.parent); method.push(b.method); line.push(b.line); id.push(String(at));
    if (change) changes.set(at, change);
    const below = new Map<number, Branch>();
    const add = (m: number, l: number, spot: Spot) => {
      const key = m * 2 ** 22 + l, group = below.get(key);
      if (group) group.spots.push(spot);
      else below.set(key, { spots: [spot], parent: at, method: m, line: l, width: 0 });
    };
    let cut = 0;
    for (const spot of b.spots) {
      if (!up) {
        for (const c of childrenOf(g, spot.at)) add(g.method[c], g.line[c], { at: c, of: c });
        cut += g.more[spot.at];
      } else if (at === 0 && lone) add(g.method[spot.at], 0, spot);
      else if (spot.at !== 0 && g.parent[spot.at] !== 0) add(g.method[g.parent[spot.at]], g.line[spot.at], { at: g.parent[spot.at], of: spot.of });
    }
    const groups = [...below.values()];
    sides.forEach((out, k) => {
      const value = sum(widths[k], b.spots, "of"), rest = up ? 0 : sum(rests[k], b.spots, "at");
      let self = value - rest;
      for (const group of groups) {
        const part = sum(widths[k], group.spots, "of");
        self -= part;
        group.width += part / (figures[k][0] || 1);
      }
      out.value.push(value); out.self.push(self); out.rest.push(rest); out.samples.push(sum(seen[k], b.spots, "of"));
    });
    const wide = groups.filter((group) => group.width > 0);
    more.push(cut + groups.length - wide.length);
    stack.push(...wide.sort((x, y) => x.width - y.width));
  }
  return finish({ parent, method, line, more, id, names, changes, notes: g.notes, sides, unit: q.by ? q.by + "/count" : g.unit });
}

// measured are figures of each frame by side: with all below it, its own, and of what is summed up.
function measured(g: Graph, by: string, own: Float64Array[]): { all: Float64Array; own: Float64Array; rest: Float64Array }[] {
  return g.sides.map((s, k) => {
    if (by === "samples") return { all: s.samples, own: own[k], rest: own[k].map((n, i) => g.more[i] > 0 ? n : 0) };
    return by === "activations" && s.activations ? { all: sumUp(g.parent, s.activations), own: s.activations, rest: s.rest } : { all: s.value, own: s.self, rest: s.rest };
  });
}

// sumUp adds to each frame those below it.
function sumUp(parent: Int32Array, own: ArrayLike<number>): Float64Array {
  const all = Float64Array.from(own);
  for (let i = all.length - 1; i > 0; i--) all[parent[i]] += all[i];
  return all;
}

// ownOf are samples of each frame itself, and of what is summed up in its rest, by side.
function ownOf(g: Graph): Float64Array[] {
  return g.sides.map((s) => {
    const own = s.samples.slice();
    for (let i = 1; i < own.length; i++) own[g.parent[i]] -= s.samples[i];
    return own;
  });
}
