// The fleet: what a hub has of the builds that many machines run. The server asks the hub, and keeps its token.
import { Problem, Remote } from "./api";
import { count, h, percent, plural, shown } from "./dom";
import { type Context, command, link } from "./page";
import { type Column, table } from "./table";

const time = (at: string) => at.slice(0, 19).replace("T", " ");
const settled = (v: number | undefined) => v ? percent(v / 100) : "";
const hub = (kind: string, target: string, build = "") => "@hub/" + kind + ":" + target + (build === "" ? "" : "@" + build);

// eventOf names the event of a unit, as cpu/nanoseconds: "" for the usual one.
function eventOf(unit: string): string | undefined {
  const kind = unit.split("/")[0];
  return kind === "cpu" ? undefined : kind;
}

export async function fleetPage(c: Context): Promise<HTMLElement[]> {
  if (!(c.source instanceof Remote)) throw new Problem("a page in a file has no hub", "Ask 'ccmapd fleet targets'.");
  const name = c.state.params.get("name") ?? "";
  if (name !== "") return buildPage(c, name, await c.source.fleet("show", name));
  const [targets, builds, outliers] = [await c.source.fleet("targets"), await c.source.fleet("builds"), await c.source.fleet("outliers")];
  return [h("h1", {}, "Fleet"),
    table("targets of the fleet", [
      { name: "target", isText: true, cell: (r: any) => link(c, shown(r.target), "flame", hub("best", r.target)) },
      { name: "builds", cell: (r) => count(r.builds) }, { name: "instances", cell: (r) => count(r.instances) }, { name: "samples", cell: (r) => count(r.samples) },
      { name: "outliers", cell: (r) => warned(r.outliers) }, { name: "updated", isText: true, cell: (r) => time(r.updated) },
      { name: "more", isText: true, cell: (r) => link(c, "this machine beside the best", "compare", "", { a: hub("best", r.target), b: "live:" + r.target }) },
    ], targets, "The hub has no profiles that you may see."),
    table("builds of the fleet", buildColumns(c, builds), builds, "The hub has no profiles that you may see."),
    table("outliers", outlierColumns(c), outliers, "No instance differs from the others of its build."),
    command("fleet", "builds")];
}

const warned = (n: number) => h("span", n > 0 ? { class: "warning" } : {}, (n > 0 ? "⚠ " : "") + count(n));

function buildColumns(c: Context, all: any[]): Column<any>[] {
  // before is the build of the same target and unit that was updated before.
  const before = (b: any) => all.slice(all.indexOf(b) + 1).find((o) => o.target === b.target && o.unit === b.unit);
  return [
    { name: "target", isText: true, cell: (b) => shown(b.target) }, { name: "event", isText: true, cell: (b) => shown(b.unit.split("/")[0]) },
    { name: "build", isText: true, cell: (b) => link(c, shown(b.build, 40), "flame", hub("build", b.target, b.build), { event: eventOf(b.unit) }) },
    { name: "instances", cell: (b) => count(b.instances) }, { name: "samples", cell: (b) => count(b.samples) },
    { name: "classes", cell: (b) => link(c, plural(b.classes, "class").replace("classs", "classes"), "fleet", "", { name: b.target + "@" + b.build, event: eventOf(b.unit) }) },
    { name: "settled", cell: (b) => settled(b.settled) }, { name: "outliers", cell: (b) => warned(b.outliers) }, { name: "updated", isText: true, cell: (b) => time(b.updated) },
    { name: "more", isText: true, cell: (b) => before(b) ? link(c, "beside the build before", "compare", "", { a: hub("build", b.target, before(b).build), b: hub("build", b.target, b.build), event: eventOf(b.unit) }) : "" },
  ];
}

// outlierColumns are those of outliers, whose class is beside the best one.
function outlierColumns(c: Context, of?: any): Column<any>[] {
  const all: Column<any>[] = [
    { name: "instance", isText: true, cell: (o) => shown(o.instance, 40) }, { name: "class", cell: (o) => count(o.class) }, { name: "since", isText: true, cell: (o) => time(o.since) },
    { name: "differs by", isText: true, cell: (o) => o.method ? `${o.points > 0 ? "+" : "−"}${Math.abs(o.points).toFixed(0)} ± ${Math.ceil(o.error)} points in ${shown(o.method)}` : `overlap ${o.overlap.toFixed(0)} %, and ${o.expected.toFixed(0)} % by chance` },
    { name: "from", cell: (o) => plural(o.others, "other") },
    { name: "more", isText: true, cell: (o) => { const b = of ?? o; return link(c, "its class beside the best", "compare", "", { a: hub("best", b.target, b.build), b: hub("class-" + o.class, b.target, b.build), event: eventOf(b.unit) }); } },
  ];
  return of ? all : [{ name: "target", isText: true, cell: (o: any) => shown(o.target) }, { name: "build", isText: true, cell: (o) => shown(o.build, 40) } as Column<any>].concat(all);
}

// buildPage shows a build: its classes with their overlaps as a matrix, its outliers, and the times that are kept.
function buildPage(c: Context, name: string, d: any): HTMLElement[] {
  const classes: any[] = d.class_list ?? [], event = eventOf(d.unit), ref = (n: number) => hub("class-" + n, d.target, d.build);
  const matrix = classes.length < 2 ? [] : classes.map((other): Column<any> => ({
    name: "overlap with " + other.class, cell: (r) => {
      const o = (r.overlaps ?? []).find((o: any) => o.class === other.class);
      return o ? link(c, `${percent(o.overlap / 100)} (${percent(o.expected / 100)})`, "compare", "", { a: ref(other.class), b: ref(r.class), event }) : "–";
    } }));
  return [h("h1", {}, shown(d.target) + "@" + shown(d.build, 40)),
    h("p", {}, `${plural(d.samples, "sample")} of ${plural(d.instances, "instance")}, ${count(Math.round(d.independent))} independent; updated ${time(d.updated)}. `,
      link(c, "flame graph of all", "flame", hub("build", d.target, d.build), { event }), " · ", link(c, "of the best class", "flame", hub("best", d.target, d.build), { event })),
    table("classes: instances that behave alike", ([
      { name: "class", cell: (r: any) => link(c, String(r.class), "flame", ref(r.class), { event }) }, { name: "instances", cell: (r) => count(r.instances) },
      { name: "samples", cell: (r) => count(r.samples) }, { name: "settled", cell: (r) => settled(r.settled) },
      { name: "knows a new one", cell: (r) => r.left_out ? percent(r.left_out.overlap / 100) + (r.left_out.instances > 1 ? " ± " + r.left_out.error.toFixed(1) : "") : "" },
    ] as Column<any>[]).concat(matrix), classes, "The build has no classes yet."),
    matrix.length > 0 ? h("p", { class: "legend" }, "In brackets: what noise alone would leave.") : null,
    table("outliers", outlierColumns(c, d), d.outlier_list ?? [], "No instance differs from the others."),
    table("hours and days that are kept", [
      { name: "level", isText: true, cell: (t: any) => shown(t.level) },
      { name: "from", isText: true, cell: (t) => { const at = t.from.slice(0, t.level === "day" ? 10 : 13); return link(c, at, "flame", hub("period", d.target, at), { event }); } },
      { name: "samples", cell: (t) => count(t.samples) },
    ], d.times ?? []), command("fleet", "show", name, ...(event ? ["--event", event] : []))].filter((e): e is HTMLElement => e !== null);
}
