#!/usr/bin/env python3
"""BLEU and tokens from sacreBLEU: python tools/fixtures_bleu.py > tests/fixtures/bleu.txt

A corpus has its score, then for every sentence the hypothesis, the reference and the hypothesis' tokens.
"""
import sacrebleu
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

tokens = Tokenizer13a()
corpora = {
    "equal": [("The cat sat on the mat.", "The cat sat on the mat."), ("It is 3.5-4 km away, they say.", "It is 3.5-4 km away, they say.")],
    "usual": [("A man is riding a bike down the street.", "A man rides a bicycle down a street."),
              ("Two dogs play in the snow.", "Two dogs are playing in the snow."),
              ("A woman in a red dress is singing on stage , loudly", "A woman wearing a red dress is singing on a stage."),
              ("Children.", "Some children are sitting around a big table.")],
    "short": [("the cat", "the cat sat on the mat"), ("a dog", "a dog barks")],
    "longer": [("the the the the the the the", "the cat is on the mat"), ("it is it is it is so", "it is so")],
    "smoothed": [("alpha beta gamma delta epsilon", "beta alpha delta gamma zeta")],
    "nothing": [("", "a reference")],
    "strange": [("He said: \"no!\" (twice) & left; 1,000.50$ or 50%?", "He said: \"no\" (once) & left; 1,000.50$ or 60%?"),
                ("&quot;Tom &amp; Jerry&quot; &lt;b&gt; &amp;lt; &amp;quot;", "\"Tom & Jerry\" <b> < &quot;"),
                ("U.S.A.,, e.g. x.5 5.x .5 5. ...", "U.S.A., e.g. x.5 5.x .5 5. ..."),
                ("1990-2000 well-known 5- -5 a-b", "1990-2000 well known 5- -5 a-b"),
                ("Ein Mädchen läuft über die Straße. «So»", "Ein Mädchen läuft schnell über die Straße. «So»"),
                ("wide\u3000blank\u00a0here\u2009too .日本,語.", "wide blank here too .日本,語."),
                ("a/b\\c ^_` {x|y}~ [1] @me #tag *", "a/b\\c ^_` {x|y}~ [2] @you #tag *")],
}
for name, pairs in corpora.items():
    hyp, ref = [p[0] for p in pairs], [p[1] for p in pairs]
    b = sacrebleu.corpus_bleu(hyp, [ref])
    print("corpus", name, len(pairs), repr(b.score), *map(repr, b.precisions), repr(b.bp), b.sys_len, b.ref_len)
    for h, r in pairs:
        print("h " + h)
        print("r " + r)
        print("t " + tokens(h))
