// Pages of lists: profiles, the hottest methods, and paths of calls.
import type { Call, Labels, Line, Point, TopRow } from "./api";
import { controls, count, h, quantity, replace, share, shown } from "./dom";
import { methodLink } from "./flamepage";
import { titleOf } from "./graph";
import { siteTable } from "./receiverspage";
import { type Context, change, command, fileOf, foundText, link, param, searchBox, searchLabel, strip } from "./page";
import { targetOf } from "./state";
import { type Column, amount, figure, table, word } from "./table";

const part = (v: { percent: number }) => share(v.percent), most = 500;

// topColumns are those of the hottest methods: now beside ever, if the profile tells. By may add to two of them.
export function topColumns(c: Context, meta: any, rows: TopRow[], by: (sort: "flat" | "cum") => object = () => ({})): Column<TopRow>[] {
  const of = (sort: "flat" | "cum"): Column<TopRow>[] => [
    { ...figure(sort, (r) => quantity(r[sort].time_ns, meta.unit)), ...by(sort) }, figure(sort + " %", (r) => part(r[sort])),
    ...rows.some((r) => r.recent) ? [figure<TopRow>(sort + " % now", (r) => r.recent ? part(r.recent[sort]) : "")] : []];
  return [...of("flat"), ...of("cum"), figure("samples", (r) => count(r.cum.samples)), word("method", (r) => methodLink(c, titleOf(r)))];
}

export async function topPage(c: Context): Promise<HTMLElement[]> {
  const { ref } = c.state, sort = param(c, "sort") || "flat", q = param(c, "q");
  const [meta, rows, found, labels] = await Promise.all([c.source.meta(ref), c.source.top(ref, sort), q !== "" ? c.source.search(ref, q) : null, c.server?.labels(ref)]);
  const columns = topColumns(c, meta, rows, (by) => ({ sort: () => change(c, { sort: by }), isSorted: sort === by }));
  const all = [strip(c, meta), controls(searchBox(c, searchLabel, q, (text) => change(c, { q: text })))];
  if (found) {
    all.push(h("p.found", foundText(q, found)), table("found, by all that they call", [figure("cum %", part), word("method", (r) => methodLink(c, titleOf(r)))], found.methods));
  }
  all.push(table("hottest methods", columns, rows.slice(0, most)), command("top", ...sort !== "flat" ? ["--sort", sort] : [], "-n", String(most), fileOf(meta, ref)), ...labelTable(c, labels ?? [], meta));
  return all;
}

// labelTable lists labels of samples, each of which leads to the graph of those that have it.
function labelTable(c: Context, rows: Labels[], meta: any): HTMLElement[] {
  const { ref } = c.state, all = (r: Labels) => Object.entries(r.values ?? {}).map((pair) => pair.join("="));
  if (!rows.some((r) => r.values)) return [];
  return [table("labels", [figure("share", part), amount("samples"),
    word("labels", (r: Labels) => r.values ? h("span", ...all(r).flatMap((label) => [link(c, shown(label), "flame", ref, { label }), " "])) : r.text)], rows),
  command("top", "--by", "label", fileOf(meta, ref))];
}

