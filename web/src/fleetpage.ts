// The fleet: what a hub has of the builds that many machines run. The server asks the hub, and keeps its token.
import { count, controls, duration, flagged, h, percent, plural, share, shown } from "./dom";
import { type Context, change, command, foundText, link, moment, param, searchBox, served } from "./page";
import { type Column, amount, figure, table, word } from "./table";

const nothing = "The hub has no profiles that you may see.";
const settled = (v: number | undefined) => v ? share(v) : "";
const hub = (kind: string, target: string, build = "") => "@hub/" + kind + ":" + target + (build === "" ? "" : "@" + build);

// eventOf names the event of a unit, as cpu/nanoseconds: "" for the usual one.
function eventOf(unit: string): string | undefined {
  const kind = unit.split("/")[0];
  return kind === "cpu" ? undefined : kind;
}

export async function fleetPage(c: Context): Promise<HTMLElement[]> {
  const name = param(c, "name"), method = param(c, "method"), source = served(c), ask = source.fleet.bind(source);
  if (name !== "") {
    const d = await ask("show", name), near = eventOf(d.unit) ? null : await ask("nearest", name).catch(() => null); // a hub of before knows none
    return [...buildPage(c, name, d, near), ...eventOf(d.unit) ? [] : await callers(c, name, method)];
  }
  const [targets, builds, outliers] = [await ask("targets"), await ask("builds"), await ask("outliers")];
  const best = (target: string): any => builds.find((b: any) => b.target === target);
  return [h("h1", "Fleet"), ...behind(await ask("status").catch(() => null)),
    table("targets of the fleet", [
      word("target", (r: any) => link(c, shown(r.target), "flame", hub("best", r.target))),
      amount("builds"), amount("instances"), amount("samples"),
      figure("outliers", (r) => warned(r.outliers)), word("updated", (r) => moment(r.updated)),
      figure("best settled", (r) => settled(best(r.target)?.settled)),
      word("more", (r) => link(c, "this machine beside the best", "compare", "", { a: hub("best", r.target), b: "live:" + r.target })),
    ], targets, nothing),
    table("builds of the fleet", buildColumns(c, builds), builds, nothing),
    table("outliers", outlierColumns(c), outliers, "No instance differs from the others of its build."),
    command("fleet", "builds"), h("h2", "Who calls a method"), fanInBox(c, method), ...await everywhere(c, method, targets.filter((t: any) => builds.some((b: any) => b.target === t.target && !eventOf(b.unit))))];
}

// behind says how far the hub is; null: it does not say, or not to us.
function behind(s: any): HTMLElement[] {
  if (s === null) return [];
  const refused = Object.entries<number>(s.refused ?? {});
  return [h(refused.length > 0 ? "p.warning" : "p", s.waiting > 0 ? `${count(s.waiting)} of what was sent are to be merged yet, the oldest for ${duration(s.lag_ns)}. ` : "All that was sent is merged. ",
    `Since ${moment(s.since)} this hub has taken ${plural(s.accepted, "contribution")} and refused ${count(refused.reduce((n, [, k]) => n + k, 0))}`,
    refused.length > 0 ? ": " + refused.map(([status, n]) => count(n) + " with " + shown(status, 20)).join(", ") : "", "."), command("fleet", "status")];
}

function fanInBox(c: Context, method: string): HTMLElement {
  return controls(searchBox(c, "a method, by its whole name", method, (text) => change(c, { method: text })));
}

const places = (m: any) => (m.places > m.callers.length ? "more than " : "") + plural(m.callers.length, "place");
const mostTargets = 20;

// everywhere says in which targets a method is known, and from how many places it is called there.
async function everywhere(c: Context, method: string, targets: any[]): Promise<HTMLElement[]> {
  if (method === "") return [];
  const all: any[] = [];
  for (const t of targets.slice(0, mostTargets)) {
    for (const m of (await served(c).fleet("fanin", t.target, method)).methods) all.push({ target: t.target, ...m });
  }
  return [table("fan-in of " + shown(method), [
    word("target", (r) => link(c, shown(r.target), "fleet", "", { name: r.target, method })), amount("samples"),
    figure("called from", (r) => places(r)), word("most by", (r) => shown(r.callers[0]?.method ?? "")),
  ], all, "The latest builds know no method of that name.")];
}

// callers shows who calls a method of a build. Of a part of a name, it lists what there is.
async function callers(c: Context, name: string, method: string): Promise<HTMLElement[]> {
  const source = served(c), all: HTMLElement[] = [h("h2", "Who calls a method"), fanInBox(c, method)];
  if (method === "") return all;
  const ref = "@hub/build:" + name, methods: any[] = (await source.fleet("fanin", name, method)).methods;
  for (const m of methods) {
    const rows = m.other > 0 ? [...m.callers, { method: "(other callers)", samples: m.other }] : m.callers;
    all.push(table(`${shown(m.method + (m.signature ?? ""))} is called from ${places(m)}, in ${plural(m.samples, "sample")}`, [
      amount("samples"), figure("share", (r) => percent(r.samples / m.samples)),
      word("caller", (r) => r.offset === undefined ? shown(r.method) : link(c, shown(r.method), "fleet", "", { name, method: r.method })),
      word("location", (r) => r.offset === undefined ? "" : "+" + r.offset),
    ], rows, "It begins all stacks that it is on."));
  }
  if (methods.length > 0) return all.concat(command("fanin", ref, method));
  const found = await source.search(ref, method);
  return all.concat(table(foundText(method, found), [
    word("method", (r: any) => link(c, shown(r.method), "fleet", "", { name, method: r.method })), amount("samples"),
  ], found.methods));
}

