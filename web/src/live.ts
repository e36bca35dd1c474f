// A page of what is being sampled follows it: answers are asked for again, one at a time, while somebody can see the page
// and nobody points at its graph or types. What is open, chosen and scrolled to stays.
import { h } from "./dom";
import type { Remote } from "./remote";
import type { State } from "./state";
import { treeOf } from "./treegrid";

const least = 2000, most = 60_000, failed = 5000; // ms between two looks; to one at a page that could not be shown

// changes reports whether a page shows what goes on.
function changes(s: State): boolean {
  return s.page === "home" || [s.ref, s.params.get("a"), s.params.get("b")].some((ref) => ref?.startsWith("live:"));
}

// keep notes what a person has done to a page, and returns what does it to its next picture.
function keep(main: HTMLElement): () => void {
  const lists = (): Element[] => [...main.querySelectorAll(".tree, .flame, .scroll")];
  const fields = (): HTMLElement[] => [...main.querySelectorAll<HTMLElement>("a, button, input, select, [tabindex]")];
  const scrolled = lists().map((e) => [e.scrollTop, e.scrollLeft]), trees = lists().map((e) => treeOf.get(e)?.kept());
  const at = fields().indexOf(document.activeElement as HTMLElement), y = scrollY;
  const checked = [...main.querySelectorAll<HTMLInputElement>("input:checked")].map((e) => e.name + "=" + e.value);
  return () => {
    lists().forEach((e, i) => { const k = trees[i]; if (k) treeOf.get(e)?.restore(k); });
    lists().forEach((e, i) => { if (scrolled[i]) [e.scrollTop, e.scrollLeft] = scrolled[i]; });
    for (const e of main.querySelectorAll("input")) if (checked.includes(e.name + "=" + e.value)) e.checked = true;
    if (at >= 0) fields()[at]?.focus({ preventScroll: true });
    scrollTo(scrollX, y);
  };
}

export class Live {
  #button = h("button", { click: () => this.#toggle() });
  #moment = h("span.moment");
  readonly element = h("span", { hidden: true }, this.#moment, " ", this.#button);
  #timer = 0;
  #isOn = true;
  #turn = 0; // pages so far
  #failures = 0;

  // redraw draws the page anew, from the answers that were polled unless it has failed.
  constructor(private source: Remote, private main: HTMLElement, private redraw: (hasFailed: boolean) => Promise<void>) {
    document.addEventListener("visibilitychange", () => { if (!document.hidden && !this.element.hidden) this.#wait(0); });
    this.#label();
  }

  // follow begins to keep a page up to date, if it changes; null: it is left.
  follow(page: State | null): void {
    this.#turn++;
    this.#failures = 0;
    this.element.hidden = !page || !changes(page);
    clearTimeout(this.#timer);
    if (this.element.hidden) return;
    if (this.#hasFailed()) this.#wait(failed);
    else this.#shown();
  }

  keep(): () => void { return keep(this.main); }

  #hasFailed(): boolean { return document.body.dataset.state === "failed"; }

  #shown(): void {
    this.#moment.textContent = "as of " + new Date().toTimeString().slice(0, 8);
    this.#wait(Math.max(least, this.source.askAfter));
  }

  #toggle(): void {
    this.#isOn = !this.#isOn;
    this.#label();
    if (this.#isOn) this.#wait(0);
  }

  #label(): void {
    this.#button.textContent = this.#isOn ? "live" : "stopped";
    this.#button.setAttribute("aria-pressed", String(this.#isOn));
    this.#button.title = this.#isOn ? "stop the page" : "let the page go on";
  }

  #wait(ms: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => { void this.#look(); }, ms);
  }

  // isBusy reports whether a new picture would be in somebody's way.
  #isBusy(): boolean {
    const at = document.activeElement;
    return this.main.querySelector(".flame:hover, .lanes:hover") !== null || document.querySelector("dialog[open]") !== null ||
      at instanceof HTMLSelectElement || at instanceof HTMLInputElement && at.type !== "radio";
  }

  async #look(): Promise<void> {
    if (document.hidden || !this.#isOn) return; // either begins it again
    if (this.#isBusy()) return this.#wait(least);
    if (this.#hasFailed()) return this.redraw(true);
    const turn = this.#turn;
    try {
      const changed = await this.source.poll();
      if (turn !== this.#turn) return;
      if (changed && !this.#isBusy()) await this.redraw(false);
      if (turn !== this.#turn) return;
      this.#failures = 0;
      this.#shown();
    } catch (e) {
      if (turn !== this.#turn) return;
      this.#moment.textContent = "no answer" + (e instanceof Error ? ": " + e.message.slice(0, 200) : "");
      this.#wait(Math.min(most, least * 2 ** ++this.#failures));
    }
  }
}
