/* SPDX-License-Identifier: Apache-2.0 */
// classes.js : heads as tiles coloured by how many keys share their weight, with that number written in.

// Colours of the classes; the words, and where each class ends, are the library's.
const COLOURS = [
  [/^aver/, 0],
  [/^sel/, 2],
  [/^single/, 1],
  [/./, 7],
];
const colourOf = (name) => COLOURS.find(([word]) => word.test(name))[1];

// {name, colour} of each word, in the order of the colours above.
export const classesIn = (names) =>
  COLOURS.flatMap(([, colour]) =>
    [...new Set(names)].filter((name) => name && colourOf(name) === colour).map((name) => ({ name, colour })),
  );

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
          caption:
            "In the tile: the effective number of keys, 1/Σw², at the largest n. Averaging: 100 keys or more share the " +
            "weight, or two thirds of n if that is less; single-key: fewer than 2 do; selective: between.",
        },
      ]
    : [];
}
