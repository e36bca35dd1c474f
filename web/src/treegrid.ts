// The table of a graph: the tree itself, of which the canvas is the picture. Only visible rows are in the document.
import { count, h, percent, plural, quantity, replace, shown } from "./dom";
import { type Graph, childrenOf, nameOf, shareOf } from "./graph";

const rowHeight = 24; // px
const openShare = 0.1; // frames of this share are open at first
const mostOpen = 2000; // levels

interface Row { frame: number; level: number; at: number; of: number; isRest: boolean }

// A frame is picked by a person, or quietly: it was before.
export interface TreeActions { pick(frame: number, quietly?: boolean): void; zoom(frame: number): void; focus(frame: number): void }

// Kept is what a person has opened and chosen, by the names of frames that hold in later profiles.
export interface Kept { root: string; open: Set<string>; closed: Set<string>; chosen: string; isRest: boolean }

export const treeOf = new WeakMap<Element, TreeGrid>();

export class TreeGrid {
  readonly element: HTMLElement;
  #body = h("div.rows", { role: "rowgroup" });
  #head = h("div.row", { role: "row" });
  #open = new Set<number>();
  #closed = new Set<string>(); // by a person, by id
  #rows: Row[] = [];
  #graph: Graph | null = null;
  #root = 0;
  #selected = 0; // row
  #height = 0; // px, of what was drawn last

