// The routes below /v1: figures that the commands print, too.
import { type FlameQuery, type Heat, type Labels, type Point, Problem, type Source } from "./api";
import { expressionOf } from "./dom";
import { fromJSON } from "./graph";

const sessionKey = "ccmapd", sourceKey = "ccmapd-source";

// enter exchanges the secret in the address for a session, once, and takes it out of the address.
async function enter(): Promise<void> {
  const given = new URLSearchParams(location.hash.slice(1)), token = given.get("token");
  if (token === null) return;
  history.replaceState(null, "", location.pathname + location.search);
  const answer = await fetch("/session", { method: "POST", headers: { Authorization: "Bearer " + token } });
  if (!answer.ok) throw await problemOf(answer);
  sessionStorage.setItem(sessionKey, (await answer.json()).session);
  sessionStorage.setItem(sourceKey, given.get("source") ?? "");
}

async function problemOf(answer: Response): Promise<Problem> {
  const text = await answer.text();
  try {
    const p = JSON.parse(text);
    return new Problem(p.detail ?? p.title ?? text, p.hint ?? "", p.progress);
  } catch {
    return new Problem(answer.status + " " + answer.statusText, "");
  }
}

// ofFiles finds answers about files alone, which never change.
const ofFiles = /^\/v1\/(p\/file%3A|\w+\?a=file%3A\d+&b=file%3A\d+(&|$))/;

const mostBefore = 20, notReady = 202;

// asked is a parameter of the address; "": it has none of that name.
function asked(name: string): string { return new URLSearchParams(location.search).get(name) ?? ""; }

interface Answer { tag: string; value: any }
type Params = Record<string, string | number | boolean | undefined>;

// Remote asks a server. Leaving a page ends its requests.
export class Remote implements Source {
  #leaving = new AbortController();
  #entered: Promise<void> | null = null;
  #answers = new Map<string, Answer>(); // of the page that is shown, by address
  #before = new Map<string, Answer>(); // of pages of before, the latest last: a zoom has the same graph, and so has the way back
  #isAgain = false; // the page is drawn anew, from what was polled
  askAfter = 0; // ms: not before that the server wants to be asked again

  // what the address says of all profiles of a page: "": the usual event, samples with any labels, and the whole run
  get #event(): string { return asked("event"); }

