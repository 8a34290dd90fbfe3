/* SPDX-License-Identifier: Apache-2.0 */
// index.js : which command has which figures. A file here exports a function from a run to its figures (chart.js says
// what a figure is; choice.js, how several share a place); a command without one still has its tables.
//
// run: {command, answer, params, tables}; a table is an array of rows, and run.tables has only those of the run.
import { ball } from "./ball.js";
import { budget } from "./budget.js";
import { claims } from "./claims.js";
import { collapse } from "./collapse.js";
import { compare } from "./compare.js";
import { contextFit } from "./context-fit.js";
import { converge } from "./converge.js";
import { depth } from "./depth.js";
import { downstream } from "./downstream.js";
import { exponent } from "./exponent.js";
import { hardmax } from "./hardmax.js";
import { heatFlow } from "./heat-flow.js";
import { loss } from "./loss.js";
import { measure } from "./measure.js";
import { picture } from "./picture.js";
import { probe } from "./probe.js";
import { regimes } from "./regimes.js";
import { rope } from "./rope.js";
import { selfcheck } from "./selfcheck.js";
import { sink } from "./sink.js";
import { sparse } from "./sparse.js";
import { tails } from "./tails.js";

export const registry = {
  ball,
  budget,
  claims,
  collapse,
  compare,
  "context-fit": contextFit,
  converge,
  depth,
  downstream,
  exponent,
  hardmax,
  heat: heatFlow,
  loss,
  measure,
  picture,
  probe,
  regimes,
  rope,
  selfcheck,
  sink,
  sparse,
  tails,
};
