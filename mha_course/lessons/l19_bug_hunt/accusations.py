"""Read what a learner accuses a module of, and say what it is: one mistake of ``faulty_attention``,
or none.
"""

from __future__ import annotations

import difflib
import re

from mha_course.experiments.faulty_attention import INNOCENT, SINGLE
from mha_course.mistakes import ROWS

LONGEST = 120  # characters of a text that is read
ROW_OF = {"positions-ignored": "positions-ignored/cache"}  # where it looks different in a module

_NO = "(?:no|not|never|without|cannot|(?:is|are|do|does|did|was)nt|missing|lacks?|forg[eo]t\\w*)\\b"
_K = r"(?:k|keys?)\b"
_V = r"(?:v|values?)\b"
_Q = r"(?:q|quer\w+)\b"
_W_K = r"(?:k proj|key proj\w*|w ?k)\b"
_W_O = r"(?:out(?:put)? proj\w*|w ?o\b|final proj\w*)"
_KV = rf"(?:kv|{_K},? (?:and |with |for )?(?:the )?{_V}|{_V},? (?:and |with |for )?(?:the )?{_K})"
_TURN = r"(?:rotat|rope|rotary|turn|position)\w*"
_SCALE = r"(?:scal|divi)\w*"
_SEES = r"(?:sees?|seen|feels?|leak\w*|attend\w*|looks?|peeks?)\b"
_SWAP = r"(?:swap|exchang|switch|interchang|confus|changed places|mix)\w*"
_MASK = r"(?:mask|hid)\w*"
# What a mistake is called, in small letters, signs as spaces; .. stands for any words that do not
# turn it round.
_CALLED = {
    "softmax-over-queries": r"(?:softmax|normali).. (?:quer|columns?|dim 2|axis "
                            r"2)|columns?..sum|quer\w+..softmax",
    "softmax-over-heads": r"(?:softmax|normali|sums? to).. heads|heads..softmax",
    "mask-after-softmax": rf"{_MASK}..(?:after|late)|{_NO}..renormali|softmax..before..mask|sum "
                          rf"to less",
    "masked-row-uniform": r"1e ?9|finite|uniform|half "
                          r"precision|f(?:loat|p)16|rows?..(?:alike|evenly|average)",
    "masked-row-nan": r"nans?\b|inf(?:inity)?\b",
    "dropout-at-eval": "dropout|random|train\\w* mode|calls..differ",
    "scale-missing": rf"unscaled|^(?!.*\bby (?:d|c|s|its|the)\b).*?\b{_NO}(?! "
                     rf"the)..(?:scal|divi|(?:sqrt|root) d\b)"
                     r"|scal\w*..(?:missing|forg[eo]t)",
    "scale-d-model": r"(?:sqrt|root|by)(?: of)?(?: the)? (?:d model|c|model|width)\b",
    "scale-no-root": rf"by d(?: k)?\b(?! model)|{_NO} (?:by )?(?:its |the |a )?(?:square "
                     rf")?root|{_SCALE}..twice|twice..{_SCALE}",
    "scale-by-length": rf"(?:sqrt|root)(?: of)?(?: the)? (?:s|t|seq\w*|length|number|tokens)\b"
    rf"|{_SCALE}..(?:length|seq\w*|tokens|by [st])\b",
    "causal-missing": rf"{_NO}..(?:causal|mask at all)|causal\w*..(?:missing|forg[eo]t)"
    rf"|{_SEES}..(?:ahead|future|(?:all|every\w*|any)..(?:later|follow))",
    "causal-leaks-next": rf"{_SEES}..(?:next|ahead|future)|off by one|diagonal",
    "causal-hides-self": rf"{_NO}..(?:itself|own)\b|(?:hid\w+|except)..(?:itself|own)\b|off by "
                         rf"one|diagonal",
    "decode-first-key-only": r"first key|first token (?:alone|only)|top left|corner|is causal"
    rf"|(?:tril|mask|causal)..(?:{_NO}..offset|offset..(?:missing|ignor))|causal..(?:cache|decod)",
    "mask-inverted": rf"invert|invers|polarity|~ ?\w*mask|true..(?:hid|ignor|pad)|way round|flipped"
    rf"|{_MASK}..negated|{_SEES}..padding",
    "masks-or-instead-of-and": rf"or (?:instead|rather)|mask..\bor\b|union|\||either "
                               rf"mask|{_SEES}..padding",
    "mask-first-batch-only": r"mask ?\[ ?0|first (?:sentence|batch|mask|example|sequence)|same "
                             r"mask",
    "view-without-transpose": rf"^(?!.*(?:batch|sentence)).*?\b(?:{_NO}..transpos"
    rf"|transpose\b|transpos\w*..missing)"
                              r"|(?:view|reshape)..(?:wrong|direct|at "
                              r"once)|split..(?:heads|wrong)|heads..split|parts of several",
    "kv-repeat-interleaved-wrongly": r"repeat|tile\b|gqa|grouped|0 1 0 1|(?:kv|shared) "
                                     r"heads..(?:order|wrong)",
    "merge-batch-mixed": rf"(?:batch|sentence|sequence)\w*..(?:{_SWAP}|permut|transpos"
    rf"|leak|across|into)"
    rf"|(?:{_SWAP}|permut\w*|transpos\w*|leak\w*|across|between)..(?:batch|sentences|sequences)",
    "merge-dim-before-heads": r"(?:merg|concat|join|flatten)\w*..(?:order|wrong|interleav)|heads "
                              r"(?:\w+ )?interleav|(?:d|dim) before h|order\w* \(?d h\b",
    "output-projection-missing": rf"{_NO}..{_W_O}|{_W_O}..(?:missing|forg[eo]t|nothing|unused"
    rf"|{_NO})",
    "key-value-swapped": rf"{_KV}..{_SWAP}|{_SWAP}..{_KV}",
    "value-through-key-projection": rf"{_V}..(?:{_W_K}|(?:as|from|through|by) (?:the "
                                    rf")?{_K})|copy|paste|{_W_K}..(?:twice|for (?:the "
                                    rf")?{_V})|(?:v proj|w v)\b..(?:unused|never|not used)",
    "keys-detached": rf"detach|frozen|(?:{_NO}|stop\w*)..(?:grad|train|learn"
    rf"|updat)\w*..(?:{_K}|{_W_K})"
    rf"|(?:{_K}|{_W_K})..(?:{_NO}..(?:grad|train|learn|updat)|cut off)",
    "rope-on-values": rf"{_V}..{_TURN}|{_TURN}..{_V}",
    "rope-on-queries-only": rf"only..{_Q}..{_TURN}|{_TURN}..(?:only|just)..{_Q}"
    rf"|{_TURN}..{_Q},? (?:only|alone)"
    rf"|(?:{_Q}..)?{_K}..{_NO}..{_TURN}|{_NO}..{_TURN}..{_K}|{_Q}..{_TURN}..{_K}..{_NO}",
    "rope-interleaved": r"(?:rope|rotary|layout|rotat\w+)..(?:interleav|pairs"
    r"|neighbour|layout|half|halves)"
    r"|interleav\w*..(?:rope|rotary|pairs|layout)|(?:wrong|other) layout",
    "positions-ignored": r"position\w*..(?:0|zero|restart|reset|again|ignor)\b"
    r"|start..ignored|ignor\w+..(?:start|posit)"
    rf"|(?:position|rope)\w*..{_NO}..(?:offset|start)|(?:offset|start)..(?:missing|ignor)",
    "sees-itself-alone": rf"(?:only|just)..(?:itself|own token)|itself "
                         rf"(?:only|alone)|{_NO}..(?:cached?|past)\b"
                         r"|cache (?:is |was )?(?:ignored|unused|lost|not used)",
}  # fmt: skip
_RIGHT = (
    r"(?:i (?:think|see) )?(?:(?:there |it |this |that )?(?:is |has )?(?:no|without)(?: a)? "
    r"(?:mistake|bug|error)s?|nothing(?: is)?(?: wrong)?|innocent|none|(?:it |this |that |its "
    r"|all |everything )*(?:is |looks )?(?:right|correct|fine|good|ok))(?: here| at all)?"
)
_TURNED = re.compile(rf"\b{_NO}\b")
_DENIED = re.compile(
    r"\b(?:is|are|does|do|was) (?:not|never|fine|right|correct|ok)\b|\b(?:is|are|does|do|was)nt\b"
)


