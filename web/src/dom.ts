// Elements and text. Names in a profile are foreign: they only ever become text nodes and attributes.

type Child = Node | string | null;
type Attrs = Record<string, string | number | boolean | null | ((e: any) => void)>;
type Tags = HTMLElementTagNameMap;

// h makes an element of a tag and perhaps a class, as "p.warning". A function among the attributes is a listener of the
// event that the attribute names.
export function h<K extends keyof Tags>(tag: K | `${K}.${string}`, ...content: (Attrs | Child)[]): Tags[K] {
  const [name, style] = tag.split("."), e = document.createElement(name) as Tags[K];
  if (style) e.className = style;
  for (const c of content) {
    if (typeof c === "string" || c instanceof Node) e.append(c);
    else for (const [name, value] of Object.entries(c ?? {})) {
      if (typeof value === "function") e.addEventListener(name, value);
      else if (value !== null && value !== false) e.setAttribute(name, value === true ? "" : String(value));
    }
  }
  return e;
}

// svg makes an element of a drawing.
export function svg(tag: string, attributes: Record<string, string | number>, ...children: Node[]): SVGElement {
  const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) e.setAttribute(name, String(value));
  e.append(...children);
  return e;
}

// controls is a row of what a page can be told, warning a paragraph that must not be missed.
export function controls(...children: Child[]): HTMLElement { return h("div.controls", ...children); }
export function warning(...children: Child[]): HTMLElement { return h("p.warning", ...children); }

// flagged is a short text that is trouble, or is not.
export function flagged(text: string, isTrouble: boolean): HTMLElement { return isTrouble ? h("span.warning", "⚠ " + text) : h("span", text); }

// replace gives an element other children.
export function replace(e: Element, ...children: Child[]): void {
  e.replaceChildren(...children.filter((c): c is Node | string => c !== null));
}

// download hands a file to the user.
export function download(file: Blob, name: string): void {
  const href = URL.createObjectURL(file);
  h("a", { href, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(href), 60_000); // when the browser has read it
}

const mostName = 512; // characters

// shown returns a name as it can be shown: characters that are invisible or turn text around are replaced, and one that
// nobody reads to its end is cut.
export function shown(name: string, most = mostName): string {
  const text = name.length > most ? name.slice(0, most) + "…" : name;
  return text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu, "\u{fffd}");
}

// finder tells whether a text finds a name: as a part of it, or between slashes as an expression. The server's are RE2,
// which knows some that a browser does not: such a one marks nothing here.
export function finder(text: string): (name: string) => boolean {
  const expression = expressionOf(text), isAnyCase = text === text.toLowerCase();
  if (expression === "") return (name) => (isAnyCase ? name.toLowerCase() : name).includes(text);
  try {
    const e = new RegExp(expression, "u");
    return (name) => e.test(name);
  } catch {
    return () => false;
  }
}

// expressionOf is what a text has between slashes; "": it is no expression.
export function expressionOf(text: string): string { return /^\/(.+)\/$/.exec(text)?.[1] ?? ""; }

// share prints what the API has in percent.
export function share(p: number): string { return percent(p / 100); }

export function percent(part: number): string {
  const p = 100 * part;
  return p !== 0 && Math.abs(p) < 0.1 ? "<0.1 %" : p.toFixed(1) + " %";
}

const english = new Intl.NumberFormat("en"); // one for all: each toLocaleString looks for its own

export function count(n: number): string { return english.format(n); }

export function plural(n: number, thing: string): string {
  return count(n) + " " + thing + (n === 1 ? "" : "s");
}

const times: [number, string][] = [[3600e9, "h"], [60e9, "min"], [1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];
const sizes: [number, string][] = [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "B"]];

export function duration(ns: number): string { return quantity(ns, "/nanoseconds"); }

// quantity prints a value in the unit of a profile, as cpu/nanoseconds.
export function quantity(value: number, unit: string): string {
  const scale = unit.endsWith("/nanoseconds") ? times : unit.endsWith("/bytes") ? sizes : null;
  if (scale === null || value === 0) return count(value);
  const [size, name] = scale.find(([s]) => Math.abs(value) >= s) ?? scale[scale.length - 1];
  return (value / size).toPrecision(3) + " " + name;
}
