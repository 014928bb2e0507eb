"""Small data with known answers."""

import numpy as np
import pytest


@pytest.fixture
def world():
    """Codes of 300 rows in which latent c fires where concept c is, and noise in two more latents."""
    random = np.random.default_rng(0)
    labels = (random.random((300, 3)) < 0.3).astype(np.int8)
    codes = np.zeros((300, 5), np.float32)
    codes[:, :3] = labels * (1 + random.random((300, 3)))
    codes[:, 3:] = np.maximum(random.standard_normal((300, 2)), 0)
    return codes, labels


@pytest.fixture
def activations():
    """Rows that are sums of a few of sixteen directions."""
    random = np.random.default_rng(1)
    directions = random.standard_normal((16, 12)).astype(np.float32)
    active = random.random((2000, 16)) < 0.15
    return ((active * random.random((2000, 16))) @ directions).astype(np.float32)
