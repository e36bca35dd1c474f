// Receivers: calls that may reach several methods, what they reach, and which callers tell it.
import { controls, count, h, percent, quantity, shown } from "./dom";
import { titleOf } from "./graph";
import { methodLink } from "./flamepage";
import { type Context, choice, command, fileOf, link, strip } from "./page";
import { type Column, figure, table, word } from "./table";

const siteOf = (s: any): string => titleOf(s.caller) + (s.caller.line ? ":" + s.caller.line : s.caller.offset ? "+" + s.caller.offset : "");
const bits = (n: number): string => n.toFixed(2);
const of = (s: any): any => s["by_" + s.decisive] ?? s.by_samples ?? s.by_calls ?? { receivers: [] };

export async function receiversPage(c: Context): Promise<HTMLElement[]> {
  const { ref, params } = c.state, recent = params.get("recent") === "1", only = params.get("verdict") ?? "";
  const [meta, v] = await Promise.all([c.source.meta(ref), c.source.receivers(ref, recent)]);
  const sites: any[] = (v.sites ?? []).filter((s: any) => only === "" || s.verdict === only);
  const chosen = sites.find((s) => siteOf(s) === params.get("site")) ?? sites[0];
  const columns: Column<any>[] = [
    figure("share", (s) => percent(s.percent / 100)), figure("samples", (s) => count(s.by_samples?.seen ?? 0)), figure("calls", (s) => count(s.by_calls?.seen ?? 0)),
    word("call site", (s) => link(c, shown(siteOf(s)), "receivers", ref, { site: siteOf(s), verdict: only, recent: recent ? "1" : undefined })),
    figure("receivers", (s) => count(of(s).receivers.length)), word("verdict", (s) => s.verdict),
    figure("bits", (s) => bits(s.entropy_bits)), figure("callers tell", (s) => bits(s.gain_bits)),
  ];
  const all = [strip(meta), controls(choice(c, "verdict", "only", [["", "all"], ["monomorphic", "monomorphic"], ["bimorphic", "bimorphic"], ["megamorphic", "megamorphic"], ["mixed", "mixed"], ["unknown", "unknown"]]))];
  all.push(table("calls that may reach several methods", columns, sites, "There is none. Engines of processes catch calls, unless with --hits 0."));
  if (v.hidden_sites > 0) all.push(h("p", {}, `${count(v.hidden_sites)} call sites of one receiver are not listed.`));
  if (chosen) all.push(...detail(c, chosen, meta));
  all.push(command("receivers", "-n", "100", recent ? "--recent" : "", fileOf(meta, ref)));
  return all;
}

// detail shows a call site: time beside calls, which are never added, and what callers tell.
function detail(c: Context, s: any, meta: any): HTMLElement[] {
  const rows = new Map<string, { r: any; samples?: any; calls?: any }>();
  for (const by of ["samples", "calls"] as const) {
    for (const r of s["by_" + by]?.receivers ?? []) {
      const key = titleOf(r) + " " + (r.receiver ?? "");
      rows.set(key, { ...rows.get(key) ?? { r }, [by]: r });
    }
  }
  const share = (r: any) => r ? percent(r.share_percent / 100) : "";
  const all = [h("h2", {}, "At ", methodLink(c, titleOf(s.caller)), s.caller.line ? ", line " + s.caller.line : ""),
    table("what it reaches: by time, and by calls that were caught", [
      figure("time", (x: any) => x.samples?.time_ns ? quantity(x.samples.time_ns, meta.unit) : ""), figure("of time", (x: any) => share(x.samples)),
      figure("calls", (x: any) => x.calls ? count(x.calls.seen) : ""), figure("of calls", (x: any) => share(x.calls)),
      word("method", (x: any) => methodLink(c, titleOf(x.r))), word("type", (x: any) => shown(x.r.receiver ?? "")),
    ], [...rows.values()])];
  const splits: any[] = of(s).splits ?? [];
  if (splits.length === 0) return all;
  const levels = [{ depth: 0, entropy_bits: of(s).entropy_bits, verdict: of(s).verdict }, ...splits];
  all.push(table("what is unknown once callers are known", [
    figure("callers", (x: any) => count(x.depth)), figure("bits", (x: any) => bits(x.entropy_bits)),
    word("of them", (x: any) => h("meter", { "aria-label": bits(x.entropy_bits) + " bits", min: 0, max: Math.max(levels[0].entropy_bits, 1e-9), value: x.entropy_bits })),
    word("verdict", (x: any) => x.verdict),
  ], levels));
  const telling = splits.find((x) => x.verdict === "monomorphic") ?? splits[splits.length - 1];
  all.push(table("by its callers, innermost first", [
    figure("share", (x: any) => percent(x.share_percent / 100)), word("verdict", (x: any) => x.verdict),
    word("callers", (x: any) => x.rest ? "all others" : shown(x.callers.map(titleOf).join(" ← "), 1000)),
    word("reaches", (x: any) => shown(x.receivers.map((r: any) => titleOf(r) + " " + share(r)).join(", "), 1000)),
  ], telling.contexts ?? []));
  const isClear = telling.verdict === "monomorphic" || s.verdict === "monomorphic";
  if (isClear) all.push(h("p", {}, s.verdict === "monomorphic" ? "One method is reached: the call could be devirtualised. A Go program's compiler is asked by" : "Each caller reaches one method: inlined into them, the call could be devirtualised. A Go program's compiler is asked by"),
    command("pgo", "check", fileOf(meta, c.state.ref), "."));
  return all;
}
