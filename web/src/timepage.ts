// The heat map of a time: when a program was busy. A part of it can be selected, and compared with another one.
import type { Heat } from "./api";
import { controls, h, percent, quantity, shown } from "./dom";
import { type Context, change, command, link, param, searchBox, served, strip } from "./page";
import { type Column, figure, table, word } from "./table";

const cellHeight = 4, mostLines = 96, leastWidth = 2; // px; lines of the table; px

// A span is from one cell to before another.
interface Span { from: number; to: number }

export async function timePage(c: Context): Promise<HTMLElement[]> {
  const { ref } = c.state, path = param(c, "path");
  const heat = await served(c).heat(ref, path), map = new HeatMap(c, heat);
  const times = [param(c, "a"), param(c, "b")], [of, base] = times.map((at) => at && nameOf(ref) + "@" + at);
  map.show(map.spanOf(times[0]), map.spanOf(times[1]));
  const actions = h("p.actions", h("button", { click: () => map.setBase(!map.base), "aria-pressed": "false", class: "base" }, "Drag selects the base"), " ",
    of ? link(c, "Flame graph of the selection", "flame", of) : "Drag over a time, or choose one in the table.", " ",
    of ? link(c, "Look closer", "time", of, { path }) : null, " ", of && base ? link(c, "Compare it with the base", "compare", "", { a: base, b: of }) : null);
  return [strip(c, heat.profile), controls(searchBox(c, "A > B > C: part of a method or a path", path, (text) => change(c, { path: text }))),
    map.element, h("p.legend-heat", path === "" ? "Darker: more " + unitName(heat.profile.unit) + "." : "Darker: a larger share of " + shown(path) + "."),
    actions, map.table(), command("heat", "@" + ref, path)];
}

// nameOf is the reference to all moments of a target.
function nameOf(ref: string): string { return ref.split("@", 1)[0]; }

function unitName(unit: string): string { return unit === "cpu/nanoseconds" ? "CPU time" : unit.split("/")[0]; }

class HeatMap {
  readonly element: HTMLElement;
  base = false; // dragging selects the base
  #canvas = h("canvas", { "aria-hidden": "true" });
  #columns: number;
  #start: number; // ms
  #cell: number; // ms
  #shares: Float64Array; // of the darkest cell, or of the path
  #a: Span | null = null;
  #b: Span | null = null;
  #drag: { from: number; to: number } | null = null;
  #hover = h("p.detail");

