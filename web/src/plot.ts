// Lines over time, one below the other, with one cursor through all. They are pictures of a table that stands beside them.
import { h, replace, shown, svg } from "./dom";

export interface Line { name: string; values: (number | null)[]; text(value: number): string; band?: [number, number] }
export interface Mark { t: number; kind: string; text: string }

const width = 1000, height = 60; // of a line's own units: it is stretched

// plots draws lines over the times t, seconds, which are in order.
export function plots(t: number[], lines: Line[], marks: Mark[]): HTMLElement {
  const span = t[t.length - 1] - t[0] || 1, x = (at: number) => (at - t[0]) / span * width;
  const cursors: SVGElement[] = [], captions: HTMLElement[] = [];
  const figures = lines.map((line) => {
    const known = line.values.filter((v): v is number => v !== null);
    const top = Math.max(...known, line.band?.[1] ?? 0, 1e-12), y = (v: number) => height - 2 - v / top * (height - 4);
    const parts: string[] = [];
    let part: string[] = [];
    for (const i of [...visible(line.values, (i) => x(t[i])), -1]) {
      const v = line.values[i] ?? null;
      if (v !== null) part.push(x(t[i]).toFixed(1) + "," + y(v).toFixed(1));
      else if (part.length > 0) { parts.push(part.join(" ")); part = []; }
    }
    const cursor = svg("line", { class: "cursor", y1: 0, y2: height, x1: -1, x2: -1 });
    const caption = h("figcaption");
    cursors.push(cursor);
    captions.push(caption);
    const band = line.band ? [svg("rect", { class: "band", x: 0, width, y: y(line.band[1]), height: y(line.band[0]) - y(line.band[1]) })] : [];
    return h("figure", caption, svg("svg", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none" }, ...band,
      ...marks.filter((m) => m.t >= t[0]).map((m) => svg("line", { class: "mark " + m.kind, x1: x(m.t), x2: x(m.t), y1: 0, y2: height })),
      ...parts.map((points) => svg("polyline", { points })), cursor));
  });
  const point = (i: number) => {
    lines.forEach((line, k) => {
      const v = line.values[i];
      replace(captions[k], h("b", line.name), " " + (v === null ? "–" : shown(line.text(v))) + ", " + clock(t[i]));
      for (const end of ["x1", "x2"]) cursors[k].setAttribute(end, String(x(t[i])));
    });
  };
  point(t.length - 1);
  const all = h("div.plots", { "aria-hidden": "true", mousemove: (e: MouseEvent) => {
    const box = all.getBoundingClientRect(), at = t[0] + (e.clientX - box.left) / box.width * span;
    const i = t.findIndex((s) => s >= at);
    point(i < 0 ? t.length - 1 : i);
  } }, ...figures);
  return all;
}

// visible are the numbers of values that are seen: of those at one place the lowest and the highest. Gaps stay.
function visible(values: (number | null)[], place: (i: number) => number): number[] {
  const all: number[] = [];
  let at = -1, low = -1, high = -1; // none yet
  const end = () => { if (low >= 0) all.push(...new Set([Math.min(low, high), Math.max(low, high)])); low = -1; };
  values.forEach((v, i) => {
    const p = Math.floor(place(i));
    if (v === null || p !== at) end();
    if (v === null) { all.push(i); return; }
    if (low < 0) { at = p; low = high = i; }
    if (v < values[low]!) low = i;
    if (v > values[high]!) high = i;
  });
  end();
  return all;
}

export function clock(t: number): string { return new Date(1000 * t).toTimeString().slice(0, 5); }

// spark draws how something went on, the latest value last. It stands beside its last value as text.
export function spark(values: number[]): SVGElement {
  const top = Math.max(...values, 1e-12), last = Math.max(values.length - 1, 1);
  return svg("svg", { class: "spark", "aria-hidden": "true", viewBox: "0 0 100 20", preserveAspectRatio: "none" },
    svg("polyline", { points: values.map((v, i) => (i / last * 100).toFixed(1) + "," + (19 - v / top * 18).toFixed(1)).join(" ") }));
}
