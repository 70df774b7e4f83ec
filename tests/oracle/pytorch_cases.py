#!/usr/bin/env python3
"""Writes pytorch_cases.json: functions, losses, layers and optimizers of PyTorch in float64, with their gradients.

Usage: python3 tests/oracle/pytorch_cases.py [FILE]
Needs the Python package torch (CPU). README.md says what the file holds.
"""

import json
import pathlib
import sys

import torch
import torch.nn.functional as F

MASK = 2**64 - 1


def splitmix64(x):
    z = (x + 0x9E3779B97F4A7C15) & MASK
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK
    return z ^ z >> 31


class Numbers:
    """Multiples of 1/64, exact in fp32, a new stream for each case."""

    def __init__(self, name):
        self.at = splitmix64(sum(ord(letter) << 7 * (i % 8) for i, letter in enumerate(name)))

    def next(self, low, high):
        self.at = splitmix64(self.at)
        return low + (self.at >> 20) % ((high - low) * 64 + 1) / 64

    def tensor(self, shape, low=-2, high=2):
        count = 1
        for size in shape:
            count *= size
        values = torch.tensor([self.next(low, high) for _ in range(count)], dtype=torch.float64)
        return values.reshape(shape)

    def whole(self, shape, high):
        return (self.tensor(shape, 0, 64) * 64).long() % high


def stored(tensor):
    values = tensor.detach().reshape(-1).tolist()
    return {"shape": list(tensor.shape), "values": [float(f"{value:.12g}") for value in values]}


CASES = []


def case(name, function, *inputs, constants=()):
    """`function(*inputs, *constants)` gives one tensor or several, the first of which is differentiated."""
    leaves = [tensor.clone().requires_grad_(True) for tensor in inputs]
    outputs = function(*leaves, *constants)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    dy = Numbers(name + " dy").tensor(list(outputs[0].shape), -1, 1)
    gradients = torch.autograd.grad(outputs[0], leaves, dy)
    CASES.append({"name": name, "inputs": [stored(t) for t in [*inputs, *constants]],
                  "outputs": [stored(t) for t in outputs], "dy": stored(dy),
                  "gradients": [stored(t) for t in gradients]})


def functions():
    def plain(name, function, low=-5, high=5):
        case(name, function, Numbers(name).tensor([3, 7], low, high))

    plain("elu", F.elu)
    plain("hard_sigmoid", F.hardsigmoid)
    plain("hard_swish", F.hardswish)
    plain("hard_tanh", F.hardtanh)
    plain("leaky_relu", lambda x: F.leaky_relu(x, 0.25))
    plain("clamp", lambda x: x.clamp(-1.25, 2.5))
    plain("pow 3", lambda x: x.pow(3))
    plain("pow 1.5", lambda x: x.pow(1.5), 1, 4)
    plain("pow -2", lambda x: x.pow(-2), 1, 4)
    plain("softmax 0", lambda x: x.softmax(0))
    plain("log_softmax 0", lambda x: x.log_softmax(0))
    n = Numbers("choose")
    x = n.tensor([3, 4, 5])
    case("max 1", lambda t: tuple(t.max(1)), x)
    case("min 0", lambda t: tuple(t.min(0)), x)
    case("top_k 2 of 3", lambda t: tuple(t.topk(3, 2)), x)
    case("gather 1", lambda t, i: t.gather(1, i), x, constants=[n.whole([3, 6, 5], 4)])
    case("index_select 1", lambda t, i: t.index_select(1, i), x, constants=[n.whole([6], 4)])
    case("where", lambda a, b, c: torch.where(c != 0, a, b), n.tensor([3, 4]), n.tensor([4]),
         constants=[n.whole([3, 4], 2)])
    case("pad", lambda t: F.pad(t, (1, 2, 0, 3), value=0.5), n.tensor([2, 3, 4]))
    case("stack 1", lambda a, b: torch.stack([a, b], 1), n.tensor([2, 3]), n.tensor([2, 3]))
    n = Numbers("order")
    y = torch.randperm(60, generator=torch.Generator().manual_seed(1)).double().reshape(3, 4, 5) / 16 - 2
    case("sort 1", lambda t: tuple(t.sort(1)), y)
    case("sort 2 descending", lambda t: tuple(t.sort(2, descending=True)), y)
    case("cumsum 1", lambda t: t.cumsum(1), n.tensor([3, 6, 5]))
    case("scatter_add 1", lambda t, v, i: t.scatter_add(1, i, v), n.tensor([3, 4, 5]), n.tensor([3, 6, 5]),
         constants=[n.whole([3, 6, 5], 4)])
    case("normalise 1", lambda t: F.normalize(t, dim=1), n.tensor([3, 4, 5]))
    case("cosine_similarity 1", lambda a, b: F.cosine_similarity(a, b, dim=1), n.tensor([3, 4, 5]), n.tensor([3, 4, 5]))
    case("glu 1", lambda t: F.glu(t, 1), n.tensor([3, 6, 5]))
    case("prelu", F.prelu, torch.cat([n.tensor([2, 4, 2]), torch.zeros(2, 4, 1, dtype=torch.float64)], 2), n.tensor([4], 0, 1))
    case("pixel_shuffle", lambda t: F.pixel_shuffle(t, 2), n.tensor([2, 8, 3, 2]))
    image = n.tensor([2, 3, 4, 5])
    case("nearest", lambda t: F.interpolate(t, size=(7, 3)), image)
    case("bilinear", lambda t: F.interpolate(t, size=(7, 3), mode="bilinear"), image)
    case("bilinear corners", lambda t: F.interpolate(t, size=(7, 3), mode="bilinear", align_corners=True), image)
    case("max_pool1d", lambda t: F.max_pool1d(t, 3, 2, 1), n.tensor([2, 3, 9]))
    case("average_pool1d", lambda t: F.avg_pool1d(t, 3, 2, 1), n.tensor([2, 3, 9]))


