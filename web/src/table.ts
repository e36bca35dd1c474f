// Lists: plain tables of at most some hundred rows.
import { count, h, shown } from "./dom";

export interface Column<R> { name: string; cell(r: R): string | Node; isText?: boolean; sort?: () => void; isSorted?: boolean }
type Cell<R> = (r: R) => string | Node;

// figure is a column of numbers, word one of text: as a function says, or what a field has.
export function figure<R = any>(name: string, cell: Cell<R>): Column<R> { return { name, cell }; }
export function word<R = any>(name: string, cell: Cell<R> | string = name): Column<R> {
  return { name, cell: typeof cell === "string" ? (r: any) => shown(r[cell] ?? "", 1000) : cell, isText: true };
}

// amount is a column of counts, by the name of their field.
export function amount(name: string): Column<any> { return figure(name, (r) => count(r[name])); }

export function table<R>(caption: string, columns: Column<R>[], rows: R[], none = "none"): HTMLElement {
  const kind = (c: Column<R>) => c.isText ? "name" : "figure";
  const head = columns.map((c) => h("th", { scope: "col", class: kind(c), "aria-sort": c.isSorted ? "descending" : null }, c.sort ? h("button", { click: c.sort }, c.name) : c.name));
  const body = rows.map((r) => h("tr", ...columns.map((c) => h("td", { class: kind(c) }, c.cell(r)))));
  return h("div.scroll", { tabindex: 0, role: "region", "aria-label": caption },
    h("table", h("caption", caption), h("thead", h("tr", ...head)), h("tbody", ...body)), rows.length === 0 ? h("p", none) : null);
}
