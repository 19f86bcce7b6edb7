"""Fixtures for tests/test_data_tokens.c: a text of many languages, its pieces by GPT-2's regular expression (the regex module) and its tokens by tiktoken.

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
    f.write(f"{len(pieces)}\n{' '.join(map(str, pieces))}\n{len(tokens)}\n{' '.join(map(str, tokens))}\n")
print(len(text.encode()), "bytes", len(pieces), "pieces", len(tokens), "tokens")
