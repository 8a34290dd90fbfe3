/* SPDX-License-Identifier: Apache-2.0 */
// heads.js : what a head is called, by people and in addresses (selection.js).

export const headName = (r, several) => `${several ? `${r.domain}, ` : ""}layer ${r.layer}, head ${r.head}`;

export const headOf = (r) => `L${r.layer}H${r.head}`;

// What the CSV of a figure says of it.
export const columnsOf = (r, several) => ({ ...(several ? { domain: r.domain } : {}), layer: r.layer, head: r.head });

// What a click on it picks: a head, in one domain of several.
export const pickOf = (r, several) => `${headOf(r)}${several ? `-${r.domain}` : ""}`;
