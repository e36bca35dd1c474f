// What all pages have around them, and the page that the address names.
import { Problem, type Source } from "./api";
import { h, replace, shown } from "./dom";
import { helpList, listen } from "./keys";
import type { Live } from "./live";
import { type Context, change, problem, tabs } from "./page";
import type { Remote } from "./remote";
import type { Address, Page } from "./state";

export type Pages = Partial<Record<Page, (c: Context) => Promise<HTMLElement[]>>>;

const soon = 250; // ms until the server is asked again that is not ready yet

export class App {
  readonly main = h("main", { tabindex: -1 });
  following: Live | null = null; // of pages that a server answers
  #head = h("header");
  #live = h("div.hidden", { "aria-live": "polite" });
  #help = helpList();
  #keys = new Map<string, () => void>();
  #shows = 0; // pages so far

  // server: null for a single file. compares: it is of two profiles.
  constructor(private pages: Pages, private address: Address, private source: Source, private server: Remote | null, private compares = false) {
    document.body.append(this.#head, this.main, this.#live, this.#help);
    listen(() => this.#keys);
    addEventListener("popstate", () => { void this.show(); });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { void this.show(); });
  }

  // show shows the page that the address names, again if it is the same one with newer figures.
  async show(isAgain = false): Promise<void> {
    const turn = ++this.#shows;
    if (!isAgain) this.server?.leave();
    const state = this.address.read();
    const c: Context = { source: this.source, server: this.server, address: this.address, state, keys: new Map(), announce: (text) => { this.#live.textContent = text; } };
    if (!isAgain) this.#begin(c);
    try {
      const page = this.pages[state.page];
      if (!page) throw new Problem("This file has no such page.", "");
      const all = await page(c);
      if (turn !== this.#shows) return;
      if (isAgain) this.#setKeys(c);
      if (!all.some((e) => e.tagName === "H1" || e.querySelector("h1"))) all.unshift(h("h1.hidden", c.state.page + " " + shown(c.state.ref, 100)));
      const restore = isAgain ? this.following?.keep() : null;
      if (all.some((e, i) => e !== this.main.children[i])) replace(this.main, ...all);
      restore?.();
      this.#set("shown");
    } catch (e) {
      if (isAgain) throw e;
      if (turn !== this.#shows || e instanceof DOMException && e.name === "AbortError") return;
      this.#fail(e);
    }
    if (!isAgain) this.following?.follow(state);
  }

  // fail says why there is no page, and tries again if the server is not ready yet.
  #fail(e: unknown): void {
    const turn = this.#shows;
    replace(this.main, ...problem(e));
    if (!(e instanceof Problem) || e.progress === undefined) return this.#set("failed");
    setTimeout(() => { if (turn === this.#shows) void this.show(); }, soon);
  }

  // begin leaves the page of before.
  #begin(c: Context): void {
    this.following?.follow(null);
    this.#setKeys(c);
    document.title = "ccmapd " + c.state.page;
    replace(this.#head, tabs(c, this.compares), h("span", this.following?.element ?? null, " ", h("button", { click: () => this.#help.showModal() }, "? keys")));
    this.#set("loading");
  }

  #set(state: string): void { document.body.dataset.state = state; }

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
