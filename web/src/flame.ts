// The picture of a graph: a canvas no higher than its window, on which only what is in view is drawn. It is hidden from
// readers of screens, who have the table (treegrid.ts).
import { h, percent, shown } from "./dom";
import { type Graph, childrenOf, nameOf, shareOf } from "./graph";
import { changeColour, frameColour } from "./colour";
import { CanvasPen, type Pen, SVGPen } from "./pen";

const rowHeight = 20, charWidth = 6.7, padding = 3, leastWidth = 0.4, leastText = 3 * charWidth + 2 * padding; // px
const highest = 8192, sharp = 2, svgType = "image/svg+xml"; // of pictures: px, pixels to a px

export interface FlameActions { pick(frame: number): void; zoom(frame: number): void; focus(frame: number): void }

// One listener for all pictures: one of each would keep those that are shown no more.
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => document.querySelectorAll(".flame").forEach((e) => e.dispatchEvent(new Event("scroll"))));

export class Flame {
  readonly element: HTMLElement;
  #canvas = h("canvas");
  #spacer = h("div");
  #rows: number[][] = []; // frames by level below the root
  #scale = 1;
  #waiting = false;
  #graph: Graph | null = null;
  #root = 0;
  #picked = -1;
  #marks: Uint8Array | null = null;
  #filled = -1; // the last pixel of a row with frames that are narrower
  #size = ""; // of the last picture
  #sized = ""; // of the canvas
  drawn = 0; // frames of the last picture