def losses():
    n = Numbers("losses")
    x, t = n.tensor([4, 5], -3, 3), n.tensor([4, 5], -3, 3)
    signs = n.whole([4, 5], 2).double() * 2 - 1
    q, p = n.tensor([4, 5], -3, -1), n.tensor([4, 5], 1, 3)
    p = (p / p.sum(1, keepdim=True)).float().double()
    marks = torch.tensor([1, -1, 1, -1], dtype=torch.float64)
    for how in "mean", "sum":
        case(f"l1 {how}", lambda a, b: F.l1_loss(a, b, reduction=how), x, constants=[t])
        case(f"smooth_l1 {how}", lambda a, b: F.smooth_l1_loss(a, b, reduction=how, beta=0.5), x, constants=[t])
        case(f"huber {how}", lambda a, b: F.huber_loss(a, b, reduction=how, delta=1.5), x, constants=[t])
        case(f"hinge {how}", lambda a, b: getattr((1 - a * b).clamp(min=0), how)(), x, constants=[signs])
        case(f"kl_div {how}", lambda a, b: F.kl_div(a, b, reduction=how), q, constants=[p])
        case(f"nll {how}", lambda a, b: F.nll_loss(a, b, reduction=how, ignore_index=2), q,
             constants=[n.whole([4], 5)])
        case(f"cosine {how}",
             lambda a, b, m: F.cosine_embedding_loss(a, b, m, margin=-0.25, reduction=how), x, t, constants=[marks])
    case("kl_div batch mean", lambda a, b: F.kl_div(a, b, reduction="batchmean"), q, constants=[p])
    m = Numbers("more losses")
    shares = m.tensor([4, 5], 1, 3)
    shares = (shares / shares.sum(1, keepdim=True)).float().double()
    for how in "mean", "sum":
        case(f"positives weigh {how}",
             lambda a, b, w: F.binary_cross_entropy_with_logits(a, b, pos_weight=w, reduction=how), x,
             constants=[m.whole([4, 5], 3).double() / 2, m.tensor([5], 0, 3)])
        case(f"probabilities {how}", lambda a, b: F.binary_cross_entropy(a, b, reduction=how),
             m.tensor([4, 5], 1, 15) / 16, constants=[m.whole([4, 5], 3).double() / 2])
        case(f"shares {how}", lambda a, b: F.cross_entropy(a, b, reduction=how), x, constants=[shares])


def ctc():
    """Of 9 + 5 + 7 rows as sequences, with 3, 0 and 4 labels; PyTorch wants them as a padded batch."""
    rows, labels = [9, 5, 7], [[2, 2, 1], [], [4, 1, 1, 3]]
    x = Numbers("ctc").tensor([sum(rows), 5], -3, 3)

    def loss(x, how):
        batch = torch.nn.utils.rnn.pad_sequence(torch.split(x.log_softmax(1), rows))
        return F.ctc_loss(batch, torch.tensor([l for own in labels for l in own]), torch.tensor(rows),
                          torch.tensor([len(own) for own in labels]), reduction=how)

    for how in "mean", "sum", "none":
        case(f"ctc {how}", lambda x: loss(x, how), x)


