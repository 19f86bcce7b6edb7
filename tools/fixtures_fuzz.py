"""Files for tests/corpus, from which tests/test_data_fuzz.c starts: one small file for every branch of a format.

    python tools/fixtures_fuzz.py [OUT]
"""
import gzip
import io
import json
import lzma
import os
import struct
import sys
import tarfile
import zipfile

import numpy as np

out = sys.argv[1] if len(sys.argv) > 1 else "tests/corpus"


def put(name, data):
    path = os.path.join(out, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(data if isinstance(data, bytes) else data.encode())


# ---- arrays
put("two.cifar", bytes([4, 19]) + bytes(i * 7 % 251 for i in range(3072)))
wave = lambda kind, channels, bits, data, extra=b"": (
    b"RIFF" + struct.pack("<I", 36 + len(extra) + len(data)) + b"WAVEfmt " +
    struct.pack("<IHHIIHH", 16 + len(extra), kind, channels, 8000, 8000 * channels * bits // 8, channels * bits // 8, bits) + extra +
    b"data" + struct.pack("<I", len(data)) + data)
put("double.wav", wave(3, 1, 64, struct.pack("<2d", 0.5, -0.25)))
put("pcm32.wav", wave(1, 2, 32, struct.pack("<4i", 1 << 30, -5, 7, 0)))
put("extensible.wav", wave(0xFFFE, 1, 16, struct.pack("<2h", 5, -9), struct.pack("<HHIH", 22, 16, 4, 1) + bytes(14)))
put("members.idx.gz", gzip.compress(bytes([0, 0, 8, 1, 0, 0, 0, 200]), mtime=0) + gzip.compress(bytes(200), mtime=0))  # one gzip member after the other
put("blocks.idx.xz", lzma.compress(bytes([0, 0, 8, 1, 0, 0, 0x20, 0]) + bytes(i % 256 for i in range(8192))))

# ---- tables and texts
put("quotes.csv", 'name,x,"a ""b"""\r\nred,1.5,?\r\n"gr,een\n",-2e-1,7\r\n\r\nred,,NA\r\n')
put("blanks.csv", " 1  2\n3\t-9 \n")
put("semicolons.csv", "a;b;c\n1;2;x\n3;nan;y\n+4;-inf;\"\"\n")
put("numbers.csv", "\ufeff1,2e3,-0.5E-2\n12345678901234567890123,1e400,.5\n1e-320,infinity,0\n")
put("three.txt", "one red rose.\ntwo, \"quoted\" words\nthree's well-known\n")
put("languages.txt", "It's the caf\u00e9  \u65e5\u672c\u8a9e 42!\r\nna\u00efve \U0001f600\t(end) THE the\n\n\u00c4pfel aa aa aa a_b\n")
put("invalid.txt", b"good \xff\xfe bad \xe2\x82 \xc0\xaf end")
put("version.bpe", "#version: 0.2\nh e\nl l\nhe ll\n\u0120 h\n\u00c3 \u00a9\n\n")
put("more.ts", "# x\n@problemName q\n@univariate true\n@classLabel true a b\n@data\n1,2,3:4,5,6:b\n7,?:8,9:a\n\n")
put("plain.ts", "@classLabel false\n@data\n1.5,-2\n3 , 4\n")

# ---- graphs and boxes
put("directed.gml", 'Creator "x" Version 1\n# comment\ngraph [\n directed 1 name "n"\n node [ id 7 label "seven" graphics [ x 1 y [ z 2 ] ] ]\n'
    " node [ id 3 ]\n edge [ source 7 target 3 weight 2.5 ]\n edge [ source 3 target 3 ]\n]\n")
put("whole.xml", '<?xml version="1.0"?><!-- c --><annotation verified="yes"><folder/><filename> a&amp;b&lt;&gt;&quot;&apos;&x.jpg </filename>'
    "<size><width>64</width><height>48</height><depth>3</depth><unit>px</unit><x/></size><owner><name>y</name></owner>"
    "<object><name>RBC</name><pose/><part><name>x</name></part><difficult>1</difficult><bndbox><xmin>7.5</xmin><ymin>3</ymin><xmax>18</xmax>"
    "<ymax>43</ymax></bndbox></object></annotation>")

# ---- pickles: what Planetoid's files may hold besides the fixtures (Python 2 wrote some of them by hand)
put("numbers.pickle", b"\x80\x02]q\x00(K\x01M\x01\x02J\xff\xff\xff\xffG?\xf0\x00\x00\x00\x00\x00\x00\x8a\x02\x01\xff\x8a\x00\x88\x89Nh\x00e.")
put("graph.pickle", b"\x80\x02ccollections\ndefaultdict\nq\x00c__builtin__\nlist\nq\x01\x85q\x02Rq\x03(K\x00]q\x04(K\x01K\x05eK\x01]K\x00aK\x02]K\x03auK\x03]K\x04as.")
put("texts.pickle", b"\x80\x01(U\x01aT\x02\x00\x00\x00bcX\x01\x00\x00\x00dtr\x01\x00\x00\x00}j\x01\x00\x00\x00K\x01s0.")
put("tuple.pickle", b"(K\x01K\x02t)\x85\x86K\x01K\x02K\x03\x87}K\x01K\x02s.")

# ---- archives
def npy(a, fortran=False):
    b = io.BytesIO()
    np.lib.format.write_array(b, np.asfortranarray(a) if fortran else a, version=None)
    return b.getvalue()

put("python2.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", 62) + b"{\"descr\": '|V2', 'fortran_order': False, 'shape': (2L, 1L,), }\n".ljust(62) + bytes(4))
z = io.BytesIO()
with zipfile.ZipFile(z, "w") as f:
    f.writestr(zipfile.ZipInfo("a.npy"), npy(np.arange(3, dtype=np.float32)))
    f.writestr(zipfile.ZipInfo("readme.txt"), "no array")
    f.comment = b"a comment"
put("comment.npz", z.getvalue())


def tensors(entries, meta=None):
    head, data = {}, b""
    if meta is not None:
        head["__metadata__"] = meta
    for name, dtype, shape, bytes_ in entries:
        head[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(bytes_)]}
        data += bytes_
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