def tidy(text: str) -> str:
    """Leave out quotes, case, and what ends a sentence."""
    return (
        re.sub("[“”„‟\"‘’‚‛'`´]", "", text).replace("√", " sqrt ").casefold().strip().rstrip(".!? ")
    )


def explain(name: str) -> tuple[str, str]:
    """Return what a mistake is, and why it matters."""
    row = ROWS[ROW_OF.get(name, name)]
    return row.title, row.why


def understood(text: str) -> list[str]:
    """Return the mistakes that a text may mean: one, several to choose from, or none where it is
    not clear.

    What is not sure is not taken for an accusation: single stray words, and what is said not to be
    so.
    """
    plain = " ".join(re.sub(r"[^a-z0-9~|\[,]", " ", tidy(text)[:LONGEST]).split())
    exact = [
        name
        for name in SINGLE
        if plain == name.replace("-", " ") or tidy(text) == tidy(explain(name)[0])
    ]
    if exact or re.fullmatch(_RIGHT, plain):
        return exact or [INNOCENT]
    found = [name for name, called in _CALLED.items() if _means(plain, called)]
    if found:
        return found
    close = difflib.get_close_matches(plain.replace(" ", "-"), SINGLE, n=1, cutoff=0.8)
    if close and not _TURNED.search(plain):
        return close
    family = [
        name for name in SINGLE if re.search(rf"\b{name[:4]}", plain)
    ]  # the wrong scale: which?
    return family if len(family) > 1 else []


def _means(plain: str, called: str) -> bool:
    """Return whether a text has this name, and does not turn it round before or behind it."""
    match = re.search(rf"(?<![a-z])(?:{called})".replace("..", rf"(?:(?!\b{_NO}\b).)*?\b"), plain)
    return match is not None and not (
        _TURNED.search(plain[: match.start()]) or _DENIED.search(plain[match.end() :])
    )
