/* SPDX-License-Identifier: Apache-2.0 */
// classes.js : heads as tiles coloured by a class, by how many keys share their weight or how far back they look, with the
// number behind it written in.

// Colours of the classes; the words, and where each class ends, are the library's.
const COLOURS = [
  [/^(aver|near)/, 0],
  [/^(sel|between)/, 2],
  [/^(single|far)/, 1],
  [/./, 7],
];
const colourOf = (name) => COLOURS.find(([word]) => word.test(name))[1];

// {name, colour} of each word, in the order of the colours above.
export const classesIn = (names) =>
  COLOURS.flatMap(([, colour]) =>
    [...new Set(names)].filter((name) => name && colourOf(name) === colour).map((name) => ({ name, colour })),
  );

// A quantity of a map of heads that have a place, near to far, in column `of`, and in `key` the error without far keys.
export function placesOf(rows, of, key) {
  const present = classesIn(rows.map((r) => r[of]));
  return present.length
    ? [
        {
          key,
          title: "how far they look",
          classes: present,
          of,
          caption:
            "In the tile: how far outputs are off at the longest n if a query sees only the last 64 keys and the first 4, " +
            "over their standard deviation. Near: below 0.1; far: 0.5 or more; undecided: the 95 % interval contains 0.1 or 0.5.",
        },
      ]
    : [];
}

// A quantity of a map of heads whose rows have a class in column `of` and an effective number of keys in `key`; nothing
// where they have not.
export function classesOf(rows, of, key) {
  const present = classesIn(rows.map((r) => r[of]));
  return present.length
    ? [
        {
          key,
          title: "class",
          classes: present,
          of,
          caption:
            "In the tile: the effective number of keys, 1/Σw², at the largest n. Averaging: 100 keys or more share the " +
            "weight, or two thirds of n if that is less; single-key: fewer than 2 do; selective: between.",
        },
      ]
    : [];
}
