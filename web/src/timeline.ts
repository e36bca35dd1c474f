// A time line: when there were profiles of each build. It is the picture of a table that stands beside it.
import { h, shown, svg } from "./dom";

export interface Span { from: number; to: number; lane: string } // ms

const width = 1000, height = 18, gap = 1; // of a lane's own units: it is stretched

// timeline draws spans, a lane for each kind. What a drag is over is picked, the earliest first.
export function timeline<S extends Span>(spans: S[], pick: (over: S[]) => void): HTMLElement {
  const begin = Math.min(...spans.map((s) => s.from)), time = Math.max(...spans.map((s) => s.to)) - begin || 1;
  const x = (t: number) => (t - begin) / time * width;
  const bars = new Map(spans.map((s) => [s, svg("rect", { x: x(s.from), width: Math.max(x(s.to) - x(s.from) - gap, gap), y: 2, height: height - 4 })]));
  const lanes = [...new Set(spans.map((s) => s.lane))].map((lane) => h("figure", h("figcaption", shown(lane)),
    svg("svg", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none" }, ...spans.filter((s) => s.lane === lane).map((s) => bars.get(s)!))));
  let first: number | null = null, over: S[] = [];
  const at = (e: PointerEvent) => { const box = all.getBoundingClientRect(); return begin + (e.clientX - box.left) / box.width * time; };
  const mark = (e: PointerEvent) => {
    if (first === null) return;
    const from = Math.min(first, at(e)), to = Math.max(first, at(e));
    over = spans.filter((s) => s.from <= to && s.to >= from).sort((a, b) => a.from - b.from);
    for (const [s, bar] of bars) bar.classList.toggle("chosen", over.includes(s));
  };
  const all = h("div.lanes", {
    "aria-hidden": "true",
    pointerdown: (e: PointerEvent) => { all.setPointerCapture(e.pointerId); first = at(e); mark(e); }, pointermove: mark,
    pointerup: (e: PointerEvent) => { mark(e); first = null; if (over.length > 0) pick(over); },
  }, ...lanes);
  return all;
}
