// The first page: the targets of a daemon, those in trouble first, and files.
import { count, duration, flagged, h, percent, plural, share, shown } from "./dom";
import { type Context, commandLine, copied, link, pair, served, sides } from "./page";
import { spark } from "./plot";
import { type Column, figure, table, word } from "./table";

// A target of a daemon, or one of its processes.
export interface Row { ref: string; name: string; target: any; isProcess?: boolean }

const mostLost = 0.01, mostReplicas = 20;
const order = ["refused", "loses samples", "drifts"];

const lost = (t: any) => t.status.lost_source + t.status.lost_queue + t.status.lost_corrupt;
const lostShare = (t: any) => lost(t) / (t.status.samples + lost(t) || 1);

// trouble says what is wrong with a target; "": nothing.
function trouble(t: any): string {
  if (t.state === "refused") return "refused";
  if (lostShare(t) > mostLost) return "loses samples";
  return t.status.drift ? "drifts" : "";
}

function rank(t: any): number {
  const i = order.indexOf(trouble(t));
  return i >= 0 ? i : t.state === "sampling" ? order.length + 1 : order.length;
}

export async function homePage(c: Context): Promise<HTMLElement[]> {
  const { files, targets, hub } = await served(c).profiles(), out: HTMLElement[] = [];
  if (targets.length > 0) {
    const all = targets.sort((x: any, y: any) => rank(x) - rank(y) || (x.name < y.name ? -1 : 1)).flatMap(rowsOf);
    out.push(h("h1", "Targets"), table("targets", targetColumns(c), all), h("p", link(c, "Doctor: what may be sampled, and what cures the rest", "doctor", ""), " · ", link(c, "Fleet: builds, classes and outliers of all machines", "fleet", "")));
  }
  if (files.length > 0 || targets.length === 0) {
    out.push(h("h1", "Profiles"), table("profiles", [word("profile", (f) => link(c, shown(f.name), "flame", f.ref)), word("of", "text"), ...sides((f) => f.name)], files, "There is no profile."));
  }
  out.push(pair(c));
  if (hub) out.push(h(hub.state === "failing" || hub.lost > 0 ? "p.warning" : "p", `Hub: ${hub.state}; ${plural(hub.sent, "contribution")} sent, ${plural(hub.waiting, "file")} waiting, ${count(hub.lost)} lost. `, copied("ccmapd status")));
  if (targets.length > 0) out.push(commandLine("ccmapd targets -v"));
  return out;
}

// rowsOf are a target and, if it has several, its processes.
export function rowsOf(t: any): Row[] {
  const ref = "live:" + t.name, processes = t.processes.length < 2 ? [] : t.processes.slice(0, mostReplicas);
  return [{ ref, name: t.name, target: t }, ...processes.map((p: any) => ({ ref: ref + ":" + p.pid, name: "↳ process " + p.pid, target: { ...p, processes: [p] }, isProcess: true }))];
}

export function targetColumns(c: Context): Column<Row>[] {
  return [
    word("target", (r) => link(c, shown(r.name), r.isProcess ? "flame" : "target", r.ref)), word("state", ({ target: t }) => stateOf(t)),
    figure("CPU time", (r) => duration(r.target.status.sampled_ns)), figure("samples", (r) => count(r.target.status.samples)),
    figure("a second, of an hour", (r) => rate(r.target.samples_per_second)),
    figure("lost", (r) => percent(lostShare(r.target))),
    figure("settled", ({ target: { status: { settled: s } } }) => s.edges > 0 ? share(s.edges) : ""),
    figure("interval", ({ target: { status: s } }) => s.interval_ns > 0 ? duration(s.interval_ns) : ""),
    figure("processes", (r) => r.isProcess ? "" : count(r.target.processes.length)), word("build", (r) => buildOf(r.target.processes)),
    ...sides((r) => r.name),
    word("more", ({ name, ref, isProcess }) => isProcess ? "" : h("span", link(c, "tuning", "tuning", ref), " · ", link(c, "beside the best", "compare", "", { a: "best:" + name, b: ref }), " · ", link(c, "yesterday", "compare", "", { a: "period:" + name + "@yesterday", b: ref }))),
    word("why, and what helps", ({ target: t }) => h("span", shown(t.reason ?? "", 500), " ", t.cure ? copied(t.cure) : null)),
  ];
}

function stateOf(t: any): HTMLElement {
  const wrong = trouble(t);
  return flagged(t.state + (wrong && wrong !== t.state ? ", " + wrong : ""), wrong !== "");
}

// rate has the samples a second, the latest first: as a number, and as a picture of an hour.
function rate(minutes: number[] | undefined): HTMLElement | string {
  return minutes ? h("span", spark(minutes.toReversed()), " " + minutes[0].toFixed(1)) : "";
}

// buildOf names the build of processes, and says how long ago the first of them began.
function buildOf(processes: any[]): string {
  const builds = new Set(processes.map((p) => p.build_id ?? "").filter((b) => b !== ""));
  if (builds.size !== 1) return builds.size > 1 ? count(builds.size) + " builds" : "";
  const began = Math.min(...processes.map((p) => Date.parse(p.start)));
  return shown([...builds][0].slice(0, 12)) + (began > 0 ? ", for " + duration(1e6 * Math.max(Date.now() - began, 1)) : "");
}
