"""Makes the golden files of tokenizers: small models trained by the original libraries, and what these compute.

    python make.py SAELENS SAEBENCH

SAELENS and SAEBENCH are checkouts of these programs; their functions are run, not copied. Needs tokenizers, transformers,
sentencepiece, numpy and jinja2. No torch: the few functions of it that are needed are replaced by NumPy's.
"""

import ast
import io
import json
import os
import random
import struct
import sys
import types

import numpy as np
import sentencepiece as spm
import tokenizers
import transformers
from sentencepiece import sentencepiece_model_pb2 as proto
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

HERE = os.path.dirname(os.path.abspath(__file__))
RANDOM = random.Random(14)

LINES = """
The latent fires on the word that follows a comma, and on nothing else.
A dictionary of latents explains most of the activations of a layer.
Die Wörter fließen, die Zahlen 12, 345 und 6789 bleiben übrig.
Une fenêtre ouverte, un café très chaud, des élèves déçus.
def encode(text): return [ord(c) for c in text if c != ' ']
for (let i = 0; i < rows.length; i++) { total += rows[i]; }
Сколько слов в этом предложении, и сколько букв?
日本語の文と、中文的句子。
It's what they've said: we're done, I'm sure you'll see, she'd agree.
aaaa aaa aa a bbb bb b -- ---- ======== ........
The the THE then these those; there, their, they.
1999 2000 2001 3.14159 1,000,000 0x1F
""".strip().splitlines()


def strings():
    out = ["", " ", "  ", "\n", "a", " a", "a ", "The the THE", "It's they've WE'RE I'M", "e\u0301 é ﬁ Ａ ① …", "日本語の文と中文", "🙂👩‍👧 🇩🇪",
           "\u200b\ufeff\u00a0\u3000x", "\0a\x7f\x85", "<s>a</s>", "a<|end|> b<|end|>", "[CLS] a [SEP]", "▁a▁▁b", "<0x41><unk>", "Привет",
           "x" + " " * 7 + "y", "\t\t x\r\n\r\n  y\n", "12345 67 8.9", "don't  stop", "aaaaaaa", "========", "ſ'ſ K'S", "[mask] <b> <b><b>"]
    pools = [LINES, list("abcdeth ,.'1239"), [chr(c) for c in range(0xC0, 0x250)] + [" "], [" ", "  ", "\n", "\t", "a", "the"],
             [chr(c) for c in range(0x300, 0x340)] + list("aeiou "), list("日本語中文句子のと。、 "), [chr(c) for c in range(1, 0x3000)],
             ["<s>", "</s>", "<|end|>", "[CLS]", "<b>", "a", " ", "the"], ["🙂", "👩", "\u200d", "👧", "🏽", " ", "a"], list("0123456789 ,.")]
    for n in range(170):
        pool = pools[n % len(pools)]
        if pool is LINES:
            line = RANDOM.choice(LINES)
            start = RANDOM.randrange(len(line))
            out.append(line[start:start + RANDOM.randint(1, 40)])
        else:
            out.append("".join(RANDOM.choice(pool) for _ in range(RANDOM.randint(1, 14))))
    return out


STRINGS = strings()


def byte_spans(text, spans):
    at = [0]
    for c in text:
        at.append(at[-1] + len(c.encode()))
    return [[at[s], at[e]] for s, e in spans]


