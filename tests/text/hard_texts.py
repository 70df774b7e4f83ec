"""Texts that are hard for a tokenizer: a function of a seed and a number. Used by the two scripts beside it."""

import codecs
import random

SAMPLES = [
    "", " ", "\t\n\r\x0b\x0c", "hello", "Hello, World!", "unaffable", "a" * 100, "a" * 101, "don't can't it's",
    "naïve café NAÏVE CAFÉ", "e\u0301\u0301\u0301x", "\u0301abc", "İstanbul ISTANBUL ıstanbul", "ﬁﬂ ſtraße ẞ Σίσυφος ΣΊΣΥΦΟΣ",
    "漢字かなカナ한국어", "漢a字", "\u1112\u1161\u11ab 한", "👩\u200d👩\u200d👧 👍🏽 🇩🇪 ❤\ufe0f", "a\u200bb\u200dc\ufeffd\u00add", "a\x00b\ufffdc",
    "\u00a0a\u2003b\u3000c\u2028d\u2029e\u0085f\u180eg", "$~^`|+<=>", "¡¿«»“”‘’…—–", "١٢٣ १२३ １２３ ⅷ ②",
    "[CLS] [SEP] [MASK][PAD][UNK] [mask] [CLS", "x[SEP]y", "[[SEP]]", "[SEP", "##ing # # ##", "\u212b \u2126 \u1e9b\u0323",
    "a\u0315\u0300\u05ae\u0062", "\u0f71\u0f72\u0f74 \u0f73", "Å\u0327", "\u1100\u1161\u11a8", "\ud55c" * 40, "x" * 99 + "É", "É" * 100, "É" * 101,
    "\u037e \u0387 \u1fef \u2260 \u226e", "\U0002f81a \U00020000 \U0002b820 \uf900 \u3400", "\u1734 \u1885 \u166d \ua9bd \U000111c9",
    "\u01c4\u01c5\u01c6 \u1f88 \u0345\u03b1", "can not . do n't ! ok ?", "http://a.b/c?d=e&f#g", "١٬٢", "\u0e01\u0e33 \u0e40\u0e01",
]
BROKEN = [
    b"\xff", b"a\x80b", b"\xc3", b"\xc3(", b"\xe2\x82", b"\xe2\x82(x", b"\xf0\x9f\x98", b"\xf0\x9f\x98abc", b"\xed\xa0\x80", b"\xed\xa0\x80\xed\xb0\x80",
    b"\xc0\xaf", b"\xe0\x80\xaf", b"\xf0\x80\x80\xaf", b"\xf4\x90\x80\x80", b"\xf8\x88\x80\x80\x80", b"caf\xe9 na\xefve", b"\xe2[SEP]\x82", b"\xf0\x9f[MASK]",
]
# Where mistakes live: marks, Hangul, ideographs, controls, spaces, punctuation, cased letters, symbols, emoji.
RANGES = [
    (0x20, 0x7E), (0x20, 0x7E), (0x61, 0x7A), (0x61, 0x7A), (0x00, 0x1F), (0x7F, 0xFF), (0x100, 0x24F), (0x300, 0x36F), (0x300, 0x36F), (0x370, 0x52F),
    (0x590, 0x6FF), (0x900, 0xDFF), (0xE00, 0xFFF), (0x1000, 0x109F), (0x1100, 0x11FF), (0x1780, 0x18AF), (0x1AB0, 0x1CFF), (0x1D00, 0x1FFF), (0x2000, 0x20FF),
    (0x2100, 0x2BFF), (0x2E00, 0x30FF), (0x3400, 0x9FFF), (0xA000, 0xABFF), (0xAC00, 0xD7A3), (0xE000, 0xFFFF), (0x10000, 0x12FFF), (0x16000, 0x1D7FF),
    (0x1F000, 0x1FAFF), (0x20000, 0x2FA1F), (0xE0000, 0xE01FF), (0xF0000, 0x10FFFF),
]
PARTS = ["[SEP]", "[MASK]", "the", "ing", "un", " ", " ", "  ", ".", "'", "\u200d", "\ufe0f", "\u0301", "\u0323", "\u0307", "I\u0307", "ß", "ς", "Σ", "한", "漢", "😀", "\r\n"]


def generated(seed, number, allowed):
    """One text (bytes) of up to 24 parts. allowed(code point) says which may be used."""
    draw = random.Random(f"{seed}/{number}")
    parts = []
    for _ in range(draw.randint(1, 24)):
        kind = draw.random()
        if kind < 0.25:
            parts.append(draw.choice(PARTS).encode())
        elif kind < 0.28:
            parts.append(draw.choice(BROKEN))
        elif kind < 0.31:
            parts.append(bytes(draw.randrange(128, 256) for _ in range(draw.randint(1, 3))))
        else:
            low, high = draw.choice(RANGES)
            point = draw.randint(low, high)
            if not 0xD800 <= point < 0xE000 and allowed(point):
                parts.append(chr(point).encode())
    return b"".join(parts)


def byte_offsets(data):
    """Where each character of data.decode(errors="replace") begins in data, and the end of data."""
    replaced = {}

    def replace(error):
        replaced[error.start] = error.end
        return "\ufffd", error.end

    codecs.register_error("soma_spans", replace)
    offsets = [0]
    for character in data.decode(errors="soma_spans"):
        at = offsets[-1]
        offsets.append(replaced[at] if at in replaced else at + len(character.encode()))
    assert offsets[-1] == len(data)
    return offsets
