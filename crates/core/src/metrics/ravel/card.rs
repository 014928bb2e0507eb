//! The card of `ravel`.

use crate::metrics::{Better, Card, Kind, Output, Param};
use crate::run::{DICTIONARY, ENTITIES, NETWORK};

const SHARE: (f64, f64) = (0.0, 1.0);

pub(super) static CARD: Card = Card {
    name: "ravel",
    title: "RAVEL",
    summary: "Whether an attribute of an entity can be exchanged through some latents, without changing the others.",
    version: 1,
    measures: "A language model knows that Paris is in France and that people there speak French. If a dictionary \
        disentangles these attributes, then there are latents that carry the country alone: copying them from the \
        activation of Tokyo to that of Paris makes the model answer \"Japan\" when it is asked for the country (cause), and still \"French\" \
        when it is asked for the language (isolation). Which latents are copied is trained for every attribute. \
        Doing nothing scores 0.5 without being useful: isolation 1, cause 0; so does copying everything, if the site carries the \
        entity: cause 1, isolation 0. Only scores above 0.5 show disentanglement, and a dictionary that reconstructs badly is below that. \
        Compare with the neurons (`identity`) and principal components (`pca`) as dictionaries, and with the skyline (`mdas`), which may choose \
        any orthonormal directions.",
    definition: "A prompt is a template with an entity in it; it asks for one attribute. The network completes every prompt with \
        `answer_tokens` tokens, the most probable each. Prompts with a right answer are kept, of those the `kept_entities` entities with \
        most of them, and of those the `kept_templates` templates with most of them (ties by order; by kind of entity).\n\
        Pairs of an attribute A: *cause* pairs have a base and a source prompt of A whose labels differ; the expected answer is the \
        label of the source. *Isolation* pairs have a base and a source prompt of another attribute of the same kind whose labels differ; \
        the expected answer is the label of the base. Up to `pairs_per_attribute` bases of each attribute are drawn without replacement, each with a \
        random source; isolation pairs of all other attributes are drawn to be as many as cause pairs. All are shuffled; the first \
        `pair_train_share` train, the others test (`pair_split` pairs). With `pair_split` files, training pairs have entities and templates \
        of the split train only, and test pairs have none of them: the first choice shares entities and templates between \
        training and test.\n\
        The exchange is at the last token of the entity: f_base and f_source are the codes there; the activation becomes \
        decode((1 − g) f_base + g f_source); what the dictionary does not reconstruct is lost. One mask value m per latent is \
        trained, from 0: g = sigmoid(m / T) with T from 1 to 0.0001 in equal steps of its logarithm; the loss is the cross-entropy of the first token of the \
        expected answer (that which the network generated); Adam with `mask_rate`, batches of `mask_batch` pairs, `mask_epochs` passes in the same order. \
        In the test g = 1 if m > 0, else 0; the exchange happens in the prompt only; the network completes it, and the answer is judged.\n\
        cause and isolation of an attribute: shares of test pairs with the expected answer; disentanglement: their mean. Headline: means over the attributes of a kind, then over kinds. \
        Attributes without test pairs of both types have no disentanglement and are left out of its mean; a note names them.\n\
        An answer is right if it starts with the label or, if it is shorter, the label starts with it; case, and what follows a \
        quotation mark, are ignored. Special cases: coordinates within 2 degrees, signs ignored; \"England\" for United Kingdom; \"Korea\" for South Korea; \
        \"America\" and \"NA\" for North America; \"Chinese\" for Mandarin; one of several languages separated by commas. Attributes with time zones as labels are left \
        out.\n\
        Skyline (`mdas` yes): x' = ((1 − g) xR + g x_source R) Rᵀ with an orthonormal matrix R (from the identity) and a mask over its columns, both \
        trained for `mdas_epochs` passes; after every step R is replaced by its orthonormal factor of determinant 1. It uses the activations only, not the dictionary.",
    cost: "Every prompt is completed once, every test pair once; these dominate. A training step runs the network above the site forward and \
        backward for every pair of the batch; activations below it are kept if there is memory. The gradient of a mask needs only \
        the latents that are active in base or source. The skyline needs 5 numbers per entry of a square matrix and its decomposition in every step.",
    source: "SAEBench (arXiv 2503.09532), evaluation `ravel`, code version 0.6.0, after RAVEL (Huang et al. 2024, arXiv 2402.17700). Profile `reference` reproduces the \
        program except for its random numbers, its 16-bit arithmetic, and time zones, whose verdicts depend on the day. What \
        `paper` mends: the token of the entity, which the program finds by counting the tokens of the text behind it with special tokens, one \
        too late for tokenizers without a first token; cause pairs whose two answers have the same first token, which the program scores as isolation against the label of the \
        source; incomplete batches, which it drops from training and test; the limit of 90 templates, which it ignores (`kept_templates` 0). \
        Answers: it accepts \"England\" for United States and refuses \"united states\"; it refuses \"Mandarin Chinese\" and accepts every part of the word, such as \
        \"a\", for Mandarin; of \"German, French\" it refuses \"French\" because of the space. Skyline: its decomposition changes the signs of most directions in every step, which the moments of Adam \
        do not follow; `paper` keeps the signs. In both, answers of one letter can be right. The program stops with an error if all labels of an attribute are the same.",
    interval: "Percentile bootstrap over the entities of base prompts, 1000 resamples: the pairs of an entity share what the network knows about it, so \
        that pairs are not independent. Masks are not trained again, and sources are not resampled: the interval holds for these masks.",
    needs: &[&NETWORK, &DICTIONARY, &ENTITIES],
    uses: &[],
    headline: &[
        Output::new("disentanglement_score", "Mean of cause and isolation.", SHARE, Better::Higher),
        Output::new("cause_score", "Share of answers that become those of the source.", SHARE, Better::Higher),
        Output::new("isolation_score", "Share of answers that stay those of the base.", SHARE, Better::Higher),
        Output::new("mdas_disentanglement_score", "The score of the skyline.", SHARE, Better::Neither),
        Output::new("mdas_cause_score", "Its share of answers that become those of the source.", SHARE, Better::Neither),
        Output::new("mdas_isolation_score", "Its share of answers that stay those of the base.", SHARE, Better::Neither),
    ],
    params: &[
        Param::new(
            "attributes",
            "Attributes to exchange: names, KIND:NAME, or `default` for those of the released program and all of other kinds",
            Kind::Text("names of attributes, separated by commas"),
            "default",
        )
        .several(),
        Param::new("most_prompts", "Prompts of a kind to complete at most, drawn at random; 0 for all", Kind::Whole(0, u64::MAX), "0"),
        Param::new("kept_entities", "Entities of a kind to keep", Kind::Whole(1, u64::MAX), "500"),
        Param::new("kept_templates", "Templates of a kind to keep; 0 for all", Kind::Whole(0, u64::MAX), "90").reference("0"),
        Param::new("pairs_per_attribute", "Cause pairs of an attribute at most; as many isolation pairs are added", Kind::Whole(1, 1_000_000_000), "5000"),
        Param::new("pair_train_share", "Share of pairs that train", Kind::Number(0.0, 1.0), "0.7"),
        Param::new(
            "pair_split",
            "How training and test pairs are told apart: at random, or by the splits of entities and templates in the files",
            Kind::Word(&["pairs", "files"]),
            "pairs",
        ),
        Param::new("mask_batch", "Pairs per training step", Kind::Whole(1, 1_000_000), "8"),
        Param::new("mask_epochs", "Passes over the training pairs", Kind::Whole(1, 100_000), "2"),
        Param::new("mask_rate", "Learning rate of masks", Kind::Number(0.0, 1e6), "0.001"),
        Param::new("answer_tokens", "Tokens of a completion", Kind::Whole(1, 1000), "6"),
        Param::new("mdas", "Whether the skyline is trained too", Kind::Word(&["no", "yes"]), "no"),
        Param::new("mdas_epochs", "Passes of the skyline over the training pairs", Kind::Whole(1, 100_000), "10"),
    ],
};