// queryPage shows a path of calls, or a method, which is a path of one.
export async function queryPage(c: Context): Promise<HTMLElement[]> {
  const { ref } = c.state, path = param(c, "path") || param(c, "name"), meta = await c.source.meta(ref);
  const options = h("datalist", { id: "names" });
  const box = searchBox(c, "A > B > C: a method, or a path of calls", path, (text) => change(c, { path: text, name: undefined }));
  box.setAttribute("list", "names");
  box.addEventListener("input", () => { void complete(c, box, options); });
  const all: HTMLElement[] = [strip(c, meta), controls(box, options)];
  if (path === "") return all;
  const q = await c.source.query(ref, path), isPath = /\s>\s/.test(path);
  const calls = (caption: string, rows: Call[], to: (name: string) => string) => table(caption, [
    figure<Call>("time", (r) => quantity(r.time_ns, meta.unit)), figure("share", part), amount("samples"),
    word("method", (r) => r.method === "" ? "(root)" : link(c, shown(titleOf(r)), "query", ref, { path: to(titleOf(r)) })),
    word("line", (r) => shown(r.file ? r.file + ":" + r.line : r.line ? String(r.line) : "")),
  ], rows);
  all.push(h("h1", shown(path)),
    h("p.total", `${quantity(q.distinct.time_ns, meta.unit)}, ${part(q.distinct)} of the whole, ${count(q.distinct.samples)} samples; itself ${quantity(q.self.time_ns, meta.unit)}.`,
      q.distinct.samples !== q.total.samples ? ` Counted at every level of recursion: ${count(q.total.samples)}.` : ""),
    h("p", link(c, "flame graph, both ways", "flame", ref, { path })),
    calls("callers", q.callers, (name) => isPath ? name + " > " + path : name), calls("callees", q.callees, (name) => isPath ? path + " > " + name : name),
    command("query", fileOf(meta, ref), path));
  if (isPath) return all;
  if (c.server && targetOf(ref) !== "") all.push(h("p", link(c, "who calls it in the whole fleet", "fleet", "", { name: targetOf(ref), method: path })));
  all.push(...await sitesOf(c, path, meta));
  if (!param(c, "recent")) all.push(await linesOf(c, path, meta), command("lines", fileOf(meta, ref), path), ...await pointsOf(c, path, meta));
  return all;
}

// sitesOf lists the calls of a method that may reach several ones.
async function sitesOf(c: Context, method: string, meta: any): Promise<HTMLElement[]> {
  const { ref } = c.state, v = await c.source.receivers(ref, method);
  return v.sites?.length > 0 ? [siteTable(c, v.sites, { method }), command("receivers", "-n", "100", fileOf(meta, ref), method)] : [];
}

// pointsOf lists what was counted at single places of a method: how often blocks ran, and which way branches went.
async function pointsOf(c: Context, path: string, meta: any): Promise<HTMLElement[]> {
  if (!meta.points || !c.server) return []; // a file has none
  const points = (await c.server.points(c.state.ref, path)).filter((p) => p.kind !== "call"); // calls have a page of their own
  const values = (p: Point) => [...(p.values ?? []).map((v) => (v.value ?? v.method) + " " + share(v.share_percent)), ...p.others ? ["others " + count(p.others)] : []];
  const lines = (p: Point) => p.line ? p.line + (p.end_line && p.end_line !== p.line ? "–" + p.end_line : "") : "";
  return points.length === 0 ? [] : [table("blocks, branches and others that were counted", [
    figure("lines", lines), word("kind"), amount("count"),
    word("values", (p) => shown(values(p).join(", "), 500)), word("origin"),
  ], points), command("points", fileOf(meta, c.state.ref), path)];
}

const around = 3, mostSource = 2000; // lines of source

// linesOf lists the lines of a method, and between them those of its source file, if the user shows it.
async function linesOf(c: Context, path: string, meta: any): Promise<HTMLElement> {
  const lines = await c.source.lines(c.state.ref, path).catch(() => []), file = lines.find((r) => r.file)?.file ?? "";
  const source = file !== "" ? await c.server?.source(file) ?? [] : [];
  const columns: Column<Partial<Line>>[] = [
    figure("line", (r) => r.line ? String(r.line) : "–"), figure("self", (r) => r.self ? quantity(r.self.time_ns, meta.unit) : ""),
    figure("cum", (r) => r.cum ? quantity(r.cum.time_ns, meta.unit) : ""), figure("cum %", (r) => r.cum ? part(r.cum) : ""),
  ];
  if (source.length === 0) return table("lines" + (file !== "" ? " of " + shown(file) : ""), columns, lines);
  columns.push(word("source", (r) => h("code", shown((source[(r.line ?? 0) - 1] ?? "").replaceAll("\t", "    "), 400))));
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
  const found = await c.source.search(c.state.ref, word.trim()).catch(() => null);
  if (found && box.value === typed) replace(options, ...found.methods.slice(0, 20).map((m) => h("option", { value: parts.join("") + m.method })));
}
