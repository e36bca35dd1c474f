// The doctor: which engines can sample a process, or the daemon itself, why others cannot, and what cures that.
import { Problem } from "./api";
import { controls, flagged, h, shown, warning } from "./dom";
import { type Context, change, command, copied, param, problem, searchBox, served } from "./page";
import { amount, table, word } from "./table";

const answer = (ok: boolean) => flagged(ok ? "✓ yes" : "no", !ok);
const cure = word("cure", (e) => e.cure ? copied(e.cure) : "");

export async function doctorPage(c: Context): Promise<HTMLElement[]> {
  const source = served(c), pid = param(c, "pid"), ask = (text: string) => change(c, { pid: text }), box = searchBox(c, "process: its number", pid, ask);
  const all: HTMLElement[] = [h("h1", pid === "" ? "Doctor" : "Doctor: process " + shown(pid, 20)),
    controls(box, h("button", { click: () => ask(box.value.trim()) }, "Ask"))];
  let r: any;
  try {
    r = await source.doctor(pid);
  } catch (e) {
    if (!(e instanceof Problem)) throw e;
    return all.concat(problem(e), command("doctor", "@" + pid));
  }
  all.push(r.auto ? h("p", "Engine ", h("b", shown(r.auto)), " would be taken.") : warning("⚠ " + shown(r.reason ?? "no engine is permitted", 2000)),
    table("engines, the best first", [
      word("engine", "name"), word("permitted", (e) => answer(e.permitted)), amount("samples"), word("can", (e) => shown((e.features ?? []).join(", "), 500)),
      word("why not", (e) => shown(e.reason ?? e.found ?? "", 1000)), cure,
    ], r.engines ?? []),
    table("what the kernel answers", [word("check", "name"), word("ok", (e) => answer(e.ok)), word("found"), word("wanted"), cure], r.checks ?? []),
    command("doctor", "@" + pid));
  return all;
}
