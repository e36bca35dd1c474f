// What is shown is in the address: back and forward work, and every view can be linked. In a single file the address
// that counts is behind the '#'.

export type Page = "home" | "flame" | "top" | "method" | "query" | "receivers" | "tuning" | "time" | "compare" | "doctor" | "fleet" | "help";

export interface State { page: Page; ref: string; params: URLSearchParams }

const own: Page[] = ["home", "doctor", "fleet", "tuning"]; // which have no event
const pages: Page[] = ["flame", "top", "method", "query", "receivers", "tuning", "time"];

export class Address {
  // own is the profile of a single file, "" for a server.
  constructor(private isFile: boolean, private first: string, private own: string) {}

  read(): State {
    const text = this.isFile ? location.hash.slice(1) || this.first : location.pathname + location.search;
    const url = new URL(text.startsWith("/") ? text : "/", "http://page/");
    const [kind, ref, page] = url.pathname.slice(1).split("/").map(unescaped);
    const params = url.searchParams;
    if (kind === "compare") return { page: "compare", ref: this.own || params.get("b") || "", params };
    if (kind === "doctor") return { page: "doctor", ref: "", params };
    if (kind === "fleet") return { page: "fleet", ref: "", params };
    if (kind === "p" && ref) return { page: pages.find((p) => p === page) ?? "flame", ref, params };
    if (kind === "t" && ref && page === "time") return { page: "time", ref: "span:" + ref, params };
    if (kind === "t" && ref) return { page: pages.find((p) => p === page) ?? "flame", ref: "live:" + ref, params };
    return { page: "home", ref: "", params };
  }

  // link returns the address of a state. Pages of profiles stay at the event that is shown.
  link(page: Page, ref: string, params: Record<string, string | undefined> = {}): string {
    const query = new URLSearchParams(), event = this.isFile || own.includes(page) ? null : this.read().params.get("event");
    if (event) query.set("event", event);
    for (const [name, value] of Object.entries(params)) if (value) query.set(name, value);
    const path = page === "home" ? "/" : page === "compare" || page === "doctor" || page === "fleet" ? "/" + page : "/p/" + encodeURIComponent(ref) + "/" + page;
    return (this.isFile ? "#" : "") + path + (query.size > 0 ? "?" + query : "");
  }

  go(link: string, replace = false): void {
    if (replace) history.replaceState(null, "", link);
    else history.pushState(null, "", link);
    dispatchEvent(new PopStateEvent("popstate"));
  }
}

function unescaped(text: string): string {
  try { return decodeURIComponent(text); } catch { return text; }
}

// merged returns parameters with some changed; undefined and "" remove one.
export function merged(params: URLSearchParams, changes: Record<string, string | undefined>): Record<string, string | undefined> {
  return { ...Object.fromEntries(params), ...changes };
}
