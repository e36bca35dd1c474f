// Pens that pictures are drawn with: on a canvas, or as SVG.

export interface Pen {
  rect(x: number, y: number, w: number, height: number, colour: string): void;
  outline(x: number, y: number, w: number, height: number): void;
  hatch(x: number, y: number, w: number, height: number, isMore: boolean): void; // leans to the right for more
  text(text: string, x: number, middle: number): void;
}

const outlined = "#0a58ca", written = "#111", lines = "rgb(0 0 0 / 25%)", font = "11px ui-monospace, monospace";
const hatchStep = 6, widest = 8192; // px

export class CanvasPen implements Pen {
  constructor(private c: CanvasRenderingContext2D, ratio: number) {
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    c.font = font;
    c.textBaseline = "middle";
  }

  rect(x: number, y: number, w: number, height: number, colour: string): void {
    this.c.fillStyle = colour;
    this.c.fillRect(x, y, w, height);
  }

  outline(x: number, y: number, w: number, height: number): void {
    this.c.strokeStyle = outlined;
    this.c.lineWidth = 2;
    this.c.strokeRect(x, y, w, height);
  }

  hatch(x: number, y: number, w: number, height: number, isMore: boolean): void {
    const c = this.c;
    c.save();
    c.beginPath();
    c.rect(x, y, w, height);
    c.clip();
    c.strokeStyle = lines;
    c.lineWidth = 1;
    c.beginPath();
    for (let at = Math.max(x, 0) - height; at < Math.min(x + w, widest); at += hatchStep) {
      c.moveTo(at, isMore ? y + height : y);
      c.lineTo(at + height, isMore ? y : y + height);
    }
    c.stroke();
    c.restore();
  }

  text(text: string, x: number, middle: number): void {
    this.c.fillStyle = written;
    this.c.fillText(text, x, middle);
  }
}

// SVGPen writes a document. Names of methods are foreign: they are text there, and nothing else.
export class SVGPen implements Pen {
  #parts: string[];

  constructor(width: number, height: number) {
    this.#parts = [`<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="ui-monospace, monospace" font-size="11">`,
      ...[["more", `M0 ${hatchStep}L${hatchStep} 0`], ["less", `M0 0L${hatchStep} ${hatchStep}`]].map(([id, d]) =>
        `<pattern id="${id}" width="${hatchStep}" height="${hatchStep}" patternUnits="userSpaceOnUse"><path d="${d}" stroke="#000" stroke-opacity=".25"/></pattern>`)];
  }

  rect(x: number, y: number, w: number, height: number, colour: string): void { this.#box(x, y, w, height, `fill="${colour}"`); }
  outline(x: number, y: number, w: number, height: number): void { this.#box(x, y, w, height, `fill="none" stroke="${outlined}" stroke-width="2"`); }
  hatch(x: number, y: number, w: number, height: number, isMore: boolean): void { this.#box(x, y, w, height, `fill="url(#${isMore ? "more" : "less"})"`); }
  text(text: string, x: number, middle: number): void { this.#parts.push(`<text x="${round(x)}" y="${round(middle)}" dominant-baseline="central" fill="${written}">${escaped(text)}</text>`); }

  // document returns all that was drawn.
  document(): string { return this.#parts.join("\n") + "\n</svg>\n"; }

  #box(x: number, y: number, w: number, height: number, attributes: string): void {
    this.#parts.push(`<rect x="${round(x)}" y="${round(y)}" width="${round(w)}" height="${round(height)}" ${attributes}/>`);
  }
}

function round(v: number): number { return Math.round(v * 100) / 100; }

function escaped(text: string): string {
  const names: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
  return text.replace(/[&<>"]/g, (c) => names[c]);
}
