// What all pages share: the strip that says what was sampled, the command that prints the same, and choices.
import { Problem, type Search, type Source } from "./api";
import { count, duration, h, plural, quantity, share, shown, warning } from "./dom";
import type { Remote } from "./remote";
import { type Column, figure } from "./table";
import { type Address, type Page, type State, targetOf } from "./state";

export interface Context {
  source: Source;
  server: Remote | null; // which is the source; null: a single file is
  address: Address;
  state: State;
  announce(text: string): void; // for readers of screens
  keys: Map<string, () => void>; // of this page
}

// param is a parameter of the page; "": it has none of that name.
export function param(c: Context, name: string): string { return c.state.params.get(name) ?? ""; }

// served is the server of a page that only a server has.
export function served(c: Context): Remote { return c.server!; }

// problem says what went wrong, and what helps.
export function problem(e: unknown): HTMLElement[] {
  const hint = e instanceof Problem ? e.hint : "", at = e instanceof Problem ? e.progress : undefined;
  if (at !== undefined) return [h("p", { role: "status" }, shown((e as Problem).message)), h("progress", { "aria-label": "progress", value: at < 0 ? null : at })];
  return [h("p.warning", { role: "alert" }, shown(e instanceof Error ? e.message : String(e), 2000)), ...hint !== "" ? [h("p", shown(hint, 2000))] : []];
}

// A link that the address bar follows without loading the page again.
export function link(c: Context, text: string, page: Page, ref: string, params: Record<string, string | undefined> = {}): HTMLElement {
  const href = c.address.link(page, ref, params);
  return h("a", { href, click: (e: MouseEvent) => {
    if (e.ctrlKey || e.metaKey || e.shiftKey || e.button !== 0) return;
    e.preventDefault();
    c.address.go(href);
  } }, text);
}

// change goes to the same page with other parameters; undefined and "" remove one.
export function change(c: Context, changes: Record<string, string | undefined>): void {
  c.address.go(c.address.link(c.state.page, c.state.ref, { ...Object.fromEntries(c.state.params), ...changes }));
}

// choice is a menu of values of a parameter, with their texts where those differ. The first value is the default.
export function choice(c: Context, name: string, label: string, values: (string | [string, string])[]): HTMLElement {
  const now = param(c, name), options = values.map((v) => typeof v === "string" ? [v, v] : v);
  const menu = h("select", { change: () => { change(c, { [name]: menu.value, root: undefined }); } },
    ...options.map(([value, text]) => h("option", { value, selected: value === now }, text)));
  return h("label", label + " ", menu);
}

// command shows the command that prints the same figures, of the event and the part that the address names.
export function command(name: string, ...words: string[]): HTMLElement {
  const asked = new URLSearchParams(location.search), event = name === "fleet" ? null : asked.get("event");
  if (asked.get("recent")) words.unshift("--recent");
  if (event) words.push("--sample-type", event);
  const label = asked.get("label");
  if (label) words.push("--label", label);
  return commandLine(["ccmapd", name, ...words].filter((w) => w !== "").map(quoted).join(" "));
}

export function commandLine(text: string): HTMLElement { return h("p.command", copied(text)); }

// copied is a command to copy.
export function copied(text: string): HTMLElement {
  return h("span", h("code", shown(text, 2000)), " ", h("button", { "aria-label": "copy: " + shown(text, 200), click: () => { void navigator.clipboard?.writeText(text); } }, "copy"));
}

function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : "'" + word.replaceAll("'", "'\\''") + "'";
}

// fileOf names a profile for a command.
export function fileOf(meta: any, ref: string): string { return ref.startsWith("file:") ? String(meta.file ?? "FILE") : ref; }

const few = 1000; // samples

