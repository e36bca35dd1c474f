// The flame graph of a profile: from the roots, or of a method, both ways.
import { widthOf } from "./api";
import { controls, download, finder, h, replace, shown, warning } from "./dom";
import { Flame } from "./flame";
import { type Graph, nameOf, pathOf } from "./graph";
import { type Context, change, choice, command, fileOf, foundText, link, param, searchBox, searchLabel, strip } from "./page";
import { TreeGrid } from "./treegrid";

export interface Crumb { id: string; name: string }

const trails = new Map<string, Crumb[]>(); // frames above those that were zoomed into, by id
const mostTrails = 10_000;

// View is a graph and its table, which show the same frame.
export class View {
  readonly element: HTMLElement;
  #picture: Flame;
  #tree: TreeGrid;
  #detail = h("p.detail");
  #crumbs = h("p.crumbs");
  #matches: number[] = [];
  #match = -1;
  #graph!: Graph;
  #root = 0;
  #search = "";

  constructor(private c: Context, label: string, up = false) {
    const actions = {
      pick: (i: number, quietly?: boolean) => this.#pick(i, quietly),
      zoom: (i: number) => this.#zoom(i),
      focus: (i: number) => { if (i > 0 && c.state.page !== "compare") c.address.go(c.address.link("flame", c.state.ref, { path: nameOf(this.#graph, i), by: param(c, "by") })); },
    };
    this.#picture = new Flame(actions, up);
    this.#tree = new TreeGrid(actions, label);
    const save = (name: string, type: string) => h("button", { click: () => { void this.#picture.picture(type).then((b) => download(b, "flame." + name)); } }, "Save as " + name.toUpperCase());
    this.element = h("section", { "aria-label": label }, this.#crumbs, this.#picture.element, this.#detail, this.#tree.element,
      h("p.save", save("svg", "image/svg+xml"), " ", save("png", "image/png")));
  }

  show(graph: Graph, root: number, above: Crumb[], search: string): void {
    [this.#graph, this.#root, this.#search] = [graph, root, search];
    let marks: Uint8Array | null = null;
    if (search !== "") {
      const hits = graph.names.map(finder(search));
      marks = Uint8Array.from(graph.method, (m) => Number(hits[m]));
      this.#matches = [];
      for (let i = root; i <= graph.last[root]; i++) if (marks[i] && (i === root || !marks[graph.parent[i]])) this.#matches.push(i);
    }
    this.#picture.show(graph, root, marks);
    this.#tree.show(graph, root);
    const all = above.concat(root > 0 ? pathOf(graph, root).slice(0, -1).map((name, k, path) => ({ id: graph.id[ancestor(graph, root, path.length - k)], name })) : []);
    replace(this.#crumbs, ...all.flatMap((a) => [h("button", { click: () => change(this.c, { root: a.id || undefined }) }, shown(a.name, 60)), " › "]),
      all.length > 0 ? h("b", shown(nameOf(graph, root), 200)) : null);
    this.#detail.textContent = this.#tree.describe(root);
  }

  presented(): Promise<void> { return this.#picture.presented(); }

  // next shows the next frame that the search has found.
  next(): void {
    if (this.#matches.length === 0) return;
    this.#match = (this.#match + 1) % this.#matches.length;
    this.#tree.reveal(this.#matches[this.#match]);
  }

  #pick(i: number, quietly = false): void {
    this.#picture.pick(i);
    const text = this.#tree.describe(i);
    this.#detail.textContent = text;
    if (!quietly) this.c.announce(text);
  }

  #zoom(i: number): void {
    const g = this.#graph, id = g.id[i];
    if (i === this.#root && g.more[i] > 0) { change(this.c, { root: id, width: String(2 * Number(param(this.c, "width") || 4096)) }); return; }
    if (i === this.#root && i === 0) return;
    const above = trails.get(g.id[0]) ?? [], path = pathOf(g, i).slice(0, -1);
    if (trails.size > mostTrails) trails.clear();
    const whole = above.length > 0 ? [...above, { id: g.id[0], name: nameOf(g, 0) }] : [{ id: "", name: nameOf(g, 0) }];
    if (i > 0) trails.set(id, whole.concat(path.map((name, k) => ({ id: g.id[ancestor(g, i, path.length - k)], name }))));
    if (i > 0) this.show(g, i, whole, this.#search); // at once; the page has more of what is below in a moment
    change(this.c, { root: i === 0 ? undefined : id, width: undefined });
  }
}

function ancestor(g: Graph, i: number, levels: number): number {
  for (; levels > 0; levels--) i = g.parent[i];
  return i;
}

// hasRest reports whether something below a frame is summed up.
function hasRest(g: Graph, i: number): boolean {
  for (let k = i; k <= g.last[i]; k++) if (g.more[k] > 0) return true;
  return false;
}

// place shows a graph from the frame that the address names: what is summed up below it is asked for.
export async function place(c: Context, view: View, graph: Graph, finer: (root: string) => Promise<Graph>, search: string): Promise<void> {
  const root = param(c, "root");
  const at = root ? graph.id.indexOf(root) : 0;
  if (!root || at >= 0 && (!c.server || !hasRest(graph, at))) {
    view.show(graph, at, at > 0 ? [{ id: "", name: nameOf(graph, 0) }] : [], search);
    return;
  }
  await view.presented(); // the server works on the same processors as a browser at its side
  if (param(c, "root") !== root) return; // the page is another one meanwhile
  const detail = await finer(root);
  view.show(detail, 0, trails.get(root) ?? [{ id: "", name: nameOf(graph, 0) }], search);
}

export async function flamePage(c: Context): Promise<HTMLElement[]> {
  const { ref } = c.state, path = param(c, "path"), by = param(c, "by"), search = param(c, "q"), isInverted = param(c, "invert") === "1";
  const width = Number(param(c, "width")) || widthOf(innerWidth * devicePixelRatio);
  const ask = (invert: boolean, root?: string) => c.source.flame(ref, { path, invert, by, width, root });
  const [meta, down, up, found] = await Promise.all([c.source.meta(ref), ask(isInverted), path !== "" ? ask(true) : null,
    search !== "" ? c.source.search(ref, search) : null]);
  const finer = (root: string) => ask(isInverted, root), of = [meta, down, up, found];
  const before = madeOf(of);
  if (before) { // a frame is zoomed into, or left: the page stays
    before.c.state = c.state;
    for (const k of pageKeys) c.keys.set(k, before.c.keys.get(k)!);
    await place(before.c, before.main, down, finer, search);
    return before.all;
  }
  const bar = controls(
    searchBox(c, searchLabel, search, (text) => change(c, { q: text })),
    choice(c, "by", "width", [["", "time"], "samples", ...meta.activations > 0 ? ["activations"] : []]),
    path === "" ? choice(c, "invert", "show", [["", "callees"], ["1", "callers"]]) : link(c, "whole profile", "flame", ref),
    meta.recent && c.server ? choice(c, "recent", "of", [["", "the whole run"], ["1", "recent samples"]]) : null);
  const all = [strip(c, meta), bar];
  if (found) all.push(h("p.found", foundText(search, found), " n shows the next."));
  for (const note of down.notes) all.push(warning(shown(note, 2000)));
  const main = new View(c, isInverted ? "callers" : path !== "" ? "what it calls" : "tree of calls");
  c.keys.set("n", () => main.next());
  if (up && path !== "") {
    const callers = new View(c, "who calls it", true);
    callers.show(up, 0, [], search);
    all.push(h("h2", "Callers of ", methodLink(c, path)), callers.element, h("h2", "Callees"));
  }
  all.push(main.element, command("flame", isInverted ? "--invert" : "", by && "--by", by, fileOf(meta, ref), path));
  known.set(main.element, { of, c, main, all });
  await place(c, main, down, finer, search);
  return all;
}

// A page as it is shown, by its last graph, and the answers that it was made of: others are to other questions.
interface Made { of: unknown[]; c: Context; main: View; all: HTMLElement[] }
const known = new WeakMap<Element, Made>(), pageKeys = ["/", "n"];

// madeOf returns the page that is shown, if it was made of the same. No closure of a new page may hold the one before:
// all pages would stay.
function madeOf(of: unknown[]): Made | undefined {
  const is = known.get(document.querySelector("main > section:last-of-type")!);
  return is && of.every((o, i) => o === is.of[i]) ? is : undefined;
}

export function methodLink(c: Context, name: string): HTMLElement {
  return link(c, shown(name), "query", c.state.ref, { path: name });
}
