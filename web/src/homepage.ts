// The first page: the targets of a daemon, those in trouble first, and files.
import { count, h, percent, plural, quantity, shown } from "./dom";
import { type Context, copied, link } from "./page";
import { type Column, figure, table, word } from "./table";

interface Row { ref: string; name: string; a: HTMLElement; b: HTMLElement; target?: any; process?: any; text: string }

const lost = (t: any) => t.status.lost_source + t.status.lost_queue + t.status.lost_corrupt;
const lostShare = (t: any) => lost(t) / (t.status.samples + lost(t) || 1);
const mostLost = 0.01, mostReplicas = 20;

// trouble says what is wrong with a target; "": nothing.
function trouble(t: any): string {
  if (t.state === "refused") return "refused";
  if (lostShare(t) > mostLost) return "loses samples";
  return t.status.drift ? "drifts" : "";
}

const order = ["refused", "loses samples", "drifts"];

function rank(t: any): number {
  const i = order.indexOf(trouble(t));
  return i >= 0 ? i : t.state === "sampling" ? order.length + 1 : order.length;
}

export async function homePage(c: Context): Promise<HTMLElement[]> {
  const { files, targets, hub } = await c.source.profiles();
  const pick = (name: string, value: string, label: string) => h("input", { type: "radio", name, value, "aria-label": name.toUpperCase() + ": " + shown(label, 200) });
  const row = (ref: string, name: string, text: string, target?: any, process?: any): Row => ({ ref, name, text, target, process, a: pick("a", ref, name), b: pick("b", ref, name) });
  const ofFiles = files.map((f) => row(f.ref, f.name, f.text));
  const ofTargets = targets.sort((x, y) => rank(x) - rank(y) || (x.name < y.name ? -1 : 1)).flatMap((t) => [row("live:" + t.name, t.name, "", t),
    ...(t.processes.length < 2 ? [] : t.processes.slice(0, mostReplicas).map((p: any) => row("live:" + t.name + ":" + p.pid, "↳ process " + p.pid, "", { ...p, processes: [] }, p)))]);
  const all = ofFiles.concat(ofTargets);
  const compare = () => {
    const a = all.find((p) => (p.a as HTMLInputElement).checked), b = all.find((p) => (p.b as HTMLInputElement).checked);
    c.address.go(c.address.link("compare", "", { a: a?.ref, b: b?.ref })); // which asks for what is missing
  };
  const out: HTMLElement[] = [];
  if (ofTargets.length > 0) out.push(h("h1", {}, "Targets"), table("targets", targetColumns(c), ofTargets), h("p", {}, link(c, "Doctor: what may be sampled, and what cures the rest", "doctor", ""), " · ", link(c, "Fleet: builds, classes and outliers of all machines", "fleet", "")));
  if (ofFiles.length > 0 || ofTargets.length === 0) {
    out.push(h("h1", {}, "Profiles"), table("profiles", ([
      word("profile", (p) => link(c, shown(p.name), "flame", p.ref)), word("of", (p) => shown(p.text)),
    ] as Column<Row>[]).concat(sides), ofFiles, "There is no profile."));
  }
  out.push(h("button", { click: compare }, "Compare A with B"));
  if (hub) out.push(h("p", hub.state === "failing" || hub.lost > 0 ? { class: "warning" } : {}, `Hub: ${hub.state}; ${plural(hub.sent, "contribution")} sent, ${plural(hub.waiting, "file")} waiting, ${count(hub.lost)} lost. `, copied("ccmapd status")));
  if (ofTargets.length > 0) out.push(h("p", { class: "command" }, copied("ccmapd targets -v")));
  return out;
}

const sides: Column<Row>[] = [figure("A", (p) => p.a), figure("B", (p) => p.b)];

function targetColumns(c: Context): Column<Row>[] {
  return [
    word("target", (r) => link(c, shown(r.name), "flame", r.ref)),
    word("state", (r) => h("span", trouble(r.target) ? { class: "warning" } : {}, (trouble(r.target) ? "⚠ " : "") + r.target.state + (trouble(r.target) && r.target.state === "sampling" ? ", " + trouble(r.target) : ""))),
    figure("CPU time", (r) => quantity(r.target.status.sampled_ns, "/nanoseconds")),
    figure("samples", (r) => count(r.target.status.samples)),
    figure("lost", (r) => percent(lostShare(r.target))),
    figure("settled", (r) => r.target.status.settled.edges > 0 ? percent(r.target.status.settled.edges / 100) : ""),
    figure("interval", (r) => r.target.status.interval_ns > 0 ? quantity(r.target.status.interval_ns, "/nanoseconds") : ""),
    figure("processes", (r) => r.process ? "" : count(r.target.processes.length)),
    ...sides,
    word("more", (r) => r.process ? "" : h("span", {}, link(c, "tuning", "tuning", r.ref), " · ", link(c, "beside the best", "compare", "", { a: "best:" + r.name, b: r.ref }), " · ", link(c, "yesterday", "compare", "", { a: "period:" + r.name + "@yesterday", b: r.ref }))),
    word("why, and what helps", (r) => why(r.target)),
  ];
}

function why(t: any): HTMLElement {
  const builds = new Set<string>(t.processes.map((p: any) => p.build_id ?? "").filter((b: string) => b !== ""));
  const text = t.reason ?? (builds.size > 1 ? count(builds.size) + " builds" : t.build_id ? "build " + t.build_id.slice(0, 12) : "");
  return h("span", {}, shown(text, 500), " ", t.cure ? copied(t.cure) : null);
}
