// A target's own page: its figures, what is hottest, ever and now, the graph, what has happened, and what of it is stored.
import { count, h, share, shown } from "./dom";
import { flamePage } from "./flamepage";
import { rowsOf, targetColumns } from "./homepage";
import { topColumns } from "./listpages";
import { type Context, command, commandLine, link, moment, pair, problem, served, sides } from "./page";
import { targetOf } from "./state";
import { figure, table, word } from "./table";
import { type Span, timeline } from "./timeline";
import { events } from "./tuningpage";

const hottest = 10, mostEvents = 10;

// Period is a stored profile, with the reference that leads to it.
interface Period extends Span { ref: string; text: string; kind: string; build: string; isBest: boolean; samples?: number; settled?: number }

export async function targetPage(c: Context): Promise<HTMLElement[]> {
  const { ref } = c.state, name = targetOf(ref), source = served(c), t = await source.target(name);
  const [graph, tops, marks, periods] = await Promise.all([
    flamePage({ ...c, state: { ...c.state, page: "flame" } }).catch(problem), hot(c).catch(() => []), // the graph says why
    t.hosted ? [] : source.tuning(ref, "24h").then((v) => v.marks), t.hosted ? [] : source.periods(name).catch(() => [])]); // a daemon of before knows none
  const [strip, ...rest] = graph;
  return [h("h1", shown(name)), strip, table("target", targetColumns(c), rowsOf(t)), commandLine("ccmapd targets -v"), ...tops, ...rest,
    h("h2", "What has happened"), ...events(marks.slice(-mostEvents)), h("h2", "Builds and periods"), ...stored(c, name, periods.flatMap(periodOf(name)))];
}

// hot lists the hottest methods, of all time beside recent time if the profile tells.
async function hot(c: Context): Promise<HTMLElement[]> {
  const { ref } = c.state, [meta, flat, cum] = await Promise.all([c.source.meta(ref), c.source.top(ref, "flat", hottest), c.source.top(ref, "cum", hottest)]);
  return [table("hottest by themselves", topColumns(c, meta, flat), flat), table("hottest with all that they call", topColumns(c, meta, cum), cum), command("top", "-n", String(hottest), ref)];
}

// periodOf reads an entry of the store. Best files of phases, and what a hub knew, have no time.
const periodOf = (name: string) => (e: any): Period[] => {
  const isBest = e.kind === "best", build = shown(e.build, 40), from = Date.parse(e.from), to = Date.parse(e.to);
  if (!isBest && !["period", "hour", "day", "running"].includes(e.kind)) return [];
  const ref = isBest ? "best:" + name + "@" + e.build : e.kind === "running" ? "recent:" + name : "period:" + name + "@" + e.from;
  return [{ ref, kind: e.kind, build, isBest, from, to, lane: "build " + build, text: moment(e.from) + " " + e.kind, samples: e.quality?.samples, settled: e.quality?.settled_edges }];
};

// stored shows the stored profiles: as a time line, of which a drag selects one or two, and as a table.
function stored(c: Context, name: string, all: Period[]): HTMLElement[] {
  if (all.length === 0) return [h("p", "Nothing of it is stored.")];
  const see = ([a, ...others]: Period[]) => c.address.go(others.length === 0 ? c.address.link("flame", a.ref) : c.address.link("compare", "", { a: a.ref, b: others.at(-1)!.ref }));
  return [h("p", "Drag over one to see it, over more to compare the last with the first."), timeline(all.filter((p) => !p.isBest), see),
    table("stored profiles, UTC", [
      word("from", (p) => link(c, moment(new Date(p.from).toISOString()), "flame", p.ref)), word("to", (p) => moment(new Date(p.to).toISOString())),
      word("kind"), word("build"), figure("samples", (p) => p.samples === undefined ? "?" : count(p.samples)), figure("settled", (p) => p.settled ? share(p.settled) : ""),
      ...sides((p) => p.text)], all), pair(c), commandLine("ccmapd store list --target " + name)];
}
