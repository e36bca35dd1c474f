// The page that the address names, and what all pages have around them.
import { Remote, type Source } from "./api";
import { comparePage } from "./comparepage";
import { h, replace, shown } from "./dom";
import { flamePage } from "./flamepage";
import { helpList, listen } from "./keys";
import { doctorPage } from "./doctorpage";
import { fleetPage } from "./fleetpage";
import { homePage } from "./homepage";
import { queryPage, topPage } from "./listpages";
import { Live, keep } from "./live";
import { embedded } from "./local";
import { type Context, change, problem, tabs } from "./page";
import { receiversPage } from "./receiverspage";
import { Address, type Page, type State } from "./state";
import { targetPage } from "./targetpage";
import { timePage } from "./timepage";
import { tuningPage } from "./tuningpage";

const pages: Record<Page, (c: Context) => Promise<HTMLElement[]>> = {
  home: homePage, target: targetPage, flame: flamePage, top: topPage, method: queryPage, query: queryPage, receivers: receiversPage, tuning: tuningPage,
  time: timePage, compare: comparePage, doctor: doctorPage, fleet: fleetPage,
};

// changes reports whether a page shows what goes on.
function changes(s: State): boolean {
  return s.page === "home" || [s.ref, s.params.get("a"), s.params.get("b")].some((ref) => ref?.startsWith("live:"));
}

class App {
  #main = h("main", { tabindex: -1 });
  #following: Live | null = null;
  #head = h("header");
  #live = h("div.hidden", { "aria-live": "polite" });
  #help = helpList();
  #keys = new Map<string, () => void>();
  #shows = 0; // pages so far

  constructor(private source: Source, private address: Address, private isFile: boolean, private compares: boolean) {
    document.body.append(this.#head, this.#main, this.#live, this.#help);
    listen(() => this.#keys);
    addEventListener("popstate", () => { void this.show(); });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { void this.show(); });
    if (source instanceof Remote) this.#following = new Live(source, this.#main, (hasFailed) => hasFailed ? this.show() : source.again(() => this.show(true)));
  }

  // show shows the page that the address names, again if it is the same one with newer figures.
  async show(isAgain = false): Promise<void> {
    const turn = ++this.#shows;
    if (!isAgain && this.source instanceof Remote) this.source.leave();
    const state = this.address.read();
    const c: Context = { source: this.source, address: this.address, state, isFile: this.isFile, keys: new Map(), announce: (text) => { this.#live.textContent = text; } };
    if (!isAgain) this.#begin(c);
    try {
      const all = await pages[state.page](c);
      if (turn !== this.#shows) return;
      if (isAgain) this.#setKeys(c);
      if (!all.some((e) => e.tagName === "H1" || e.querySelector("h1"))) all.unshift(h("h1.hidden", c.state.page + " " + shown(c.state.ref, 100)));
      const restore = isAgain ? keep(this.#main) : null;
      if (all.some((e, i) => e !== this.#main.children[i])) replace(this.#main, ...all);
      restore?.();
      document.body.dataset.state = "shown";
      if (!isAgain) this.#following?.follow(changes(state));
    } catch (e) {
      if (isAgain) throw e;
      if (turn !== this.#shows || e instanceof DOMException && e.name === "AbortError") return;
      replace(this.#main, ...problem(e));
      document.body.dataset.state = "failed";
      this.#following?.follow(changes(state));
    }
  }

  // begin leaves the page of before.
  #begin(c: Context): void {
    this.#following?.follow(false);
    this.#setKeys(c);
    document.title = "ccmapd " + c.state.page;
    replace(this.#head, tabs(c, this.compares), h("span", this.#following?.element ?? null, " ", h("button", { click: () => this.#help.showModal() }, "? keys")));
    document.body.dataset.state = "loading";
  }

  #setKeys(c: Context): void {
    const { ref, params } = c.state, to = (page: Page) => () => { if (ref !== "") this.address.go(this.address.link(page, ref)); };
    this.#keys = c.keys;
    c.keys.set("?", () => this.#help.showModal()).set("g", to("flame")).set("t", to("top")).set("p", to("query"));
    if (this.compares) c.keys.set("c", () => this.address.go(this.address.link("compare", "")));
    c.keys.set("Escape", () => {
      const out = ["q", "root", "path"].find((p) => params.has(p));
      if (out) change(c, { [out]: undefined, width: undefined });
    });
  }
}

async function start(): Promise<void> {
  const local = await embedded();
  const first = local?.compares ? "/compare" : "/p/" + local?.last + "/flame";
  const app = new App(local ?? new Remote(), new Address(local !== null, first, local?.last ?? ""), local !== null, local?.compares ?? false);
  await app.show();
}

void start();
