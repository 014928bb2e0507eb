"""One training step of four architectures of dictionary-learning. Argument: the number of latents."""
import sys

from turns import KEEP, WIDTH, serve, without

latents = int(sys.argv[1])
without("dictionary_learning", "nnsight")
from dictionary_learning.trainers.batch_top_k import BatchTopKTrainer
from dictionary_learning.trainers.jumprelu import JumpReluTrainer
from dictionary_learning.trainers.matryoshka_batch_top_k import MatryoshkaBatchTopKTrainer
from dictionary_learning.trainers.top_k import TopKTrainer

settings = dict(steps=10_000, activation_dim=WIDTH, dict_size=latents, layer=0, lm_name="none", device="cpu")
fractions = [1 / 32, 1 / 16, 1 / 8, 1 / 4, 17 / 32]

serve(
    {
        "topk": lambda: TopKTrainer(k=KEEP, **settings).update,
        "batch_topk": lambda: BatchTopKTrainer(k=KEEP, **settings).update,
        "matryoshka": lambda: MatryoshkaBatchTopKTrainer(k=KEEP, group_fractions=fractions, **settings).update,
        "jumprelu": lambda: JumpReluTrainer(**settings).update,
    }
)
