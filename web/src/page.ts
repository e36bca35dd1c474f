// What all pages share: the strip that says what was sampled, the command that prints the same, and choices.
import type { Source } from "./api";
import { count, h, quantity, shown, warning } from "./dom";
import { type Address, type Page, type State, merged } from "./state";

export interface Context {
  source: Source;
  address: Address;
  state: State;
  isFile: boolean;
  announce(text: string): void; // for readers of screens
  keys: Map<string, () => void>; // of this page
}

// A link that the address bar follows without loading the page again.
export function link(c: Context, text: string, page: Page, ref: string, params: Record<string, string | undefined> = {}): HTMLElement {
  const to = c.address.link(page, ref, params);
  return h("a", {
    href: to,
    click: (e: MouseEvent) => {
      if (e.ctrlKey || e.metaKey || e.shiftKey || e.button !== 0) return;
      e.preventDefault();
      c.address.go(to);
    },
  }, text);
}

// change goes to the same page with other parameters.
export function change(c: Context, changes: Record<string, string | undefined>): void {
  c.address.go(c.address.link(c.state.page, c.state.ref, merged(c.state.params, changes)));
}

// choice is a menu of values of a parameter, the first of which is the default.
export function choice(c: Context, param: string, label: string, values: [string, string][]): HTMLElement {
  const now = c.state.params.get(param) ?? "";
  const menu = h("select", { change: (e: Event) => change(c, { [param]: (e.target as HTMLSelectElement).value, root: undefined }) },
    ...values.map(([value, text]) => h("option", { value, selected: value === now }, text)));
  return h("label", {}, label + " ", menu);
}

// command shows the command that prints the same figures.
export function command(...words: string[]): HTMLElement {
  const event = words[0] === "fleet" ? null : new URLSearchParams(location.search).get("event");
  if (event) words.push("--sample-type", event);
  return h("p", { class: "command" }, copied("ccmapd " + words.filter((w) => w !== "").map(quoted).join(" ")));
}

// copied is a command to copy.
export function copied(text: string): HTMLElement {
  return h("span", {}, h("code", {}, shown(text, 2000)), " ", h("button", { "aria-label": "copy: " + shown(text, 200), click: () => { void navigator.clipboard?.writeText(text); } }, "copy"));
}

function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : "'" + word.replaceAll("'", "'\\''") + "'";
}

// fileOf names a profile for a command.
export function fileOf(meta: any, ref: string): string { return ref.startsWith("file:") ? String(meta.file ?? "FILE") : ref; }

const few = 1000; // samples

// strip says what was sampled, and how far it can be trusted.
export function strip(meta: any): HTMLElement {
  const facts = [meta.executable ?? meta.file, meta.engine && "engine " + meta.engine, meta.start && "since " + String(meta.start).slice(0, 19).replace("T", " "),
    meta.duration_ns && "for " + quantity(meta.duration_ns, "/nanoseconds"),
    meta.interval_ns?.length > 0 && "interval " + quantity(meta.interval_ns.at(-1), "/nanoseconds"), count(meta.samples) + " samples",
    quantity(meta.time_ns, meta.unit), meta.lost_samples > 0 && count(meta.lost_samples) + " lost",
    meta.settled && "settled " + meta.settled.contexts.toFixed(0) + " % of contexts", meta.pruned && count(meta.pruned.nodes) + " contexts pruned",
    meta.only_recent && "the recent window alone"].filter((f) => f);
  const warnings = [...meta.warnings ?? []];
  if (meta.samples < few) warnings.push(`Only ${count(meta.samples)} samples: small shares are rough.`);
  if (meta.lost_samples > 0.01 * (meta.samples + meta.lost_samples)) warnings.push("More than 1 % of the samples were lost.");
  return h("div", { class: "strip" }, h("p", {}, shown(facts.join(" · "), 2000)), ...warnings.map((w) => warning("⚠ " + shown(w, 2000))));
}

// tabs lead to the pages of a profile.
export function tabs(c: Context, compares: boolean): HTMLElement {
  const { ref, page, params } = c.state, recent = params.get("recent") ?? undefined;
  const tab = (text: string, to: Page) => {
    const e = link(c, text, to, ref, to === "query" ? { path: params.get("path") ?? undefined, recent } : { recent });
    if (page === to) e.setAttribute("aria-current", "page");
    return e;
  };
  const all = ref === "" ? [] : [tab("Flame", "flame"), tab("Top", "top"), tab("Paths", "query"), tab("Receivers", "receivers")];
  if (ref.startsWith("live:") && !c.isFile) all.push(tab("Tuning", "tuning"));
  if (/^(live|span):/.test(ref) && !c.isFile) {
    const time = link(c, "Time", "time", ref.replace(/^live:([^:]*).*/, "span:$1"));
    if (page === "time") time.setAttribute("aria-current", "page");
    all.push(time);
  }
  if (compares) all.push(tab("Compare", "compare"));
  if (!c.isFile) all.unshift(link(c, "Profiles", "home", ""));
  return h("nav", { "aria-label": "pages" }, ...all);
}

export const searchLabel = "search methods: a part of a name, or /expression/";

// searchBox goes to what a text is found in.
export function searchBox(c: Context, label: string, value: string, go: (text: string) => void): HTMLElement {
  const input = h("input", { type: "search", value, "aria-label": label, placeholder: label, class: "search", autocomplete: "off", maxlength: 1024,
    keydown: (e: KeyboardEvent) => { if (e.key === "Enter") go(input.value); e.stopPropagation(); if (e.key === "Escape") input.blur(); } });
  c.keys.set("/", () => { input.focus(); input.select(); });
  return input;
}
