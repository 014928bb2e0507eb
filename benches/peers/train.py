"""One training step of a TopK dictionary, by PyTorch and two libraries on top of it. Argument: the number of latents."""
import sys

import torch

from turns import BATCH, KEEP, WIDTH, serve, without

latents = int(sys.argv[1])


def product():
    weights, out = torch.randn(latents, WIDTH), torch.empty(BATCH, latents)

    def step(_, rows):
        torch.mm(rows, weights.t(), out=out)

    return step


def dense():
    decoder = torch.nn.functional.normalize(torch.randn(latents, WIDTH), dim=1).requires_grad_()
    encoder = decoder.detach().clone().requires_grad_()
    encoder_bias, bias = torch.zeros(latents, requires_grad=True), torch.zeros(WIDTH, requires_grad=True)
    adam = torch.optim.Adam([encoder, decoder, encoder_bias, bias], lr=1e-3, fused=True)

    def step(_, rows):
        pre = torch.nn.functional.linear(rows - bias, encoder, encoder_bias)
        values, indices = pre.topk(KEEP, sorted=False)
        codes = torch.zeros_like(pre).scatter(-1, indices, values.relu())
        loss = (codes @ decoder + bias - rows).square().sum(-1).mean()
        adam.zero_grad()
        loss.backward()
        adam.step()
        with torch.no_grad():
            decoder.div_(decoder.norm(dim=1, keepdim=True))

    return step


def dictionary_learning():
    without("dictionary_learning", "nnsight")
    from dictionary_learning.trainers.top_k import TopKTrainer

    trainer = TopKTrainer(10_000, WIDTH, latents, KEEP, 0, "none", device="cpu")
    return trainer.update


def overcomplete():
    without("overcomplete")
    from overcomplete.sae import TopKSAE, train_sae

    model = TopKSAE(WIDTH, latents, KEEP)
    adam = torch.optim.Adam(model.parameters(), lr=1e-3)

    def error(rows, reconstruction, *_):
        return (rows - reconstruction).square().mean()

    def step(_, rows):
        train_sae(model, [rows], error, adam, nb_epochs=1, clip_grad=1.0, monitoring=0)

    return step


serve({f.__name__: f for f in (product, dense, dictionary_learning, overcomplete)})
