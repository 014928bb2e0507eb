//! The card of `autointerp`.

use crate::metrics::{Better, Card, Kind, Output, Param};
use crate::run::{CODES, JUDGES, NETWORK, PROMPTS, TOKENS};

const SHARE: (f64, f64) = (0.0, 1.0);

pub(super) static CARD: Card = Card {
    name: "autointerp",
    title: "Automatic interpretation",
    summary: "How well a language model explains latents, and predicts from its explanation where they are active.",
    version: 1,
    measures: "A judge, which is a language model, sees windows of text in which a latent is active, with the active tokens marked, \
        and explains the latent in one sentence. Then it sees only this sentence and other windows, and says in which of \
        them the latent is active. The share of right answers is high if the latent has a meaning that can be said and recognised. \
        It is a property of the latents and of the judge together: compare dictionaries with the same judge only, and \
        compare with baselines such as neurons, PCA directions or the residual basis, whose codes are inputs like any other. Without a judge, only \
        the explanation by a list of tokens is scored, which is the score to beat: what a judge adds to it is what was \
        understood beyond single tokens. An answer \"none of them\" to every question gets 10/14 = 0.714 with default parameters in the profile `reference`; \
        the balanced score of it is 0.5.",
    definition: "Rows are tokens. A window is a token (its centre) with `buffer` tokens on each side in the same sequence. Codes of special tokens and codes that are not positive count as 0. \
        A latent is judged if more than `dead_latent_threshold` of its codes are positive; of those, `judged_latents` are drawn at random.\n\
        *Strongest windows*: centres by code, descending, ties by position, none within `buffer` of one before it in the same sequence (`overlap` no). A token is active if its code is above \
        `activation_share` times the largest code in these windows. *Weighted draws*: centres with a code below that of the \
        last strongest centre, without replacement, with probability proportional to code^`power`. *Random windows*: uniform over centres.\n\
        `top_explaining` strongest and `weighted_explaining` drawn windows, chosen at random and sorted by their largest code, explain the latent. \
        The others, `top_scored` and `weighted_scored`, and `random_scored` random windows are shuffled and tested. A window is active if one of its tokens is; \
        `random_labels` inactive treats random windows as inactive whatever happens in them.\n\
        autointerp_score: mean over latents of the share of tested windows with prediction = truth; autointerp_std_dev: standard \
        deviation over latents (n − 1); autointerp_balanced: mean of the shares for active and for inactive windows, undefined without one of them. \
        autointerp_fuzzing: up to `fuzzed` further weighted draws that do not overlap with explaining windows; in one half the \
        active tokens are marked, in the other as many inactive tokens at random; share of right answers to \"which are marked \
        correctly?\" (chance 0.5). autointerp_tokens: score of the list of the five tokens with the largest sum of codes times share of active occurrences in the explaining windows; \
        a window with one of them is predicted to be active. autointerp_unparsed: share of answers that could not be read. With several judges, the score of a \
        latent is the mean over judges, and judge_agreement is the share of tested windows for which two judges say the same, averaged over pairs and latents; undefined for one judge.\n\
        Answers: the explanation is what follows the last \"activates on\"; predictions are numbers. \
        Profile `paper` reads numbers separated by commas, semicolons, white space or \"and\", and \"none\" in any case; an empty explanation, \
        an empty answer or one with other words cannot be read, and counts as wrong for every window (`unparsed` wrong). Profile `reference` reads answers as the released program \
        and leaves latents without a readable answer out of the mean (`unparsed` dropped). Both count them. \
        Latents without enough strongest windows or weaker codes have no score; a note counts them.",
    cost: "The codes by latent; 2 or 3 questions per latent and judge. A question has about 400 tokens of text with default parameters.",
    source: "SAEBench (arXiv 2503.09532), evaluation `autointerp`, code version 0.6.0, after Paulo et al. (2024, arXiv 2410.13928), whose \
        fuzzing score is added. Profile `reference` covers selection, splits, marks, reading of answers and scores, \
        not the wording of questions (ours is `prompts.txt` in the sources; `prompt` replaces it), not the random numbers, and not the judge (gpt-4o-mini there, at the provider's temperature, so not \
        deterministic). Differences of the program from the paper, which `paper` mends: weights are squared (`power` 2; paper: proportional to the activation); \
        random windows are labelled inactive without a look (`random_labels`; of dense latents most of them are active); unreadable answers are dropped, \
        also \"none\" in lower case (`unparsed`); codes are rounded to bfloat16 (`rounding`); windows with a centre of 0 fill up missing \
        strongest windows. The alive test of `reference` extrapolates the frequency to special tokens. The program fails if there are \
        fewer weaker codes than draws; here the latent is skipped. In both, weighted draws may overlap with explaining windows. Negative codes, which the program squares, count as 0 here.",
    interval: "Percentile bootstrap over latents, 1000 resamples; none for the standard deviation, which is descriptive. It does not contain the \
        randomness of a judge that samples.",
    needs: &[&CODES, &TOKENS],
    uses: &[&NETWORK, &JUDGES, &PROMPTS],
    headline: &[
        Output::new("autointerp_score", "Mean share of windows predicted correctly.", SHARE, Better::Higher),
        Output::new("autointerp_std_dev", "Standard deviation of this share over latents.", SHARE, Better::Neither),
        Output::new(
            "autointerp_balanced",
            "Mean of the shares for active and inactive windows.",
            SHARE,
            Better::Higher,
        ),
        Output::new("autointerp_fuzzing", "Share of marks told right from wrong.", SHARE, Better::Higher),
        Output::new("autointerp_tokens", "The score of a list of tokens instead of a judge.", SHARE, Better::Neither),
        Output::new("autointerp_tokens_balanced", "The balanced score of the list.", SHARE, Better::Neither),
        Output::new("autointerp_unparsed", "Share of answers that could not be read.", SHARE, Better::Lower),
        Output::new("judge_agreement", "Share of equal predictions of two judges.", SHARE, Better::Neither),
    ],
    params: &[
        Param::new("judged_latents", "Latents to judge at most", Kind::Whole(1, u64::MAX), "1000"),
        Param::new(
            "dead_latent_threshold",
            "Leave out latents with this many positive codes or fewer",
            Kind::Whole(0, u64::MAX),
            "15",
        ),
        Param::new("buffer", "Tokens on each side of the centre of a window", Kind::Whole(0, 10_000), "10"),
        Param::new(
            "overlap",
            "Whether strongest windows may have neighbouring centres",
            Kind::Word(&["no", "yes"]),
            "no",
        ),
        Param::new(
            "activation_share",
            "Share of the largest code above which a token is active",
            Kind::Number(0.0, 1.0),
            "0.01",
        ),
        Param::new("top_explaining", "Strongest windows that explain", Kind::Whole(1, 1000), "10"),
        Param::new("weighted_explaining", "Weighted draws that explain", Kind::Whole(0, 1000), "5"),
        Param::new("top_scored", "Strongest windows that are tested", Kind::Whole(0, 1000), "2"),
        Param::new("weighted_scored", "Weighted draws that are tested", Kind::Whole(0, 1000), "2"),
        Param::new("random_scored", "Random windows that are tested", Kind::Whole(0, 1000), "10"),
        Param::new("fuzzed", "Windows whose marks are judged; 0 for none", Kind::Whole(0, 1000), "8"),
        Param::new("power", "Draws are weighted by this power of the code", Kind::Whole(1, 4), "1").reference("2"),
        Param::new("random_labels", "Labels of random windows", Kind::Word(&["checked", "inactive"]), "checked")
            .reference("inactive"),
        Param::new(
            "unparsed",
            "What an answer that cannot be read counts as",
            Kind::Word(&["wrong", "dropped"]),
            "wrong",
        )
        .reference("dropped"),
        Param::new("rounding", "Number type that codes are rounded to", Kind::Word(&["none", "bf16"]), "none")
            .reference("bf16"),
        Param::new("explanation_tokens", "Tokens of an explanation at most", Kind::Whole(1, 10_000), "30"),
    ],
};