  constructor(private c: Context, private heat: Heat) {
    this.#columns = heat.values.length / heat.rows;
    this.#start = Date.parse(heat.from);
    this.#cell = heat.column_ns / heat.rows / 1e6;
    this.#shares = sharesOf(heat);
    this.element = h("section.heat", { "aria-label": "heat map" }, this.#canvas, this.#hover);
    this.#canvas.addEventListener("pointerdown", (e) => { this.#canvas.setPointerCapture(e.pointerId); const at = this.#at(e); this.#drag = { from: at, to: at }; this.#draw(); });
    this.#canvas.addEventListener("pointermove", (e) => this.#move(e));
    this.#canvas.addEventListener("pointerup", () => this.#drop());
    new ResizeObserver(() => this.#draw()).observe(this.element);
  }

  show(a: Span | null, b: Span | null): void { [this.#a, this.#b] = [a, b]; }

  setBase(on: boolean): void {
    this.base = on;
    document.querySelector(".base")?.setAttribute("aria-pressed", String(on));
  }

  // spanOf reads FROM..TO.
  spanOf(text: string): Span | null {
    const [from, to] = text.split("..").map((t) => Math.round((Date.parse(t) - this.#start) / this.#cell));
    return Number.isFinite(from) && Number.isFinite(to) && to > from ? { from, to } : null;
  }

  #time(cell: number): string { return new Date(this.#start + cell * this.#cell).toISOString(); }

  #text(s: Span): string { return this.#time(s.from) + ".." + this.#time(s.to); }

  #select(s: Span, isBase: boolean): void { change(this.c, { [isBase ? "b" : "a"]: this.#text(s) }); }

  // at returns the cell under the pointer.
  #at(e: PointerEvent): number {
    const box = this.#canvas.getBoundingClientRect();
    const column = Math.floor((e.clientX - box.left) / box.width * this.#columns), row = Math.floor((e.clientY - box.top) / box.height * this.heat.rows);
    const inside = (v: number, most: number) => Math.min(Math.max(v, 0), most - 1);
    return inside(column, this.#columns) * this.heat.rows + inside(row, this.heat.rows);
  }

  #move(e: PointerEvent): void {
    const at = this.#at(e), { values, focus_values: of, profile: { unit } } = this.heat;
    if (this.#drag) { this.#drag.to = at; this.#draw(); }
    this.#hover.textContent = clock(this.#time(at)) + ": " + quantity(values[at], unit) + (of ? ", " + percent(of[at] / (values[at] || 1)) + " of it in the path" : "");
  }

  #drop(): void {
    const d = this.#drag;
    this.#drag = null;
    if (d) this.#select({ from: Math.min(d.from, d.to), to: Math.max(d.from, d.to) + 1 }, this.base);
  }

  #draw(): void {
    const { rows } = this.heat, width = Math.max(this.element.clientWidth, leastWidth), height = rows * cellHeight;
    const image = new ImageData(this.#columns, rows);
    for (let i = 0; i < this.#shares.length; i++) {
      const at = 4 * ((i % rows) * this.#columns + Math.floor(i / rows));
      image.data.set([190, 70, 0, Math.round(255 * this.#shares[i])], at);
    }
    const small = h("canvas", { width: this.#columns, height: rows });
    small.getContext("2d")!.putImageData(image, 0, 0);
    Object.assign(this.#canvas, { width, height });
    const p = this.#canvas.getContext("2d")!;
    p.imageSmoothingEnabled = false;
    p.drawImage(small, 0, 0, width, height);
    const drag = this.#drag && { from: Math.min(this.#drag.from, this.#drag.to), to: Math.max(this.#drag.from, this.#drag.to) + 1 };
    this.#outline(p, this.base ? drag ?? this.#b : this.#b, [4, 3]);
    this.#outline(p, this.base ? this.#a : drag ?? this.#a, []);
    this.element.dataset.drawn = String(this.#shares.length);
  }

  // outline draws a line around the columns of a span. That of a base is dashed.
  #outline(p: CanvasRenderingContext2D, s: Span | null, dash: number[]): void {
    if (!s) return;
    const scale = this.#canvas.width / this.#columns, { rows } = this.heat;
    const left = Math.floor(s.from / rows) * scale, right = Math.ceil(s.to / rows) * scale;
    const one = Math.ceil(s.to / rows) - Math.floor(s.from / rows) === 1; // column
    const top = one ? (s.from % rows) * cellHeight : 0, bottom = one && s.to % rows !== 0 ? (s.to % rows) * cellHeight : this.#canvas.height;
    p.strokeStyle = "#0a58ca";
    p.lineWidth = 2;
    p.setLineDash(dash);
    p.strokeRect(left + 1, top + 1, Math.max(right - left - 2, leastWidth), Math.max(bottom - top - 2, leastWidth));
  }

  // table has the times that the picture shows, some columns a line, to be selected without a pointer.
  table(): HTMLElement {
    const { values, focus_values: of, rows, profile: { unit } } = this.heat, step = Math.ceil(this.#columns / mostLines) * rows;
    const lines: (Span & { sum: number; of: number })[] = [];
    for (let from = 0; from < values.length; from += step) {
      const to = Math.min(from + step, values.length), sum = total(values, from, to);
      if (sum > 0) lines.push({ from, to, sum, of: of ? total(of, from, to) : 0 });
    }
    const radio = (name: string, isBase: boolean) => (s: Span) => {
      const now = isBase ? this.#b : this.#a;
      return h("input", { type: "radio", name, checked: now?.from === s.from && now.to === s.to, "aria-label": name + ": " + clock(this.#time(s.from)), change: () => this.#select(s, isBase) });
    };
    const all: Column<(typeof lines)[number]>[] = [word("from", (s) => clock(this.#time(s.from))), word("to", (s) => clock(this.#time(s.to))),
      figure(unitName(unit), (s) => quantity(s.sum, unit))];
    if (of) all.push(figure("in the path", (s) => percent(s.of / s.sum)));
    all.push(figure("select", radio("select", false)), figure("base", radio("base", true)));
    return table("times, UTC", all, lines, "There was no sample.");
  }
}

function total(all: number[], from: number, to: number): number {
  let sum = 0;
  for (let i = from; i < to; i++) sum += all[i];
  return sum;
}

// sharesOf says how dark cells are: by the path's share, or by the weight, where few cells may be darker than all others.
function sharesOf({ values, focus_values: of }: Heat): Float64Array {
  if (of) return Float64Array.from(values, (v, i) => v > 0 ? of[i] / v : 0);
  const busy = values.filter((v) => v > 0).sort((x, y) => x - y), most = busy[Math.floor(busy.length * 0.99)] ?? 1;
  return Float64Array.from(values, (v) => Math.min(1, v / most));
}

function clock(time: string): string { return time.slice(0, 10) + " " + time.slice(11, 23).replace(/(:00)?\.000$/, ""); }
