// Keys that hold everywhere, and their list.
import { h } from "./dom";

const help: [string, string][] = [
  ["↑ ↓", "the row above or below"], ["→ ←", "open, or go to the first callee; close, or go to the caller"], ["Home End", "the first or last row"],
  ["Enter", "zoom: show what is below the frame"], ["f", "focus: callers and callees of the method"], ["/", "search"], ["n", "the next match"],
  ["Esc", "out of a zoom, a search or this list"], ["g t p c", "flame graph, top, paths, compare"], ["?", "this list"],
];

export function helpList(): HTMLDialogElement {
  const dialog = h("dialog", { "aria-label": "keys" }, h("h2", "Keys"), h("dl", ...help.flatMap(([key, text]) => [h("dt", key), h("dd", text)])),
    h("button", { click: () => dialog.close() }, "Close"));
  return dialog;
}

// listen calls what a page does on keys, unless something is typed into a field.
export function listen(keys: () => Map<string, () => void>): void {
  addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey || e.defaultPrevented) return;
    if (document.querySelector("dialog[open]")) return; // which closes itself
    if (e.target instanceof HTMLInputElement || e.target instanceof HTMLSelectElement) return;
    const action = keys().get(e.key);
    if (action) { e.preventDefault(); action(); }
  });
}