  leave(): void {
    this.#leaving.abort();
    this.#leaving = new AbortController();
    for (const [address, answer] of this.#answers) {
      this.#before.delete(address);
      this.#before.set(address, answer);
    }
    for (const address of [...this.#before.keys()].slice(0, -mostBefore)) this.#before.delete(address);
    this.#answers = new Map();
    this.askAfter = 0;
  }

  // poll asks for all that the page shows, one after the other, and reports whether any of it is new.
  async poll(): Promise<boolean> {
    let isNew = false;
    this.askAfter = 0;
    for (const [address, before] of [...this.#answers]) {
      const now = await this.#ask(address, before);
      if (now === before) continue;
      this.#answers.set(address, now);
      isNew = true;
    }
    return isNew;
  }

  // again has a page drawn from the answers that there are.
  async again(draw: () => Promise<void>): Promise<void> {
    this.#isAgain = true;
    try { await draw(); } finally { this.#isAgain = false; }
  }

  // ask returns an answer, the one of before if it is still the same.
  async #ask(address: string, before: Answer | null): Promise<Answer> {
    const answer = await this.#send(address, { headers: before && before.tag !== "" ? { "If-None-Match": before.tag } : {} });
    this.askAfter = Math.max(this.askAfter, 1000 * Number(answer.headers.get("Ask-After") ?? 0));
    if (before && answer.status === 304) return before;
    if (!answer.ok || answer.status === notReady) throw await problemOf(answer);
    return { tag: answer.headers.get("ETag") ?? "", value: await answer.json() };
  }

  async #get(route: string, params: Params): Promise<any> {
    const query = new URLSearchParams();
    for (const [name, value] of Object.entries(params)) {
      if (value !== undefined && value !== "" && value !== false) query.set(name, value === true ? "1" : String(value));
    }
    const address = "/v1/" + route + (query.size > 0 ? "?" + query : "");
    const known = this.#isAgain ? this.#answers.get(address) : undefined;
    if (known) return known.value;
    const answers = this.#answers, before = this.#before.get(address);
    const answer = before && ofFiles.test(address) ? before : await this.#ask(address, before ?? null);
    answers.set(address, answer);
    return answer.value;
  }

  #of(ref: string, view: string, params: Params = {}): Promise<any> {
    return this.#get("p/" + encodeURIComponent(ref) + "/" + view, { event: this.#event, label: asked("label"), ...params });
  }

  // part asks of what is shown: the whole run, or recent samples.
  #part(ref: string, view: string, params: Params): Promise<any> { return this.#of(ref, view, { recent: asked("recent"), ...params }); }

  async profiles() {
    const info = await this.#get("info", {}), targets = (await this.#get("targets", {})).targets ?? [];
    const files: any[] = info.files > 0 ? (await this.#get("profiles", {})).profiles ?? [] : []; // a daemon has no such route
    return { files: files.map((f) => ({ ref: f.ref, name: f.name ?? f.ref, text: f.executable ?? "" })), targets, hub: info.hub };
  }

  meta(ref: string) { return this.#of(ref, "meta"); }

  async flame(ref: string, q: FlameQuery) {
    return fromJSON(await this.#part(ref, "flame", { method: q.path, invert: q.invert, by: q.by, width: q.width, root: q.root }));
  }

  async top(ref: string, sort: string, limit = 500) { return (await this.#part(ref, "top", { limit, sort })).methods; }

  search(ref: string, text: string) {
    const match = expressionOf(text);
    return this.#part(ref, "methods", { q: match === "" ? text : "", match });
  }

  query(ref: string, path: string) { return this.#part(ref, "query", { path, limit: 100 }); }

  async points(ref: string, method: string): Promise<Point[]> { return (await this.#of(ref, "points", { method, limit: 1000 })).points; }

  async lines(ref: string, method: string) { return (await this.#of(ref, "lines", { method })).lines; }

  // source returns the lines of a file; none: there is no such file, or the user shows none.
  async source(file: string): Promise<string[]> { return sessionStorage.getItem(sourceKey) ? (await this.#get("source", { file })).lines : []; }

  heat(ref: string, path: string): Promise<Heat> { return this.#of(ref, "heat", { method: path }); }

  async flamediff(a: string, b: string, q: FlameQuery) {
    return fromJSON(await this.#both("flamediff", a, b, { by: q.by, width: q.width, root: q.root }));
  }

  overlap(a: string, b: string, by: string) { return this.#both("overlap", a, b, { by }); }
  diff(a: string, b: string, by: string) { return this.#both("diff", a, b, { by }); }

  #both(question: string, a: string, b: string, params: Params): Promise<any> {
    return this.#get(question, { a, b, event: this.#event, label: asked("label"), ...params });
  }

  receivers(ref: string, method = "") { return this.#part(ref, "receivers", { limit: 100, method }); }

  async labels(ref: string): Promise<Labels[]> { return (await this.#part(ref, "top", { by: "label", limit: 100 })).labels; }


  fleet(about: string, name = "", method = "") { return this.#get("fleet/" + about, { name, method, event: name && this.#event }); }
  tuning(ref: string, step: string) { return this.#of(ref, "tuning", { event: "", label: "", step }); }
  target(name: string) { return this.#get("targets/" + encodeURIComponent(name), {}); }
  async periods(name: string) { return (await this.#get(`targets/${encodeURIComponent(name)}/periods`, { event: this.#event || "cpu" })).entries; }
  doctor(pid: string) { return this.#get("doctor", { pid }); }

  // upload sends a file of the user, and returns its reference, which holds for some minutes.
  async upload(file: Blob): Promise<string> {
    const answer = await this.#send("/v1/uploads", { method: "POST", body: file });
    if (!answer.ok) throw await problemOf(answer);
    return (await answer.json()).ref;
  }

  // send sends a request of this session.
  async #send(address: string, request: RequestInit): Promise<Response> {
    await (this.#entered ??= enter());
    const headers = new Headers(request.headers), session = sessionStorage.getItem(sessionKey);
    if (session) headers.set("Authorization", "Bearer " + session);
    return fetch(address, { ...request, headers, signal: this.#leaving.signal, cache: "no-store" });
  }
}
