# SPDX-License-Identifier: Apache-2.0
"""Tensors of PyTorch: shared memory, bf16, gradients, forks.  PY01 PY02"""

import sys
import unittest

try:
    import torch
except ImportError:
    print("skipped: there is no PyTorch (Debian package python3-torch)")
    sys.exit(77)

import numpy as np

import esscher
from esscher import _arrays
from reference import attention, distance
from test_calls import in_child


class Tensors(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        self.q, self.k, self.v = (torch.randn(2, 4, n, 16) for n in (30, 50, 50))

    def test_tensors_are_read_where_they_lie(self):
        for tensor in (self.q, self.q.transpose(1, 2), self.q[:, :, ::3]):
            array = _arrays.floats(tensor, "q")
            self.assertEqual(array.ctypes.data, tensor.data_ptr())

    def test_the_same_as_torch(self):
        y = esscher.attend(self.q, self.k, self.v)
        weights = torch.softmax(self.q.double() @ self.k.double().transpose(2, 3) / 4, -1)
        self.assertLess(distance(y, (weights @ self.v.double()).numpy()), 1e-6)

    def test_gradients_are_not_asked_for(self):
        self.q.requires_grad_(True)
        esscher.attend(self.q, self.k, self.v)

    def test_PY01_half_precisions(self):
        for dtype in (torch.float16, torch.bfloat16):
            tensors = [t.to(dtype) for t in (self.q, self.k, self.v)]
            expected = attention(*(t.double().numpy() for t in tensors))[0]
            y = esscher.attend(*tensors)
            self.assertEqual(y.dtype, dtype)
            rounding = torch.finfo(dtype).eps / 2
            self.assertLess(distance(y.double().numpy(), expected), 1e-6 + rounding)

    def test_tensors_give_tensors(self):
        a = esscher.attend(self.q, self.k, self.v, stats=("lse",), prefixes=[2, 4])
        self.assertIsInstance(a.output, torch.Tensor)
        self.assertIsInstance(a.lse, torch.Tensor)
        self.assertEqual((a.output.dtype, a.lse.dtype), (self.q.dtype, torch.float64))

    def test_PY02_threads_of_torch_before_a_fork(self):
        """PyTorch's OpenMP is ours: a child must not wait for the threads that it made."""
        torch.set_num_threads(2)
        (torch.randn(2000, 500) @ torch.randn(500, 500)).sum().sin()
        torch.randn(3000000).exp().sum()
        x = np.ones((400, 8))
        expected = esscher.attend(x, x, x, threads=2)[:1].tobytes()
        found = in_child(lambda: esscher.attend(x, x, x, threads=2)[:1].tobytes())
        self.assertEqual(found, expected)


if __name__ == "__main__":
    unittest.main()
