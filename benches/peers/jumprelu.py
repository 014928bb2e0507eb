"""A hundred training steps of JumpReLU by dictionary-learning. Argument: the number of latents."""
import sys

from turns import KEEP, WIDTH, batches, serve, without

STEPS = 100
latents = int(sys.argv[1])
without("dictionary_learning", "nnsight")
from dictionary_learning.trainers.jumprelu import JumpReluTrainer


def jumprelu():
    data = batches()
    unit = sum(rows.square().sum(1).mean() for rows in data).div(len(data)).sqrt()
    data = [rows / unit for rows in data]

    def training(*_):
        trainer = JumpReluTrainer(
            steps=STEPS, activation_dim=WIDTH, dict_size=latents, layer=0, lm_name="none", device="cpu", target_l0=KEEP,
            warmup_steps=STEPS // 10, sparsity_warmup_steps=STEPS // 5,
        )
        for step in range(STEPS):
            trainer.update(step, data[step % len(data)])

    return training


serve({"jumprelu": jumprelu})