def write(name, value):
    path = os.path.join(HERE, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if isinstance(value, bytes):
        open(path, "wb").write(value)
    else:
        open(path, "w", encoding="utf8").write(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n")


def expected_of(tokenizer):
    """Ids without and with added special tokens, spans, and decoded text of a tokenizer of the tokenizers library."""
    rows = []
    for text in STRINGS:
        plain = tokenizer.encode(text, add_special_tokens=False)
        rows.append({"ids": plain.ids, "spans": byte_spans(text, plain.offsets), "added": tokenizer.encode(text).ids,
                     "decoded": tokenizer.decode(plain.ids, skip_special_tokens=True)})
    return rows


def expected_of_model(path):
    sp = spm.SentencePieceProcessor(model_file=path)
    rows = []
    for text in STRINGS:
        pieces = list(sp.encode(text, return_type="proto").pieces)
        spans = [[p.begin, p.end] for p in pieces]
        ids = [p.id for p in pieces]
        assert ids == sp.encode(text)
        rows.append({"ids": ids, "spans": spans, "decoded": sp.decode(ids)})
    return rows


def byte_level():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=420, special_tokens=["<|end|>", "<s>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tokenizer.train_from_iterator(LINES, trainer)
    tokenizer.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])])
    # Settings that must not cut or pad.
    tokenizer.enable_truncation(max_length=4)
    tokenizer.enable_padding(length=8)
    write("byte_level/tokenizer.json", tokenizer.to_str(pretty=False))
    write("byte_level/tokenizer_config.json", {"bos_token": "<s>", "eos_token": "<|end|>", "pad_token": "<|end|>", "tokenizer_class": "PreTrainedTokenizerFast"})
    tokenizer.no_truncation()
    tokenizer.no_padding()
    write("byte_level/expected.json", expected_of(tokenizer))

    # The same vocabulary with the splits of other families.
    caseless = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    plain = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    splits = {
        "gpt-2": pre_tokenizers.ByteLevel(add_prefix_space=False),
        "smollm": pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]),
        "llama-bpe": pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(caseless % r"\p{N}{1,3}"), "isolated"), plain]),
        "qwen2": pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(caseless % r"\p{N}"), "isolated"), plain]),
    }
    vocabulary = json.loads(tokenizer.to_str())["model"]
    expected = {}
    for name, split in splits.items():
        other = Tokenizer(models.BPE(vocab=vocabulary["vocab"], merges=[tuple(m) for m in vocabulary["merges"]], ignore_merges=name == "llama-bpe"))
        other.add_special_tokens(["<|end|>", "<s>"])
        other.pre_tokenizer = split
        if name == "qwen2":
            other.normalizer = normalizers.NFC()
        expected[name] = [other.encode(text, add_special_tokens=False).ids for text in STRINGS]
    write("byte_level/splits.json", expected)

    # The layout of GPT-2, whose special token is one of the vocabulary.
    merges = "\n".join(" ".join(m) for m in vocabulary["merges"])
    write("gpt2/vocab.json", vocabulary["vocab"])
    write("gpt2/merges.txt", "#version: 0.2\n" + merges + "\n")
    write("gpt2/special_tokens_map.json", {"bos_token": "<s>", "eos_token": {"content": "<|end|>", "lstrip": False}, "unk_token": "<|end|>"})
    return tokenizer


def word_piece():
    tokenizer = tokenizers.BertWordPieceTokenizer(lowercase=True)
    tokenizer.train_from_iterator(LINES, vocab_size=300, min_frequency=1, show_progress=False)
    vocabulary = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    write("word_piece/vocab.txt", "".join(token + "\n" for token, _ in vocabulary))
    real = tokenizers.BertWordPieceTokenizer(os.path.join(HERE, "word_piece/vocab.txt"), lowercase=True)
    write("word_piece/expected.json", expected_of(real._tokenizer))


RULES = [("ﬁ", "fi"), ("…", "..."), ("e\u0301", "é"), ("e\u0301\u0302", "ê"), ("\u3000", " "), ("\u00a0", " "), ("\u200b", ""), ("①", "1"), ("\t", " "), ("\n", " "), ("\r", " ")]
RULES += [(chr(0xFF21 + i), chr(ord("a") + i)) for i in range(26)]


def sentence_piece(name, **options):
    rules = os.path.join(HERE, "rules.tsv")
    with open(rules, "w", encoding="utf8") as file:
        for source, target in RULES:
            file.write(" ".join("%X" % ord(c) for c in source) + "\t" + " ".join("%X" % ord(c) for c in target) + "\n")
    if options.pop("rules", False):
        options["normalization_rule_tsv"] = rules
    model = io.BytesIO()
    spm.SentencePieceTrainer.train(sentence_iterator=iter(LINES * 3), model_writer=model, minloglevel=2, num_threads=1, hard_vocab_limit=options["model_type"] != "unigram", **options)
    os.remove(rules)
    parsed = proto.ModelProto.FromString(model.getvalue())
    parsed.trainer_spec.ClearField("input")
    write(f"{name}/tokenizer.model", parsed.SerializeToString())
    write(f"{name}/expected.json", expected_of_model(os.path.join(HERE, name, "tokenizer.model")))
    return parsed


