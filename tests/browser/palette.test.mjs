/* SPDX-License-Identifier: Apache-2.0 */
// palette.test.mjs : the colours of series are told apart by red-blind and green-blind eyes, and by grey printers the
// heat map's. Needs no browser.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { paperTheme, ramps } from "../../web/theme.js";

// Machado, Oliveira, Fernandes (2009), severity 1, on linear RGB.
const eyes = {
  normal: [
    [1, 0, 0],
    [0, 1, 0],
    [0, 0, 1],
  ],
  protanopia: [
    [0.152286, 1.052583, -0.204868],
    [0.114503, 0.786281, 0.099216],
    [-0.003882, -0.048116, 1.051998],
  ],
  deuteranopia: [
    [0.367322, 0.860646, -0.227968],
    [0.280085, 0.672501, 0.047413],
    [-0.01182, 0.04294, 0.968881],
  ],
};

const linear = (c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
const rgbOf = (hex) =>
  hex
    .slice(1)
    .match(/../g)
    .map((h) => linear(parseInt(h, 16) / 255));
const times = (m, v) => m.map((row) => row.reduce((sum, a, i) => sum + a * v[i], 0));
const seen = (eye, hex) => times(eyes[eye], rgbOf(hex)).map((c) => Math.min(1, Math.max(0, c)));

// Ottosson's OKLab.
function oklab(rgb) {
  const lms = times(
    [
      [0.4122214708, 0.5363325363, 0.0514459929],
      [0.2119034982, 0.6806995451, 0.1073969566],
      [0.0883024619, 0.2817188376, 0.6299787005],
    ],
    rgb,
  ).map(Math.cbrt);
  return times(
    [
      [0.2104542553, 0.793617785, -0.0040720468],
      [1.9779984951, -2.428592205, 0.4505937099],
      [0.0259040371, 0.7827717662, -0.808675766],
    ],
    lms,
  );
}
const distance = (a, b) => Math.hypot(...oklab(a).map((v, i) => v - oklab(b)[i]));
const luminance = ([r, g, b]) => 0.2126 * r + 0.7152 * g + 0.0722 * b;

const css = readFileSync(new URL("../../web/page.css", import.meta.url), "utf8");
const [day, night] = css.split("prefers-color-scheme: dark");
const read = (text, name) => text.match(new RegExp(`--${name}: (#[0-9a-f]{6})`))[1];
const pages = { light: day, dark: night };

// 0.02 is about what can just be seen side by side; marks of a few pixels, apart from each other, need several times it.
const LEAST = 0.085;

for (const [name, text] of Object.entries(pages)) {
  const palette = Array.from({ length: 8 }, (_, i) => read(text, `s${i}`));
  for (const eye of Object.keys(eyes))
    test(`${name}: any two series differ to ${eye} eyes`, () => {
      for (let i = 0; i < 8; i++)
        for (let j = 0; j < i; j++) {
          const d = distance(seen(eye, palette[i]), seen(eye, palette[j]));
          assert.ok(d >= LEAST, `${palette[j]} and ${palette[i]}: ${d.toFixed(3)}`);
        }
    });
  test(`${name}: every series stands out from the paper`, () => {
    const paper = luminance(rgbOf(read(text, "paper"))) + 0.05;
    for (const colour of palette) {
      const ink = luminance(rgbOf(colour)) + 0.05;
      assert.ok(Math.max(paper, ink) / Math.min(paper, ink) >= 3, colour); // WCAG 1.4.11
    }
  });
  test(`${name}: a heat map is ordered by lightness alone, to all eyes`, () => {
    for (const eye of Object.keys(eyes)) {
      const light = ramps[name].map((c) => oklab(seen(eye, c))[0]);
      const steps = light.slice(1).map((l, i) => (name === "light" ? light[i] - l : l - light[i]));
      assert.ok(Math.min(...steps) > 0.05, `${eye}: ${light.map((l) => l.toFixed(2))}`);
    }
  });
}

test("saved figures have the colours of the light page", () => {
  assert.deepEqual(
    paperTheme.palette,
    Array.from({ length: 8 }, (_, i) => read(day, `s${i}`)),
  );
});