// profiles says how old the profiles of the target's builds are, and what of each holds: what 'go build -pgo' can use.
function profiles(c: Context, name: string, d: any, near: any[]): HTMLElement[] {
  const age = (at: string) => duration(1e6 * Math.max(1, Date.now() - Date.parse(at)));
  return [h("h2", "For go build -pgo"),
    h("p", `The profile of this build was updated ${age(d.updated)} ago. Which calls fit a program, and what its compiler did, only binaries tell:`),
    command("pgo", "export", "@hub/best:" + name, "default.pgo"), command("pgo", "check", "default.pgo", "BINARY"), command("pgo", "report", "default.pgo", "OLD", "NEW"),
    table("profiles of other builds", [
      figure("holds in this one", (b: any) => share(b.kept)), word("build", (b) => link(c, shown(b.build, 40), "flame", hub("build", b.target, b.build))),
      amount("samples"), figure("age", (b) => age(b.updated)),
    ], near, "The hub has no other build of it."),
    h("p.legend", "Holds: the part of the weight in methods whose name, signature and code this build has."), command("fleet", "nearest", name)];
}

const momentOf = (t: any): string => t.from.slice(0, t.level === "day" ? 10 : 13);
const warned = (n: number) => flagged(count(n), n > 0);

function buildColumns(c: Context, all: any[]): Column<any>[] {
  // before is the build of the same target and unit that was updated before.
  const before = (b: any) => all.slice(all.indexOf(b) + 1).find((o) => o.target === b.target && o.unit === b.unit);
  return [
    word("target"), word("event", (b) => shown(b.unit.split("/")[0])),
    word("build", (b) => link(c, shown(b.build, 40), "flame", hub("build", b.target, b.build), { event: eventOf(b.unit) })),
    amount("instances"), amount("samples"),
    figure("classes", (b) => link(c, plural(b.classes, "class").replace("classs", "classes"), "fleet", "", { name: b.target + "@" + b.build, event: eventOf(b.unit) })),
    figure("settled", (b) => settled(b.settled)), figure("outliers", (b) => warned(b.outliers)), word("updated", (b) => moment(b.updated)),
    word("more", (b) => before(b) ? link(c, "beside the build before", "compare", "", { a: hub("build", b.target, before(b).build), b: hub("build", b.target, b.build), event: eventOf(b.unit) }) : ""),
  ];
}

// outlierColumns are those of outliers, whose class is beside the best one.
function outlierColumns(c: Context, of?: any): Column<any>[] {
  const all: Column<any>[] = [
    word("instance", (o) => shown(o.instance, 40)), amount("class"), word("since", (o) => moment(o.since)),
    word("differs by", (o) => o.method ? `${o.points > 0 ? "+" : "−"}${Math.abs(o.points).toFixed(0)} ± ${Math.ceil(o.error)} points in ${shown(o.method)}` : `overlap ${o.overlap.toFixed(0)} %, and ${o.expected.toFixed(0)} % by chance`),
    figure("from", (o) => plural(o.others, "other")),
    word("more", (o) => { const b = of ?? o; return link(c, "its class beside the best", "compare", "", { a: hub("best", b.target, b.build), b: hub("class-" + o.class, b.target, b.build), event: eventOf(b.unit) }); }),
  ];
  return of ? all : [word("target"), word("build", (o) => shown(o.build, 40))].concat(all);
}

// buildPage shows a build: its classes with their overlaps as a matrix, its outliers, and the times that are kept.
function buildPage(c: Context, name: string, d: any, near: any[] | null): HTMLElement[] {
  const classes: any[] = d.class_list ?? [], event = eventOf(d.unit), ref = (n: number) => hub("class-" + n, d.target, d.build);
  const matrix = classes.length < 2 ? [] : classes.map((other): Column<any> => ({
    name: "overlap with " + other.class, cell: (r) => {
      const o = (r.overlaps ?? []).find((o: any) => o.class === other.class);
      return o ? link(c, `${share(o.overlap)} (${share(o.expected)})`, "compare", "", { a: ref(other.class), b: ref(r.class), event }) : "–";
    } }));
  return [h("h1", shown(d.target) + "@" + shown(d.build, 40)),
    h("p", `${plural(d.samples, "sample")} of ${plural(d.instances, "instance")}, ${count(Math.round(d.independent))} independent; updated ${moment(d.updated)}. `,
      link(c, "flame graph of all", "flame", hub("build", d.target, d.build), { event }), " · ", link(c, "of the best class", "flame", hub("best", d.target, d.build), { event })),
    table("classes: instances that behave alike", ([
      figure("class", (r: any) => link(c, String(r.class), "flame", ref(r.class), { event })), amount("instances"),
      amount("samples"), figure("settled", (r) => settled(r.settled)),
      figure("knows a new one", (r) => r.left_out ? share(r.left_out.overlap) + (r.left_out.instances > 1 ? " ± " + r.left_out.error.toFixed(1) : "") : ""),
    ] as Column<any>[]).concat(matrix), classes, "The build has no classes yet."),
    matrix.length > 0 ? h("p.legend", "In brackets: what noise alone would leave.") : null,
    table("outliers", outlierColumns(c, d), d.outlier_list ?? [], "No instance differs from the others."),
    table("hours and days that are kept", [
      word("level"),
      word("from", (t) => link(c, momentOf(t), "flame", hub("period", d.target, momentOf(t)), { event })),
      amount("samples"),
      word("more", (t) => link(c, "beside the best", "compare", "", { a: hub("best", d.target), b: hub("period", d.target, momentOf(t)), event })),
    ], d.times ?? []), ...near ? profiles(c, name, d, near) : [], command("fleet", "show", name, ...(event ? ["--event", event] : []))].filter((e): e is HTMLElement => e !== null);
}
