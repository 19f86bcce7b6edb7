"""Fixtures for tests/test_data_tokens.c: a text of many languages, its pieces by GPT-2's regular expression (the regex module), its tokens and their bytes by
tiktoken, and the merges of vocab.bpe that it takes.

    python tools/fixtures_tokens.py FOLDER-WITH-vocab.bpe-AND-encoder.json [OUT]
"""
import random
import sys

import regex
import tiktoken
from tiktoken.load import data_gym_to_mergeable_bpe_ranks

folder = sys.argv[1]
out = sys.argv[2] if len(sys.argv) > 2 else "tests/fixtures"
pattern = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
original = r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
ranks = data_gym_to_mergeable_bpe_ranks(vocab_bpe_file=f"{folder}/vocab.bpe", encoder_json_file=f"{folder}/encoder.json")
gpt2 = tiktoken.Encoding("gpt2", pat_str=pattern, mergeable_ranks=ranks, special_tokens={"<|endoftext|>": 50256})

text = """Hello, world! It's they're we've I'm he'll she'd can't 'tis 'Twas 'RE 've'll.
The quick brown fox  jumps   over\tthe\t\tlazy dog 1234567890 times; 3.14159e-10, 0x1F, 50%.
for (int i = 0; i < n; i++) { x[i] += a * y[i]; }    // trailing blanks   \n\n\n   next
Zwei junge weiße Männer sind im Freien in der Nähe vieler Büsche. Straße, Äpfel, Öl, Übermut.
Deux jeunes hommes blancs sont dehors près de buissons. L'été, c'est où? « Noël » — œuvre…
Cajal dibujó las primeras neuronas. ¿Qué? ¡Sí! niño, corazón.
Быстрая коричневая лиса прыгает через ленивую собаку. Ёжик 123.
Η γρήγορη καφέ αλεπού πηδάει. Ωμέγα ΐ.
敏捷的棕色狐狸跳过懒狗。深度学习，神经网络！１２３
素早い茶色の狐がのろまな犬を飛び越える。カタカナとひらがな、漢字。
다람쥐 헌 쳇바퀴에 타고파. 신경망 학습
الثعلب البني السريع يقفز فوق الكلب الكسول ١٢٣
השועל החום המהיר קופץ מעל הכלב העצלן
तेज भूरी लोमड़ी आलसी कुत्ते पर कूदती है। १२३
ด่วนสุนัขจิ้งจอกสีน้ำตาลกระโดดข้ามสุนัขขี้เกียจ
Nhanh nhẹn con cáo nâu nhảy qua con chó lười. İstanbul ığüşöç
👋🏽 🎉🎉 👨‍👩‍👧‍👦 🇪🇸 ✨ → ∑∫√∞ ≠ ½ ² ³ Ⅷ ① ﷽ 𝒳𝓎 𝟘𝟙 \u00a0nbsp\u2003em\u3000ideographic\u200bzero\u2028line\x85nel\x0b\x0c
e\u0301 combining, ﬁ ligature, ǅ title, ʰ modifier, ª º, \ufeffBOM, \x00\x01\x7f control <|endoftext|>
"""
text += " " * 60 + "x" + "\t" * 9 + " \t \n" + "\n" * 12 + " " * 17 + "y'll they'd've o'clock rock'n'roll DON'T \u2019s 's's'm 2024-02-29 1,000,000.00 v2.0.1 ４２ ⅓ 0\u0301\n"
text += "a\u0300\u0301\u0302 ก็ की\u200d क्ष 한글\u1112\u1161\u11ab 👩🏽‍🚀🏳️‍🌈 ℝ² 10⁻³ x₁ “quotes” ‘single’ ―dash … ¶§ \u00ad\ufffd ᚠᛇᚻ ꙮ 𓀀 𐍈\n"
random.seed(7)
points = [*range(1, 0x250), *range(0x370, 0x600), *range(0x900, 0xA00), *range(0x2000, 0x2100), *range(0x3040, 0x3100), *range(0x4E00, 0x4E80), *range(0x1F300, 0x1F380)]
text += "".join(chr(random.choice(points)) + random.choice(["", "", " ", "\n", "'s", "  "]) for _ in range(1500)) + "end   "

pieces = [len(p.encode()) for p in regex.findall(original, text)]
assert sum(pieces) == len(text.encode())
tokens = gpt2.encode_ordinary(text)
assert gpt2.decode(tokens) == text
with open(f"{out}/languages.txt", "w", newline="") as f:
    f.write(text)
with open(f"{out}/languages_tokens.txt", "w") as f:
    sizes = [len(gpt2.decode_single_token_bytes(t)) for t in tokens]
    for numbers in (pieces, tokens, sizes):
        f.write(f"{len(numbers)}\n{' '.join(map(str, numbers))}\n")

# The merges, in the order of vocab.bpe, that the pieces take: the lowest rank first, everywhere in the piece (Radford et al. 2019).
printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
others = [b for b in range(256) if b not in printable]
letter = {b: chr(b) for b in printable} | {b: chr(256 + i) for i, b in enumerate(others)}
with open(f"{folder}/vocab.bpe", encoding="utf-8") as f:
    merges = f.read().split("\n")[1:-1]
rank = {tuple(m.split(" ")): i for i, m in enumerate(merges)}
used = set()
for piece in set(regex.findall(original, text)):
    parts = [letter[b] for b in piece.encode()]
    while True:
        best = min(zip(parts, parts[1:]), key=lambda p: rank.get(p, len(rank)), default=None)
        if best not in rank:
            break
        used.add(rank[best])
        i, joined = 0, []
        while i < len(parts):
            pair = tuple(parts[i:i + 2]) == best
            joined.append("".join(best) if pair else parts[i])
            i += 2 if pair else 1
        parts = joined
with open(f"{out}/languages.bpe", "w", encoding="utf-8") as f:
    f.write("#version: 0.2\n" + "".join(merges[i] + "\n" for i in sorted(used)))
print(len(text.encode()), "bytes", len(pieces), "pieces", len(tokens), "tokens")