def llama2c(model):
    """`tokenizer.bin`, in both spellings of bytes that versions of llama2.c write."""
    for name, raw in (("llama2c", False), ("llama2c_raw", True)):
        entries = []
        for i, piece in enumerate(model.pieces):
            text = piece.piece
            if i in (1, 2):
                text = f"\n{text}\n"
            elif raw and piece.type == 6:
                text = chr(int(text[3:5], 16))
            entries.append((piece.score, text.replace("▁", " ").encode()))
        data = struct.pack("<I", max(len(text) for _, text in entries))
        for score, text in entries:
            data += struct.pack("<fI", score, len(text)) + text
        write(f"{name}/tokenizer.bin", data)


def unigram_json():
    """`tokenizer.json` with a unigram model, a character map and a space mark."""
    model = proto.ModelProto.FromString(open(os.path.join(HERE, "unigram/tokenizer.model"), "rb").read())
    pieces = [(p.piece, p.score) for p in model.pieces]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=0, byte_fallback=False))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Precompiled(model.normalizer_spec.precompiled_charsmap), normalizers.Replace(Regex(" {2,}"), " ")])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    write("unigram_json/tokenizer.json", tokenizer.to_str(pretty=False))
    write("unigram_json/expected.json", expected_of(tokenizer))


TEMPLATES = {
    "marks": "{% for message in messages %}{{ '<|start|>' + message['role'] + '\n' + message['content'] + '<|end|>' + '\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|start|>assistant\n' }}{% endif %}",
    "alternate": """{{ bos_token }}
{%- for message in messages %}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
        {{- raise_exception('roles must alternate') }}
    {%- endif %}
    {%- if message.role == 'user' %}
        {{- '[U] ' + message.content.strip() + ' [/U]' }}
    {%- else %}
        {{- ' ' ~ message.content | trim ~ eos_token }}
    {%- endif %}
{%- endfor %}
""",
    "namespace": """{%- set ns = namespace(system='', count=0) %}
{%- macro show(message) -%}
<{{ message.role | upper }}>{{ message.content }}
{%- endmacro %}
{% if messages[0]['role'] == 'system' %}
  {% set ns.system = messages[0]['content'] %}
  {% set rest = messages[1:] %}
{% else %}
  {% set rest = messages %}
{% endif %}
S={{ ns.system }}
{% for message in rest %}
  {% if message.content | length > 40 %}{% continue %}{% endif %}
  {% set ns.count = ns.count + 1 %}
  {{ show(message) }}
  {%- if loop.last and loop.previtem is defined %} (after {{ loop.previtem.role }}){% endif %}
{% endfor %}
{{ ns.count }} {{ messages[-1] | tojson }} {{ messages[-1].content.split('a')[0] }} {{ "%s!" | format('x') }}
{% if tools is defined and tools is not none %}tools{% endif %}{% if messages[0].content is string %}string{% endif %}
{% for key, value in messages[0].items() %}{{ key }}={{ value | length }};{% endfor %}
""",
    "generation": "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}{% endgeneration %}{% else %}{{ m.content }}|{% endif %}{% endfor %}",
}

CONVERSATIONS = [
    [("user", "Hi")],
    [("user", " Hello there \n"), ("assistant", "Hello, <b>'you'</b> & \"all\" é ")],
    [("system", "Be brief."), ("user", "What is a latent?"), ("assistant", "A direction."), ("user", "Of what? " * 6)],
    [("assistant", "First."), ("user", "Second.")],
]


def chat():
    base = transformers.PreTrainedTokenizerFast(tokenizer_file=os.path.join(HERE, "byte_level/tokenizer.json"), bos_token="<s>", eos_token="<|end|>")
    cases = []
    for name, template in TEMPLATES.items():
        for conversation in CONVERSATIONS:
            for prompt in (False, True):
                messages = [{"role": role, "content": content} for role, content in conversation]
                try:
                    text = base.apply_chat_template(messages, chat_template=template, add_generation_prompt=prompt, tokenize=False)
                except Exception as error:
                    assert "alternate" in str(error), error
                    text = None
                cases.append({"template": template, "messages": conversation, "prompt": prompt, "expected": text})
    write("chat.json", cases)


