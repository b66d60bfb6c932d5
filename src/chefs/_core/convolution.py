"""Convolutional networks in compiled loops: logits, gradients of weights, and Adam (section 4.2 of the paper).

Sixteen images lie side by side: number n of a pixel is that of image n. So every loop runs along memory and fills the
registers, however few channels there are and however small the maps. A frame of zeros around each map makes the border
of a convolution like its inside.
"""

import math
from typing import NamedTuple

import numpy as np

from chefs._core.jit import jit_loops, jit_sums

LANES = 16  # images side by side: as many numbers as the widest registers hold
START, CHANNELS, SIDE, SOURCE = range(4)  # columns of `Program.maps`
TAKEN, WEIGHT, FIRST, FAN_IN = range(4)  # columns of `Program.edges`


class Program(NamedTuple):
    """A network as tables: image, layers and output, and averages of layers at the sides at which others take them in.

    The image is map 0; the output, of side 1, is the last. Weights are those of the layers in turn, then the bias.
    """

    maps: np.ndarray  # (maps, 4): place in memory, channels, side, and the layer that it is, or is an average of
    edges: np.ndarray  # (edges, 4): map taken in; the layer's weights: their place, the first input, of how many
    begin: np.ndarray  # (maps + 1,): the first edge into each map


@jit_loops
def maps_of(memory, program, m):
    """Map m, as (channels, side + 2, (side + 2) × LANES)."""
    start, channels, side = program.maps[m, START], program.maps[m, CHANNELS], program.maps[m, SIDE] + 2
    return memory[start : start + channels * side * side * LANES].reshape(channels, side, side * LANES)


@jit_loops
def weights_of(weights, program, m, e):
    """The weights of edge e into map m, as (channels, channels taken in, 9), or 1 at the output."""
    channels, size = program.maps[m, CHANNELS], 9 if m < len(program.maps) - 1 else 1
    start, first, fan_in = program.edges[e, WEIGHT], program.edges[e, FIRST], program.edges[e, FAN_IN]
    taken = program.maps[program.edges[e, TAKEN], CHANNELS]
    return weights[start : start + channels * fan_in * size].reshape(channels, fan_in, size)[:, first : first + taken]


@jit_loops
def turned(kernels):
    """Kernels that lead gradients back to where the maps came from."""
    result = np.empty((kernels.shape[1], kernels.shape[0], 9), np.float32)
    for o in range(kernels.shape[0]):
        for i in range(kernels.shape[1]):
            for k in range(9):
                result[i, o, 8 - k] = kernels[o, i, k]
    return result


@jit_loops
def convolve(out, maps, kernels):
    """Add Σ_i K_oi ⋆ maps_i to every out_o."""
    width = out.shape[2] - 2 * LANES
    for y in range(out.shape[1] - 2):
        for i in range(maps.shape[0]):
            above, here, below = maps[i, y], maps[i, y + 1], maps[i, y + 2]
            for o in range(out.shape[0]):
                row, k = out[o, y + 1], kernels[o, i]
                a, b, c, d, e, f, g, h, j = k[0], k[1], k[2], k[3], k[4], k[5], k[6], k[7], k[8]
                for x in range(width):
                    row[x + LANES] += (
                        (a * above[x] + b * above[x + LANES] + c * above[x + 2 * LANES])
                        + (d * here[x] + e * here[x + LANES] + f * here[x + 2 * LANES])
                        + (g * below[x] + h * below[x + LANES] + j * below[x + 2 * LANES])
                    )


@jit_sums
def correlate(kernels, slopes, maps):
    """Add the gradient of kernels that lead from `maps` to maps whose gradient is `slopes`."""
    width = slopes.shape[2] - 2 * LANES
    for y in range(slopes.shape[1] - 2):
        for i in range(maps.shape[0]):
            above, here, below = maps[i, y], maps[i, y + 1], maps[i, y + 2]
            for o in range(slopes.shape[0]):
                row = slopes[o, y + 1]
                a = b = c = d = e = f = g = h = j = np.float32(0)
                for x in range(width):
                    s = row[x + LANES]
                    a, b, c = a + s * above[x], b + s * above[x + LANES], c + s * above[x + 2 * LANES]
                    d, e, f = d + s * here[x], e + s * here[x + LANES], f + s * here[x + 2 * LANES]
                    g, h, j = g + s * below[x], h + s * below[x + LANES], j + s * below[x + 2 * LANES]
                for k, total in enumerate((a, b, c, d, e, f, g, h, j)):
                    kernels[o, i, k] += total