put("two.safetensors", tensors([("a", "F32", [2], bytes(8)), ("b.\u00e9", "I64", [1, 1], bytes(8)), ("e", "U8", [0], b""), ("s", "BOOL", [], b"\x07")],
                               {"epoch": "3", "note": "x"}))

one = '"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}'
for name, text in (("missing", '{"a":{"dtype":"F32","shape":[2]}}'), ("nine", '{"a":{"dtype":"F32","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,4]}}'),
                   ("twice", "{" + one + "," + one + "}"), ("hole", "{" + one + ',"b":{"dtype":"U8","shape":[1],"data_offsets":[5,6]}}'),
                   ("empty", '{"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"b":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"c":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}'),
                   ("backslash", "{" + one + "\\"), ("meta", '{"__metadata__":[],' + one + "}"), ("pairs", '{"__metadata__":{"k":"1","k":"2"},' + one + "}")):
    put(f"{name}.safetensors", struct.pack("<Q", len(text)) + text.encode() + bytes(4))

t = io.BytesIO()
with tarfile.open(fileobj=t, mode="w", format=tarfile.GNU_FORMAT) as f:
    for name, text in (("folder/" + "n" * 110 + ".txt", b"long"), ("folder/b.txt", b"bee")):
        info = tarfile.TarInfo(name)
        info.size = len(text)
        f.addfile(info, io.BytesIO(text))
put("gnu.tar", t.getvalue()[:-8192] if len(t.getvalue()) > 9000 else t.getvalue())
t = io.BytesIO()
with tarfile.open(fileobj=t, mode="w", format=tarfile.PAX_FORMAT) as f:
    d = tarfile.TarInfo("folder")
    d.type = tarfile.DIRTYPE
    f.addfile(d)
    for name, text in (("\u00e9" * 60 + "/a.txt", b"pax"), ("p" * 90 + "/" + "q" * 50 + "/b.txt", b"bee")):
        info = tarfile.TarInfo(name)
        info.size = len(text)
        f.addfile(info, io.BytesIO(text))
put("pax.tar", t.getvalue())
u = tarfile.TarInfo("p" * 90 + "/" + "q" * 50 + "/b.txt")
u.size = 3
put("ustar.tar", u.tobuf(tarfile.USTAR_FORMAT) + b"bee".ljust(512, b"\0") + bytes(1024))
g = bytearray(u.tobuf(tarfile.USTAR_FORMAT))
g[124:136] = b"\x80" + bytes(10) + b"\x03"  # a binary size
g[148:156] = b"        "
g[148:156] = b"%06o\0 " % sum(g)
put("binary.tar", bytes(g) + b"bee".ljust(512, b"\0"))

