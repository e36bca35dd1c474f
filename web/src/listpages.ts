// Pages of lists: profiles, the hottest methods, and paths of calls.
import type { Call, Counters, Line, TopRow } from "./api";
import { controls, count, h, percent, plural, quantity, replace, shown } from "./dom";
import { methodLink } from "./flamepage";
import { type Context, change, command, fileOf, link, searchBox, searchLabel, strip } from "./page";
import { type Column, amount, figure, table, word } from "./table";
import { titleOf } from "./graph";

const part = (v: Counters) => percent(v.percent / 100);

export async function topPage(c: Context): Promise<HTMLElement[]> {
  const { ref, params } = c.state, sort = params.get("sort") ?? "flat", recent = params.get("recent") === "1", q = params.get("q") ?? "";
  const [meta, rows, found] = await Promise.all([c.source.meta(ref), c.source.top(ref, sort, recent), q !== "" ? c.source.search(ref, q, recent) : null]);
  const by = (name: string) => ({ sort: () => change(c, { sort: name }), isSorted: sort === name });
  const columns: Column<TopRow>[] = [
    { name: "flat", cell: (r) => quantity(r.flat.time_ns, meta.unit), ...by("flat") }, figure("flat %", (r) => part(r.flat)),
    { name: "cum", cell: (r) => quantity(r.cum.time_ns, meta.unit), ...by("cum") }, figure("cum %", (r) => part(r.cum)),
    figure("samples", (r) => count(r.cum.samples)), word("method", (r) => methodLink(c, titleOf(r))),
  ];
  const all = [strip(meta), controls(searchBox(c, searchLabel, q, (text) => change(c, { q: text })))];
  if (found) {
    all.push(h("p", { class: "found" }, `${plural(found.found, "method")} with “${shown(q, 100)}”: ${part(found.total)} of the whole.`),
      table("found, by all that they call", columns.slice(2, 3).map(() => (figure("cum %", part))).concat(word("method", (r) => methodLink(c, titleOf(r)))), found.methods));
  }
  const most = 500;
  all.push(table("hottest methods", columns, rows.slice(0, most)), command("top", sort !== "flat" ? "--sort" : "", sort !== "flat" ? sort : "", "-n", String(most), recent ? "--recent" : "", fileOf(meta, ref)));
  return all;
}

// queryPage shows a path of calls, or a method, which is a path of one.
export async function queryPage(c: Context): Promise<HTMLElement[]> {
  const { ref, params } = c.state, path = params.get("path") ?? params.get("name") ?? "", recent = params.get("recent") === "1";
  const meta = await c.source.meta(ref);
  const options = h("datalist", { id: "names" });
  const box = searchBox(c, "A > B > C: a method, or a path of calls", path, (text) => change(c, { path: text.trim(), name: undefined }));
  box.setAttribute("list", "names");
  box.addEventListener("input", () => { void complete(c, box as HTMLInputElement, options); });
  const all: HTMLElement[] = [strip(meta), controls(box, options)];
  if (path === "") return all;
  const q = await c.source.query(ref, path, recent);
  const columns = (page: (r: Call) => HTMLElement | string): Column<Call>[] => [
    figure("time", (r) => quantity(r.time_ns, meta.unit)), figure("share", part), amount("samples"),
    word("method", page),
    word("line", (r) => shown(r.file ? r.file + ":" + r.line : r.line ? String(r.line) : "")),
  ];
  const extend = (to: (name: string) => string) => (r: Call) => r.method === "" ? "(root)" : link(c, shown(titleOf(r)), "query", ref, { path: to(titleOf(r)), recent: recent ? "1" : undefined });
  const isPath = /\s>\s/.test(path);
  all.push(h("h1", {}, shown(path)),
    h("p", { class: "total" }, `${quantity(q.distinct.time_ns, meta.unit)}, ${part(q.distinct)} of the whole, ${count(q.distinct.samples)} samples; itself ${quantity(q.self.time_ns, meta.unit)}.`,
      q.distinct.samples !== q.total.samples ? ` Counted at every level of recursion: ${count(q.total.samples)}.` : ""),
    h("p", {}, link(c, "flame graph, both ways", "flame", ref, { path, recent: recent ? "1" : undefined })),
    table("callers", columns(extend((name) => isPath ? name + " > " + path : name)), q.callers), table("callees", columns(extend((name) => isPath ? path + " > " + name : name)), q.callees),
    command("query", recent ? "--recent" : "", fileOf(meta, ref), path));
  const target = isPath || c.isFile ? undefined : /^(@hub\/)?(live|best|recent|build|period|class-\d+):([^:@]+)/.exec(ref)?.[3];
  if (target) all.push(h("p", {}, link(c, "who calls it in the whole fleet", "fleet", "", { name: target, method: path })));
  if (!isPath && !recent) all.push(await linesOf(c, path, meta), command("lines", fileOf(meta, ref), path));
  return all;
}

const around = 3, mostSource = 2000; // lines of source

// linesOf lists the lines of a method, and between them those of its source file, if the user shows it.
async function linesOf(c: Context, path: string, meta: any): Promise<HTMLElement> {
  const lines = await c.source.lines(c.state.ref, path).catch(() => []), file = lines.find((r) => r.file)?.file ?? "";
  const source = file !== "" ? await c.source.source(file) : [];
  const columns: Column<Partial<Line>>[] = [
    figure("line", (r) => r.line ? String(r.line) : "–"), figure("self", (r) => r.self ? quantity(r.self.time_ns, meta.unit) : ""),
    figure("cum", (r) => r.cum ? quantity(r.cum.time_ns, meta.unit) : ""), figure("cum %", (r) => r.cum ? part(r.cum) : ""),
  ];
  if (source.length === 0) return table("lines" + (file !== "" ? " of " + shown(file) : ""), columns, lines);
  columns.push(word("source", (r) => h("code", {}, shown((source[(r.line ?? 0) - 1] ?? "").replaceAll("\t", "    "), 400))));
  const known = lines.map((r) => r.line ?? 0).filter((n) => n > 0), first = Math.max(1, Math.min(...known) - around);
  const all: Partial<Line>[] = lines.filter((r) => !r.line);
  for (let n = first; n <= Math.min(Math.max(...known) + around, source.length, first + mostSource); n++) all.push(lines.find((r) => r.line === n) ?? { line: n });
  return table("lines of " + shown(file), columns, all);
}

// complete lists names that go on with what is typed, after the last '>'.
async function complete(c: Context, box: HTMLInputElement, options: HTMLElement): Promise<void> {
  const parts = box.value.split(/(?<=\s>\s)/), word = parts.pop() ?? "";
  if (word.trim().length < 2) return;
  const typed = box.value;
  const found = await c.source.search(c.state.ref, word.trim(), false).catch(() => null);
  if (found && box.value === typed) replace(options, ...found.methods.slice(0, 20).map((m) => h("option", { value: parts.join("") + m.method })));
}