@jit_loops
def windows(old, new):
    """Which of `old` pixels adaptive pooling averages to each of `new` ones: from the first up to the second."""
    begin, end = np.empty(new, np.int64), np.empty(new, np.int64)
    for y in range(new):
        begin[y], end[y] = y * old // new, -(-(y + 1) * old // new)
    return begin, end


@jit_loops
def average(small, large):
    """Average maps to a smaller side: rows first, then the pixels of a row."""
    # A loop over LANES itself, a number known to the compiler, would be unrolled and not vectorised.
    new, old, lanes = small.shape[1] - 2, large.shape[1] - 2, small.shape[2] // small.shape[1]
    begin, end = windows(old, new)
    pixels, row = small.reshape(-1, new + 2, new + 2, LANES), np.empty((old + 2, LANES), np.float32)
    flat = row.reshape(-1)
    small.reshape(-1)[:] = 0
    for c in range(small.shape[0]):
        for y in range(new):
            flat[:] = 0
            for r in range(begin[y] + 1, end[y] + 1):
                for p in range(flat.size):
                    flat[p] += large[c, r, p]
            for x in range(new):
                share = np.float32(1 / ((end[y] - begin[y]) * (end[x] - begin[x])))
                for r in range(begin[x] + 1, end[x] + 1):
                    for n in range(lanes):
                        pixels[c, y + 1, x + 1, n] += share * row[r, n]


@jit_loops
def spread(large, small):
    """Add the gradient of averages to that of what they are averages of: `average` backwards."""
    new, old, lanes = small.shape[1] - 2, large.shape[1] - 2, small.shape[2] // small.shape[1]
    begin, end = windows(old, new)
    pixels, row = small.reshape(-1, new + 2, new + 2, LANES), np.empty((old + 2, LANES), np.float32)
    flat = row.reshape(-1)
    for c in range(small.shape[0]):
        for y in range(new):
            flat[:] = 0
            for x in range(new):
                share = np.float32(1 / ((end[y] - begin[y]) * (end[x] - begin[x])))
                for r in range(begin[x] + 1, end[x] + 1):
                    for n in range(lanes):
                        row[r, n] += share * pixels[c, y + 1, x + 1, n]
            for r in range(begin[y] + 1, end[y] + 1):
                for p in range(flat.size):
                    large[c, r, p] += flat[p]


@jit_loops
def put_images(program, values, images):
    """Lay up to LANES images side by side in map 0; the places that they leave are 0."""
    side = images.shape[2]
    pixels = maps_of(values, program, 0).reshape(-1, side + 2, side + 2, LANES)
    for c in range(images.shape[1]):
        for y in range(side):
            for x in range(side):
                for n in range(LANES):
                    pixels[c, y + 1, x + 1, n] = images[n, c, y, x] if n < len(images) else 0


@jit_loops
def forward(program, weights, values):
    """All maps from those of the images; returns the logits, as (classes, LANES)."""
    last = len(program.maps) - 1
    for m in range(1, last):
        maps, source = maps_of(values, program, m), program.maps[m, SOURCE]
        if source != m:
            average(maps, maps_of(values, program, source))
            continue
        flat = maps.reshape(-1)
        flat[:] = 0
        for e in range(program.begin[m], program.begin[m + 1]):
            convolve(maps, maps_of(values, program, program.edges[e, TAKEN]), weights_of(weights, program, m, e))
        for p in range(flat.size):
            flat[p] = np.float32(0) if flat[p] < 0 else flat[p]  # what is not a number stays so
    logits = maps_of(values, program, last)[:, 1, LANES : 2 * LANES]
    for o in range(len(logits)):
        for n in range(LANES):
            logits[o, n] = weights[weights.size - len(logits) + o]
        for e in range(program.begin[last], program.begin[last + 1]):
            means, linear = maps_of(values, program, program.edges[e, TAKEN]), weights_of(weights, program, last, e)
            for c in range(len(means)):
                for n in range(LANES):
                    logits[o, n] += linear[o, c, 0] * means[c, 1, LANES + n]
    return logits


