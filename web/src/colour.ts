// Colours of frames: light enough for black text in both themes, and never the only sign of anything.
import type { Change } from "./graph";

// packageOf is the part of a name that says whose code it is.
export function packageOf(name: string): string {
  const head = name.split(/[\[(<]/, 1)[0], slash = head.lastIndexOf("/") + 1;
  const dot = head.indexOf(".", slash);
  return dot < 0 ? head : head.slice(0, dot);
}

const known = new Map<string, number>(); // hues of packages, by names of methods

function hueOf(name: string): number {
  let hue = known.get(name);
  if (hue === undefined) {
    const p = packageOf(name);
    let hash = 2166136261; // FNV-1a
    for (let i = 0; i < p.length && i < 256; i++) hash = Math.imul(hash ^ p.charCodeAt(i), 16777619);
    hue = (hash >>> 8) % 360;
    if (known.size > 10_000) known.clear();
    known.set(name, hue);
  }
  return hue;
}

// frameColour is of a package, and lighter the less of the frame is its own.
export function frameColour(name: string, self: number): string {
  return `hsl(${hueOf(name)} 55% ${Math.round(86 - 14 * self)}%)`;
}

// changeColour is grey unless a change is significant: orange for more, blue for less.
export function changeColour(c: Change | undefined): string {
  if (!c) return "#d5d8dc";
  const strength = Math.min(1, Math.abs(c.points) / 10);
  return `hsl(${c.points > 0 ? 30 : 210} 85% ${Math.round(82 - 16 * strength)}%)`;
}
