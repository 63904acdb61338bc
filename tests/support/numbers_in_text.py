"""The numbers in a sentence."""

import re

NUMBER = re.compile(r"(?<![\w.]-)(?<![\w.])-?\d+(?:,\d{3})*(?:\.\d+)?(?:e-?\d+)?")
WORDS = ["two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
IN_WORDS = {word: number for number, word in enumerate(WORDS, start=2)}
IN_WORDS |= {"half": 0.5, "twice": 2, "sixteen": 16}
EITHER = re.compile(rf"{NUMBER.pattern}|\b(?:{'|'.join(IN_WORDS)})\b", re.IGNORECASE)


def numbers_in(text):
    """Return the numbers of a sentence in their order, ints where they are whole: "two" is 2."""
    numbers = []
    for word in EITHER.findall(text):
        number = IN_WORDS.get(word.lower())
        if number is None:
            number = float(word.replace(",", ""))
        numbers.append(int(number) if number == int(number) else number)
    return numbers


def nearest(result, choices):
    """Return the choice whose numbers are a result's, rounded as they are there, or None."""
    results = [float(x) for x in (result if isinstance(result, (list, tuple)) else [result])]
    distances = {}
    for choice in choices:
        texts = EITHER.findall(choice)[: len(results)]
        far = [abs(x - y) for x, y in zip(results, numbers_in(" ".join(texts)), strict=False)]
        steps = [10.0 ** -len(text.partition(".")[2]) for text in texts]
        if len(far) == len(results) and all(a <= b / 2 for a, b in zip(far, steps, strict=True)):
            distances[choice] = max(far)
    return min(distances, key=distances.get, default=None)
