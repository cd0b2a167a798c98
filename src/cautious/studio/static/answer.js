// What a map shows of an answer: tables of a policy and of its occupancy, by state and action.

import { Board } from "./board.js";
import { statesOf } from "./map.js";

const MOVES = ["up", "right", "down", "left"];

/** `opened` is what is known of the model where the statement has no grid. */
export function answerOf(opened, { grid }, rows, policy, occupancy, { visits = false, shape }) {
  return {
    rows,
    policy,
    occupancy,
    n_actions: shape[1],
    arrows: grid === null ? opened.arrows : MOVES,
    names: grid === null ? opened.actions : MOVES,
    still: grid === null ? new Set(opened.still) : goalsOf(rows),
    visits,
    board: boardOf(opened, grid),
  };
}

/** What the cells of a model that was opened show beside their time, if its states are counts. */
export function boardOf(opened, grid) {
  return grid === null && opened.board !== null ? new Board(opened.board, opened.actions) : null;
}

function goalsOf(rows) {
  const states = statesOf(rows);
  const found = new Set();
  rows.forEach((row, i) => [...row].forEach((symbol, j) => symbol === "G" && found.add(states[i][j])));
  return found;
}
