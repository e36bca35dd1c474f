// What is shown is in the address: back and forward work, and every view can be linked. In a single file the address
// that counts is behind the '#'.

export type Page = "home" | "target" | "flame" | "top" | "method" | "query" | "receivers" | "tuning" | "time" | "compare" | "doctor" | "fleet";

export interface State { page: Page; ref: string; params: URLSearchParams }

const pages: Page[] = ["flame", "top", "method", "query", "receivers", "tuning", "time"]; // of a profile
const alone: Page[] = ["compare", "doctor", "fleet"]; // of none
const own: Page[] = ["home", "doctor", "fleet", "tuning"]; // which have no event

type Params = Record<string, string | undefined>;

export class Address {
  // own is the profile of a single file, "" for a server. first: what such a file shows.
  constructor(private own: string, private first = "/") {}

  read(): State {
    const text = this.own ? location.hash.slice(1) || this.first : location.pathname + location.search;
    const url = new URL(text.startsWith("/") ? text : "/", "http://page/"), params = url.searchParams;
    const [kind, of, page] = url.pathname.slice(1).split("/").map(unescaped);
    const single = alone.find((p) => p === kind), named = pages.find((p) => p === page);
    if (single) return { page: single, ref: single === "compare" ? this.own || params.get("b") || "" : "", params };
    if (kind === "p" && of) return { page: named ?? "flame", ref: of, params };
    if (kind === "t" && of) return { page: named ?? "target", ref: (named === "time" ? "span:" : "live:") + of, params };
    return { page: "home", ref: "", params };
  }

  // link returns the address of a state. Pages stay at the event that is shown, and those of one profile at the part and the label.
  link(page: Page, ref: string, params: Params = {}): string {
    const query = new URLSearchParams(), now = this.read();
    for (const name of this.own || own.includes(page) ? [] : ref === now.ref ? ["event", "recent", "label"] : ["event"]) params = { [name]: now.params.get(name) ?? "", ...params };
    for (const [name, value] of Object.entries(params)) if (value) query.set(name, value);
    return (this.own ? "#" : "") + pathOf(page, ref) + (query.size > 0 ? "?" + query : "");
  }

  go(link: string): void {
    history.pushState(null, "", link);
    dispatchEvent(new PopStateEvent("popstate"));
  }
}

function pathOf(page: Page, ref: string): string {
  if (page === "home") return "/";
  if (alone.includes(page)) return "/" + page;
  return page === "target" ? "/t/" + encodeURIComponent(targetOf(ref)) : "/p/" + encodeURIComponent(ref) + "/" + page;
}

// targetOf names the target of a daemon that a reference to its profiles is of; "": it is of none.
export function targetOf(ref: string): string { return /^(?:@hub\/)?(?:live|best|recent|build|period|span|class-\d+):([^:@]+)/.exec(ref)?.[1] ?? ""; }

function unescaped(text: string): string {
  try { return decodeURIComponent(text); } catch { return text; }
}
