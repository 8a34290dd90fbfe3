/* SPDX-License-Identifier: Apache-2.0 */
// pdf.js : an SVG of Vega's as a PDF of one page.
//
// It knows what Vega writes and nothing else: svg, g, path, line, rect, text, tspan, clipPath, linearGradient; translate,
// rotate and scale; colours as #rrggbb. What else it meets stops it: a figure is whole or not there. Text is
// Helvetica, with Symbol for what that does not have, so that nothing is embedded and every word can be searched and edited;
// characters that neither has become question marks, and are reported.
import { deflateSync } from "node:zlib";
import { piecesOf } from "./pdf-fonts.js";
import { highest, lowest } from "./tables.js";

// ---- reading SVG ----

const entities = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'" };
const plain = (text) =>
  text.replace(/&(#x[0-9a-f]+|#\d+|\w+);/gi, (_, name) =>
    name[0] === "#" ? String.fromCodePoint(Number(name.replace("#", "").replace(/^x/i, "0x"))) : entities[name],
  );

// The tree of elements: {tag, attributes, children}; text is a string among the children.
export function treeOf(svg) {
  const root = { tag: "", attributes: {}, children: [] };
  const open = [root];
  const token = /<(\/?)([\w:-]+)((?:\s+[\w:-]+="[^"]*")*)\s*(\/?)>|([^<]+)/gy;
  for (let m; token.lastIndex < svg.length;) {
    const at = token.lastIndex;
    if (!(m = token.exec(svg))) throw new Error(`this is no SVG that is understood: ${svg.slice(at, at + 60)}`);
    const [, end, tag, attributes, single, text] = m;
    if (text !== undefined) open.at(-1).children.push(plain(text));
    else if (end) open.pop();
    else {
      const pairs = [...attributes.matchAll(/([\w:-]+)="([^"]*)"/g)].map(([, name, value]) => [name, plain(value)]);
      const made = { tag, attributes: Object.fromEntries(pairs), children: [] };
      open.at(-1).children.push(made);
      if (!single) open.push(made);
    }
  }
  return root.children.find((c) => c.tag === "svg");
}

// ---- numbers and colours ----

const n = (v) => {
  if (!Number.isFinite(Number(v))) throw new Error(`${v} is no number`);
  return String(Math.round(Number(v) * 1000) / 1000);
};
const list = (...numbers) => numbers.map(n).join(" ");

const colour = (text) => {
  const hex = /^#([0-9a-f]{6})$/i.exec(text);
  const rgb = /^rgba?\((\d+), ?(\d+), ?(\d+)/.exec(text);
  const short = /^#([0-9a-f])([0-9a-f])([0-9a-f])$/i.exec(text);
  if (short) return short.slice(1).map((h) => parseInt(h, 16) / 15);
  if (hex) return hex[1].match(/../g).map((h) => parseInt(h, 16) / 255);
  if (rgb) return rgb.slice(1, 4).map((v) => Number(v) / 255);
  throw new Error(`a colour that is not understood: ${text}`);
};

// translate(1,2) rotate(-90) as a list of matrices.
function matricesOf(text) {
  return [...(text ?? "").matchAll(/(\w+)\(([^)]*)\)/g)].map(([, kind, inside]) => {
    const [a, b = 0] = inside.split(/[ ,]+/).map(Number);
    const [cos, sin] = [Math.cos((a * Math.PI) / 180), Math.sin((a * Math.PI) / 180)];
    if (kind === "translate") return [1, 0, 0, 1, a, b];
    if (kind === "scale") return [a, 0, 0, b || a, 0, 0];
    if (kind === "rotate") return [cos, sin, -sin, cos, 0, 0];
    throw new Error(`a transformation that is not understood: ${kind}`);
  });
}
const transformed = (text) =>
  matricesOf(text)
    .map((m) => `${m.map((v) => n(v)).join(" ")} cm\n`)
    .join("");

// ---- paths ----

// An arc of an ellipse as Bézier curves of at most a quarter each (SVG 1.1, F.6).
function arc([x1, y1], rx, ry, turn, large, sweep, [x2, y2]) {
  if (!rx || !ry || (x1 === x2 && y1 === y2)) return `${list(x2, y2)} l\n`;
  const [cosT, sinT] = [Math.cos((turn * Math.PI) / 180), Math.sin((turn * Math.PI) / 180)];
  const [dx, dy] = [(x1 - x2) / 2, (y1 - y2) / 2];
  const [px, py] = [cosT * dx + sinT * dy, -sinT * dx + cosT * dy];
  const grow = Math.sqrt(Math.max(1, (px / rx) ** 2 + (py / ry) ** 2));
  [rx, ry] = [Math.abs(rx) * grow, Math.abs(ry) * grow];
  const down = (rx * py) ** 2 + (ry * px) ** 2;
  const k = (large === sweep ? -1 : 1) * Math.sqrt(Math.max(0, ((rx * ry) ** 2 - down) / down));
  const [ux, uy] = [(k * rx * py) / ry, (-k * ry * px) / rx];
  const [cx, cy] = [cosT * ux - sinT * uy + (x1 + x2) / 2, sinT * ux + cosT * uy + (y1 + y2) / 2];
  const from = Math.atan2((py - uy) / ry, (px - ux) / rx);
  let angle = Math.atan2((-py - uy) / ry, (-px - ux) / rx) - from;
  if (sweep && angle < 0) angle += 2 * Math.PI;
  if (!sweep && angle > 0) angle -= 2 * Math.PI;
  const parts = Math.ceil(Math.abs(angle) / (Math.PI / 2) - 1e-9);
  const step = angle / parts;
  const pull = (4 / 3) * Math.tan(step / 4);
  const at = (c, s) => [cx + rx * c * cosT - ry * s * sinT, cy + rx * c * sinT + ry * s * cosT];
  return Array.from({ length: parts }, (_, i) => {
    const [a, b] = [from + i * step, from + (i + 1) * step];
    const [c1, s1, c2, s2] = [Math.cos(a), Math.sin(a), Math.cos(b), Math.sin(b)];
    return `${list(...at(c1 - pull * s1, s1 + pull * c1), ...at(c2 + pull * s2, s2 - pull * c2), ...at(c2, s2))} c\n`;
  }).join("");
}

const arity = { M: 2, L: 2, H: 1, V: 1, C: 6, Q: 4, A: 7, Z: 0 };

// The path in PDF's operators.
export function pathOf(d) {
  let [out, at, first] = ["", [0, 0], [0, 0]];
  const absolute = (relative, xs) => xs.map((v, i) => (relative ? v + at[i % 2] : v));
  for (const [, letter, inside] of d.matchAll(/([a-zA-Z])([^a-zA-Z]*(?:e-?\d+[^a-zA-Z]*)*)/g)) {
    let kind = letter.toUpperCase();
    const relative = letter !== kind;
    const numbers = (inside.match(/[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?/g) ?? []).map(Number);
    if (!(kind in arity)) throw new Error(`a path that is not understood: ${letter}`);
    for (let i = 0; i === 0 || i < numbers.length; i += arity[kind]) {
      const own = numbers.slice(i, i + arity[kind]);
      if (kind === "Z") {
        [out, at] = [`${out}h\n`, first];
        break;
      } else if (kind === "A") {
        const to = absolute(relative, own.slice(5));
        [out, at] = [out + arc(at, ...own.slice(0, 3), own[3] !== 0, own[4] !== 0, to), to];
      } else if (kind === "C" || kind === "Q") {
        let xs = absolute(relative, own);
        if (kind === "Q") {
          const [[x0, y0], [qx, qy, x, y]] = [at, xs];
          xs = [
            x0 + (2 * (qx - x0)) / 3,
            y0 + (2 * (qy - y0)) / 3,
            x + (2 * (qx - x)) / 3,
            y + (2 * (qy - y)) / 3,
            x,
            y,
          ];
        }
        [out, at] = [`${out}${list(...xs)} c\n`, xs.slice(-2)];
      } else {
        if (kind === "H") at = [own[0] + (relative ? at[0] : 0), at[1]];
        else if (kind === "V") at = [at[0], own[0] + (relative ? at[1] : 0)];
        else at = absolute(relative, own);
        out += `${list(...at)} ${kind === "M" ? "m" : "l"}\n`;
        if (kind === "M") [first, kind] = [at, "M"];
      }
      if (kind === "M" && numbers.length > 2) throw new Error("a path with an implicit line");
    }
  }
  return out;
}

// ---- drawing ----

// What is drawn on the page, and what the page needs for it.
class Page {
  constructor(defs, unknown) {
    this.defs = defs;
    this.unknown = unknown;
    this.states = new Map(); // of opacity: name by "0.5 1"
    this.shadings = [];
  }

  opacity(fill, stroke) {
    const key = `${n(fill)} ${n(stroke)}`;
    if (!this.states.has(key)) this.states.set(key, `G${this.states.size + 1}`);
    return key === "1 1" ? "" : `/${this.states.get(key)} gs\n`;
  }

  // Attributes that elements take from those around them.
  inherit(style, attributes) {
    const own = { ...style };
    for (const key of ["fill", "stroke", "stroke-width", "stroke-dasharray", "fill-opacity", "stroke-opacity"])
      if (key in attributes) own[key] = attributes[key];
    for (const key of ["stroke-linecap", "stroke-linejoin", "stroke-miterlimit"])
      if (key in attributes) own[key] = attributes[key];
    own.opacity = (style.opacity ?? 1) * Number(attributes.opacity ?? 1);
    return own;
  }

  paint(style, path, even = false) {
    const [fill, stroke] = [style.fill ?? "#000000", style.stroke ?? "none"];
    const gradient = /^url\(#(.*)\)$/.exec(fill);
    const [fills, strokes] = [
      fill !== "none" && !gradient,
      stroke !== "none" && Number(style["stroke-width"] ?? 1) > 0,
    ];
    let out = gradient ? this.shade(gradient[1], path) : "";
    if (!fills && !strokes) return out;
    out += this.opacity(style.opacity * (style["fill-opacity"] ?? 1), style.opacity * (style["stroke-opacity"] ?? 1));
    if (fills) out += `${list(...colour(fill))} rg\n`;
    if (strokes) {
      const dash = (style["stroke-dasharray"] ?? "").split(/[ ,]+/).filter(Boolean);
      out += `${list(...colour(stroke))} RG\n${n(style["stroke-width"] ?? 1)} w\n[${dash.map(n).join(" ")}] 0 d\n`;
      out += `${{ round: 1, square: 2 }[style["stroke-linecap"]] ?? 0} J ${{ round: 1, bevel: 2 }[style["stroke-linejoin"]] ?? 0} j\n`;
    }
    return `${out}${path}${fills && strokes ? "B" : fills ? "f" : "S"}${even && fills ? "*" : ""}\n`;
  }

  // A gradient across the box of a path: stops are joined by straight lines.
  shade(id, path) {
    const { attributes, children } = this.defs.get(id);
    const numbers = path.match(/-?[\d.]+/g).map(Number);
    const [xs, ys] = [0, 1].map((k) => numbers.filter((_, i) => i % 2 === k));
    const box = [lowest(xs), lowest(ys), highest(xs), highest(ys)];
    const at = (v, low, high) => low + (high - low) * Number(v ?? 0);
    const ends = ["x1", "y1", "x2", "y2"].map((key, i) => at(attributes[key], box[i % 2], box[2 + (i % 2)]));
    this.shadings.push({
      ends,
      stops: children.map((c) => [Number(c.attributes.offset), colour(c.attributes["stop-color"])]),
    });
    return `q\n${path}W n\n/S${this.shadings.length} sh\nQ\n`;
  }

  clip(attributes) {
    const found = /url\(#(.*)\)/.exec(attributes["clip-path"] ?? "");
    if (!found) return "";
    return this.defs
      .get(found[1])
      .children.map(({ tag, attributes: a }) => `${tag === "rect" ? rectangle(a) : pathOf(a.d)}W n\n`)
      .join("");
  }

  text({ attributes, children }, style) {
    const heavy = attributes["font-weight"] === "bold" || Number(attributes["font-weight"]) >= 600;
    const size = parseFloat(attributes["font-size"]);
    const words = children.map((c) => (c.tag ? c.children.join("") : c)).join("");
    const pieces = piecesOf(words, heavy, this.unknown);
    const width = pieces.reduce((sum, p) => sum + p.width, 0) * size;
    let x = { middle: -width / 2, end: -width }[attributes["text-anchor"]] ?? 0;
    if (style.fill === "none" || !words) return "";
    let out = `${this.opacity(style.opacity * (style["fill-opacity"] ?? 1), 1)}${list(...colour(style.fill ?? "#000000"))} rg\nBT\n`;
    for (const p of pieces) {
      const bytes = p.codes.map((c) => c.toString(16).padStart(2, "0")).join("");
      out += `/${p.font} ${n(size * p.scale)} Tf\n1 0 0 -1 ${list(x, -p.rise * size)} Tm\n<${bytes}> Tj\n`;
      x += p.width * size;
    }
    return `${out}ET\n`;
  }

  draw(element, outer) {
    const { tag, attributes, children } = element;
    if (tag === "defs" || attributes.display === "none" || typeof element === "string") return "";
    const style = this.inherit(outer, attributes);
    const inside = {
      g: () => this.clip(attributes) + children.map((c) => this.draw(c, style)).join(""),
      path: () => (attributes.d ? this.paint(style, pathOf(attributes.d)) : ""),
      line: () =>
        this.paint(
          { ...style, fill: "none" },
          `${list(attributes.x1 ?? 0, attributes.y1 ?? 0)} m\n${list(attributes.x2 ?? 0, attributes.y2 ?? 0)} l\n`,
        ),
      rect: () => this.paint(style, rectangle(attributes)),
      text: () => this.text(element, style),
    }[tag];
    if (!inside) throw new Error(`an element that is not understood: ${tag}`);
    const drawn = inside();
    return drawn && `q\n${transformed(attributes.transform)}${drawn}Q\n`;
  }
}

const rectangle = ({ x = 0, y = 0, width, height }) => `${list(x, y, width, height)} re\n`;

// Elements with an id, anywhere.
function named(element, found = new Map()) {
  if (element.attributes?.id) found.set(element.attributes.id, element);
  (element.children ?? []).forEach((c) => named(c, found));
  return found;
}

// ---- the file ----

// Colours between stops by linear interpolation (PDF 1.4, types 2 and 3).
function shadingObject({ ends, stops }) {
  const part = ([, a], [, b]) => `<</FunctionType 2/Domain[0 1]/N 1/C0[${list(...a)}]/C1[${list(...b)}]>>`;
  const parts = stops.slice(1).map((s, i) => part(stops[i], s));
  const inner = stops.slice(1, -1).map(([offset]) => offset);
  const all = `<</FunctionType 3/Domain[0 1]/Functions[${parts.join("")}]/Bounds[${list(...inner)}]/Encode[${parts.map(() => "0 1").join(" ")}]>>`;
  return `<</ShadingType 2/ColorSpace/DeviceRGB/Coords[${list(...ends)}]/Extend[true true]/Function ${all}>>`;
}

// Text of the document's information: UTF-16.
const unicode = (text) =>
  `<feff${[...Buffer.from(text, "utf16le").swap16()].map((b) => b.toString(16).padStart(2, "0")).join("")}>`;

// The bytes of a PDF, the same for the same SVG. A pixel is three quarters of a point, as in CSS. `unknown` receives
// each character that is a question mark there.
export function pdfOf(svg, title, unknown) {
  const root = treeOf(svg);
  const [width, height] = [Number(root.attributes.width) * 0.75, Number(root.attributes.height) * 0.75];
  const page = new Page(named(root), unknown);
  const drawn = root.children.map((c) => page.draw(c, { opacity: 1 })).join("");
  const stream = deflateSync(Buffer.from(`0.75 0 0 -0.75 0 ${n(height)} cm\n${drawn}`, "latin1"));
  const states = [...page.states]
    .map(([key, name]) => `/${name}<</ca ${key.split(" ")[0]}/CA ${key.split(" ")[1]}>>`)
    .join("");
  const font = (name, encoding) =>
    `<</Type/Font/Subtype/Type1/BaseFont/${name}${encoding ? "/Encoding/WinAnsiEncoding" : ""}>>`;
  const shadings = page.shadings.map((s, i) => `/S${i + 1} ${shadingObject(s)}`).join("");
  const objects = [
    "<</Type/Catalog/Pages 2 0 R>>",
    "<</Type/Pages/Kids[3 0 R]/Count 1>>",
    `<</Type/Page/Parent 2 0 R/MediaBox[0 0 ${list(width, height)}]/Contents 4 0 R/Resources<</Font<</F1 5 0 R/F2 6 0 R/F3 7 0 R>>/ExtGState<<${states}>>/Shading<<${shadings}>>>>>>`,
    [`<</Length ${stream.length}/Filter/FlateDecode>>\nstream\n`, stream, "\nendstream"],
    font("Helvetica", true),
    font("Helvetica-Bold", true),
    font("Symbol", false),
    `<</Title ${unicode(title)}/Producer(Esscher)>>`,
  ];
  return fileOf(objects);
}

// Objects with the table that says where they begin.
function fileOf(objects) {
  const parts = [Buffer.from("%PDF-1.4\n%\xe2\xe3\xcf\xd3\n", "latin1")];
  const offsets = [];
  const length = () => parts.reduce((sum, p) => sum + p.length, 0);
  objects.forEach((object, i) => {
    offsets.push(length());
    for (const piece of [`${i + 1} 0 obj\n`, ...[object].flat(), "\nendobj\n"])
      parts.push(Buffer.isBuffer(piece) ? piece : Buffer.from(piece, "latin1"));
  });
  const start = length();
  const table = offsets.map((o) => `${String(o).padStart(10, "0")} 00000 n \n`).join("");
  parts.push(Buffer.from(`xref\n0 ${objects.length + 1}\n0000000000 65535 f \n${table}`));
  parts.push(
    Buffer.from(
      `trailer\n<</Size ${objects.length + 1}/Root 1 0 R/Info ${objects.length} 0 R>>\nstartxref\n${start}\n%%EOF\n`,
    ),
  );
  return Buffer.concat(parts);
}