# ---- MATLAB: a class of every size, in elements small and large
def element(kind, data):
    return struct.pack("<II", kind, len(data)) + data + bytes(-len(data) % 8)

def matrix(name, cls, dims, kind, data, flags=0):
    body = element(6, struct.pack("<BBHI", cls, flags, 0, 0)) + element(5, struct.pack(f"<{len(dims)}i", *dims))
    body += element(1, name) if len(name) > 4 else struct.pack("<HH", 1, len(name)) + name.ljust(4, b"\0")
    return element(14, body + element(kind, data))

mat = b"MATLAB 5.0".ljust(124) + struct.pack("<H", 0x0100) + b"IM"
for i, (cls, kind, code) in enumerate([(6, 1, "b"), (7, 2, "B"), (8, 3, "h"), (9, 2, "B"), (10, 4, "H"), (11, 5, "i"), (12, 6, "I"), (13, 7, "f"),
                                       (14, 12, "q"), (15, 13, "Q"), (6, 9, "d"), (6, 16, "B"), (6, 17, "H")]):
    mat += matrix(b"m%d" % i, cls, [1, 2], kind, struct.pack("<2" + code, 1, 2))
mat += matrix(b"words", 4, [1, 3], 17, "h\u00e9\u0001".encode("utf-16-le")) + matrix(b"many", 4, [2, 1], 4, b"abcd") + matrix(b"cell", 1, [1, 1], 9, b"")
mat += matrix(b"none", 6, [0, 0], 9, b"") + matrix(b"flag", 9, [2, 1, 1], 2, b"\1\0", flags=2) + element(14, b"")
put("classes.mat", mat)

# ---- files of runs (config.json is one that `cajal train softmax` wrote)
file = lambda role: {"name": f"{role}-3.safetensors", "bytes": 120, "crc32": 4000000000}
put("manifest.json", json.dumps({"cajal": "0.1", "checkpoints": [
    {"number": 3, "step": 40, "metrics_bytes": 90, "model": file("model"), "state": file("state"), "best": file("best")},
    {"number": 2, "step": 20, "metrics_bytes": 40, "model": file("model"), "state": file("state")}]}))
put("run.jsonl", '{"step": 1, "loss": 2.5}\n{"step": 2, "loss": null, "accuracy": 0.5}\n{"step": 3')

# ---- data sets
image = lambda n: bytes([0, 0, 8, 3, 0, 0, 0, n, 0, 0, 0, 28, 0, 0, 0, 28]) + bytes(i % 256 for i in range(n * 784))
label = lambda n: bytes([0, 0, 8, 1, 0, 0, 0, n]) + bytes(i % 10 for i in range(n))
for part, n in (("train", 6), ("t10k", 2)):
    put(f"sets/mnist/{part}-images-idx3-ubyte", image(n))
    put(f"sets/mnist/{part}-labels-idx1-ubyte", label(n))
put("sets/names/names.txt", "anna\nbo\ncarl\ndora\neve\nfinn\ngus\nhal\nida\njo\n")
for part in ("train", "dev", "test"):
    put(f"sets/sst2/{part}.tsv", "a good film\t1\nbad\t0\nfine\t1\n")
put("sets/housing/boston.housing.data", "".join(" ".join(str((i * 7 + j * 3) % 11 + 0.5) for j in range(14)) + "\n" for i in range(12)))
t = io.BytesIO()
with tarfile.open(fileobj=t, mode="w", format=tarfile.USTAR_FORMAT) as f:
    text = ("a,ocean,median_house_value\n" + "".join(f"{i},{'NEAR' if i % 2 else 'INLAND'},{i * i}\n" for i in range(12))).encode()
    info = tarfile.TarInfo("housing/housing.csv")
    info.size = len(text)
    f.addfile(info, io.BytesIO(text))
put("sets/housing/california_housing.tgz", gzip.compress(t.getvalue(), mtime=0))
put("sets/timeseries/airline-passengers.csv", "Month,Passengers\n" + "".join(f"m{i},{i * i % 17}\n" for i in range(24)))
for part in ("TRAIN", "TEST"):
    put(f"sets/timeseries/ucr/GunPoint_{part}.ts", "@classLabel true 1 2\n@data\n" + "".join(f"{i},2,{i * i}:{1 + i % 2}\n" for i in range(8)))
