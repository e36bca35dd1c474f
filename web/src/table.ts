// Lists: plain tables of at most some hundred rows.
import { h } from "./dom";

export interface Column<R> { name: string; cell(r: R): string | Node; isText?: boolean; sort?: () => void; isSorted?: boolean }

export function table<R>(caption: string, columns: Column<R>[], rows: R[], none = "none"): HTMLElement {
  const head = columns.map((c) => h("th", { scope: "col", class: c.isText ? "name" : "figure", "aria-sort": c.isSorted ? "descending" : null },
    c.sort ? h("button", { click: c.sort }, c.name) : c.name));
  const body = rows.map((r) => h("tr", {}, ...columns.map((c) => h("td", { class: c.isText ? "name" : "figure" }, c.cell(r)))));
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
    h("table", {}, h("caption", {}, caption), h("thead", {}, h("tr", {}, ...head)), h("tbody", {}, ...body)),
    rows.length === 0 ? h("p", {}, none) : null);
}
