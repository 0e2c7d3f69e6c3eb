# SPDX-License-Identifier: Apache-2.0
"""A step of training in JAX for loop.py."""
import os

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402

LAYERS, WIDTH, BATCH = 8, 2048, 8192


def loss(weights, x, y):
    for w in weights:
        x = jnp.tanh(x @ w)
    return jnp.mean((x - y).astype(jnp.float32) ** 2)


@jax.jit
def update(weights, x, y):
    gradients = jax.grad(loss)(weights, x, y)
    return [w - 0.01 * g for w, g in zip(weights, gradients)]


def training():
    keys = jax.random.split(jax.random.key(0), LAYERS + 2)
    weights = [jax.random.normal(key, (WIDTH, WIDTH), jnp.bfloat16) / WIDTH ** 0.5
               for key in keys[:LAYERS]]
    x, y = (jax.random.normal(key, (BATCH, WIDTH), jnp.bfloat16) for key in keys[LAYERS:])
    held = {"weights": weights}

    def step():
        held["weights"] = done = update(held["weights"], x, y)
        return done[0].block_until_ready

    def synchronize():
        jax.block_until_ready(held["weights"])

    return {"jax": step}, synchronize
