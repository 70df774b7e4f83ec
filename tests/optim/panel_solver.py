#!/usr/bin/env python3
"""Weights that are least for the squared hinge, in float64: prints panel_solver.inc.

    python3 panel_solver.py > panel_solver.inc

The objective is a sum of squares on each side of its kinks, so Newton's method on the weights
themselves ends exactly, once the rows inside of the margin no longer change. The solver under test
goes another way, over dual values.
"""

import numpy

ROWS, FEATURES, C = 60, 40, 1.0
M = (1 << 64) - 1


class Numbers:
    """The same draws as in panel_solver_test.cpp."""

    def __init__(self, state):
        self.state = state

    def below(self, count):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) & M
        return (self.state >> 33) % count


def problem(classes, several):
    draws = Numbers(classes * 2 + several)
    x = numpy.zeros((ROWS, FEATURES + 1))
    x[:, FEATURES] = 1  # the bias
    labels = []
    for row in range(ROWS):
        for feature in range(FEATURES):
            if draws.below(5) == 0:
                x[row, feature] = (draws.below(65) - 32) / 32
        count = draws.below(4) if several else 1
        labels.append({draws.below(classes) for _ in range(count)})
    return x, labels


def least(x, y):
    w = numpy.zeros(FEATURES + 1)
    for _ in range(1000):
        inside = y * (x @ w) < 1
        a = x[inside]
        new = numpy.linalg.solve(numpy.eye(FEATURES + 1) + 2 * C * a.T @ a, 2 * C * a.T @ y[inside])
        step = 1.0
        while objective(x, y, w + step * (new - w)) > objective(x, y, w) and step > 1e-9:
            step /= 2
        if abs(step * (new - w)).max() < 1e-13:
            return new
        w = w + step * (new - w)
    raise SystemExit("no end")


def objective(x, y, w):
    return w @ w / 2 + C * (numpy.maximum(0, 1 - y * (x @ w)) ** 2).sum()


def main():
    print("// Made by panel_solver.py: for each set the weights and the bias of each class.")
    for several in (0, 1):
        for classes in (1, 3, 17):
            x, labels = problem(classes if classes > 1 else 2, several)
            numbers = []
            for c in range(classes):
                own = c if classes > 1 else 1
                y = numpy.array([1.0 if own in row else -1.0 for row in labels])
                numbers += list(least(x, y))
            print(f"constexpr double least_{classes}_{'several' if several else 'one'}[] = {{")
            for i in range(0, len(numbers), 5):
                print("    " + " ".join(f"{number:.9g}," for number in numbers[i:i + 5]))
            print("};")


main()
