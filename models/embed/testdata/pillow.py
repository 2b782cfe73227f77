"""Writes pillow.txt: pictures of each mode, resized by Pillow (python3-pil of Debian 12, 9.4.0).

A line is: mode, width and height, filter, width and height after resizing, and the beginning of the
SHA-256 of the red, green and blue bytes. Pixels are bytes of a linear congruential generator, which
resize_test.go has too.
"""

import hashlib

from PIL import Image


class Bytes:
    def __init__(self, seed):
        self.state = seed

    def take(self, n):
        out = bytearray()
        for _ in range(n):
            self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
            out.append(self.state >> 56)
        return bytes(out)


def picture(mode, w, h, source):
    if mode == "I;16":
        return Image.frombytes("I;16", (w, h), source.take(2 * w * h)).convert("I")
    if mode == "P":
        palette = source.take(768)
        m = Image.frombytes("P", (w, h), source.take(w * h))
        m.putpalette(palette)
        return m
    return Image.frombytes(mode, (w, h), source.take(w * h * len(Image.new(mode, (1, 1)).getbands())))


modes = ["L", "RGB", "RGBA", "CMYK", "P", "I;16"]
print("# by pillow.py")
sides = Bytes(7)
for i in range(240):
    a, b, c, d, e = sides.take(5)
    w, h, out_w, out_h = 1 + a % 70, 1 + b % 70, 1 + c % 60, 1 + d % 60
    if e % 7 == 0:
        out_w = w
    if e % 11 == 0:
        out_h = h
    if i % 40 == 0:
        w, h = 1 + 900 * (i % 80 // 40), 700
    mode, f = modes[i // 6 % 6], i % 6
    m = picture(mode, w, h, Bytes(1000 + i)).convert("RGB").resize((out_w, out_h), f)
    print(mode, w, h, f, out_w, out_h, hashlib.sha256(m.tobytes()).hexdigest()[:16])