  constructor(private actions: TreeActions, label: string) {
    this.element = h("div.tree", { role: "treegrid", tabindex: 0, "aria-label": label, scroll: () => this.#draw(), keydown: (e) => this.#key(e) },
      h("div.headgroup", { role: "rowgroup" }, this.#head), this.#body);
    new ResizeObserver(() => { if (this.#height !== this.element.clientHeight) this.#draw(); }).observe(this.element); // which is told of the first size, too
    treeOf.set(this.element, this);
  }

  show(graph: Graph, root: number): void {
    [this.#graph, this.#root, this.#selected] = [graph, root, 0];
    this.#closed.clear();
    this.#open = new Set([root]);
    for (let i = root; i <= graph.last[root] && this.#open.size < mostOpen; i++) {
      if (this.#open.has(graph.parent[i]) && graph.width[i] >= openShare * graph.width[root]) this.#open.add(i);
    }
    const names = graph.sides.length > 1 ? ["change", "A", "B", "samples A", "samples B", "frame"] : ["total", "share", "self", "samples", "frame"];
    replace(this.#head, ...names.map((n) => h("span", { role: "columnheader", class: n === "frame" ? "name" : "figure" }, n)));
    this.#list();
  }

  kept(): Kept | undefined {
    const g = this.#graph, r = this.#rows[this.#selected];
    return g && r ? { root: g.id[this.#root], open: new Set([...this.#open].map((i) => g.id[i])), closed: new Set(this.#closed), chosen: g.id[r.frame], isRest: r.isRest } : undefined;
  }

  restore(k: Kept): void {
    const g = this.#graph;
    if (!g || g.id[this.#root] !== k.root) return;
    this.#closed = k.closed;
    for (let i = this.#root; i <= g.last[this.#root]; i++) {
      if (k.closed.has(g.id[i])) this.#open.delete(i);
      else if (k.open.has(g.id[i])) this.#open.add(i);
    }
    this.#list();
    const at = this.#rows.findIndex((r) => g.id[r.frame] === k.chosen && r.isRest === k.isRest);
    if (at <= 0) return;
    this.#selected = at;
    this.#draw();
    this.actions.pick(this.#rows[at].frame, true);
  }

  // list finds the rows of open frames.
  #list(): void {
    const g = this.#graph!;
    this.#rows = [];
    const stack: Row[] = [{ frame: this.#root, level: 1, at: 1, of: 1, isRest: false }];
    while (stack.length > 0) {
      const row = stack.pop()!;
      this.#rows.push(row);
      if (row.isRest || !this.#open.has(row.frame)) continue;
      const below = childrenOf(g, row.frame), of = below.length + (g.more[row.frame] > 0 ? 1 : 0);
      if (of > below.length) stack.push({ frame: row.frame, level: row.level + 1, at: of, of, isRest: true });
      for (let k = below.length - 1; k >= 0; k--) stack.push({ frame: below[k], level: row.level + 1, at: k + 1, of, isRest: false });
    }
    this.#selected = Math.min(this.#selected, this.#rows.length - 1);
    this.element.setAttribute("aria-rowcount", String(this.#rows.length + 1));
    this.#body.style.height = this.#rows.length * rowHeight + "px";
    this.#draw();
  }

  #draw(): void {
    this.#height = this.element.clientHeight;
    if (!this.#graph || this.#height === 0) return; // it has no place yet
    const first = Math.max(0, Math.floor(this.element.scrollTop / rowHeight) - 4);
    const last = Math.min(this.#rows.length, first + Math.ceil(this.#height / rowHeight) + 8);
    const rows: HTMLElement[] = [];
    for (let i = first; i < last; i++) rows.push(this.#row(i));
    replace(this.#body, ...rows);
    if (this.#selected >= first && this.#selected < last) this.element.setAttribute("aria-activedescendant", rowID(this, this.#selected));
    else this.element.removeAttribute("aria-activedescendant"); // it is not in the document
  }

  #row(i: number): HTMLElement {
    const r = this.#rows[i], isBranch = !r.isRest && this.#hasBelow(r.frame);
    const e = h("div", {
      role: "row", class: i === this.#selected ? "row selected" : "row", id: rowID(this, i), "aria-rowindex": i + 2, "aria-level": r.level, "aria-posinset": r.at,
      "aria-setsize": r.of, "aria-expanded": isBranch ? String(this.#open.has(r.frame)) : null, "aria-selected": String(i === this.#selected),
      click: () => { this.#select(i); if (isBranch) this.#toggle(r.frame); if (r.isRest) this.actions.zoom(r.frame); },
      dblclick: () => { if (!r.isRest) this.actions.focus(r.frame); },
    }, ...this.#figures(r).map((text) => h("span.figure", { role: "gridcell" }, text)));
    const mark = isBranch ? (this.#open.has(r.frame) ? "▾ " : "▸ ") : "  ";
    const name = h("span.name", { role: "gridcell" }, mark + this.#title(r));
    name.style.paddingLeft = Math.min(r.level - 1, 40) * 12 + "px";
    e.style.top = i * rowHeight + "px";
    e.append(name);
    return e;
  }

  #hasBelow(frame: number): boolean { return this.#graph!.last[frame] > frame || this.#graph!.more[frame] > 0; }

  #title(r: Row): string { return r.isRest ? "(" + count(this.#graph!.more[r.frame]) + " more)" : shown(nameOf(this.#graph!, r.frame)); }

  #figures(r: Row): string[] {
    const g = this.#graph!, part = (k: number) => r.isRest ? g.sides[k].rest[r.frame] / (g.sides[k].value[0] || 1) : shareOf(g, r.frame, k);
    const s = g.sides[0];
    if (g.sides.length > 1) {
      const c = r.isRest ? undefined : g.changes.get(r.frame);
      const change = c ? (c.points > 0 ? "▲ +" : "▼ −") + Math.abs(c.points).toFixed(1) : "";
      return [change, percent(part(0)), percent(part(1)), r.isRest ? "" : count(s.samples[r.frame]), r.isRest ? "" : count(g.sides[1].samples[r.frame])];
    }
    if (r.isRest) return [quantity(s.rest[r.frame], g.unit), percent(part(0)), "", ""];
    return [quantity(s.value[r.frame], g.unit), percent(part(0)), quantity(s.self[r.frame], g.unit), count(s.samples[r.frame])];
  }

  // describe says what a frame is, for people who hear it.
  describe(frame: number): string {
    const g = this.#graph!, n = childrenOf(g, frame).length + g.more[frame], c = g.changes.get(frame);
    const shares = g.sides.length > 1 ? percent(shareOf(g, frame)) + " of A, " + percent(shareOf(g, frame, 1)) + " of B" : percent(shareOf(g, frame));
    const change = c ? `, changed by ${c.points.toFixed(1)} points (p ${c.p.toPrecision(2)})` : g.sides.length > 1 ? ", no significant change" : "";
    return `${shown(nameOf(g, frame))}, ${shares}, ${plural(g.sides[g.sides.length - 1].samples[frame], "sample")}, ${plural(n, "callee")}${change}`;
  }

  #toggle(frame: number): void {
    const id = this.#graph!.id[frame];
    if (this.#open.delete(frame)) this.#closed.add(id);
    else { this.#open.add(frame); this.#closed.delete(id); }
    this.#list();
  }

  #select(i: number): void {
    this.#selected = Math.max(0, Math.min(i, this.#rows.length - 1));
    const y = this.#selected * rowHeight, e = this.element, room = e.clientHeight - 2 * rowHeight;
    if (y < e.scrollTop) e.scrollTop = y;
    if (y > e.scrollTop + room) e.scrollTop = y - room;
    this.#draw();
    this.actions.pick(this.#rows[this.#selected].frame);
  }

  // reveal opens what is above a frame, and selects it.
  reveal(frame: number): void {
    const g = this.#graph!;
    for (let p = frame; p !== this.#root && p > 0; p = g.parent[p]) this.#open.add(g.parent[p]);
    this.#list();
    this.#select(this.#rows.findIndex((r) => r.frame === frame && !r.isRest));
  }

  #key(e: KeyboardEvent): void {
    const r = this.#rows[this.#selected];
    if (!r || e.ctrlKey || e.metaKey || e.altKey) return;
    const page = Math.max(1, Math.floor(this.element.clientHeight / rowHeight) - 2);
    const moves: Record<string, number> = { ArrowDown: this.#selected + 1, ArrowUp: this.#selected - 1, Home: 0, End: this.#rows.length - 1, PageDown: this.#selected + page, PageUp: this.#selected - page };
    if (e.key in moves) this.#select(moves[e.key]);
    else if (e.key === "ArrowRight") {
      if (!r.isRest && this.#hasBelow(r.frame) && !this.#open.has(r.frame)) this.#toggle(r.frame);
      else if (this.#rows[this.#selected + 1]?.level > r.level) this.#select(this.#selected + 1);
    } else if (e.key === "ArrowLeft") {
      if (!r.isRest && this.#open.has(r.frame)) this.#toggle(r.frame);
      else this.#select(this.#rows.findLastIndex((p, k) => k < this.#selected && p.level < r.level));
    } else if (e.key === "Enter") this.actions.zoom(r.frame);
    else if (e.key === "f" && !r.isRest) this.actions.focus(r.frame);
    else return;
    e.preventDefault();
  }
}

const numbers = new WeakMap<TreeGrid, number>();
let last = 0;

function rowID(t: TreeGrid, i: number): string {
  if (!numbers.has(t)) numbers.set(t, ++last);
  return `t${numbers.get(t)}r${i}`;
}
