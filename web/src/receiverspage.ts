// Receivers: calls that may reach several methods, what they reach, and which callers tell it.
import { controls, count, h, quantity, share, shown } from "./dom";
import { titleOf } from "./graph";
import { methodLink } from "./flamepage";
import { type Context, choice, command, fileOf, link, param, strip } from "./page";
import { figure, table, word } from "./table";

const siteOf = (s: any): string => titleOf(s.caller) + (s.caller.line ? ":" + s.caller.line : s.caller.offset ? "+" + s.caller.offset : "");
const bits = (n: number): string => n.toFixed(2);
const of = (s: any): any => s["by_" + s.decisive] ?? s.by_samples ?? s.by_calls ?? { receivers: [] };

export async function receiversPage(c: Context): Promise<HTMLElement[]> {
  const { ref } = c.state, only = param(c, "verdict"), method = param(c, "method");
  const [meta, v] = await Promise.all([c.source.meta(ref), c.source.receivers(ref, method)]);
  const sites: any[] = (v.sites ?? []).filter((s: any) => only === "" || s.verdict === only);
  const chosen = sites.find((s) => siteOf(s) === param(c, "site")) ?? sites[0];
  const all = [strip(c, meta), controls(choice(c, "verdict", "only", [["", "all"], "monomorphic", "bimorphic", "megamorphic", "mixed", "unknown"]))];
  all.push(siteTable(c, sites, { verdict: only, method }));
  if (v.hidden_sites > 0) all.push(h("p", `${count(v.hidden_sites)} call sites of one receiver are not listed.`));
  if (chosen) all.push(...detail(c, chosen, meta));
  all.push(command("receivers", "-n", "100", fileOf(meta, ref), method));
  return all;
}

// siteTable lists call sites, which lead to what each reaches, among others with the same parameters.
export function siteTable(c: Context, sites: any[], params: Record<string, string>): HTMLElement {
  return table("calls that may reach several methods", [
    figure("share", (s) => share(s.percent)), figure("samples", (s) => count(s.by_samples?.seen ?? 0)), figure("calls", (s) => count(s.by_calls?.seen ?? 0)),
    word("call site", (s) => link(c, shown(siteOf(s)), "receivers", c.state.ref, { ...params, site: siteOf(s) })),
    figure("receivers", (s) => count(of(s).receivers.length)), word("verdict"), figure("bits", (s) => bits(s.entropy_bits)), figure("callers tell", (s) => bits(s.gain_bits)),
  ], sites, "There is none: --hits 0 catches no calls.");
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
  const part = (r: any) => r ? share(r.share_percent) : "";
  const all = [h("h2", "At ", methodLink(c, titleOf(s.caller)), s.caller.line ? ", line " + s.caller.line : ""),
    table("what it reaches: by time, and by calls that were caught", [
      figure("time", (x) => x.samples?.time_ns ? quantity(x.samples.time_ns, meta.unit) : ""), figure("of time", (x) => part(x.samples)),
      figure("calls", (x) => x.calls ? count(x.calls.seen) : ""), figure("of calls", (x) => part(x.calls)),
      word("method", (x) => methodLink(c, titleOf(x.r))), word("type", (x) => shown(x.r.receiver ?? "")),
    ], [...rows.values()])];
  const splits: any[] = of(s).splits ?? [];
  if (splits.length === 0) return all;
  const levels = [{ depth: 0, entropy_bits: of(s).entropy_bits, verdict: of(s).verdict }, ...splits];
  all.push(table("what is unknown once callers are known", [
    figure("callers", (x) => count(x.depth)), figure("bits", (x) => bits(x.entropy_bits)),
    word("of them", (x) => h("meter", { "aria-label": bits(x.entropy_bits) + " bits", min: 0, max: Math.max(levels[0].entropy_bits, 1e-9), value: x.entropy_bits })),
    word("verdict"),
  ], levels));
  const telling = splits.find((x) => x.verdict === "monomorphic") ?? splits[splits.length - 1];
  all.push(table("by its callers, innermost first", [
    figure("share", part), word("verdict"),
    word("callers", (x) => x.rest ? "all others" : shown(x.callers.map(titleOf).join(" ← "), 1000)),
    word("reaches", (x) => shown(x.receivers.map((r: any) => titleOf(r) + " " + part(r)).join(", "), 1000)),
  ], telling.contexts ?? []));
  const isMono = (x: any) => x.verdict === "monomorphic";
  if (isMono(telling) || isMono(s)) all.push(h("p", (isMono(s) ? "One method is reached" : "Each caller reaches one method: inlined into them") + ", the call could be devirtualised. A Go program's compiler is asked by"),
    command("pgo", "check", fileOf(meta, c.state.ref), "."));
  return all;
}
