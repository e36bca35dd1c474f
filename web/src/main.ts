// The page that the address names, and what all pages have around them.
import { Problem, Remote, type Source } from "./api";
import { comparePage } from "./comparepage";
import { h, replace, shown } from "./dom";
import { flamePage } from "./flamepage";
import { helpList, listen } from "./keys";
import { homePage, queryPage, topPage } from "./listpages";
import { embedded } from "./local";
import { type Context, change, tabs } from "./page";
import { Address, type Page } from "./state";
import { timePage } from "./timepage";

const pages: Record<Page, (c: Context) => Promise<HTMLElement[]>> = {
  home: homePage, flame: flamePage, top: topPage, method: queryPage, query: queryPage, time: timePage, compare: comparePage, help: homePage,
};

class App {
  private main = h("main", { tabindex: -1 });
  private head = h("header");
  private live = h("div", { "aria-live": "polite", class: "hidden" });
  private help = helpList();
  private keys = new Map<string, () => void>();
  private shows = 0; // pages so far

  constructor(private source: Source, private address: Address, private isFile: boolean, private compares: boolean) {
    document.body.append(this.head, this.main, this.live, this.help);
    listen(() => this.keys);
    addEventListener("popstate", () => { void this.show(); });
  }

  async show(): Promise<void> {
    const turn = ++this.shows;
    if (this.source instanceof Remote) this.source.leave();
    const state = this.address.read();
    const c: Context = { source: this.source, address: this.address, state, isFile: this.isFile, keys: new Map(), announce: (text) => { this.live.textContent = text; } };
    this.setKeys(c);
    document.title = "ccmapd " + state.page;
    replace(this.head, tabs(c, this.compares), h("button", { click: () => this.help.showModal() }, "? keys"));
    document.body.dataset.state = "loading";
    try {
      const all = await pages[state.page](c);
      if (turn !== this.shows) return;
      replace(this.main, ...all);
      document.body.dataset.state = "shown";
    } catch (e) {
      if (turn !== this.shows || e instanceof DOMException && e.name === "AbortError") return;
      replace(this.main, h("p", { role: "alert", class: "warning" }, shown(e instanceof Error ? e.message : String(e), 2000)),
        e instanceof Problem && e.hint !== "" ? h("p", {}, shown(e.hint, 2000)) : null);
      document.body.dataset.state = "failed";
    }
  }

  private setKeys(c: Context): void {
    const { ref, params } = c.state, to = (page: Page) => () => { if (ref !== "") this.address.go(this.address.link(page, ref)); };
    this.keys = c.keys;
    c.keys.set("?", () => this.help.showModal()).set("g", to("flame")).set("t", to("top")).set("p", to("query"));
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
