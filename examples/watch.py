# SPDX-License-Identifier: Apache-2.0
"""Watch the attention of a PyTorch model: what each head of each layer does with its keys."""

import torch

import esscher

torch.manual_seed(0)
layer = torch.nn.TransformerEncoderLayer(d_model=64, nhead=4, batch_first=True)
model = torch.nn.TransformerEncoder(layer, num_layers=2).eval()
tokens = torch.randn(1, 300, 64)

with torch.no_grad(), esscher.watch(model) as w:
    model(tokens)  # as always: outputs have the same bits
print(w.result)
