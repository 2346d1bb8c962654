"use strict";
// The network itself, in double precision: the formulas of attnfun's layers on one sequence.
// A matrix is {rows, width, at}, its numbers row by row in a Float64Array.
const attnfun = (() => {
  const matrix = (rows, width, at = new Float64Array(rows * width)) => ({ rows, width, at });

  function decoded(array) {
    const text = atob(array.data), bytes = new Uint8Array(text.length);
    for (let k = 0; k < text.length; k++) bytes[k] = text.charCodeAt(k);
    return { shape: array.shape, at: new Float64Array(bytes.buffer) };
  }

  // Part number k of a stack of matrices (K, rows, width).
  function part(stack, k) {
    const [, rows, width] = stack.shape;
    return matrix(rows, width, stack.at.subarray(k * rows * width, (k + 1) * rows * width));
  }

  // out += A B; most weights are zero.
  function addProduct(out, A, B) {
    for (let i = 0; i < A.rows; i++)
      for (let k = 0; k < A.width; k++) {
        const a = A.at[i * A.width + k];
        if (a !== 0) for (let j = 0; j < B.width; j++) out.at[i * out.width + j] += a * B.at[k * B.width + j];
      }
    return out;
  }

  // X W + a bias for each column.
  function project(X, W, bias) {
    const out = matrix(X.rows, W.width);
    if (bias) for (let i = 0; i < X.rows; i++) out.at.set(bias, i * W.width);
    return addProduct(out, X, W);
  }

  function softmax(scores) {
    const top = scores.reduce((a, b) => Math.max(a, b), -Infinity);
    const weights = scores.map((score) => Math.exp(score - top));
    const mass = weights.reduce((a, b) => a + b, 0);
    return weights.map((weight) => weight / mass);
  }

  function affine(layer, X) {
    const [rows, width] = layer.constant.shape;
    if (!layer.left) return project(X, part(layer.right, 0), layer.constant.at);
    const out = matrix(rows, width, layer.constant.at.slice());
    for (let k = 0; k < layer.right.shape[0]; k++) addProduct(out, project(part(layer.left, k), X), part(layer.right, k));
    return out;
  }

  const bias = (table, head) => table.at.subarray(head * table.shape[1], (head + 1) * table.shape[1]);

  // Weights of one head for the query of one token: data tokens first, then memory tokens.
  function weights(layer, X, head, token) {
    const query = project(X, part(layer.query, head), bias(layer.query_bias, head));
    const keys = project(tokensOf(layer, X), part(layer.key, head), bias(layer.key_bias, head));
    const scores = new Float64Array(keys.rows);
    for (let j = 0; j < keys.rows; j++)
      for (let k = 0; k < keys.width; k++) scores[j] += query.at[token * query.width + k] * keys.at[j * keys.width + k];
    return softmax(scores);
  }

  function tokensOf(layer, X) {
    const memory = matrix(layer.memory.shape[0], layer.memory.shape[1], layer.memory.at);
    if (!layer.attends_data) return memory;
    const all = matrix(X.rows + memory.rows, X.width);
    all.at.set(X.at);
    all.at.set(memory.at, X.at.length);
    return all;
  }

  function attention(layer, X) {
    const width = layer.output_bias.shape[0], out = matrix(X.rows, width);
    for (let i = 0; i < X.rows; i++) out.at.set(layer.output_bias.at, i * width);
    for (let head = 0; head < layer.query.shape[0]; head++) {
      const values = project(tokensOf(layer, X), part(layer.value, head), bias(layer.value_bias, head));
      const mixed = matrix(X.rows, values.width);
      for (let i = 0; i < X.rows; i++)
        addProduct(matrix(1, values.width, mixed.at.subarray(i * values.width, (i + 1) * values.width)),
          matrix(1, values.rows, weights(layer, X, head, i)), values);
      addProduct(out, mixed, part(layer.output, head));
    }
    if (layer.residual) for (let k = 0; k < out.at.length; k++) out.at[k] += X.at[k];
    return out;
  }

  function rowwiseSoftmax(layer, X) {
    const out = matrix(X.rows, X.width);
    for (let i = 0; i < X.rows; i++) out.at.set(softmax(X.at.slice(i * X.width, (i + 1) * X.width)), i * X.width);
    return out;
  }

  const apply = { affine, attention, softmax: rowwiseSoftmax };

  function load(description) {
    const layers = description.layers.map((layer) =>
      Object.fromEntries(Object.entries(layer).map(([name, value]) => [name, value && value.data !== undefined ? decoded(value) : value])));
    const states = (point) => {
      const found = [matrix(description.length, point.length / description.length, Float64Array.from(point))];
      for (const layer of layers) found.push(apply[layer.kind](layer, found[found.length - 1]));
      return found;
    };
    return {
      run: (point) => Array.from(states(point).pop().at),
      weights: (point, layer, head, token) => Array.from(weights(layers[layer], states(point)[layer], head, token)),
    };
  }
  return { load };
})();
