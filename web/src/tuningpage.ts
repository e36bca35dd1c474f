// Tuning: how a target was sampled in the last day, why the interval is what it is, and what has happened.
import { Problem, Remote } from "./api";
import { controls, count, h, percent, quantity, shown } from "./dom";
import { type Context, choice, copied, link } from "./page";
import { type Line, clock, plots } from "./plot";
import { type Column, table, word } from "./table";

const share = (v: number) => percent(v / 100);
const units: Record<string, (v: number) => string> = {
  interval_ns: (v) => quantity(v, "/nanoseconds"), repeated_percent: share, overhead_percent: share, lost_percent: share,
  settled_methods: share, settled_edges: share, settled_contexts: share, samples_per_second: (v) => v.toFixed(1), cpu_cores: (v) => v.toFixed(2), bytes: (v) => quantity(v, "/bytes"),
};

const mostRows = 120; // of the table, at first: a day by the minute takes a browser long

export async function tuningPage(c: Context): Promise<HTMLElement[]> {
  if (!(c.source instanceof Remote)) throw new Problem("a page in a file has no history", "");
  const { ref, params } = c.state, step = params.get("step") ?? "";
  const v = await c.source.tuning(ref, step);
  const head: HTMLElement[] = [h("h1", {}, "Tuning of " + shown(ref.slice(ref.indexOf(":") + 1))), controls(choice(c, "step", "a row a", [["", "minute"], ["10m", "ten minutes"], ["1h", "hour"]]))];
  const t: number[] = v.t ?? [];
  if (t.length === 0) return head.concat(h("p", {}, "The first minute is not over."));
  const lines: Line[] = Object.entries<(number | null)[]>(v.series).map(([name, values]) => ({
    name: name.replaceAll("_", " ").replace(/ (ns|percent)$/, ""), values, text: units[name] ?? count,
    band: name === "repeated_percent" && v.band_percent ? v.band_percent : undefined,
  }));
  const columns: Column<number>[] = [word("minute", (i) => clock(t[i])), ...lines.map((l): Column<number> => ({
    name: l.name, cell: (i) => { const at = l.values[i]; return at === null ? "" : l.text(at); } }))];
  const marks: any[] = v.marks ?? [];
  return head.concat(plots(t, lines, marks),
    h("p", { class: "legend" }, "A band is where the tuner wants the repetitions; an upright line is an event."),
    table("by time, the latest first", columns, t.map((_, i) => t.length - 1 - i).slice(0, params.has("all") ? t.length : mostRows)),
    ...t.length > mostRows && !params.has("all") ? [h("p", {}, link(c, `all ${count(t.length)} rows`, "tuning", ref, { step, all: "1" }))] : [],
    table("events", [word("at", (m: any) => clock(m.t)), word("kind", (m: any) => shown(m.kind)), word("what", (m: any) => shown(m.text, 1000))],
      marks.slice().reverse(), "Nothing has happened."),
    h("p", { class: "command" }, copied("ccmapd events")));
}
