"""A training step of four dense layers, sharded over a mesh of all devices; compiled from shapes alone."""

from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import AxisType, NamedSharding, PartitionSpec

LAYERS, WIDTH, HIDDEN, BATCH = 4, 64, 256, 32
mesh = jax.make_mesh((len(jax.devices()) // 2, 2), ("data", "model"), axis_types=(AxisType.Auto, AxisType.Auto))


def shape(sizes: tuple[int, ...], *axes: str | None) -> Any:
    """The shape of an array that is sharded over these axes."""
    return jax.ShapeDtypeStruct(sizes, jnp.bfloat16, sharding=NamedSharding(mesh, PartitionSpec(*axes)))


def layer(x: Any, weights: Any) -> tuple[Any, None]:
    """A residual layer of two products."""
    up, down = weights
    return x + jnp.tanh(x @ up) @ down, None


def loss(weights: Any, x: Any) -> Any:
    """The mean square of what the layers make of x."""
    x, _ = jax.lax.scan(layer, x, weights)
    return jnp.mean(x.astype(jnp.float32) ** 2)


def step(weights: Any, x: Any) -> tuple[Any, Any]:
    """New weights, and the loss."""
    value, gradients = jax.value_and_grad(loss)(weights, x)
    return jax.tree.map(lambda weight, gradient: weight - 0.1 * gradient, weights, gradients), value


weights = shape((LAYERS, WIDTH, HIDDEN), None, "data", "model"), shape((LAYERS, HIDDEN, WIDTH), None, "model", "data")
jax.jit(step).lower(weights, shape((BATCH, WIDTH), "data")).compile()