put("sets/karate/karate.gml", "graph [\n" + "".join(f"node [ id {i} ]\n" for i in range(34)) + "edge [ source 0 target 1 ]\nedge [ source 1 target 33 ]\n]\n")
for part in ("train", "val", "test_2016_flickr"):
    put(f"sets/multi30k/{part}.de", "Ein Hund.\nZwei Hunde.\n")
    put(f"sets/multi30k/{part}.en", "A dog.\nTwo dogs.\n")

# ---- ONNX: protobuf messages, field by field
def varint(n):
    n &= (1 << 64) - 1
    b = b""
    while n > 127:
        b, n = b + bytes([n & 127 | 128]), n >> 7
    return b + bytes([n])


number = lambda field, n: varint(field << 3) + varint(n)
piece = lambda field, data: varint(field << 3 | 2) + varint(len(data)) + (data.encode() if isinstance(data, str) else data)
dims = lambda *sizes: b"".join(number(1, n) for n in sizes)
tensor = lambda name, kind, shape, data: piece(5, shape + number(2, kind) + data + piece(8, name))
opset = piece(8, piece(1, "") + number(2, 17))
model = lambda *parts: number(1, 8) + piece(2, "x") + piece(7, b"".join(parts)) + opset
info = lambda name: piece(1, name) + piece(2, piece(1, number(1, 1) + piece(2, piece(1, piece(2, "batch")) + piece(1, number(1, 2)))))
gemm = piece(1, piece(1, "input") + piece(1, "w") + piece(2, "output") + piece(4, "Gemm") + piece(5, piece(1, "transB") + number(3, 1) + number(20, 2)) +
             piece(5, piece(1, "alpha") + varint(2 << 3 | 5) + struct.pack("<f", 1) + number(20, 1)) + piece(5, piece(1, "axes") + number(8, 1) + number(8, -1)))
put("raw.onnx", model(gemm, piece(2, "g"), tensor("w", 1, dims(2, 2), piece(9, struct.pack("<4f", 1, 2, 3, 4))), tensor("n", 7, b"", piece(9, struct.pack("<q", 5))),
                      tensor("flag", 9, dims(2), piece(9, b"\0\1")), tensor("empty", 1, dims(0, 3), piece(9, b"")), piece(11, info("input")), piece(12, info("output"))))
put("typed.onnx", model(tensor("f", 1, piece(1, varint(2)), piece(4, struct.pack("<2f", 1.5, -2))), tensor("d", 11, dims(1), piece(10, struct.pack("<d", 0.1))),
                        tensor("l", 7, dims(2), number(7, -1) + number(7, 2)), tensor("i", 6, dims(1), piece(5, varint(-3))), tensor("b", 2, dims(2), piece(5, b"\1\7")),
                        tensor("t", 9, dims(1), piece(5, b"\1")), tensor("h", 10, dims(1), piece(5, varint(0x3E00))), tensor("g", 16, dims(1), piece(5, varint(0x3FC0)))))
put("range.onnx", model(tensor("b", 2, dims(1), piece(5, varint(300)))))
put("external.onnx", model(tensor("w", 1, dims(2), piece(13, piece(1, "location") + piece(2, "w.bin")) + number(14, 1))))
put("strings.onnx", model(tensor("w", 8, dims(1), piece(6, "text"))))
put("nine.onnx", model(tensor("w", 1, dims(*[1] * 9), piece(9, bytes(4)))))
put("less.onnx", model(tensor("w", 1, dims(-1), piece(9, bytes(4)))))
put("large.onnx", model(tensor("w", 1, dims(1 << 40, 1 << 40), piece(9, bytes(4)))))
put("short.onnx", model(tensor("v", 1, dims(1), piece(9, bytes(4))), tensor("w", 1, dims(3), piece(9, bytes(4)))))
put("unnamed.onnx", model(piece(5, dims(1) + number(2, 1) + piece(9, bytes(4)))))
put("same.onnx", model(tensor("w", 1, dims(1), piece(9, bytes(4))), tensor("w", 1, dims(1), piece(9, bytes(4)))))
put("none.onnx", number(1, 8) + opset)
put("older.onnx", number(1, 8) + piece(7, b""))
put("unknown.onnx", model(varint(40 << 3 | 1) + bytes(8), varint(41 << 3 | 5) + bytes(4), number(42, 1), piece(43, "x"), gemm[:-1] + b"\x01"))
put("group.onnx", model(bytes([11 << 3 | 3])))
put("kind.onnx", model(number(5, 1)))
put("field.onnx", b"\0\1" + model())
put("number.onnx", number(1, 8) + b"\x28" + b"\xff" * 11)