// strip says what was sampled, and how far it can be trusted.
export function strip(c: Context, meta: any): HTMLElement {
  const facts = [meta.executable ?? meta.file, meta.engine && "engine " + meta.engine, meta.start && "since " + moment(meta.start),
    meta.duration_ns && "for " + duration(meta.duration_ns),
    meta.interval_ns?.length > 0 && "interval " + duration(meta.interval_ns.at(-1)), count(meta.samples) + " samples",
    quantity(meta.time_ns, meta.unit), meta.lost_samples > 0 && count(meta.lost_samples) + " lost",
    meta.settled && "settled " + meta.settled.contexts.toFixed(0) + " % of contexts", meta.pruned && count(meta.pruned.nodes) + " contexts pruned",
    meta.only_recent && "the recent window alone"].filter((f) => f);
  const warnings = [...meta.warnings ?? []];
  if (meta.samples < few) warnings.push(`Only ${count(meta.samples)} samples: small shares are rough.`);
  if (meta.lost_samples > 0.01 * (meta.samples + meta.lost_samples)) warnings.push("More than 1 % of the samples were lost.");
  const label = param(c, "label");
  return h("div.strip", h("p", shown(facts.join(" · "), 2000)), label === "" ? null : h("p", "Only samples with " + shown(label) + ": ", link(c, "take all", c.state.page, c.state.ref, { label: "" })), ...warnings.map((w) => warning("⚠ " + shown(w, 2000))));
}

// moment prints a time of the API, in UTC.
export function moment(at: string): string { return at.slice(0, 19).replace("T", " "); }

// tabs lead to the pages of a profile, and of the target that it is of.
export function tabs(c: Context, compares: boolean): HTMLElement {
  const { ref, page } = c.state, target = c.server && /^(live|span):/.test(ref) ? targetOf(ref) : "";
  const all: [string, Page, string][] = ref === "" ? [] : [["Flame", "flame", ref], ["Top", "top", ref], ["Paths", "query", ref], ["Receivers", "receivers", ref]];
  if (target !== "") {
    all.unshift(["Target", "target", "live:" + target]);
    all.push(["Tuning", "tuning", "live:" + target], ["Time", "time", "span:" + target]);
  }
  if (compares) all.push(["Compare", "compare", ref]);
  if (c.server) all.unshift(["Profiles", "home", ""]);
  return h("nav", { "aria-label": "pages" }, ...all.map(([text, to, of]) => {
    const e = link(c, text, to, of, to === "query" ? { path: param(c, "path") } : {});
    if (page === to) e.setAttribute("aria-current", "page");
    return e;
  }));
}

export const searchLabel = "search methods: a part of a name, or /expression/";

// searchBox goes to what a text is found in.
export function searchBox(c: Context, label: string, value: string, go: (text: string) => void): HTMLInputElement {
  const input = h("input.search", { type: "search", value, "aria-label": label, placeholder: label, autocomplete: "off", maxlength: 1024,
    keydown: (e: KeyboardEvent) => { if (e.key === "Enter") go(input.value.trim()); e.stopPropagation(); if (e.key === "Escape") input.blur(); } });
  c.keys.set("/", () => { input.focus(); input.select(); });
  return input;
}

// foundText says how much of a profile a search has found.
export function foundText(text: string, s: Search): string {
  return `${plural(s.found, "method")} with “${shown(text, 100)}”: ${share(s.total.percent)} of the whole, ${plural(s.total.samples, "sample")}.`;
}

// sides are columns that choose two rows of all lists of a page, and pair is a button that compares these.
export function sides(nameOf: (r: any) => string): Column<any>[] {
  return ["a", "b"].map((side) => figure(side.toUpperCase(), (r) => h("input", { type: "radio", name: side, value: r.ref, "aria-label": side.toUpperCase() + ": " + shown(nameOf(r), 200) })));
}

export function pair(c: Context): HTMLElement {
  const chosen = (side: string) => document.querySelector<HTMLInputElement>(`main input[name=${side}]:checked`)?.value;
  return h("button", { click: () => c.address.go(c.address.link("compare", "", { a: chosen("a"), b: chosen("b") })) }, "Compare A with B"); // which asks for what is missing
}
