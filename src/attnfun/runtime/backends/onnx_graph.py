"""ONNX models in the making: nodes, weights, and the file they end up in."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..._version import __version__
from ...arithmetic.formats import held_in
from ...errors import InputError, MissingExtra
from .dense import Planned, check_size, planned

try:
    import onnx
    from onnx import helper, numpy_helper
except ImportError:
    raise MissingExtra("onnx", "onnx") from None

Array = npt.NDArray[Any]
Model = onnx.ModelProto

VERSIONS = {"decomposed": (17, 8), "operator": (23, 11)}
"""For each way to write attention the operators' version and the file format that came with it."""


class OnnxGraph:
    """Nodes and weights in the making. Tensors go by name."""

    def __init__(self, dtype: str, attention: str = "decomposed") -> None:
        self.dtype = dtype
        """Of points, weights and values. Everything else is in the format that sums are to use."""
        self.attention = attention
        """How attention is written, a key of `VERSIONS`."""
        self.nodes: list[onnx.NodeProto] = []
        self.weights: dict[str, Planned] = {}
        self.numbers: dict[str, Array] = {}
        """Shapes, and what else operators need."""
        self.part = ""
        """Where in the network we are; weights are named after it."""

    def node(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Add a node with one output; the name of the output."""
        return self._add(operator, inputs, 1, attributes)[0]

    def weight(self, name: str, array: Array | Planned) -> str:
        """Store numbers of the current part, in the model's dtype."""
        full = f"{self.part}.{name}"
        self.weights[full] = array if isinstance(array, Planned) else planned(array)
        return self.wide(full)

    def wide(self, tensor: str) -> str:
        """Numbers of the model's dtype in the format of sums."""
        return tensor if held_in(self.dtype) == self.dtype else self._cast(tensor, held_in(self.dtype))

    def narrow(self, tensor: str) -> str:
        """The inverse, rounded."""
        return tensor if held_in(self.dtype) == self.dtype else self._cast(tensor, self.dtype)

    def _cast(self, tensor: str, dtype: str) -> str:
        return self.node("Cast", tensor, to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def integers(self, name: str, *numbers: int) -> str:
        """Store a shape, or what else operators need."""
        self.numbers[name] = np.array(numbers, dtype=np.int64)
        return name

    def reshape(self, tensor: str, *shape: int) -> str:
        """The tensor in another shape, -1 for one axis that follows from the others."""
        return self.node("Reshape", tensor, self.integers(f"shape {shape}", *shape))

    def split(self, tensor: str, *sizes: int, axis: int) -> list[str]:
        """Parts of the tensor along an axis."""
        if len(sizes) == 1:
            return [tensor]
        return self._add("Split", (tensor, self.integers(f"sizes {sizes}", *sizes)), len(sizes), {"axis": axis})

    def join(self, tensors: list[str]) -> str:
        """The tensors side by side along their last axis; the inverse of `split`."""
        return tensors[0] if len(tensors) == 1 else self.node("Concat", *tensors, axis=-1)

    def linear(self, rows: str, name: str, weight: Array | Planned, bias: Array) -> str:
        """`rows weight + bias`: (..., d) -> (..., m). Weights (H, d, m) of several heads give (H, ..., m)."""
        product = self.node("MatMul", rows, self.weight(name, weight))
        return self.node("Add", product, self.weight(f"{name}_bias", bias))

    def _add(self, operator: str, inputs: tuple[str, ...], count: int, attributes: dict[str, Any]) -> list[str]:
        name = f"{operator.lower()}_{len(self.nodes)}"
        outputs = [f"{name}.{number}" for number in range(count)]
        self.nodes.append(helper.make_node(operator, inputs, outputs, name, **attributes))
        return outputs


def check_dtype(dtype: str) -> None:
    """Refuse what runtimes cannot compute in."""
    if not hasattr(np, dtype):
        raise InputError(
            "an ONNX model needs a dtype that NumPy has, as ONNX Runtime does",
            got=dtype,
            remedy="Take float16, float32 or float64.",
        )


def assemble(
    graph: OnnxGraph,
    given: dict[str, list[str | int]],
    result: tuple[str, list[str | int]],
    metadata: dict[str, str],
) -> Model:
    """The checked model, from and to tensors of these names and shapes; refused if too large."""
    check_size("ONNX", graph.weights.values(), graph.dtype)
    arrays = {name: weight.make().astype(graph.dtype) for name, weight in graph.weights.items()} | graph.numbers
    opset, ir_version = VERSIONS[graph.attention]
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(graph.dtype))
    body = helper.make_graph(
        graph.nodes,
        "attnfun",
        [helper.make_tensor_value_info(name, kind, shape) for name, shape in given.items()],
        [helper.make_tensor_value_info(result[0], kind, result[1])],
        [numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    model = helper.make_model(
        body,
        opset_imports=[helper.make_opsetid("", opset)],
        ir_version=ir_version,
        producer_name="attnfun",
        producer_version=__version__,
    )
    helper.set_model_props(model, metadata)
    onnx.checker.check_model(model, full_check=True)
    return model