@jit_loops
def backward(total, program, weights, values, slopes):
    """Add the gradient of weights to `total`; `slopes` holds that of the logits, and is zero but for them."""
    last = len(program.maps) - 1
    errors = maps_of(slopes, program, last)[:, 1, LANES : 2 * LANES]
    for o in range(len(errors)):
        for n in range(LANES):
            total[total.size - len(errors) + o] += errors[o, n]
        for e in range(program.begin[last], program.begin[last + 1]):
            linear, linear_slopes = weights_of(weights, program, last, e), weights_of(total, program, last, e)
            taken = program.edges[e, TAKEN]
            means, mean_slopes = maps_of(values, program, taken), maps_of(slopes, program, taken)
            for c in range(len(means)):
                for n in range(LANES):
                    linear_slopes[o, c, 0] += errors[o, n] * means[c, 1, LANES + n]
                    mean_slopes[c, 1, LANES + n] += errors[o, n] * linear[o, c, 0]
    for m in range(last - 1, 0, -1):
        maps, source = maps_of(slopes, program, m), program.maps[m, SOURCE]
        if source == 0:
            continue  # nothing depends on the gradient of images
        if source != m:
            spread(maps_of(slopes, program, source), maps)
            continue
        flat, value = maps.reshape(-1), maps_of(values, program, m).reshape(-1)
        for p in range(flat.size):
            flat[p] = np.float32(0) if value[p] <= 0 else flat[p]
        for e in range(program.begin[m], program.begin[m + 1]):
            taken = program.edges[e, TAKEN]
            correlate(weights_of(total, program, m, e), maps, maps_of(values, program, taken))
            if program.maps[taken, SOURCE] > 0:
                convolve(maps_of(slopes, program, taken), maps, turned(weights_of(weights, program, m, e)))


@jit_loops
def logits_of(program, weights, images, values):
    """Logits of all images, as (images, classes); `values` is memory for maps."""
    result = np.empty((len(images), program.maps[-1, CHANNELS]), np.float32)
    for first in range(0, len(images), LANES):
        some = images[first : first + LANES]
        put_images(program, values, some)
        logits = forward(program, weights, values)
        for n in range(len(some)):
            for o in range(len(logits)):
                result[first + n, o] = logits[o, n]
    return result


@jit_loops
def gradient_into(total, program, weights, images, labels, values, slopes):
    """The gradient of the mean cross-entropy of the images; `values` and `slopes` are memory for maps."""
    total[:] = 0
    for first in range(0, len(images), LANES):
        some = images[first : first + LANES]
        put_images(program, values, some)
        logits = forward(program, weights, values)
        slopes[:] = 0
        errors = maps_of(slopes, program, len(program.maps) - 1)[:, 1, LANES : 2 * LANES]
        for n in range(len(some)):
            odds, top = 0.0, logits[:, n].max()
            for o in range(len(logits)):
                odds += math.exp(logits[o, n] - top)
            for o in range(len(logits)):
                errors[o, n] = (math.exp(logits[o, n] - top) / odds - (o == labels[first + n])) / len(images)
        backward(total, program, weights, values, slopes)


@jit_loops
def adam(weights, gradient, first, second, rate, t):
    """Step t of Adam, counted from 1; `first` and `second` are the moments of the gradient."""
    size, root = np.float32(rate / (1 - 0.9**t)), np.float32((1 - 0.999**t) ** -0.5)
    for j in range(weights.size):
        first[j] += np.float32(0.1) * (gradient[j] - first[j])
        second[j] += np.float32(0.001) * (gradient[j] * gradient[j] - second[j])
        weights[j] -= size * first[j] / (np.sqrt(second[j]) * root + np.float32(1e-8))
