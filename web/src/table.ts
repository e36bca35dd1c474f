// Lists: plain tables of at most some hundred rows.
import { count, h } from "./dom";

export interface Column<R> { name: string; cell(r: R): string | Node; isText?: boolean; sort?: () => void; isSorted?: boolean }

// figure is a column of numbers, word one of text.
export function figure<R = any>(name: string, cell: (r: R) => string | Node): Column<R> { return { name, cell }; }
export function word<R = any>(name: string, cell: (r: R) => string | Node): Column<R> { return { name, cell, isText: true }; }

// amount is a column of counts, by the name of their field.
export function amount(name: string): Column<any> { return figure(name, (r) => count(r[name])); }

export function table<R>(caption: string, columns: Column<R>[], rows: R[], none = "none"): HTMLElement {
  const head = columns.map((c) => h("th", { scope: "col", class: c.isText ? "name" : "figure", "aria-sort": c.isSorted ? "descending" : null },
    c.sort ? h("button", { click: c.sort }, c.name) : c.name));
  const body = rows.map((r) => h("tr", {}, ...columns.map((c) => h("td", { class: c.isText ? "name" : "figure" }, c.cell(r)))));
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
    h("table", {}, h("caption", {}, caption), h("thead", {}, h("tr", {}, ...head)), h("tbody", {}, ...body)),
    rows.length === 0 ? h("p", {}, none) : null);
}