def layers():
    n = Numbers("layers")
    image, scale, shift = n.tensor([3, 4, 5, 6]), n.tensor([4], 1, 2), n.tensor([4])
    case("group_norm", lambda x, w, b: F.group_norm(x, 2, w, b), image, scale, shift)
    case("rms_norm", lambda x, w: F.rms_norm(x, [6], w, 1e-5), image, n.tensor([6], 1, 2))
    case("average_pool", lambda x: F.avg_pool2d(x, (2, 3), (2, 2), (1, 1)), image)
    case("average_pool own pixels", lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), image)
    case("adaptive_average_pool", lambda x: F.adaptive_avg_pool2d(x, (3, 4)), image)
    case("conv1d", lambda x, w, b: F.conv1d(x, w, b, 2, 1), n.tensor([2, 3, 9]), n.tensor([4, 3, 3]), n.tensor([4]))
    case("conv_transpose2d", lambda x, w, b: F.conv_transpose2d(x, w, b, 2, 1, 1), n.tensor([2, 3, 4, 3]),
         n.tensor([3, 2, 3, 3]), n.tensor([2]))

    def batch_norm(x, w, b):
        mean, variance = torch.zeros(w.shape, dtype=torch.float64), torch.ones(w.shape, dtype=torch.float64)
        return F.batch_norm(x, mean, variance, w, b, True, 0.1, 1e-5), mean, variance

    case("batch_norm 2d", batch_norm, image, scale, shift)
    case("batch_norm 1d", batch_norm, n.tensor([7, 4]), scale, shift)
    case("batch_norm 1d of signals", batch_norm, n.tensor([3, 4, 5]), scale, shift)


def more_layers():
    """Convolutions of any reach, and layers and cells that are made of others."""
    def reach(name, x, w, b, *settings):
        n = Numbers(name)
        case(name, lambda x, w, b: F.conv2d(x, w, b, *settings), n.tensor(x), n.tensor(w), n.tensor(b))

    # Strides, padding, dilation, groups.
    reach("conv2d dilated", [2, 2, 8, 9], [3, 2, 3, 2], [3], 1, (2, 3), (2, 3), 1)
    reach("conv2d padding", [2, 2, 3, 4], [3, 2, 2, 2], [3], 1, (3, 2), 1, 1)
    reach("conv2d groups", [2, 6, 5, 4], [4, 3, 3, 3], [4], (2, 1), 1, 1, 2)
    reach("conv2d depthwise", [2, 4, 7, 6], [8, 1, 3, 3], [8], 2, 1, 1, 4)
    n = Numbers("reach")
    case("conv1d causal", lambda x, w, b: F.conv1d(F.pad(x, (4, 0)), w, b, 1, 0, 2, 2),
         n.tensor([2, 4, 7]), n.tensor([6, 2, 3]), n.tensor([6]))
    case("conv_transpose2d groups", lambda x, w, b: F.conv_transpose2d(x, w, b, 2, 1, 1, 2, (2, 3)),
         n.tensor([2, 4, 3, 4]), n.tensor([4, 3, 3, 2]), n.tensor([6]))
    case("conv_transpose1d", lambda x, w, b: F.conv_transpose1d(x, w, b, 2, 1, 1), n.tensor([2, 3, 5]),
         n.tensor([3, 4, 3]), n.tensor([4]))
    image = n.tensor([2, 3, 5, 7])
    case("adaptive_max_pool", lambda x: F.adaptive_max_pool2d(x, (3, 4)), image)
    case("reflect_pad", lambda x: F.pad(x, (3, 2, 1, 4), mode="reflect"), image)
    case("vector_norm 1", lambda x: torch.linalg.vector_norm(x, dim=1), image)
    case("instance_norm", lambda x, w, b: F.instance_norm(x, weight=w, bias=b), image, n.tensor([3], 1, 2),
         n.tensor([3]))
    case("weight_norm", lambda x, v, g, b: F.conv1d(x, torch._weight_norm(v, g, 0), b, 1, 1), n.tensor([2, 3, 6]),
         n.tensor([4, 3, 3]), n.tensor([4, 1, 1], 1, 2), n.tensor([4]))
    ids = torch.tensor([[1, 0, 3], [0, 2, 1]])
    case("embedding padding", lambda t, i: F.embedding(i.long(), t, padding_idx=1), n.tensor([4, 3]),
         constants=[ids])

    def recurrent(name, kind, gates, in_width, width, **options):
        n = Numbers(name)
        layer = getattr(torch.nn, kind)(in_width, width, **options).double()
        cell = kind.endswith("Cell")
        x = n.tensor([3, in_width] if cell else [3, 4, in_width])
        states = [n.tensor([3, width], -1, 1) for _ in range(2 if gates == 4 else 1)] if cell else []
        end = "" if cell else "_l0"
        names = [f"weight_ih{end}", f"weight_hh{end}", f"bias_ih{end}", f"bias_hh{end}"]
        weights = [n.tensor(list(getattr(layer, name).shape), -1, 1) for name in names]

        def run(x, *rest):
            own, first = dict(zip(names, rest[:4])), rest[4:]
            arguments = (x, first[0] if len(first) == 1 else first) if first else (x,)
            result = torch.func.functional_call(layer, own, arguments)
            return result if kind in ("LSTMCell",) else (result if cell else (result[0],))

        case(name, run, x, *weights, *states)

    recurrent("rnn tanh", "RNN", 1, 3, 4, batch_first=True)
    recurrent("rnn relu", "RNN", 1, 3, 4, batch_first=True, nonlinearity="relu")
    recurrent("rnn cell", "RNNCell", 1, 3, 4)
    recurrent("gru cell", "GRUCell", 3, 3, 4)
    recurrent("lstm cell", "LSTMCell", 4, 3, 4)