  // up: the callers are above what they call, and the root is at the bottom.
  constructor(private actions: FlameActions, private up = false) {
    this.element = h("div.flame", { "aria-hidden": "true", scroll: () => this.#draw() }, this.#canvas, this.#spacer);
    this.#canvas.addEventListener("mousemove", (e) => this.#hover(e));
    this.#canvas.addEventListener("click", (e) => { const i = this.#at(e); if (i >= 0) this.actions.zoom(i); });
    this.#canvas.addEventListener("dblclick", (e) => { const i = this.#at(e); if (i >= 0) this.actions.focus(i); });
    new ResizeObserver(() => { if (this.#size !== this.#sizeNow()) this.#draw(); }).observe(this.element); // which is told of the first size, too
  }

  show(graph: Graph, root: number, marks: Uint8Array | null): void {
    [this.#graph, this.#root, this.#marks, this.#rows] = [graph, root, marks, []];
    for (let i = root; i <= graph.last[root]; i++) (this.#rows[graph.depth[i] - graph.depth[root]] ??= []).push(i);
    if (this.#rows.at(-1)?.some((i) => graph.more[i] > 0)) this.#rows.push([]);
    this.#spacer.style.height = this.#rows.length * rowHeight + "px";
    this.element.style.height = `min(60vh, ${this.#rows.length * rowHeight + 2}px)`;
    this.#draw();
    if (this.up) requestAnimationFrame(() => { this.element.scrollTop = this.element.scrollHeight; });
  }

  // presented waits until a picture that is to be drawn is on the screen.
  async presented(): Promise<void> {
    for (let frames = this.#waiting ? 2 : 0; frames > 0; frames--) await new Promise(requestAnimationFrame);
  }

  pick(frame: number): void {
    this.#picked = frame;
    const g = this.#graph;
    if (g && frame >= 0) {
      const y = this.#top(g.depth[frame] - g.depth[this.#root]);
      const e = this.element;
      if (y < e.scrollTop || y + rowHeight > e.scrollTop + e.clientHeight) e.scrollTop = y - e.clientHeight / 2;
    }
    this.#draw();
  }

  #top(row: number): number { return (this.up ? this.#rows.length - 1 - row : row) * rowHeight; }

  #draw(): void {
    if (this.#waiting) return;
    this.#waiting = true;
    requestAnimationFrame(() => { this.#waiting = false; this.#paint(); });
  }

  #sizeNow(): string { return this.element.clientWidth + " " + this.element.clientHeight + " " + devicePixelRatio; }

  #paint(): void {
    const g = this.#graph;
    if (!g) return;
    this.#size = this.#sizeNow();
    const ratio = devicePixelRatio || 1, width = this.element.clientWidth, height = this.element.clientHeight;
    if (this.#sized !== this.#size) { // or else the same pixels are used again
      this.#sized = this.#size;
      Object.assign(this.#canvas, { width: width * ratio, height: height * ratio });
      Object.assign(this.#canvas.style, { width: width + "px", height: height + "px" });
    }
    this.#render(new CanvasPen(this.#canvas.getContext("2d", { alpha: false })!, ratio), g, width, height, this.element.scrollTop);
    this.element.dataset.drawn = String(this.drawn);
  }

  // render draws the rows that are in view.
  #render(c: Pen, g: Graph, width: number, height: number, scrolled: number): void {
    c.rect(0, 0, width, height, getComputedStyle(this.element).backgroundColor);
    this.#scale = width / (g.width[this.#root] || 1);
    this.drawn = 0;
    for (let row = 0; row < this.#rows.length; row++) {
      const y = this.#top(row) - scrolled;
      if (y + rowHeight < 0 || y > height) continue;
      this.#filled = -1;
      for (const i of this.#rows[row]) this.#frame(c, g, i, y);
      for (const i of this.#rows[row - 1] ?? []) if (g.more[i] > 0) this.#rest(c, g, i, y);
    }
  }

  // picture returns all rows as an image: of a type that a canvas has, or as SVG.
  async picture(type: string): Promise<Blob> {
    const g = this.#graph!, width = this.element.clientWidth, height = Math.min(this.#rows.length * rowHeight, highest);
    if (type === svgType) {
      const pen = new SVGPen(width, height);
      this.#render(pen, g, width, height, 0);
      return new Blob([pen.document()], { type });
    }
    const canvas = h("canvas", { width: width * sharp, height: height * sharp });
    this.#render(new CanvasPen(canvas.getContext("2d", { alpha: false })!, sharp), g, width, height, 0);
    return new Promise((done, failed) => canvas.toBlob((b) => b ? done(b) : failed(new Error("The picture is too large.")), type));
  }

  #x(g: Graph, left: number): number { return (left - g.left[this.#root]) * this.#scale; }

  #frame(c: Pen, g: Graph, i: number, y: number): void {
    const w = g.width[i] * this.#scale, x = this.#x(g, g.left[i]), change = g.changes.get(i);
    if (w < leastWidth) { // of those at one pixel the first is drawn
      if (Math.floor(x) === this.#filled) return;
      this.#filled = Math.floor(x);
    }
    let colour = g.sides.length > 1 ? changeColour(change) : frameColour(nameOf(g, i), g.sides[0].self[i] / (g.sides[0].value[i] || 1));
    if (this.#marks && !this.#marks[i]) colour = "#cfd3d8";
    c.rect(x, y, Math.max(w - 0.5, 0.5), rowHeight - 1, colour);
    if (change) c.hatch(x, y, w, rowHeight - 1, change.points > 0);
    if (i === this.#picked) c.outline(x + 1, y + 1, Math.max(w - 2.5, 1), rowHeight - 3);
    this.drawn++;
    if (w < leastText) return; // names are long to look at
    const sign = change ? (change.points > 0 ? "▲" : "▼") : "";
    this.#text(c, sign + labelOf(g, i), x, y, w);
  }

  #rest(c: Pen, g: Graph, i: number, y: number): void {
    const w = restWidth(g, i) * this.#scale;
    if (w < leastWidth) return;
    const left = restLeft(g, i);
    c.rect(this.#x(g, left), y, Math.max(w - 0.5, 0.5), rowHeight - 1, "#b6bcc4");
    this.#text(c, "(" + g.more[i] + " more)", this.#x(g, left), y, w);
  }

  #text(c: Pen, text: string, x: number, y: number, w: number): void {
    const from = Math.max(x, 0), fits = Math.floor((x + w - from - 2 * padding) / charWidth);
    if (fits < 3) return;
    c.text(text.length > fits ? text.slice(0, fits - 1) + "…" : text, from + padding, y + rowHeight / 2);
  }

  // at returns the frame at the pointer, that of what is summed up for the rest of a frame; -1: none.
  #at(e: MouseEvent): number {
    const g = this.#graph, box = this.#canvas.getBoundingClientRect();
    if (!g) return -1;
    let row = Math.floor((e.clientY - box.top + this.element.scrollTop) / rowHeight);
    if (this.up) row = this.#rows.length - 1 - row;
    const left = (e.clientX - box.left) / this.#scale + g.left[this.#root];
    const hit = this.#rows[row]?.find((i) => left >= g.left[i] && left < g.left[i] + g.width[i]);
    if (hit !== undefined) return hit;
    return this.#rows[row - 1]?.find((i) => { const begin = restLeft(g, i); return g.more[i] > 0 && left >= begin && left < begin + restWidth(g, i); }) ?? -1;
  }

  #hover(e: MouseEvent): void {
    const i = this.#at(e);
    this.#canvas.title = i < 0 || !this.#graph ? "" : shown(nameOf(this.#graph, i)) + " " + percent(shareOf(this.#graph, i));
    if (i >= 0) this.actions.pick(i);
  }
}

// restLeft is where what is summed up below a frame is drawn: after the frames that are not.
function restLeft(g: Graph, i: number): number {
  const end = childrenOf(g, i).at(-1);
  return end === undefined ? g.left[i] : g.left[end] + g.width[end];
}

function restWidth(g: Graph, i: number): number {
  let width = 0, sides = 0;
  for (const s of g.sides) if (s.value[0] > 0) { width += s.rest[i] / s.value[0]; sides++; }
  return sides > 0 ? width / sides : 0;
}

const labels = new WeakMap<Graph, string[]>(); // by method: a graph is drawn for each move of the pointer

function labelOf(g: Graph, i: number): string {
  const all = labels.get(g) ?? [];
  labels.set(g, all);
  return all[g.method[i]] ??= short(shown(nameOf(g, i), 200));
}

// short leaves the path of a package out of a name.
function short(name: string): string {
  const end = name.search(/[\[(<]/), head = end < 0 ? name : name.slice(0, end);
  return name.slice(head.lastIndexOf("/") + 1);
}
