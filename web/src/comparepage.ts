// The comparison of two profiles: a verdict, what changed, and the tree of both.
import { widthOf } from "./api";
import { controls, count, h, shown, warning } from "./dom";
import { View, place } from "./flamepage";
import { type Context, change, choice, command, param } from "./page";
import { type Column, amount, figure, table, word } from "./table";

interface Change { points: number; p: number; path?: { method: string }[]; [key: string]: any }

export async function comparePage(c: Context): Promise<HTMLElement[]> {
  const a = param(c, "a"), b = param(c, "b"), by = param(c, "by");
  if (c.server && (a === "" || b === "")) return [h("h1", "Compare"), h("p", "A comparison wants two profiles: choose them on the page of profiles, or files here."), files(c, a, b)];
  const width = widthOf(innerWidth * devicePixelRatio);
  const ask = (root?: string) => c.source.flamediff(a, b, { by, width, root });
  const [overlap, diff, graph] = await Promise.all([c.source.overlap(a, b, by), c.source.diff(a, b, by), ask()]);
  const view = new View(c, "tree of calls of both");
  const all = [verdict(overlap.pairs[0]), sides(diff), controls(c.server && choice(c, "by", "by", [["", "time"], "samples"])),
    h("h2", "Both, in one graph"),
    h("p.legend", h("span.more", "▲ ///"), " more in B  ", h("span.less", "▼ \\\\\\"), " less in B  ", h("span.same", "grey"), " not significant: noise, or the change of a callee"),
    view.element, h("h2", "What changed")];
  for (const family of ["methods", "edges", "contexts"]) all.push(changes(family, diff[family]));
  for (const note of new Set<string>([...overlap.notes ?? [], ...diff.notes ?? [], ...graph.notes])) all.push(warning(shown(note, 2000)));
  all.push(command("diff", by && "--by", by, diff.a.file, diff.b.file), files(c, a, b));
  await place(c, view, graph, ask, "");
  return all;
}

// files takes files of the user for the sides: a click or a drop sends one to the server, which forgets it after minutes.
function files(c: Context, ...sides: string[]): HTMLElement {
  const source = c.server, said = h("p.warning", { role: "status" });
  if (!source) return said;
  const inputs = ["a", "b"].map((side, i) => {
    const input = h("input", { type: "file", change: () => {
      source.upload(input.files![0]).then((ref) => change(c, { [side]: ref, root: undefined }), (e) => { said.textContent = shown([e.message, e.hint].join(" "), 1000); });
    } });
    return h("label", `${side.toUpperCase()}: ${shown(sides[i] || "none yet", 60)}, or a file `, input);
  });
  return h("div", controls(...inputs), said);
}

// verdict says in a sentence whether the profiles differ.
function verdict(pair: any): HTMLElement {
  const f = pair[pair.verdict_by] ?? pair.contexts;
  return h("div.verdict", h("h1", "Verdict: " + pair.verdict),
    h("p", `The ${pair.verdict_by ?? "contexts"} overlap by ${f.percent.toFixed(1)} %. Noise alone would give ${f.expected?.toFixed(1)} ± ${f.deviation?.toFixed(1)} %; its floor is ${f.floor?.toFixed(1)} %.` +
      (f.unexplained > 0 ? ` ${f.unexplained.toFixed(1)} points are not explained by noise.` : "")));
}

function sides(diff: any): HTMLElement {
  const rows = ["a", "b"].map((k) => ({ name: k.toUpperCase(), ...diff[k] }));
  return table("profiles", [
    figure("side", (r) => r.name), word("file"), amount("samples"),
    figure("independent", (r) => count(Math.round(r.independent)))], rows);
}

function changes(family: string, part: any): HTMLElement {
  const columns: Column<Change>[] = [
    figure("points", (r) => (r.points > 0 ? "▲ +" : "▼ −") + Math.abs(r.points).toFixed(2)),
    figure("p", (r) => r.p < 0.0001 ? "<0.0001" : r.p.toPrecision(2)),
    word(family, (r) => shown(nameOf(r), 2000)),
  ];
  const what = `${count(part.significant)} of ${count(part.tested)} ${family} changed` + (part.detectable ? `; a change of ${part.detectable.toFixed(1)} points would have been found` : "");
  return table(what, columns, part.list ?? [], "No change is significant.");
}

// nameOf names what changed: a method, or calls from the outermost.
function nameOf(r: Change): string {
  const path = r.path ?? r.frames ?? [r];
  return path.map((f: any) => f.method ?? "").reverse().join(" > ");
}
