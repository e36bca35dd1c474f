// Tuning: how a target was sampled in the last day, why the interval is what it is, and what has happened.
import { controls, count, duration, h, quantity, share, shown } from "./dom";
import { type Context, choice, commandLine, link, param, served } from "./page";
import { type Line, clock, plots } from "./plot";
import { targetOf } from "./state";
import { type Column, figure, table, word } from "./table";

const units: Record<string, (v: number) => string> = {
  interval_ns: duration, repeated_percent: share, overhead_percent: share, lost_percent: share,
  settled_methods: share, settled_edges: share, settled_contexts: share, samples_per_second: (v) => v.toFixed(1), cpu_cores: (v) => v.toFixed(2), bytes: (v) => quantity(v, "/bytes"),
};

const mostRows = 120; // of the table, at first: a day by the minute takes a browser long

export async function tuningPage(c: Context): Promise<HTMLElement[]> {
  const { ref } = c.state, step = param(c, "step"), v = await served(c).tuning(ref, step), t: number[] = v.t ?? [];
  const head: HTMLElement[] = [h("h1", "Tuning of " + shown(targetOf(ref))), controls(choice(c, "step", "a row a", [["", "minute"], ["10m", "ten minutes"], ["1h", "hour"]]))];
  if (t.length === 0) return head.concat(h("p", "The first minute is not over."));
  const lines: Line[] = Object.entries<(number | null)[]>(v.series).map(([name, values]) => ({
    name: name.replaceAll("_", " ").replace(/ (ns|percent)$/, ""), values, text: units[name] ?? count,
    band: name === "repeated_percent" && v.band_percent ? v.band_percent : undefined,
  }));
  const columns: Column<number>[] = [word("minute", (i) => clock(t[i])), ...lines.map((l) => figure<number>(l.name, (i) => { const at = l.values[i]; return at === null ? "" : l.text(at); }))];
  const most = param(c, "all") ? t.length : mostRows;
  return head.concat(plots(t, lines, v.marks ?? []),
    h("p.legend", "A band is where the tuner wants the repetitions; an upright line is an event."),
    table("by time, the latest first", columns, t.map((_, i) => t.length - 1 - i).slice(0, most)),
    ...t.length > most ? [h("p", link(c, `all ${count(t.length)} rows`, "tuning", ref, { step, all: "1" }))] : [],
    ...events(v.marks ?? []));
}

// events lists what has happened, the latest first.
export function events(marks: any[]): HTMLElement[] {
  return [table("events", [word("at", (m: any) => clock(m.t)), word("kind"), word("what", "text")], marks.toReversed(), "Nothing has happened."), commandLine("ccmapd events")];
}