def function(path, names, modules):
    """Functions of a Python file, without running its imports."""
    tree = ast.parse(open(path, encoding="utf8").read())
    wanted = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name in names]
    for node in wanted:
        node.decorator_list = []
    module = ast.Module([ast.ImportFrom("__future__", [ast.alias("annotations")], 0), *wanted], [])
    code = compile(ast.fix_missing_locations(module), path, "exec")
    space = dict(modules)
    exec(code, space)
    return [space[name] for name in names]


def packing(tokenizer, saelens, saebench):
    torch = types.SimpleNamespace(
        tensor=lambda values, dtype=None, device=None: np.array(values), long=None, cat=np.concatenate, concat=np.concatenate, Tensor=None)

    class Tokens(np.ndarray):
        device = None

    pack = function(os.path.join(saelens, "sae_lens/tokenization_and_batching.py"), ["_add_tokens_to_batch", "concat_and_batch_sequences"], {"torch": torch})[1]
    texts = [text for text in STRINGS if text][:45] + LINES
    ids = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
    cases = []
    for context in (2, 3, 5, 8, 16):
        for row, text, separator in ((1, None, 1), (None, None, None), (1, None, 0), (None, 1, 0), (1, 0, 0), (0, 1, 1), (1, 1, None)):
            for one in (False, True):
                if one and (text is not None or separator is not None):
                    continue
                rows = pack(iter([np.array(x).view(Tokens) for x in ids if x]), context, row, text, separator, one)
                cases.append({"context": context, "row_start": row, "text_start": text, "separator": separator, "one": one, "rows": [r.tolist() for r in rows]})

    class Numpy:
        """A tokenizer that returns NumPy arrays."""

        def __init__(self, pad, bos_added):
            self.eos_token, self.pad_token_id, self.bos_token_id, self.bos_added = "<|end|>", pad, 1, bos_added

        def __call__(self, parts, return_tensors, padding):
            encoded = [tokenizer.encode(part, add_special_tokens=self.bos_added).ids for part in parts]
            longest = max(map(len, encoded))
            return {"input_ids": np.array([row + [self.pad_token_id] * (longest - len(row)) for row in encoded])}

    einops = types.SimpleNamespace(rearrange=lambda tokens, pattern, batch, seq: tokens.reshape(batch, seq))
    running = function(os.path.join(saebench, "sae_bench/sae_bench_utils/dataset_utils.py"), ["tokenize_and_concat_dataset"], {"einops": einops, "torch": torch})[0]
    runs = []
    for context, most, bos in ((8, None, True), (5, 100, True), (5, 100, False), (16, 40, True)):
        rows = running(Numpy(0, True), texts, context, add_bos=bos, max_tokens=most)
        runs.append({"context": context, "tokens": most, "bos": bos, "rows": rows.tolist()})
    write("pack.json", {"texts": texts, "cases": cases, "running": runs})


def main():
    saelens, saebench = sys.argv[1:]
    write("strings.json", STRINGS)
    tokenizer = byte_level()
    word_piece()
    sentence_piece("unigram", model_type="unigram", vocab_size=200, rules=True, user_defined_symbols=["<b>", "[mask]"], character_coverage=0.98)
    model = sentence_piece("bpe", model_type="bpe", vocab_size=480, byte_fallback=True, normalization_rule_name="identity",
                           remove_extra_whitespaces=False, user_defined_symbols=["<b>", "▁▁"], character_coverage=0.98)
    sentence_piece("bpe_suffix", model_type="bpe", vocab_size=180, treat_whitespace_as_suffix=True, rules=True, character_coverage=0.98)
    sentence_piece("unigram_bytes", model_type="unigram", vocab_size=420, byte_fallback=True, rules=True, add_dummy_prefix=False, character_coverage=0.98)
    plain = sentence_piece("llama2c", model_type="bpe", vocab_size=450, byte_fallback=True, normalization_rule_name="identity",
                           remove_extra_whitespaces=False, character_coverage=0.98)
    llama2c(plain)
    os.remove(os.path.join(HERE, "llama2c/tokenizer.model"))
    unigram_json()
    chat()
    packing(tokenizer, saelens, saebench)
    versions = {module.__name__: module.__version__ for module in (tokenizers, transformers, spm)}
    write("versions.json", versions)


main()
