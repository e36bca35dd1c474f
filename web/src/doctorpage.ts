// The doctor: which engines can sample a process, or the daemon itself, why others cannot, and what cures that.
import { Problem, Remote } from "./api";
import { controls, h, shown, warning } from "./dom";
import { type Context, change, command, copied } from "./page";
import { amount, table, word } from "./table";

const answer = (ok: boolean) => h("span", ok ? {} : { class: "warning" }, ok ? "✓ yes" : "⚠ no");
const cure = (text: string | undefined) => text ? copied(text) : "";

export async function doctorPage(c: Context): Promise<HTMLElement[]> {
  if (!(c.source instanceof Remote)) throw new Problem("only a daemon can be asked what it may sample", "Ask 'ccmapd doctor' what you may.");
  const pid = c.state.params.get("pid") ?? "";
  const box = h("input", { value: pid, inputmode: "numeric", "aria-label": "process, by its number", placeholder: "process: PID", maxlength: 10,
    keydown: (e: KeyboardEvent) => { e.stopPropagation(); if (e.key === "Enter") change(c, { pid: box.value.trim() }); if (e.key === "Escape") box.blur(); } });
  c.keys.set("/", () => box.focus());
  const all: HTMLElement[] = [h("h1", {}, pid === "" ? "Doctor" : "Doctor: process " + shown(pid, 20)),
    controls(box, h("button", { click: () => change(c, { pid: box.value.trim() }) }, "Ask"))];
  let r: any;
  try {
    r = await c.source.doctor(pid);
  } catch (e) {
    if (!(e instanceof Problem)) throw e;
    return all.concat(h("p", { role: "alert", class: "warning" }, shown(e.message, 2000)), h("p", {}, shown(e.hint, 2000)), command("doctor", "@" + pid));
  }
  all.push(r.auto ? h("p", {}, "Engine ", h("b", {}, shown(r.auto)), " would be taken.") : warning("⚠ " + shown(r.reason ?? "no engine is permitted", 2000)),
    table("engines, the best first", [
      word("engine", (e: any) => shown(e.name)), word("permitted", (e: any) => answer(e.permitted)),
      amount("samples"), word("can", (e: any) => shown((e.features ?? []).join(", "), 500)),
      word("why not", (e: any) => shown(e.reason ?? e.found ?? "", 1000)), word("cure", (e: any) => cure(e.cure)),
    ], r.engines ?? []),
    table("what the kernel answers", [
      word("check", (e: any) => shown(e.name)), word("ok", (e: any) => answer(e.ok)), word("found", (e: any) => shown(e.found, 1000)),
      word("wanted", (e: any) => shown(e.wanted ?? "", 1000)), word("cure", (e: any) => cure(e.cure)),
    ], r.checks ?? []), command("doctor", "@" + pid));
  return all;
}