def optimizers():
    """Six steps of a matrix with weight decay and of a vector at half the rate."""
    steps = 6
    kinds = {
        "adam": lambda groups: torch.optim.Adam(groups, betas=(0.85, 0.98), eps=1e-6),
        "rmsprop": lambda groups: torch.optim.RMSprop(groups, alpha=0.9, eps=1e-6),
        "rmsprop momentum": lambda groups: torch.optim.RMSprop(groups, alpha=0.9, eps=1e-6, momentum=0.5),
        "adagrad": lambda groups: torch.optim.Adagrad(groups, lr_decay=0.1, initial_accumulator_value=0.25, eps=1e-6),
        "adadelta": lambda groups: torch.optim.Adadelta(groups, rho=0.85, eps=1e-6),
        "radam": lambda groups: torch.optim.RAdam(groups, betas=(0.85, 0.9), eps=1e-6),
        "radam decoupled": lambda groups: torch.optim.RAdam(groups, betas=(0.85, 0.98), eps=1e-6,
                                                            decoupled_weight_decay=True),
        "adafactor": lambda groups: torch.optim.Adafactor(groups, eps=(2**-23, 1e-3)),
    }
    found = []
    for name, make in kinds.items():
        n = Numbers("optimizer")
        weights = [n.tensor([3, 4]), n.tensor([5])]
        gradients = [[n.tensor([3, 4]), n.tensor([5])] for _ in range(steps)]
        parameters = [torch.nn.Parameter(w.clone()) for w in weights]
        optimizer = make([{"params": [parameters[0]], "lr": 0.05, "weight_decay": 0.125},
                          {"params": [parameters[1]], "lr": 0.025, "weight_decay": 0}])
        for own in gradients:
            for parameter, gradient in zip(parameters, own):
                parameter.grad = gradient.clone()
            optimizer.step()
        found.append({"name": name, "weights": [stored(w) for w in weights],
                      "gradients": [[stored(g) for g in own] for own in gradients],
                      "after": [stored(p) for p in parameters]})
    return found


def main():
    file = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).with_name("pytorch_cases.json")
    functions()
    losses()
    ctc()
    layers()
    more_layers()
    lines = ['{"torch": ' + json.dumps(torch.__version__.split("+")[0]) + ',', '"cases": [']
    lines.append(",\n".join(json.dumps(entry) for entry in CASES))
    lines.append('],\n"optimizers": [')
    lines.append(",\n".join(json.dumps(entry) for entry in optimizers()))
    lines.append("]}")
    file.write_text("\n".join(lines) + "\n")


main()
